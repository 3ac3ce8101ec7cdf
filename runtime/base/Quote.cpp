//===- Quote.cpp - Names of unknown origin in messages --------------------===//
#include "runtime/base/Quote.h"

std::string cleave::runtime::quote(std::string_view name) {
  constexpr size_t limit = 120;
  std::string text = "\"";
  for (unsigned char c : name.substr(0, limit)) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f) {
      constexpr char digits[] = "0123456789abcdef";
      text += "\\x";
      text += digits[c >> 4];
      text += digits[c & 15];
    } else {
      text += static_cast<char>(c);
    }
  }
  return text + (name.size() > limit ? "...\"" : "\"");
}
