//===- RunToy.h - Runs the toy's executable -------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_TRAIN_RUNTOY_H
#define CLEAVE_TEST_RUNTIME_TRAIN_RUNTOY_H

#include "test/runtime/io/TestFiles.h"
#include <sys/wait.h>

namespace cleave::test {

struct ToyResult {
  int exitCode;
  std::string out, err;
};

/// Starts N processes, as "... -np N " behind it. Open MPI's own leaks are not
/// this project's.
inline const std::string mpirun =
    "env ASAN_OPTIONS=detect_leaks=0 " CLEAVE_MPIRUN
    " --allow-run-as-root --oversubscribe --bind-to none ";

/// `prefix`: a launcher, with blank behind it. `environment`: "TOY_DP=2 ...".
inline ToyResult runToy(const TestFolder &folder, const std::string &arguments,
                        const std::string &environment = "",
                        const std::string &prefix = "") {
  std::string command = environment + " timeout 120 " + prefix +
                        CLEAVE_TOY_TRAIN " " + arguments + " >" +
                        (folder / "stdout") + " 2>" + (folder / "stderr") +
                        " </dev/null";
  int status = std::system(command.c_str());
  ToyResult result{WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                   readAll(folder / "stdout"), readAll(folder / "stderr")};
  std::filesystem::remove(folder / "stdout");
  std::filesystem::remove(folder / "stderr");
  return result;
}

/// `stages`: 1 or 2.
inline std::string getLayout(uint64_t dp, uint64_t tp,
                             uint64_t microBatches = 1, uint64_t stages = 1) {
  return "TOY_DP=" + std::to_string(dp) + " TOY_TP=" + std::to_string(tp) +
         " TOY_MICRO_BATCHES=" + std::to_string(microBatches) +
         " TOY_PP=" + std::to_string(stages);
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_TRAIN_RUNTOY_H
