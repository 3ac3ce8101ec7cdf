//===- MutationTest.cpp - Damaged runs and profiles -----------------------===//
//
// A row is priced, says what it misses, or is one line of message; no row ends
// the program. So are profiles. CLEAVE_MUTANTS=20000 is a longer campaign.
//
//===----------------------------------------------------------------------===//
#include "../Mutations.h"
#include "cleave/Json/Json.h"
#include "cleave/Ledger/Ledger.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace cleave;
namespace json = llvm::json;

namespace {

std::vector<json::Value> loadRuns() {
  std::vector<json::Value> rows;
  for (const char *name : {"training_runs.json", "third_runs.json"}) {
    json::Value root =
        llvm::cantFail(loadJson(std::string(CLEAVE_RUNS "/") + name));
    json::Array &array = *root.getAsArray();
    // Every source has some of its rows in it.
    for (size_t i = 0; i < array.size(); i += 7)
      rows.push_back(std::move(array[i]));
  }
  return rows;
}

TEST(MutationTest, RowsArePricedOrRefused) {
  std::vector<json::Value> rows = loadRuns();
  // What real rows say little of.
  size_t real = rows.size();
  for (size_t i = 0; i < real; i += 3) {
    json::Object row = *rows[i].getAsObject();
    static const char *schedules[] = {"ZB-V", "ZB-1p", "ZB-2p", "interleaved"};
    row["schedule"] = schedules[i % 4];
    row["pp"] = int64_t(1) << (i % 5);
    if (i % 2)
      row["vpp"] = int64_t(i % 4);
    row["mbs"] = 1;
    rows.push_back(std::move(row));
  }
  test::runMutants(std::move(rows), 3000, [](llvm::StringRef text) {
    llvm::Expected<json::Object> object = parseJsonObject(text, "f");
    if (!object) {
      llvm::consumeError(object.takeError());
      return false;
    }
    llvm::Expected<LedgerRow> row = readLedgerRow(*object, "f: row 0");
    if (!row) {
      test::expectLine(llvm::toString(row.takeError()));
      return false;
    }
    if (!row->missing.empty())
      return true;
    Estimate estimate =
        CostModel(row->model, row->machine, row->work, row->profile)
            .price(row->layout);
    EXPECT_TRUE(estimate.step > 0 && std::isfinite(estimate.step));
    EXPECT_TRUE(std::isfinite(estimate.memory.getTotal()));
    return true;
  });
}

/// A profile is read or named, and what is read prices a step.
TEST(MutationTest, ProfilesAreReadOrRefused) {
  std::vector<json::Value> profiles;
  for (const auto &entry :
       std::filesystem::directory_iterator(CLEAVE_PROFILES)) {
    json::Object profile =
        llvm::cantFail(loadJsonObject(entry.path().string()));
    profile.erase("match"); // a built-in one's, not of a file that is given
    profiles.push_back(std::move(profile));
  }
  LedgerRow row;
  {
    json::Object object = *loadRuns().front().getAsObject();
    row = llvm::cantFail(readLedgerRow(object, "f: row 0"));
    ASSERT_EQ(row.missing, "");
  }
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("cleave-profile-" + std::to_string(getpid()) + ".json");
  test::runMutants(std::move(profiles), 1000, [&](llvm::StringRef text) {
    std::ofstream(path, std::ios::binary) << text.str();
    llvm::Expected<Profile> profile = loadProfile(path.string());
    if (!profile) {
      test::expectLine(llvm::toString(profile.takeError()));
      return false;
    }
    profile->attention = chooseAttention(*profile, row.machine.device);
    Estimate estimate =
        CostModel(row.model, row.machine, row.work, *profile).price(row.layout);
    EXPECT_TRUE(estimate.step > 0 && std::isfinite(estimate.step));
    EXPECT_TRUE(std::isfinite(estimate.memory.getTotal()));
    return true;
  });
  std::filesystem::remove(path);
}

} // namespace
