//===- HelpFormatter.cpp --------------------------------------------------===//
#include "runtime/train/HelpFormatter.h"
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace cleave::runtime;

/// Narrower than this, words could not be told from each other.
static constexpr size_t leastWidth = 20, usualWidth = 80;

size_t cleave::runtime::getTerminalWidth() {
  size_t width = 0;
  if (const char *text = std::getenv("COLUMNS")) {
    std::string_view digits = text;
    auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), width);
    if (error != std::errc() || end != digits.data() + digits.size())
      width = 0;
  }
  struct winsize size;
  if (width == 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
    width = size.ws_col;
  return std::max(width ? width : usualWidth, leastWidth);
}

/// How much of `line` goes on a row of `room`: up to its last space there, or
/// else its last comma, or else all that fits.
static size_t getRow(std::string_view line, size_t room) {
  if (line.size() <= room)
    return line.size();
  size_t space = line.find_last_of(' ', room);
  size_t word = line.find_first_not_of(' ');
  if (space != line.npos && space > word)
    return space;
  size_t comma = line.find_last_of(',', room - 1);
  return comma != line.npos && comma > word ? comma + 1 : room;
}

/// Where the rest of a line begins that does not fit.
static size_t getIndent(std::string_view line, size_t column, size_t width) {
  size_t first = std::min(line.find_first_not_of(' '), line.size());
  bool hasTwoParts = line.size() > column && first < column && first > 0 &&
                     line[column - 1] == ' ' && line[column] != ' ';
  bool isProse = first == 0 && !line.starts_with("Usage:");
  size_t indent = hasTwoParts || first == column ? column
                  : isProse                      ? 0
                                                 : first + 4;
  return indent + leastWidth <= width ? indent : 6;
}

std::string cleave::runtime::wrapHelp(const std::string &text, size_t column,
                                      size_t width) {
  std::string result;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    size_t indent = getIndent(line, column, width);
    // A description below its name begins no further to the right than the
    // rest of it.
    if (size_t first = line.find_first_not_of(' ');
        first != line.npos && first > indent && line.size() > width)
      line.remove_prefix(first - indent);
    size_t size = getRow(line, width);
    result.append(line.substr(0, size));
    for (line.remove_prefix(size); !line.empty(); line.remove_prefix(size)) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      if (line.empty())
        break;
      size = getRow(line, width - indent);
      result += '\n' + std::string(indent, ' ');
      result.append(line.substr(0, size));
    }
    result += '\n';
  }
  return result;
}
