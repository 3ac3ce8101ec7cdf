//===- Timeline.cpp - What every stage does when --------------------------===//
//
// A row for each stage: compute above, messages and reductions as a thin line
// below. A step of too many ops to tell apart is drawn as its begin, until the
// pipeline has filled or ops would be too narrow, and its end, as long; of too
// many stages every second, third ... is drawn.
//
//===----------------------------------------------------------------------===//
#include "Charts.h"
#include "Scale.h"
#include "cleave/Search/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <array>

using namespace cleave;

namespace {
constexpr double labels = 66, right = 1096; ///< pixels
constexpr int64_t mostRows = 32;

/// Seconds from `begin` to `end`, drawn from pixel `left` on.
struct Window {
  double begin, end, left, perSecond;

  double getX(double seconds) const {
    return left + (std::clamp(seconds, begin, end) - begin) * perSecond;
  }
  double getRight() const { return getX(end); }
  bool shows(const SimulatedEvent &event) const {
    return event.end > begin && event.start < end;
  }
};

/// A colour: its class in the style sheet and its name in the legend.
struct Style {
  const char *style, *name;
};
constexpr Style computeStyles[] = {{"o-forward", "forward"},
                                   {"o-backward", "backward"},
                                   {"o-backward", "backward, of inputs"},
                                   {"o-weight", "backward, of weights"}};
constexpr Style sendStyle{"o-send", "message to another stage"};
constexpr Style dataStyle{"o-data", "data-parallel collectives that nothing "
                                    "hides"};
constexpr Style optimizerStyle{"o-optimizer", "optimizer"};

const Style &getStyle(const SimulatedEvent &event) {
  switch (event.kind) {
  case SimulatedEvent::Compute:
    return computeStyles[size_t(event.op.kind)];
  case SimulatedEvent::Send:
    return sendStyle;
  case SimulatedEvent::Data:
    return dataStyle;
  case SimulatedEvent::Optimizer:
    return optimizerStyle;
  }
  return sendStyle;
}

class Timeline {
public:
  Timeline(HtmlWriter &html, const PipelineShape &shape,
           const Simulation &simulation)
      : html(html), shape(shape), simulation(simulation) {
    for (const SimulatedEvent &event : simulation.events)
      last = std::max(last, event.end);
    every = (shape.stages + mostRows - 1) / mostRows;
    rows = (shape.stages + every - 1) / every;
    pitch = rows <= 8 ? 26 : rows <= 16 ? 18 : 13;
    chooseWindows();
  }

  std::string draw();

private:
  void chooseWindows();
  void drawEvents(const Window &window, int64_t stage);
  void drawAxis(const Window &window);
  void drawLegend();
  double getTop(int64_t stage) const {
    int64_t row = stage / every;
    return 3 + double(row) * pitch;
  }

  HtmlWriter &html;
  const PipelineShape &shape;
  const Simulation &simulation;
  std::vector<Window> windows;
  std::vector<const Style *> used;
  double last = 0, pitch = 0;
  int64_t every = 1, rows = 1;
};
} // namespace

void Timeline::chooseWindows() {
  double width = right - labels, gap = 44;
  double ops = 0, seconds = 0, filled = 0;
  for (const SimulatedEvent &event : simulation.events)
    if (event.kind == SimulatedEvent::Compute && event.stage == 0) {
      ++ops;
      seconds += event.end - event.start;
      if (filled == 0 && event.op.kind != PipelineOpKind::Forward)
        filled = event.start;
    }
  double mean = seconds / ops;
  double shown = std::clamp(filled * 1.1, 50 * mean, 120 * mean);
  if (last <= 2 * shown) {
    windows.push_back({0, last, labels, width / last});
    return;
  }
  double each = (width - gap) / 2;
  windows.push_back({0, shown, labels, each / shown});
  windows.push_back({last - shown, last, labels + each + gap, each / shown});
}

