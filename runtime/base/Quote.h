//===- Quote.h - Names of unknown origin in messages ----------------------===//
#ifndef CLEAVE_RUNTIME_BASE_QUOTE_H
#define CLEAVE_RUNTIME_BASE_QUOTE_H

#include <string>
#include <string_view>

namespace cleave::runtime {

/// `name` in double quotes for a message: control characters and quotes
/// escaped, cut after 120 bytes, so that a hostile file cannot garble a
/// terminal.
std::string quote(std::string_view name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_QUOTE_H
