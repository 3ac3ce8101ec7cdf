//===- TokenScanTest.cpp --------------------------------------------------===//
#include "runtime/io/TokenScan.h"
#include "TestFiles.h"
#include <chrono>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>

using namespace cleave::runtime;

namespace {

/// A dataset `name` of one document.
template <typename T>
std::string writeDataset(const TestFolder &folder, const std::string &name,
                         uint8_t code, const std::vector<T> &tokens) {
  std::string bin;
  for (T token : tokens)
    bin += toBytes(token);
  folder.write(name + ".bin", bin);
  folder.write(name + ".idx",
               std::string("MMIDIDX\0\0", 9) + toBytes(uint64_t(1)) +
                   toBytes(code) + toBytes(uint64_t(1)) + toBytes(uint64_t(2)) +
                   toBytes(int32_t(tokens.size())) + toBytes(int64_t(0)) +
                   toBytes(int64_t(0)) + toBytes(int64_t(1)));
  return folder / name;
}

std::string writeU16(const TestFolder &folder,
                     const std::vector<uint16_t> &tokens,
                     const std::string &name = "d") {
  return writeDataset(folder, name, 8, tokens);
}

/// What a whole scan of these files says.
Status scanAll(const std::vector<std::string> &paths, uint64_t vocab,
               std::vector<std::string> *notes = nullptr) {
  TokenStream stream;
  CLEAVE_RETURN_IF_ERROR(TokenStream::open(paths, stream));
  std::unique_ptr<TokenScan> scan;
  CLEAVE_RETURN_IF_ERROR(TokenScan::start(stream, vocab, scan));
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!scan->isDone()) {
    if (std::chrono::steady_clock::now() > deadline)
      return Status::error("the scan takes more than a minute");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (notes)
    *notes = scan->takeNotes();
  EXPECT_TRUE(scan->takeNotes().empty() || !notes);
  return scan->poll();
}

IndexedDataset openDataset(const std::string &path) {
  IndexedDataset dataset;
  EXPECT_OK(IndexedDataset::open(path, dataset));
  return dataset;
}

TEST(TokenScan, FindsTheLowestAndHighestAndWhereTheyAreFirst) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<int64_t> ids(1 + random() % 2000);
    int64_t most = int64_t(1) << random() % 60;
    for (int64_t &id : ids)
      id = int64_t(random() % 7) * most - most;
    TokenRange range;
    for (size_t at = 0; at < ids.size();) {
      size_t count = std::min(ids.size() - at, size_t(random() % 100));
      range.add(ids.data() + at, count);
      at += count;
    }
    auto [low, high] = std::minmax_element(ids.begin(), ids.end());
    high = std::find(ids.begin(), ids.end(), *high);
    EXPECT_EQ(range.tokens, ids.size());
    EXPECT_EQ(range.lowest, *low);
    EXPECT_EQ(range.highest, *high);
    EXPECT_EQ(range.lowestAt, uint64_t(low - ids.begin()));
    EXPECT_EQ(range.highestAt, uint64_t(high - ids.begin()));
  }
}

TEST(TokenScan, NamesABadTokenWhereverItIs) {
  for (size_t at : {0, 70000, 199999}) {
    TestFolder folder;
    std::vector<uint16_t> tokens(200000, 3);
    tokens[at] = 500;
    std::string path = writeU16(folder, tokens);
    std::string message = "d.bin: token " + std::to_string(at) +
                          " has id 500; the model's vocabulary is 0 to ";
    EXPECT_ERROR(scanAll({path}, 500), message + "499");
    // From what was kept, for any vocabulary.
    EXPECT_EQ(folder.list(), "d.bin d.idx d.scan.json");
    EXPECT_ERROR(scanAll({path}, 4), message + "3");
    EXPECT_OK(scanAll({path}, 501));
  }
  TestFolder folder;
  std::string path =
      writeDataset<int32_t>(folder, "d", 4, {5, 2, -1, -7, 3, -7});
  EXPECT_ERROR(scanAll({path}, 6),
               "d.bin: token 3 has id -7; the model's vocabulary is 0 to 5");
  path = writeDataset<int32_t>(folder, "d", 4, {5, 2, INT32_MAX, 0});
  EXPECT_ERROR(scanAll({path}, 1 << 30), "token 2 has id 2147483647");
  // Every type that a .bin may have.
  path = writeDataset<uint8_t>(folder, "d", 1, {5, 255, 0});
  EXPECT_ERROR(scanAll({path}, 200), "token 1 has id 255");
  path = writeDataset<int8_t>(folder, "d", 2, {5, 127, -128});
  EXPECT_ERROR(scanAll({path}, 200), "token 2 has id -128");
  path = writeDataset<int16_t>(folder, "d", 3, {5, 32767, 0});
  EXPECT_ERROR(scanAll({path}, 200), "token 1 has id 32767");
  path = writeDataset<int64_t>(folder, "d", 5, {5, INT64_MAX, 0});
  EXPECT_ERROR(scanAll({path}, 200), "token 1 has id 9223372036854775807");
  path = writeDataset<int64_t>(folder, "d", 5, {5, INT64_MAX, INT64_MIN});
  EXPECT_ERROR(scanAll({path}, 200), "token 2 has id -9223372036854775808");
}

