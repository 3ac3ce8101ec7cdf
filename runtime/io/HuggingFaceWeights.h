//===- HuggingFaceWeights.h - The weights of a model folder ---------------===//
#ifndef CLEAVE_RUNTIME_IO_HUGGINGFACEWEIGHTS_H
#define CLEAVE_RUNTIME_IO_HUGGINGFACEWEIGHTS_H

#include "runtime/io/Safetensors.h"
#include <map>
#include <memory>

namespace cleave::runtime {

/// The tensors of a model folder as transformers writes it: those of
/// model.safetensors, or of the files that model.safetensors.index.json names.
class HuggingFaceWeights {
public:
  /// Where a tensor is.
  struct Entry {
    const SafetensorsFile *file;
    const TensorInfo *tensor;
    const char *getData() const { return file->getData(*tensor); }
  };

  /// Opens `path`: a folder, or one .safetensors file.
  static Status open(const std::string &path, HuggingFaceWeights &weights);

  /// By name, sorted.
  const std::map<std::string, Entry> &getEntries() const { return entries; }
  /// Null if there is none of that name.
  const Entry *find(const std::string &name) const;
  /// Whether what was read of its tensors so far is what the files hold.
  Status check() const;
  /// One of each file. Reads a bounded part of each.
  Status describe(std::vector<DataIdentity> &identities) const;
  /// The file or folder it was opened from.
  const std::string &getPath() const { return path; }

private:
  Status openIndex(const std::string &folder, const std::string &index);
  Status addFile(const std::string &file);

  std::string path;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Entry> entries;
};

/// Reads the map from tensor name to file name of an index.json. Errors name
/// `file`.
Status parseIndex(std::string_view text, const std::string &file,
                  std::map<std::string, std::string> &weightMap);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_HUGGINGFACEWEIGHTS_H
