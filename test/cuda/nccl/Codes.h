//===- Codes.h - Results, types and calls of NCCL -------------------------===//
#ifndef CLEAVE_TEST_CUDA_NCCL_CODES_H
#define CLEAVE_TEST_CUDA_NCCL_CODES_H

#include "runtime/cuda/NcclApi.h"
#include <cstdint>
#include <string>

namespace cleave::simulated {

using namespace runtime::cuda;

// Those of ncclResult_t that NcclApi.h does not name.
constexpr int ncclInternalError = 3, ncclInvalidArgument = 4,
              ncclInvalidUsage = 5;

/// As the library words them.
const char *getResultText(int result);

/// What ncclGetLastError returns: of this thread.
const char *getLastErrorText();
void setLastErrorText(const std::string &text);

/// Says on stderr what a call did wrong, keeps it as the last error, and
/// returns `result`.
int reportNccl(int result, const std::string &message);

enum class NcclCall : uint32_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Send,
  Recv
};

/// What a rank asks for, but for where: ranks compare it. Of an AllGather the
/// elements of one rank, of a ReduceScatter those of the result.
struct Wish {
  NcclCall call = NcclCall::AllReduce;
  int type = 0;
  int reduction = 0; ///< of an AllReduce or ReduceScatter
  uint64_t count = 0;

  bool operator==(const Wish &) const = default;
  bool isMessage() const {
    return call == NcclCall::Send || call == NcclCall::Recv;
  }
  bool reduces() const {
    return call == NcclCall::AllReduce || call == NcclCall::ReduceScatter;
  }
  uint64_t getBytes() const; ///< of `count` elements
  uint64_t getInputBytes(int ranks) const;
  uint64_t getOutputBytes(int ranks) const;
  std::string describe() const; ///< "ncclAllReduce of 4 float32 (sum)"
};

/// Whether the simulated library has the type, and the reduction of it.
bool isKnownType(int type);
bool canReduce(int type, int reduction);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_NCCL_CODES_H
