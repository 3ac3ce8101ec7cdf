//===- Collectives.h - What collectives make of the parts of a group ------===//
#ifndef CLEAVE_PASSES_INTERPRET_COLLECTIVES_H
#define CLEAVE_PASSES_INTERPRET_COLLECTIVES_H

#include "passes/Interpret/Array.h"

namespace cleave::collectives {

/// Element by element, the sum or the maximum of arrays of one shape.
Array reduce(llvm::ArrayRef<const Array *> parts, bool isMax);

/// The parts one after the other along `dim`, block by block: of each of
/// `blocks` equal blocks of the dim, every part has a piece.
Array concatenate(llvm::ArrayRef<const Array *> parts, int64_t dim,
                  int64_t blocks = 1);

/// Of `parts` equal pieces along `dim`, in each of its blocks, those numbered
/// `index`.
Array cut(const Array &whole, int64_t dim, int64_t parts, int64_t index,
          int64_t blocks = 1);

} // namespace cleave::collectives

#endif // CLEAVE_PASSES_INTERPRET_COLLECTIVES_H
