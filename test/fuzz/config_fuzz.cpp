// Any bytes as a config.json: a model that holds together, or one line of
// message.

#include "cleave/Frontend/Model.h"
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  llvm::Expected<cleave::Model> model =
      cleave::parseModel(text, "config.json", {.seqLen = 64});
  if (!model) {
    const std::string message = toString(model.takeError());
    if (message.rfind("config.json: ", 0) != 0 ||
        message.find('\n') != std::string::npos)
      std::abort();
    return 0;
  }
  if (model->getParameterCount() <= 0 || getModelSummary(*model).empty())
    std::abort();
  return 0;
}