TEST(TokenScan, LooksAtEveryFileOfBothKinds) {
  TestFolder folder;
  std::string a = writeU16(folder, {1, 2, 3}, "a");
  std::string b = writeU16(folder, {1, 9, 3}, "b");
  std::string text = folder.write("text", "ab\x7e");
  EXPECT_OK(scanAll({a, text, b}, 127));
  EXPECT_ERROR(scanAll({a, text, b}, 126), "text: token 2 has id 126");
  EXPECT_ERROR(scanAll({a, b}, 9), "b.bin: token 1 has id 9");
  EXPECT_EQ(folder.list(),
            "a.bin a.idx a.scan.json b.bin b.idx b.scan.json text");
}

TEST(TokenScan, LeavesOutWhatCannotBeWrong) {
  TestFolder folder;
  std::string path = writeU16(folder, {1, 65535});
  EXPECT_OK(scanAll({path, folder.write("text", "a")}, 65536));
  EXPECT_OK(scanAll({writeU16(folder, {}, "none")}, 2));
  EXPECT_EQ(folder.list(), "d.bin d.idx none.bin none.idx text");
}

TEST(TokenScan, TakesAKeptResultInPlaceOfReading) {
  TestFolder folder;
  std::string path = writeU16(folder, {1, 2, 3});
  ASSERT_OK(writeScan(openDataset(path), {3, 0, 77, 2, 1}));
  EXPECT_ERROR(scanAll({path}, 50), "d.bin: token 1 has id 77");
  TokenRange range;
  ASSERT_TRUE(readScan(openDataset(path), range));
  EXPECT_EQ(range.tokens, 3u);
  EXPECT_EQ(range.highest, 77);
  EXPECT_EQ(range.highestAt, 1u);
  EXPECT_EQ(range.lowestAt, 2u);
}

TEST(TokenScan, ScansAgainWhenTheDataChanged) {
  TestFolder folder;
  auto expectStale = [&](const std::string &what) {
    TokenRange range;
    EXPECT_FALSE(readScan(openDataset(folder / "d"), range)) << what;
    EXPECT_OK(scanAll({folder / "d"}, 50));
    EXPECT_TRUE(readScan(openDataset(folder / "d"), range)) << what;
    EXPECT_LT(range.highest, 50) << what;
    // A lie, to see who believes it.
    ASSERT_OK(writeScan(openDataset(folder / "d"), {3, 0, 77, 2, 1}));
  };
  writeU16(folder, {1, 2, 3});
  expectStale("none yet");
  writeU16(folder, {1, 2, 3, 4});
  expectStale("longer");
  struct stat before;
  ASSERT_EQ(stat((folder / "d.bin").c_str(), &before), 0);
  folder.write("d.bin", readAll(folder / "d.bin"));
  expectStale("touched");
  // The same size and time, other bytes.
  ASSERT_EQ(stat((folder / "d.bin").c_str(), &before), 0);
  folder.write("d.bin", std::string("\5\0\2\0\3\0\4\0", 8));
  timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, (folder / "d.bin").c_str(), times, 0), 0);
  expectStale("other bytes");
  // The same .bin in other documents: other positions.
  std::string index = readAll(folder / "d.idx");
  folder.write("d.idx", index + std::string(1, '\0'));
  expectStale("another index");
}

