//===- Charts.cpp - Bars, columns and points ------------------------------===//
#include "Charts.h"
#include "Drawing.h"
#include "Scale.h"
#include "cleave/Search/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace cleave;

void cleave::drawBar(HtmlWriter &html, llvm::ArrayRef<BarPart> parts) {
  html.element("div", {{"class", "bar"}}, [&] {
    for (const BarPart &part : parts)
      if (part.share > 0)
        html.element(
            "span",
            {{"class", part.style},
             {"style", llvm::formatv("width:{0:F3}%", 100 * part.share)},
             {"title", part.label}},
            "");
  });
}

namespace {
/// A plot's area in pixels, and the values at its borders.
struct Plot {
  double left, top, width, height;
  double lowX, highX, lowY, highY;

  double getX(double value) const {
    return left + width * (value - lowX) / (highX - lowX);
  }
  double getY(double value) const {
    return top + height * (highY - value) / (highY - lowY);
  }
  double getBottom() const { return top + height; }
};
} // namespace

/// Grid lines with their values, in GB, at the left.
static void drawBytesAxis(HtmlWriter &html, const Plot &plot) {
  std::vector<double> ticks = getTicks(plot.lowY, plot.highY, 4);
  for (double tick : ticks) {
    drawLine(html, "grid", plot.left, plot.getY(tick), plot.left + plot.width,
             plot.getY(tick));
    drawText(html, "end", plot.left - 8, plot.getY(tick) + 4,
             formatTick(tick, ticks[1] - ticks[0], 1e9));
  }
}

void cleave::drawMemoryOfStages(HtmlWriter &html,
                                llvm::ArrayRef<MemoryUse> stages,
                                double limit) {
  double count = double(stages.size());
  double pitch = std::clamp(1050 / count, 6., 64.);
  double most = limit;
  for (const MemoryUse &use : stages)
    most = std::max(most, use.getTotal());
  Plot plot{46, 22, pitch * count, 170, 0, count, 0, most};
  drawSVG(html, plot.left + plot.width + 4, plot.getBottom() + 36,
          "memory of a device of each stage", [&] {
            drawBytesAxis(html, plot);
            drawText(html, "end", plot.left - 8, 10, "GB");
            for (size_t i = 0; i != stages.size(); ++i) {
              html.element("g", {}, [&] {
                std::string title = llvm::formatv(
                    "stage {0}: {1}", i, formatBytes(stages[i].getTotal()));
                for (const Part<MemoryUse> &part : getMemoryParts())
                  title += llvm::formatv("\n{0} {1}", part.name,
                                         formatBytes(stages[i].*part.value));
                html.element("title", title);
                double below = 0;
                for (const Part<MemoryUse> &part : getMemoryParts()) {
                  double bytes = stages[i].*part.value;
                  double height = plot.getY(below) - plot.getY(below + bytes);
                  below += bytes;
                  if (height < 0.05)
                    continue;
                  html.leaf("rect", {{"class", "m-" + part.key.str()},
                                     {"x", formatPixels(plot.getX(double(i)) +
                                                        pitch / 10)},
                                     {"y", formatPixels(plot.getY(below))},
                                     {"width", formatPixels(pitch * 0.8)},
                                     {"height", formatPixels(height)}});
                }
              });
              size_t every = pitch < 12 ? 8 : pitch < 24 ? 4 : 1;
              if (i % every == 0)
                drawText(html, "middle", plot.getX(double(i) + 0.5),
                         plot.getBottom() + 16, std::to_string(i));
            }
            drawText(html, "end", plot.left + plot.width, plot.getY(limit) - 6,
                     formatBytes(limit));
            drawLine(html, "limit", plot.left, plot.getY(limit),
                     plot.left + plot.width, plot.getY(limit));
            drawText(html, "middle", plot.left + plot.width / 2,
                     plot.getBottom() + 33, "stage");
          });
}

void cleave::drawFront(HtmlWriter &html, llvm::ArrayRef<Candidate> front,
                       double limit) {
  auto getSeconds = [](const Candidate &candidate) {
    return candidate.estimate.step;
  };
  double low = getSeconds(front.front()), high = getSeconds(front.back());
  double margin = std::max(high - low, low * 0.05) * 0.15;
  Plot plot{64, 22, 980, 240, 0, limit, low - margin, high + margin};
  Scale scale = Scale::ofSeconds(high);
  drawSVG(
      html, plot.left + plot.width + 30, plot.getBottom() + 42,
      "seconds of a step by memory of a device", [&] {
        std::vector<double> ticks = getTicks(plot.lowY, plot.highY, 5);
        drawText(html, "end", plot.left - 8, 10, scale.name);
        for (double tick : ticks) {
          drawLine(html, "grid", plot.left, plot.getY(tick),
                   plot.left + plot.width, plot.getY(tick));
          drawText(html, "end", plot.left - 8, plot.getY(tick) + 4,
                   formatTick(tick, ticks[1] - ticks[0], scale.unit));
        }
        ticks = getTicks(plot.lowX, plot.highX, 8);
        for (double tick : ticks)
          drawText(html, "middle", plot.getX(tick), plot.getBottom() + 18,
                   formatTick(tick, ticks[1] - ticks[0], 1e9));
        drawText(html, "middle", plot.left + plot.width / 2,
                 plot.getBottom() + 37, "memory of a device, GB");
        drawText(html, "end", plot.getX(limit) - 6, plot.top + 8,
                 formatBytes(limit));
        drawLine(html, "limit", plot.getX(limit), plot.top, plot.getX(limit),
                 plot.getBottom());
        // What is best from a point's memory up to that of the one before it.
        std::string stairs;
        double right = plot.getX(limit);
        for (const Candidate &candidate : front) {
          double x = plot.getX(candidate.estimate.memory.getTotal());
          std::string y = formatPixels(plot.getY(getSeconds(candidate)));
          stairs += (stairs.empty() ? "M" : "L") + formatPixels(right) + " " +
                    y + "L" + formatPixels(x) + " " + y;
          right = x;
        }
        html.leaf("path", {{"class", "stairs"}, {"d", stairs}});
        for (size_t i = 0; i != front.size(); ++i) {
          const Candidate &candidate = front[i];
          double x = plot.getX(candidate.estimate.memory.getTotal());
          double y = plot.getY(getSeconds(candidate));
          html.element("g", {}, [&] {
            html.element(
                "title",
                llvm::formatv("{0}, {1}: {2}",
                              formatSeconds(getSeconds(candidate)),
                              formatBytes(candidate.estimate.memory.getTotal()),
                              toString(candidate.layout))
                    .str());
            html.leaf("circle", {{"class", i == 0 ? "point chosen" : "point"},
                                 {"cx", formatPixels(x)},
                                 {"cy", formatPixels(y)},
                                 {"r", "5"}});
            drawText(html, "label", x + 6, y - 8, std::to_string(i + 1));
          });
        }
      });
}
