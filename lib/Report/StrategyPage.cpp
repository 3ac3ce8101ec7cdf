//===- StrategyPage.cpp - Placements of a step as one page ----------------===//
#include "LayerGraph.h"
#include "PageWriter.h"
#include "cleave/Report/StrategyReport.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

std::string cleave::describeKept(const Exploration &explored) {
  std::string text;
  for (auto [keeps, bytes] : explored.bytes)
    if (bytes > 0)
      text += (text.empty() ? "" : ", ") + formatBytes(bytes) + " " +
              (keeps == Keeps::None ? "else" : getName(keeps).str());
  return text;
}

std::string cleave::describeMemory(const NamedStrategy &strategy) {
  return formatBytes(strategy.problem.memory) +
         (strategy.fits() ? "" : ", too few: nothing was found that fits");
}

static std::string showMicros(double seconds) {
  return llvm::formatv("{0:F1}", seconds * 1e6);
}

namespace {
class StrategyPage : PageWriter {
public:
  StrategyPage(llvm::raw_ostream &os, const StrategyReport &report)
      : PageWriter(os), report(report) {}

  void print() {
    page(report.title + ": placements", [&] {
      html.element("header", {}, [&] {
        html.element("h1", report.title);
        note(report.subtitle);
        note("Seconds of ops and collectives are those that they take alone; "
             "of a step, with collectives beside compute, and exposed is what "
             "compute waits for or loses. Where several ops need a tensor in "
             "one place, it is moved once for all of them.");
      });
      html.element("main", {}, [&] {
        for (auto [number, strategy] : llvm::enumerate(report.strategies))
          printStrategy(number, strategy);
        if (!report.front.empty())
          printFront();
      });
    });
  }

private:
  void printStrategy(size_t number, const NamedStrategy &strategy);
  void printTiles(const NamedStrategy &strategy);
  void printTotals(const std::string &id, const NamedStrategy &strategy);
  void printKind(const std::string &id, const NamedStrategy &strategy,
                 const LayerKind &kind);
  void printFront();

  const StrategyReport &report;
  std::vector<std::string> palette;
};
} // namespace

void StrategyPage::printTiles(const NamedStrategy &strategy) {
  const Exploration &explored = strategy.explored;
  const ShardingChoice &choice = explored.choice;
  auto show = [&](llvm::StringRef name, double seconds,
                  llvm::StringRef remark) {
    tile(name, llvm::formatv("{0:F3}", seconds * 1e3).str(), "ms", remark);
  };
  html.element("div", {{"class", "tiles"}}, [&] {
    std::string bound =
        choice.bound < choice.seconds
            ? "no choice takes less than " + formatSeconds(choice.bound)
            : std::string("no choice takes less");
    double hidden = choice.seconds - choice.besideSeconds;
    if (hidden != 0)
      bound = formatSeconds(choice.seconds) + " with nothing beside compute, " +
              bound;
    show("step", choice.besideSeconds, bound);
    show("compute", explored.compute,
         formatShare(explored.compute, choice.besideSeconds) + " of the step");
    show("collectives", choice.seconds - explored.compute,
         hidden != 0 ? formatSeconds(hidden) + " hidden" : "none hidden");
    tile("in use at most",
         llvm::formatv("{0:F2}", explored.bytesInUse * 1e-9).str(), "GB",
         "of " + describeMemory(strategy) +
             "; kept: " + describeKept(explored));
  });
}

void StrategyPage::printTotals(const std::string &id,
                               const NamedStrategy &strategy) {
  table(id, {"collective", "over", "#a step", "#GB", "#ms", "#exposed"}, [&] {
    for (const CollectiveTotal &total : strategy.explored.totals)
      html.element("tr", {}, [&] {
        cell(getName(total.kind));
        cell(strategy.problem.mesh.toString(total.axes));
        cell(llvm::formatv("{0:F0}", total.count).str(), true);
        cell(llvm::formatv("{0:F3}", total.bytes * 1e-9).str(), true);
        cell(llvm::formatv("{0:F3}", total.seconds * 1e3).str(), true);
        cell(llvm::formatv("{0:F3}", total.exposed * 1e3).str(), true);
      });
  });
}

void StrategyPage::printKind(const std::string &id,
                             const NamedStrategy &strategy,
                             const LayerKind &kind) {
  html.element("h3", describeLayers(kind));
  for (llvm::StringRef phase : {"forward", "backward"}) {
    auto draw = [&] {
      html.element("summary", (phase + " pass").str());
      drawLayer(html, strategy, kind, phase, palette);
    };
    if (kind.first < 0)
      continue;
    if (phase == "forward")
      html.element("details", {{"open", ""}}, draw);
    else
      html.element("details", {}, draw);
  }
  html.element("details", {}, [&] {
    html.element("summary", "ops");
    table(id + "-ops", {"pass", "op", "splits", "result", "#us", "moved to it"},
          [&] {
            for (size_t number : kind.ops) {
              const PlacedOp &op = strategy.problem.ops[number];
              const ExploredOp &own = strategy.explored.ops[number];
              if (op.keeps != Keeps::None || own.seconds == 0)
                continue;
              html.element("tr", {}, [&] {
                cell(op.phase);
                cell(getShortName(op));
                cell(own.splits);
                cell(own.placement);
                cell(showMicros(own.seconds), true);
                html.element("td", {{"class", "remark"}},
                             strategy.describeMoves(number));
              });
            }
          });
  });
  html.element("details", {}, [&] {
    html.element("summary", "what is kept");
    table(id + "-kept", {"as", "of", "where", "#MB", "moved to it"}, [&] {
      for (size_t number : kind.ops) {
        const PlacedOp &op = strategy.problem.ops[number];
        double bytes = strategy.getKeptBytes(number);
        if (op.keeps == Keeps::None || bytes == 0)
          continue;
        html.element("tr", {}, [&] {
          cell(getName(op.keeps));
          cell(getShortName(op));
          cell(strategy.explored.ops[number].placement);
          cell(llvm::formatv("{0:F2}", bytes * 1e-6).str(), true);
          html.element("td", {{"class", "remark"}},
                       strategy.describeMoves(number));
        });
      }
    });
  });
}

void StrategyPage::printStrategy(size_t number, const NamedStrategy &strategy) {
  std::string id = "strategy-" + std::to_string(number + 1);
  section(std::to_string(number + 1) + ": " + strategy.name, [&] {
    printTiles(strategy);
    printTotals(id, strategy);
    for (auto [at, kind] : llvm::enumerate(strategy.explored.kinds))
      printKind(id + "-" + std::to_string(at), strategy, kind);
  });
}

void StrategyPage::printFront() {
  section("Less memory, more time", [&] {
    table(
        "front",
        {"#", "#ms, nothing beside compute", "#ms", "#GB kept",
         "#ms of collectives"},
        [&] {
          for (auto [number, each] : llvm::enumerate(report.front))
            html.element("tr", {}, [&] {
              const ShardingChoice &choice = each.explored.choice;
              cell(std::to_string(number + 1), true);
              cell(llvm::formatv("{0:F3}", choice.seconds * 1e3).str(), true);
              cell(llvm::formatv("{0:F3}", choice.besideSeconds * 1e3).str(),
                   true);
              cell(llvm::formatv("{0:F3}", choice.bytes * 1e-9).str(), true);
              cell(llvm::formatv("{0:F3}",
                                 (choice.seconds - each.explored.compute) * 1e3)
                       .str(),
                   true);
            });
        });
  });
}

void cleave::printStrategyReport(llvm::raw_ostream &os,
                                 const StrategyReport &report) {
  StrategyPage(os, report).print();
}
