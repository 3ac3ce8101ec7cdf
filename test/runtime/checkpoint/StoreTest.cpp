//===- StoreTest.cpp ------------------------------------------------------===//
#include "runtime/checkpoint/Store.h"
#include "test/runtime/checkpoint/Layouts.h"

using namespace cleave::runtime;
using namespace cleave::test;
namespace fs = std::filesystem;

namespace {

std::string listSteps(const std::string &folder) {
  std::string text;
  for (const CheckpointPath &checkpoint : listCheckpoints(folder))
    text += std::to_string(checkpoint.step) + " ";
  return text;
}

TEST(Store, ListsTheNewestFirst) {
  TestFolder folder;
  EXPECT_EQ(listSteps(folder / "none"), "");
  for (const char *name :
       {"step-00000002", "step-00000010", "step-100000000",
        ".step-00000011.tmp", "step-11", "step-", "step-0000001x", "other"})
    fs::create_directory(folder / name);
  EXPECT_EQ(listSteps(folder.path), "100000000 10 2 ");
  // A checkpoint by itself.
  folder.write("step-00000010/manifest.json", "");
  EXPECT_EQ(listSteps(folder / "step-00000010"), "10 ");
}

TEST(Store, OneRunAtATime) {
  TestFolder folder;
  CheckpointStore first, second;
  ASSERT_OK(CheckpointStore::open(folder / "s", first));
  Status status = CheckpointStore::open(folder / "s", second);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("another run saves into this folder"),
            std::string::npos);
  first = CheckpointStore();
  EXPECT_OK(CheckpointStore::open(folder / "s", second));
}

TEST(Store, RemovesWhatAKilledSaveLeft) {
  TestFolder folder;
  for (const char *name : {".step-00000003.tmp", ".step-00000002.removed",
                           ".step-00000001.old", "step-00000001", ".keep"}) {
    fs::create_directory(folder / name);
    folder.write(std::string(name) + "/file", "x");
  }
  CheckpointStore store;
  ASSERT_OK(CheckpointStore::open(folder.path, store));
  EXPECT_EQ(folder.list(), ".keep lock step-00000001");
}

TEST(Store, CommitReplacesAndDiscardRemoves) {
  TestFolder folder;
  CheckpointStore store;
  ASSERT_OK(CheckpointStore::open(folder.path, store));
  for (const char *text : {"first", "second"}) {
    std::string temporary = CheckpointStore::getTemporaryPath(folder.path, 5);
    fs::create_directory(temporary);
    std::ofstream(temporary + "/file") << text;
    ASSERT_OK(store.commit(5));
    EXPECT_EQ(folder.list(), "lock step-00000005");
    EXPECT_EQ(readAll(store.getPath(5) + "/file"), text);
  }
  fs::create_directory(CheckpointStore::getTemporaryPath(folder.path, 6));
  store.discard(6);
  EXPECT_EQ(folder.list(), "lock step-00000005");
  EXPECT_FALSE(store.commit(7).ok()); // nothing was written
}

TEST(Store, PruningNeverRemovesTheLastGoodOne) {
  // Of six checkpoints the newest three are damaged, one after the other.
  for (int damaged = 0; damaged <= 6; ++damaged)
    for (int64_t keep = 1; keep <= 6; ++keep) {
      TestFolder folder;
      CheckpointStore store;
      ASSERT_OK(CheckpointStore::open(folder.path, store));
      for (int step = 1; step <= 6; ++step)
        writeCheckpoint(testLayouts[1], store.getPath(step), step);
      for (int step = 6; step > 6 - damaged; --step)
        fs::resize_file(store.getPath(step) + "/rank-00000.bin", 10);
      Status status = store.prune(keep, verifyCheckpoint);
      int left = int(listCheckpoints(folder.path).size());
      // A good one is among those kept, or nothing was removed and it says so.
      bool keepsGood = keep > damaged;
      EXPECT_EQ(left, keepsGood || keep == 6 ? keep : 6)
          << damaged << " " << keep;
      EXPECT_EQ(status.ok(), keepsGood || keep == 6) << status.message();
      int good = 0;
      for (const CheckpointPath &each : listCheckpoints(folder.path))
        good += verifyCheckpoint(each.path).ok();
      EXPECT_EQ(good > 0, damaged < 6);
    }
}

TEST(Store, KeepsAllWithoutALimit) {
  TestFolder folder;
  CheckpointStore store;
  ASSERT_OK(CheckpointStore::open(folder.path, store));
  for (int step = 1; step <= 3; ++step)
    fs::create_directory(store.getPath(step));
  EXPECT_OK(store.prune(0, verifyCheckpoint));
  EXPECT_EQ(listSteps(folder.path), "3 2 1 ");
}

} // namespace
