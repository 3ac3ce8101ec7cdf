//===- ReadArchitecture.h - The sizes that a config.json says -------------===//
#ifndef CLEAVE_SEARCH_READARCHITECTURE_H
#define CLEAVE_SEARCH_READARCHITECTURE_H

#include "cleave/Cost/Architecture.h"
#include "llvm/Support/Error.h"

namespace cleave {

struct Model;

/// What the cost of a model that Frontend has read depends on: all of its
/// weights, and each product.
Architecture getArchitecture(const Model &model);

/// Reads what cost depends on from a HuggingFace config.json: of every model
/// that Frontend reads, and the sizes of further families, mixtures of experts
/// and latent attention among them; of these, biases, norms of heads and
/// multi-token prediction are left out. Errors name the file, the key and what
/// is legal.
llvm::Expected<Architecture> readArchitecture(llvm::StringRef text,
                                              llvm::StringRef file);

/// The sizes alone, also of the families that Frontend reads: what it says of
/// these, biases and norms of heads aside, by another way.
llvm::Expected<Architecture> readSizes(llvm::StringRef text,
                                       llvm::StringRef file);

/// As readArchitecture, from a file; refuses files over 16 MiB.
llvm::Expected<Architecture> loadArchitecture(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_SEARCH_READARCHITECTURE_H
