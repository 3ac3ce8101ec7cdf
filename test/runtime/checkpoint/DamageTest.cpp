//===- DamageTest.cpp - Whatever happens to the files is found ------------===//
#include "test/runtime/checkpoint/Layouts.h"
#include <random>

using namespace cleave::runtime;
using namespace cleave::test;
namespace fs = std::filesystem;

namespace {

/// Cases beyond the exhaustive ones; another number by CLEAVE_DAMAGE_CASES.
int getCases() {
  const char *text = std::getenv("CLEAVE_DAMAGE_CASES");
  return text ? std::atoi(text) : 10000;
}

std::vector<std::string> listFiles(const std::string &folder) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void writeBytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Damages one file, expects to be told which, and mends it.
void expectFound(const std::string &folder, const std::string &name,
                 const std::string &damaged, const std::string &whole) {
  writeBytes(folder + "/" + name, damaged);
  Status status = verifyCheckpoint(folder);
  ASSERT_FALSE(status.ok()) << name;
  ASSERT_NE(status.message().find(folder + "/" + name), std::string::npos)
      << status.message();
  writeBytes(folder + "/" + name, whole);
}

TEST(Damage, EveryBitOfTheManifestIsFound) {
  TestFolder folder;
  writeCheckpoint(testLayouts[3], folder / "c");
  std::string whole = readAll(folder / "c/manifest.json");
  ASSERT_OK(verifyCheckpoint(folder / "c"));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = char(damaged[bit / 8] ^ (1 << bit % 8));
    expectFound(folder / "c", "manifest.json", damaged, whole);
  }
  for (size_t size = 0; size < whole.size(); ++size)
    expectFound(folder / "c", "manifest.json", whole.substr(0, size), whole);
}

TEST(Damage, FlippedBitsAndTruncationsAreFoundAndNamed) {
  TestFolder folder;
  writeCheckpoint(testLayouts[7], folder / "c");
  std::vector<std::string> names = listFiles(folder / "c");
  ASSERT_EQ(names.size(), 10u); // 8 ranks, manifest and program
  std::mt19937_64 random(1);
  for (int i = 0; i < getCases(); ++i) {
    const std::string &name = names[random() % names.size()];
    std::string whole = readAll(folder / ("c/" + name)), damaged = whole;
    switch (random() % 4) {
    case 0: // cut short
      damaged.resize(random() % whole.size());
      break;
    case 1: // longer
      damaged += std::string(1 + random() % 100, char(random()));
      break;
    default: // one to three bits
      for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
        uint64_t bit = random() % (whole.size() * 8);
        damaged[bit / 8] = char(damaged[bit / 8] ^ (1 << bit % 8));
      }
    }
    if (damaged != whole)
      expectFound(folder / "c", name, damaged, whole);
  }
  ASSERT_OK(verifyCheckpoint(folder / "c"));
}

TEST(Damage, SwappedAndMissingFilesAreFound) {
  // Of another rank, another step, another run.
  TestFolder folder;
  writeCheckpoint(testLayouts[7], folder / "c");
  writeCheckpoint(testLayouts[7], folder / "step", /*step=*/8);
  writeCheckpoint(testLayouts[7], folder / "run", /*step=*/7, "other");
  for (const std::string &name : listFiles(folder / "c")) {
    std::string whole = readAll(folder / ("c/" + name));
    fs::remove(folder / ("c/" + name));
    EXPECT_FALSE(verifyCheckpoint(folder / "c").ok()) << name;
    writeBytes(folder / ("c/" + name), whole);
    if (!name.starts_with("rank-"))
      continue;
    for (const std::string &other : listFiles(folder / "c"))
      if (other.starts_with("rank-") && other != name)
        expectFound(folder / "c", name, readAll(folder / ("c/" + other)),
                    whole);
    for (const char *place : {"step/", "run/"})
      expectFound(folder / "c", name, readAll(folder / (place + name)), whole);
  }
  // A rank that the manifest does not list leaves elements that nobody has.
  ASSERT_OK(verifyCheckpoint(folder / "c"));
}

TEST(Damage, AFolderOrPipeInPlaceOfAFileIsRefused) {
  TestFolder folder;
  writeCheckpoint(testLayouts[0], folder / "c");
  for (const std::string &name : listFiles(folder / "c")) {
    std::string whole = readAll(folder / ("c/" + name));
    fs::remove(folder / ("c/" + name));
    ASSERT_EQ(mkfifo((folder / ("c/" + name)).c_str(), 0600), 0);
    EXPECT_FALSE(verifyCheckpoint(folder / "c").ok()) << name;
    fs::remove(folder / ("c/" + name));
    fs::create_directory(folder / ("c/" + name));
    EXPECT_FALSE(verifyCheckpoint(folder / "c").ok()) << name;
    fs::remove(folder / ("c/" + name));
    writeBytes(folder / ("c/" + name), whole);
  }
}

TEST(Damage, WhatIsNoNumberIsNotWritten) {
  TestFolder folder;
  for (TestLayout layout : {testLayouts[0]}) {
    Program program = makeStates(layout);
    for (size_t i : {size_t(0), size_t(7)}) { // f32, bf16
      const fb::State *state = program.getStates()[i];
      std::string shard = makeShard(program, *state, 0);
      for (float bad : {INFINITY, -INFINITY, NAN}) {
        std::string bytes = shard, value = toBytes(bad);
        uint64_t element = cleave::runtime::getBytes(state->dtype());
        // bf16 is the upper half of f32.
        bytes.replace(bytes.size() - element, element,
                      value.substr(4 - element));
        ShardPart part{state, std::as_bytes(std::span(bytes))};
        CheckpointFile file;
        Status status = writeShard(folder.path, 0, "r", 1, {&part, 1}, file);
        ASSERT_FALSE(status.ok());
        EXPECT_NE(status.message().find("not a finite number"),
                  std::string::npos);
        EXPECT_EQ(folder.list(), "");
      }
    }
  }
}

} // namespace
