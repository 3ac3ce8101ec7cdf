//===- Find.h - A search, and why it finds nothing ------------------------===//
#ifndef CLEAVE_LIB_SEARCH_FIND_H
#define CLEAVE_LIB_SEARCH_FIND_H

#include "cleave/Search/Search.h"

namespace cleave {

/// The best layouts; none if none is legal or fits. Their estimates have sends
/// as part of the bubble (CostModel::tryPrice).
SearchResult find(const Architecture &model, const Machine &machine,
                  const SearchRequest &request);

/// Why there is no legal layout, or none that fits: a constraint, the batch or
/// the memory, and what would change that.
std::string explainIllegal(const Architecture &model, const Machine &machine,
                           const SearchRequest &request);
std::string explainMemory(const Architecture &model, const Machine &machine,
                          const SearchRequest &request);

} // namespace cleave

#endif // CLEAVE_LIB_SEARCH_FIND_H
