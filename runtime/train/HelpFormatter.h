//===- HelpFormatter.h - Help that fits the terminal
//-----------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_HELPFORMATTER_H
#define CLEAVE_RUNTIME_TRAIN_HELPFORMATTER_H

#include <CLI/CLI.hpp>

namespace cleave::runtime {

/// Columns to print in: those that COLUMNS says, or of the terminal that
/// standard output is, or 80.
size_t getTerminalWidth();

/// `text` with no line over `width`. What does not fit goes on below where it
/// began: at `column` if that is where a line's second part is; prose at the
/// left; a name or the usage a little further to the right than it began.
std::string wrapHelp(const std::string &text, size_t column, size_t width);

/// The help of every command: CLI11's, wrapped to the terminal's width.
class HelpFormatter : public CLI::Formatter {
public:
  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return wrapHelp(CLI::Formatter::make_help(app, std::move(name), mode),
                    get_column_width(), getTerminalWidth());
  }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_HELPFORMATTER_H