void Timeline::drawEvents(const Window &window, int64_t stage) {
  double top = getTop(stage), height = pitch - 6;
  std::string sends;
  for (const SimulatedEvent &event : simulation.events) {
    if (event.stage != stage || !window.shows(event) ||
        event.start == event.end)
      continue;
    const Style &style = getStyle(event);
    if (!llvm::is_contained(used, &style))
      used.push_back(&style);
    double x = window.getX(event.start), wide = window.getX(event.end) - x;
    bool thin = event.kind == SimulatedEvent::Send ||
                event.kind == SimulatedEvent::Data;
    double y = thin ? top + height + 0.5 : top;
    double high = thin ? 2.5 : height;
    std::string box = "M" + formatPixels(x) + " " + formatPixels(y) + "h" +
                      formatPixels(std::max(wide, 0.2)) + "v" +
                      formatPixels(high) + "h-" +
                      formatPixels(std::max(wide, 0.2)) + "z";
    if (event.kind == SimulatedEvent::Send) {
      sends += box;
      continue;
    }
    bool computes = event.kind == SimulatedEvent::Compute;
    std::string name = style.name;
    if (computes) {
      name += llvm::formatv(" {0}", event.op.microBatch);
      if (shape.chunks > 1)
        name += llvm::formatv(", chunk {0}", event.op.chunk);
    }
    html.element("path",
                 {{"class", std::string(style.style) +
                                (computes && event.op.chunk % 2 ? " odd" : "")},
                  {"d", box}},
                 [&] {
                   html.element("title",
                                llvm::formatv("{0}: {1} to {2}", name,
                                              formatSeconds(event.start),
                                              formatSeconds(event.end))
                                    .str());
                 });
    std::string number = std::to_string(event.op.microBatch);
    if (computes && pitch >= 18 && wide >= 4 + 6 * double(number.size()))
      html.element("text",
                   {{"class", "op"},
                    {"x", formatPixels(x + wide / 2)},
                    {"y", formatPixels(top + height / 2 + 3.5)}},
                   number);
  }
  if (!sends.empty())
    html.leaf("path", {{"class", sendStyle.style}, {"d", sends}});
}

void Timeline::drawAxis(const Window &window) {
  double y = double(rows) * pitch + 6;
  html.leaf("path",
            {{"class", "axis"},
             {"d", "M" + formatPixels(window.left) + " " + formatPixels(y) +
                       "H" + formatPixels(window.getRight())}});
  double unit = Scale::ofSeconds(last).unit;
  std::vector<double> ticks =
      getTicks(window.begin, window.end, windows.size() > 1 ? 5 : 10);
  for (double tick : ticks) {
    std::string x = formatPixels(window.getX(tick));
    html.leaf("path", {{"class", "axis"},
                       {"d", "M" + x + " " + formatPixels(y) + "v4"}});
    html.element("text",
                 {{"class", "middle"}, {"x", x}, {"y", formatPixels(y + 17)}},
                 formatTick(tick, ticks[1] - ticks[0], unit));
  }
}

void Timeline::drawLegend() {
  html.element("p", {{"class", "legend"}}, [&] {
    for (const Style &style : computeStyles)
      if (llvm::is_contained(used, &style))
        html.element("span", {}, [&] {
          html.element("i", {{"class", style.style}}, "");
          html.text(style.name);
        });
    if (shape.chunks > 1)
      html.element("span", {}, [&] {
        html.element("i", {{"class", "o-forward odd"}}, "");
        html.text("paler: every second chunk of a stage");
      });
    for (const Style *style : {&sendStyle, &dataStyle, &optimizerStyle})
      if (llvm::is_contained(used, style))
        html.element("span", {}, [&] {
          html.element("i", {{"class", style->style}}, "");
          html.text(style->name);
        });
  });
}

std::string Timeline::draw() {
  double height = double(rows) * pitch + 44;
  std::string h = formatPixels(height), w = formatPixels(right + 14);
  html.element("div", {{"class", "scroll"}}, [&] {
    html.element(
        "svg",
        {{"width", w},
         {"height", h},
         {"viewBox", "0 0 " + w + " " + h},
         {"role", "img"},
         {"aria-label", "what every stage does when"}},
        [&] {
          for (int64_t stage = 0; stage < shape.stages; stage += every) {
            html.element("g", {{"class", "stage"}}, [&] {
              html.element("text",
                           {{"class", "end"},
                            {"x", formatPixels(labels - 10)},
                            {"y", formatPixels(getTop(stage) + pitch / 2 + 1)}},
                           shape.stages == 1
                               ? std::string("devices")
                               : llvm::formatv("stage {0}", stage).str());
              for (const Window &window : windows)
                drawEvents(window, stage);
            });
          }
          for (const Window &window : windows)
            drawAxis(window);
          if (windows.size() > 1)
            html.element(
                "text",
                {{"class", "middle"},
                 {"x",
                  formatPixels((windows[0].getRight() + windows[1].left) / 2)},
                 {"y", formatPixels(double(rows) * pitch / 2)}},
                "...");
          html.element("text",
                       {{"class", "middle"},
                        {"x", formatPixels((labels + right) / 2)},
                        {"y", formatPixels(height - 4)}},
                       Scale::ofSeconds(last).name);
        });
  });
  drawLegend();
  std::string left;
  if (windows.size() > 1)
    left = llvm::formatv("drawn are its first and last {0} of {1}",
                         formatSeconds(windows[0].end), formatSeconds(last));
  if (every > 1)
    left += llvm::formatv("{0}one stage of {1} is drawn",
                          left.empty() ? "" : "; ", every);
  return left;
}

std::string cleave::drawTimeline(HtmlWriter &html, const PipelineShape &shape,
                                 const Simulation &simulation) {
  return Timeline(html, shape, simulation).draw();
}
