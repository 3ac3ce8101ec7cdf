//===- HelpFormatterTest.cpp ----------------------------------------------===//
#include "runtime/train/HelpFormatter.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

TEST(HelpFormatterTest, WhatFitsStays) {
  std::string text = "Does it\n\n  --name N      what it is\n";
  EXPECT_EQ(wrapHelp(text, 16, 80), text);
  EXPECT_EQ(wrapHelp("", 16, 80), "");
}

TEST(HelpFormatterTest, EachKindOfLineGoesOnWhereItShould) {
  // Prose at the left, the usage further to the right.
  EXPECT_EQ(wrapHelp("one two three four five\n", 8, 20),
            "one two three four\nfive\n");
  EXPECT_EQ(wrapHelp("Usage: a [OPTIONS] model ...\n", 8, 24),
            "Usage: a [OPTIONS] model\n    ...\n");
  // A description beside its name, and below it.
  EXPECT_EQ(wrapHelp("  --a N   one two three four five\n", 10, 30),
            "  --a N   one two three four\n          five\n");
  EXPECT_EQ(wrapHelp("          one two three four five\n", 10, 30),
            "          one two three four\n          five\n");
  // A name.
  EXPECT_EQ(wrapHelp("  --plan TEXT Excludes: --a --b\n", 20, 24),
            "  --plan TEXT Excludes:\n      --a --b\n");
}

TEST(HelpFormatterTest, WordsThatDoNotFitAreCutAtCommas) {
  EXPECT_EQ(wrapHelp("  --a {one,two,three,four,five}\n", 30, 20),
            "  --a\n      {one,two,\n      three,four,\n      five}\n");
  EXPECT_EQ(wrapHelp(std::string(25, 'x') + "\n", 8, 20),
            std::string(20, 'x') + "\n" + std::string(5, 'x') + "\n");
}

TEST(HelpFormatterTest, ColumnsSayTheWidth) {
  for (auto [columns, width] : {std::pair("132", 132),
                                {"50", 50},
                                {"1", 20},
                                {"80x", 80},
                                {"-3", 80},
                                {"", 80}}) {
    ::setenv("COLUMNS", columns, 1);
    // Where this test has a terminal, it may have any width.
    if (width != 80 || !::isatty(STDOUT_FILENO))
      EXPECT_EQ(getTerminalWidth(), size_t(width)) << columns;
  }
  ::unsetenv("COLUMNS");
}

} // namespace
