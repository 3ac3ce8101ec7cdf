//===- IndexedDatasetTest.cpp ---------------------------------------------===//
#include "runtime/io/IndexedDataset.h"
#include "TestFiles.h"
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

using namespace cleave::runtime;

namespace {

std::string getData(const std::string &name) {
  return std::string(CLEAVE_TEST_DATA) + "/megatron/" + name;
}

std::vector<int64_t> readTokens(const IndexedDataset &dataset) {
  std::vector<int64_t> tokens(dataset.getTokenCount());
  EXPECT_OK(dataset.read(0, tokens.size(), tokens.data()));
  return tokens;
}

TEST(IndexedDataset, ReadsWhatMegatronWrote) {
  auto info = nlohmann::json::parse(readAll(getData("info.json")));
  for (const char *name : {"licenses-u16", "licenses-i32"}) {
    IndexedDataset dataset;
    ASSERT_OK(IndexedDataset::open(getData(name), dataset));
    const auto &expected = info[name];
    EXPECT_EQ(dataset.getIndex().documents, expected["documents"]);
    std::vector<int64_t> tokens = readTokens(dataset);
    EXPECT_EQ(tokens.size(), expected["tokens"]);
    std::vector<int64_t> first = expected["first"], last = expected["last"];
    EXPECT_TRUE(std::equal(first.begin(), first.end(), tokens.begin()));
    EXPECT_TRUE(std::equal(last.rbegin(), last.rend(), tokens.rbegin()));
    EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), int64_t(0)),
              expected["sum"]);
    std::vector<uint64_t> lengths = expected["lengths"];
    const DatasetIndex &index = dataset.getIndex();
    ASSERT_EQ(index.sequences, lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i)
      EXPECT_EQ(index.starts[i + 1] - index.starts[i], lengths[i]);
  }
  IndexedDataset dataset;
  ASSERT_OK(IndexedDataset::open(getData("sentences-u16"), dataset));
  EXPECT_EQ(dataset.getIndex().sequences, info["sentences-u16"]["sequences"]);
  EXPECT_EQ(dataset.getTokenCount(), info["sentences-u16"]["tokens"]);
  std::vector<uint64_t> documents = info["sentences-u16"]["document_indices"];
  EXPECT_EQ(dataset.getIndex().documentStarts, documents);
}

TEST(IndexedDataset, ReadsPiecesLikeTheWhole) {
  IndexedDataset dataset;
  ASSERT_OK(IndexedDataset::open(getData("sentences-u16"), dataset));
  std::vector<int64_t> all = readTokens(dataset);
  for (uint64_t size : {1, 7, 100, 1000})
    for (uint64_t first = 0; first + size <= all.size(); first += 37) {
      std::vector<int64_t> piece(size);
      ASSERT_OK(dataset.read(first, size, piece.data()));
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + first));
    }
}

/// The fields of an .idx, good unless changed: 2 sequences in 1 document.
struct Fields {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t code = 8;
  uint64_t sequences = 2, entries = 2;
  std::vector<int32_t> lengths = {3, 2};
  std::vector<int64_t> offsets = {0, 6}, documents = {0, 2};
  std::string rest = {};

  std::string getBytes() const {
    std::string bytes = magic + toBytes(version) + toBytes(code) +
                        toBytes(sequences) + toBytes(entries);
    for (int32_t length : lengths)
      bytes += toBytes(length);
    for (int64_t offset : offsets)
      bytes += toBytes(offset);
    for (int64_t document : documents)
      bytes += toBytes(document);
    return bytes + rest;
  }
};

Status parse(const Fields &fields) {
  DatasetIndex index;
  return parseDatasetIndex(fields.getBytes(), 10, "f.idx", index);
}

TEST(IndexedDataset, AcceptsTheOptionalParts) {
  EXPECT_OK(parse({}));
  EXPECT_OK(parse({.rest = std::string(2, '\0')}));
  EXPECT_OK(parse({.sequences = 0,
                   .entries = 1,
                   .lengths = {},
                   .offsets = {},
                   .documents = {0}}));
}

TEST(IndexedDataset, ReadsEveryTokenType) {
  struct Case {
    uint8_t code;
    std::string bytes;
    std::vector<int64_t> tokens;
  } cases[] = {
      {1, "\x01\xff", {1, 255}},
      {2, "\x01\xff", {1, -1}},
      {3, toBytes(int16_t(-2)) + toBytes(int16_t(300)), {-2, 300}},
      {4, toBytes(int32_t(-2)) + toBytes(int32_t(70000)), {-2, 70000}},
      {5, toBytes(int64_t(-2)) + toBytes(INT64_MAX), {-2, INT64_MAX}},
      {8, toBytes(uint16_t(65535)) + toBytes(uint16_t(0)), {65535, 0}},
  };
  for (const Case &c : cases) {
    TestFolder folder;
    folder.write("d.bin", c.bytes);
    // The second token first: offsets need not be in order.
    int64_t width = int64_t(c.bytes.size()) / 2;
    folder.write(
        "d.idx",
        Fields{.code = c.code, .lengths = {1, 1}, .offsets = {width, 0}}
            .getBytes());
    IndexedDataset dataset;
    ASSERT_OK(IndexedDataset::open(folder / "d", dataset));
    EXPECT_EQ(readTokens(dataset),
              (std::vector<int64_t>{c.tokens[1], c.tokens[0]}));
  }
}

