//===- RestoreTest.cpp - Every layout out of every other ------------------===//
#include "test/runtime/checkpoint/Layouts.h"

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// Restores every shard of a layout and compares it with what it must hold.
/// Returns how many elements were compared.
uint64_t checkRestored(CheckpointReader &reader, const TestLayout &layout) {
  Program program = makeStates(layout);
  EXPECT_OK(checkFits(program, reader));
  uint64_t compared = 0;
  for (int rank = 0; rank < program.getWorldSize(); ++rank)
    for (const fb::State *each : toList(program.getStageOf(rank)->states())) {
      const fb::State &state = *each;
      if (!isSaved(state))
        continue;
      std::string expected = makeShard(program, state, rank);
      std::string actual(expected.size(), '\xff');
      EXPECT_OK(restoreState(program, state, rank, reader,
                             std::as_writable_bytes(std::span(actual))));
      EXPECT_EQ(actual == expected, true)
          << "rank " << rank << " " << state.name()->c_str();
      compared += expected.size();
    }
  return compared;
}

TEST(Restore, EveryLayoutOutOfEveryOther) {
  // Bit for bit, padding zero. That each element is read once is restoreState's
  // own check: it counts what it copied, and boxes that overlapped would count
  // twice.
  int pairs = 0;
  for (const TestLayout &from : testLayouts) {
    TestFolder folder;
    writeCheckpoint(from, folder / "step-00000007");
    CheckpointReader reader;
    ASSERT_OK(CheckpointReader::open(folder / "step-00000007", reader));
    ASSERT_OK(reader.verify());
    for (const TestLayout &to : testLayouts) {
      SCOPED_TRACE(::testing::Message()
                   << from.dp << "x" << from.tp << " zero " << from.zero
                   << " stages " << from.pp << " to " << to.dp << "x" << to.tp
                   << " zero " << to.zero << " stages " << to.pp);
      EXPECT_GT(checkRestored(reader, to), 0u);
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 256);
}

TEST(Restore, RefusesAnotherModel) {
  TestFolder folder;
  writeCheckpoint(testLayouts[3], folder / "c");
  CheckpointReader reader;
  ASSERT_OK(CheckpointReader::open(folder / "c", reader));
  auto refused = [&](auto &&change, const std::string &part) {
    Program same = makeStates(testLayouts[0]);
    std::unique_ptr<fb::ProgramT> copy(same.get().UnPack());
    change(*copy);
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(fb::Program::Pack(builder, copy.get()),
                   fb::ProgramIdentifier());
    std::vector<uint8_t> sealed =
        sealProgram(builder.GetBufferPointer(), builder.GetSize());
    Program program;
    ASSERT_OK(Program::load(sealed.data(), sealed.size(), "test", program));
    Status status = checkFits(program, reader);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(part), std::string::npos)
        << status.message();
  };
  refused([](fb::ProgramT &p) { p.stages[0]->states[3]->name = "other"; },
          "it has no parameter \"other\"");
  refused([](fb::ProgramT &p) { p.stages[0]->states[3]->logical = {23, 12}; },
          "parameter \"up\" has shape [24, 12]; the program expects [23, 12]");
  refused(
      [](fb::ProgramT &p) {
        p.stages[0]->states[7]->dtype = fb::DType::F32;
        uint64_t end = p.stages[0]->arena_bytes; // where twice the bytes fit
        auto &buffers = p.stages[0]->buffers;
        buffers.push_back(std::make_unique<fb::BufferT>());
        buffers.back()->offset = end;
        buffers.back()->bytes = 24 * 4;
        p.stages[0]->states[7]->operand = std::make_unique<fb::Operand>(
            end, 24 * 4, 0, 0, uint32_t(buffers.size()));
        p.stages[0]->arena_bytes += 128;
      },
      "parameter \"narrow\" is BF16; the program expects F32");
}

TEST(Restore, ReadsLargeStatesInChunks) {
  // More than a chunk, and not a multiple of it: [700, 1024] over 3 x 2 ranks.
  TestFolder folder;
  std::vector<uint64_t> logical{700, 1024};
  auto make = [&](uint64_t dp, uint64_t tp, bool columns) {
    ProgramBuilder b({{"dp", dp}, {"tp", tp}});
    uint64_t rows = (700 + dp - 1) / dp * dp;
    std::vector<std::vector<uint8_t>> dims{{0}, {}};
    uint64_t bytes = rows / dp * 1024 * 4;
    if (columns) {
      dims = {{0}, {1}};
      bytes /= tp;
    }
    fb::StateT &state = b.state("w", {rows, 1024}, dims, b.allocate(bytes));
    state.role = "parameter";
    state.logical = logical;
    Program program;
    EXPECT_OK(b.load(program));
    return program;
  };
  Program from = make(1, 1, false);
  std::string whole = makeShard(from, *from.getStates()[0], 0);
  ShardPart part{from.getStates()[0], std::as_bytes(std::span(whole))};
  Manifest manifest;
  CheckpointFile file;
  ASSERT_OK(writeShard(folder.path, 0, "r", 1, {&part, 1}, file));
  manifest.run = "r";
  manifest.progress.step = 1;
  manifest.shards = {file};
  ASSERT_OK(writeManifest(folder.path, from, manifest));
  CheckpointReader reader;
  ASSERT_OK(CheckpointReader::open(folder.path, reader));
  Program to = make(3, 2, true);
  for (int rank = 0; rank < 6; ++rank) {
    std::string expected = makeShard(to, *to.getStates()[0], rank);
    std::string actual(expected.size(), '\xff');
    ASSERT_OK(restoreState(to, *to.getStates()[0], rank, reader,
                           std::as_writable_bytes(std::span(actual))));
    EXPECT_TRUE(actual == expected) << rank;
  }
}

} // namespace
