//===- Codes.cpp ----------------------------------------------------------===//
#include "test/cuda/nccl/Codes.h"
#include <cstdio>

using namespace cleave::simulated;

const char *cleave::simulated::getResultText(int result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case ncclSystemError:
    return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case ncclInternalError:
    return "internal error - please report this issue to the NCCL developers";
  case ncclInvalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case ncclInvalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  default:
    return "unknown result code";
  }
}

static std::string &getKeptText() {
  static thread_local std::string kept;
  return kept;
}

const char *cleave::simulated::getLastErrorText() {
  return getKeptText().c_str();
}

void cleave::simulated::setLastErrorText(const std::string &text) {
  getKeptText() = text;
}

int cleave::simulated::reportNccl(int result, const std::string &message) {
  std::fprintf(stderr, "simulated NCCL: %s\n", message.c_str());
  setLastErrorText(message);
  return result;
}

static uint64_t getTypeBytes(int type) {
  return type == ncclInt8 ? 1 : type == ncclBfloat16 ? 2 : 4;
}

uint64_t Wish::getBytes() const { return count * getTypeBytes(type); }

uint64_t Wish::getInputBytes(int ranks) const {
  if (call == NcclCall::Recv)
    return 0;
  return getBytes() * (call == NcclCall::ReduceScatter ? uint64_t(ranks) : 1);
}

uint64_t Wish::getOutputBytes(int ranks) const {
  if (call == NcclCall::Send)
    return 0;
  return getBytes() * (call == NcclCall::AllGather ? uint64_t(ranks) : 1);
}

std::string Wish::describe() const {
  static constexpr const char *calls[] = {"ncclAllReduce", "ncclAllGather",
                                          "ncclReduceScatter", "ncclSend",
                                          "ncclRecv"};
  const char *typeName = type == ncclInt8      ? "int8"
                         : type == ncclInt32   ? "int32"
                         : type == ncclFloat32 ? "float32"
                                               : "bfloat16";
  std::string text = calls[size_t(call)];
  text += " of " + std::to_string(count) + " " + typeName;
  if (reduces())
    text += reduction == ncclSum ? " (sum)" : " (max)";
  return text;
}

bool cleave::simulated::isKnownType(int type) {
  return type == ncclInt8 || type == ncclInt32 || type == ncclFloat32 ||
         type == ncclBfloat16;
}

bool cleave::simulated::canReduce(int type, int reduction) {
  return type != ncclInt8 && (reduction == ncclSum || reduction == ncclMax);
}
