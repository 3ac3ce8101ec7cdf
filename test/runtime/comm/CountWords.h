//===- CountWords.h - What processes have said ----------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_COMM_COUNTWORDS_H
#define CLEAVE_TEST_RUNTIME_COMM_COUNTWORDS_H

#include <string>

namespace cleave::test {

/// How often `words` stand in `text`.
inline int count(const std::string &text, const std::string &words) {
  int found = 0;
  for (size_t at = text.find(words); at != std::string::npos;
       at = text.find(words, at + 1))
    ++found;
  return found;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_COMM_COUNTWORDS_H