TEST(IndexedDataset, RefusesBadFields) {
  EXPECT_ERROR(parse({.magic = "MMIDIDX\0\1"}), "f.idx: ");
  EXPECT_ERROR(parse({.magic = "BADMAGIC!"}),
               "does not start with the magic \"MMIDIDX");
  EXPECT_ERROR(parse({.version = 2}), "version 2 is not 1");
  EXPECT_ERROR(parse({.code = 0}), "dtype code 0 is not one of 1 (uint8)");
  EXPECT_ERROR(parse({.code = 9}), "dtype code 9 is not one of");
  EXPECT_ERROR(parse({.code = 7}), "dtype code 7 (float32) is not one of");
  EXPECT_ERROR(parse({.sequences = UINT64_MAX}),
               "sequence count 18446744073709551615 does not fit");
  EXPECT_ERROR(parse({.sequences = 9}), "sequence count 9 does not fit");
  EXPECT_ERROR(parse({.entries = uint64_t(1) << 61}), "does not fit");
  EXPECT_ERROR(parse({.entries = 3}), "document count 3 does not fit");
  EXPECT_ERROR(parse({.entries = 0}), "document count is 0");
  EXPECT_ERROR(parse({.rest = "x"}), "has 1 bytes too many");
  EXPECT_ERROR(parse({.lengths = {3, -2}}), "sequence 1 has length -2");
  EXPECT_ERROR(parse({.lengths = {3, 3}}),
               "sequence 1: 3 tokens at byte 6 are not within the 10 bytes");
  EXPECT_ERROR(parse({.offsets = {-1, 6}}), "sequence 0: 3 tokens at byte -1");
  EXPECT_ERROR(parse({.offsets = {0, INT64_MAX}}), "are not within");
  EXPECT_ERROR(parse({.documents = {1, 2}}),
               "document index 0 is 1; expects 0");
  EXPECT_ERROR(parse({.documents = {0, 3}}),
               "document index 1 is 3; expects 0 to 2");
  EXPECT_ERROR(parse({.documents = {0, -1}}), "document index 1 is -1");
  EXPECT_ERROR(parse({.documents = {0, 1}}),
               "documents end at sequence 1 of 2");
  EXPECT_ERROR(parse({.entries = 3, .documents = {0, 2, 1}}),
               "document index 2 is 1; expects 2 to 2");
}

TEST(IndexedDataset, RefusesEveryTruncation) {
  std::string bytes = Fields().getBytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    DatasetIndex index;
    EXPECT_ERROR(parseDatasetIndex(bytes.substr(0, size), 10, "f.idx", index),
                 "f.idx: ");
  }
}

/// Whatever the order of sequences in the .bin, and where empty ones lie: each
/// read equals the tokens one by one.
TEST(IndexedDataset, ReadsSequencesThatDoNotFollowEachOther) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    TestFolder folder;
    size_t sequences = 1 + random() % 12;
    std::vector<int32_t> lengths;
    for (size_t i = 0; i < sequences; ++i)
      lengths.push_back(random() % 3 ? int32_t(random() % 9000) : 0);
    std::vector<size_t> order(sequences);
    std::iota(order.begin(), order.end(), 0u);
    if (round % 2)
      std::shuffle(order.begin(), order.end(), random);
    std::vector<std::string> parts(sequences);
    std::vector<int64_t> offsets(sequences);
    std::string bin;
    std::vector<int64_t> expected;
    for (size_t i : order) {
      offsets[i] = int64_t(bin.size());
      for (int32_t k = 0; k < lengths[i]; ++k)
        bin += toBytes(uint16_t(i * 5000 + size_t(k)));
    }
    for (size_t i = 0; i < sequences; ++i)
      for (int32_t k = 0; k < lengths[i]; ++k)
        expected.push_back(uint16_t(i * 5000 + size_t(k)));
    folder.write("d.bin", bin);
    folder.write("d.idx", Fields{.sequences = sequences,
                                 .entries = 2,
                                 .lengths = lengths,
                                 .offsets = offsets,
                                 .documents = {0, int64_t(sequences)}}
                              .getBytes());
    IndexedDataset dataset;
    ASSERT_OK(IndexedDataset::open(folder / "d", dataset));
    ASSERT_EQ(dataset.getTokenCount(), expected.size());
    for (int piece = 0; piece < 20 && !expected.empty(); ++piece) {
      size_t first = random() % expected.size();
      size_t count = random() % (expected.size() - first) + 1;
      std::vector<int64_t> tokens(count);
      ASSERT_OK(dataset.read(first, count, tokens.data()));
      ASSERT_TRUE(
          std::equal(tokens.begin(), tokens.end(), expected.begin() + first));
    }
  }
}

TEST(IndexedDataset, NamesAFileThatWasCutShort) {
  TestFolder folder;
  folder.write("d.idx", Fields().getBytes());
  folder.write("d.bin", std::string(10, '\1'));
  IndexedDataset dataset;
  ASSERT_OK(IndexedDataset::open(folder / "d", dataset));
  std::filesystem::resize_file(folder / "d.bin", 4);
  int64_t tokens[5];
  EXPECT_OK(dataset.read(0, 2, tokens));
  EXPECT_ERROR(dataset.read(1, 4, tokens),
               "d.bin: ends at byte 4, inside the 8 bytes at byte 2; it had "
               "10 bytes when it was opened");
}

TEST(IndexedDataset, NamesAMissingHalf) {
  TestFolder folder;
  IndexedDataset dataset;
  EXPECT_ERROR(IndexedDataset::open(folder / "d", dataset), "d.idx: cannot");
  folder.write("d.idx", Fields().getBytes());
  EXPECT_ERROR(IndexedDataset::open(folder / "d", dataset), "d.bin: cannot");
}

} // namespace