TEST(TokenScan, IgnoresADamagedResultAndWritesItAnew) {
  TestFolder folder;
  std::string path = writeU16(folder, {1, 2, 3});
  EXPECT_OK(scanAll({path}, 50));
  std::string good = readAll(folder / "d.scan.json");
  IndexedDataset dataset = openDataset(path);
  TokenRange range;
  auto ignores = [&](const std::string &bytes) {
    folder.write("d.scan.json", bytes);
    return !readScan(dataset, range);
  };
  EXPECT_FALSE(ignores(good));
  int taken = 0;
  for (size_t byte = 0; byte < good.size(); ++byte)
    for (size_t bit : {byte % 8, (byte + 3) % 8}) {
      std::string damaged = good;
      damaged[byte] = char(damaged[byte] ^ (1 << bit));
      if (ignores(damaged))
        continue;
      // The line break's, into another blank.
      ++taken;
      EXPECT_EQ(range.highest, 3);
    }
  EXPECT_LE(taken, 2);
  for (size_t size = 0; size + 1 < good.size(); ++size)
    EXPECT_TRUE(ignores(good.substr(0, size)));
  for (const char *other :
       {"", "null", "[]", "{}", "{\"lowest\":3}", "{\"lowest\":{\"id\":null}}",
        "{\"lowest\":{\"id\":1,\"at\":-1}}", "\xff\xff"})
    EXPECT_TRUE(ignores(other)) << other;
  EXPECT_TRUE(ignores(std::string(100000, '[')));
  EXPECT_OK(scanAll({path}, 50));
  EXPECT_EQ(readAll(folder / "d.scan.json"), good);
}

TEST(TokenScan, SaysWhereItCouldNotKeepTheResult) {
  TestFolder folder;
  std::string path = writeU16(folder, {1, 2, 3});
  // What root may not write to either.
  std::filesystem::create_directory(folder / "d.scan.json");
  std::vector<std::string> notes;
  EXPECT_OK(scanAll({path}, 50, &notes));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("d.scan.json: is a folder"), std::string::npos)
      << notes[0];
  std::filesystem::remove(folder / "d.scan.json");
  ASSERT_EQ(mkfifo((folder / "d.scan.json").c_str(), 0600), 0);
  EXPECT_OK(scanAll({path}, 50, &notes));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("is not a regular file"), std::string::npos);
}

/// A sparse set of 2 GiB, which takes a while.
std::string writeLarge(const TestFolder &folder) {
  constexpr int32_t tokens = 1 << 30;
  writeU16(folder, {}, "large");
  std::string index = readAll(folder / "large.idx");
  index.replace(34, 4, toBytes(tokens));
  folder.write("large.idx", index);
  std::filesystem::resize_file(folder / "large.bin", uint64_t(tokens) * 2);
  return folder / "large";
}

TEST(TokenScan, StopsWhenItIsNoLongerWanted) {
  TestFolder folder;
  std::string path = writeLarge(folder);
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    TokenStream stream;
    ASSERT_OK(TokenStream::open({path}, stream));
    std::unique_ptr<TokenScan> scan;
    ASSERT_OK(TokenScan::start(stream, 50, scan));
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
    EXPECT_OK(scan->poll());
    EXPECT_FALSE(scan->isDone());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(folder.list(), "large.bin large.idx");
}

TEST(TokenScan, NamesAFileThatWasCutShort) {
  TestFolder folder;
  std::string path = writeLarge(folder);
  TokenStream stream;
  ASSERT_OK(TokenStream::open({path}, stream));
  std::filesystem::resize_file(folder / "large.bin", 1000);
  std::unique_ptr<TokenScan> scan;
  ASSERT_OK(TokenScan::start(stream, 50, scan));
  while (!scan->isDone())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_ERROR(scan->poll(), "large.bin: ends at byte 1000");
  EXPECT_EQ(folder.list(), "large.bin large.idx");
}

TEST(TokenStream, DescribesItsFiles) {
  TestFolder folder;
  std::string path = writeU16(folder, {1, 2, 3});
  std::string text = folder.write("text", std::string(3 << 20, 'a'));
  auto describe = [&] {
    TokenStream stream;
    EXPECT_OK(TokenStream::open({path, text}, stream));
    std::vector<DataIdentity> identities;
    EXPECT_OK(stream.describe(identities));
    return identities;
  };
  std::vector<DataIdentity> first = describe();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].path, path + ".bin");
  EXPECT_EQ(first[0].tokens, 3u);
  EXPECT_EQ(first[0].bytes, 6u);
  EXPECT_NE(first[0].indexChecksum, 0u);
  EXPECT_EQ(first[1].tokens, 3u << 20);
  EXPECT_EQ(first[1].indexChecksum, 0u);
  EXPECT_EQ(describe(), first);
  // The whole of a small file; of a large one its start, end, and between.
  writeU16(folder, {1, 9, 3});
  EXPECT_NE(describe()[0].sampleChecksum, first[0].sampleChecksum);
  std::string bytes(3 << 20, 'a');
  for (size_t at :
       {size_t(0), size_t(65535), bytes.size() - 1, bytes.size() - 65536,
        (bytes.size() - 65536) / 17 * 5 + 100}) {
    std::string changed = bytes;
    changed[at] = 'b';
    folder.write("text", changed);
    EXPECT_NE(describe()[1].sampleChecksum, first[1].sampleChecksum) << at;
  }
}

} // namespace
