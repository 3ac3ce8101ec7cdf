// Any bytes as an .idx, the first two of them as the size of its .bin: either
// sequences inside the .bin, or one line of message.

#include "runtime/io/IndexedDataset.h"
#include <cstdlib>

using namespace cleave::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  uint64_t binBytes = data[0] | data[1] << 8;
  std::string_view bytes(reinterpret_cast<const char *>(data) + 2, size - 2);
  DatasetIndex index;
  Status status = parseDatasetIndex(bytes, binBytes, "f", index);
  if (!status.ok()) {
    const std::string &message = status.message();
    if (message.rfind("f: ", 0) != 0 || message.find('\n') != std::string::npos)
      std::abort();
    return 0;
  }
  for (uint64_t s = 0; s < index.sequences; ++s)
    if (index.offsets[s] +
            (index.starts[s + 1] - index.starts[s]) * index.tokenBytes >
        binBytes)
      std::abort();
  return 0;
}
