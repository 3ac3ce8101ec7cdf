// Any bytes as a .safetensors file or as a model.safetensors.index.json: either
// tensors that can all be read, or one line of message.

#include "runtime/io/HuggingFaceWeights.h"
#include <cstdlib>

using namespace cleave::runtime;

static void check(const Status &status) {
  const std::string &message = status.message();
  if (message.rfind("f: ", 0) != 0 || message.find('\n') != std::string::npos)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  std::map<std::string, std::string> weightMap;
  if (Status status = parseIndex(bytes, "f", weightMap); !status.ok())
    check(status);
  std::vector<TensorInfo> tensors;
  Status status = parseSafetensors(bytes, "f", tensors);
  if (!status.ok()) {
    check(status);
    return 0;
  }
  for (const TensorInfo &tensor : tensors) {
    if (tensor.begin > tensor.end || tensor.end > size)
      std::abort();
    if (!isReadableAsFloat(tensor.dtype))
      continue;
    std::vector<float> values(tensor.elements);
    readAsFloat(bytes.data() + tensor.begin, tensor.dtype, 0, 1,
                tensor.elements, values.data());
  }
  return 0;
}
