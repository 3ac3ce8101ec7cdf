//===- ReportTest.cpp - Escapes, units and axes of a report ---------------===//
#include "lib/Report/Html.h"
#include "lib/Report/Scale.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace cleave;

TEST(Html, EscapesTextAndAttributes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  HtmlWriter html(os);
  html.element("b", {{"title", "\"<&>'"}}, "a<b> & \"c\"\x01\n\xff");
  EXPECT_EQ(text, "<b title=\"&quot;&lt;&amp;&gt;&apos;\">a&lt;b&gt; &amp; "
                  "&quot;c&quot;?\n\xef\xbf\xbd</b>");
}

TEST(Html, Nests) {
  std::string text;
  llvm::raw_string_ostream os(text);
  HtmlWriter html(os);
  html.element("a", {}, [&] {
    html.leaf("br", {{"class", "x"}});
    html.text("y");
  });
  EXPECT_EQ(text, "<a><br class=\"x\"/>y</a>");
}

TEST(Html, Pixels) {
  EXPECT_EQ(formatPixels(0), "0");
  EXPECT_EQ(formatPixels(12.04), "12");
  EXPECT_EQ(formatPixels(12.06), "12.1");
  EXPECT_EQ(formatPixels(-0.04), "0");
  EXPECT_EQ(formatPixels(-1.26), "-1.3");
}

TEST(Scale, UnitsAndDigits) {
  Scale seconds = Scale::ofSeconds(5.1824);
  EXPECT_EQ(seconds.format(5.1824), "5.182");
  EXPECT_EQ(seconds.format(0.1885), "0.189");
  EXPECT_STREQ(seconds.name, "s");
  Scale milliseconds = Scale::ofSeconds(0.1449);
  EXPECT_EQ(milliseconds.format(0.1449), "144.9");
  EXPECT_EQ(milliseconds.format(0.0002), "0.2");
  EXPECT_STREQ(milliseconds.name, "ms");
  EXPECT_EQ(Scale::ofBytes(75.02e9).format(12.79e9), "12.8");
  EXPECT_EQ(Scale::ofBytes(1.234e9).format(1.234e9), "1.23");
  EXPECT_EQ(Scale::ofBytes(85.9e9).format(0), "0.0");
}

TEST(Scale, TicksAreRoundAndInside) {
  for (double low : {0., 0.013, 4.9, 144.2})
    for (double span : {1e-6, 0.37, 0.99, 2.5, 85.9, 1e5})
      for (int count : {4, 5, 10}) {
        std::vector<double> ticks = getTicks(low, low + span, count);
        ASSERT_GE(ticks.size(), 2u) << low << " " << span << " " << count;
        EXPECT_LE(ticks.size(), size_t(2 * count));
        double step = ticks[1] - ticks[0];
        double digit = step / std::pow(10, std::floor(std::log10(step * 1.01)));
        EXPECT_TRUE(std::abs(digit - 1) < 1e-3 || std::abs(digit - 2) < 1e-3 ||
                    std::abs(digit - 5) < 1e-3)
            << digit;
        for (size_t i = 0; i != ticks.size(); ++i) {
          EXPECT_GE(ticks[i], low - 1e-8 * span - 1e-12);
          EXPECT_LE(ticks[i], (low + span) * (1 + 1e-8));
          EXPECT_NEAR(ticks[i], ticks[0] + double(i) * step, step * 1e-3);
        }
      }
}

TEST(Scale, TicksReadApart) {
  for (double high : {0.004, 0.9, 5.2, 86., 1400.}) {
    std::vector<double> ticks = getTicks(0, high, 5);
    double step = ticks[1] - ticks[0];
    EXPECT_EQ(formatTick(ticks[0], step, 1)[0], '0');
    for (size_t i = 1; i != ticks.size(); ++i) {
      EXPECT_NE(formatTick(ticks[i], step, 1),
                formatTick(ticks[i - 1], step, 1));
      EXPECT_NEAR(std::stod(formatTick(ticks[i], step, 1)), ticks[i],
                  1e-6 * high);
    }
  }
}
