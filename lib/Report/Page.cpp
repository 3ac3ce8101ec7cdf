//===- Page.cpp - The sections of a report --------------------------------===//
#include "Charts.h"
#include "PageWriter.h"
#include "Scale.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace cleave;

namespace {
class Page : PageWriter {
public:
  Page(llvm::raw_ostream &os, const PlanContext &context,
       const SearchResult &result, const Report &report)
      : PageWriter(os), context(context), result(result), report(report),
        plan(result.best.front()),
        limit(context.request.getMemoryLimit(context.machine)) {}

  void print(llvm::StringRef title);

private:
  /// Parts of a whole as rows, with their colours, the total in the last one.
  template <typename Whole>
  void parts(llvm::StringRef id, llvm::StringRef prefix,
             llvm::ArrayRef<Part<Whole>> parts, const Whole &whole,
             double total, const Scale &scale,
             llvm::function_ref<llvm::StringRef(llvm::StringRef)> meaning);
  void candidates(llvm::StringRef id, llvm::ArrayRef<Candidate> list);

  void printHeader(llvm::StringRef title);
  void printLayout();
  void printStep();
  void printMemory();
  void printTimeline();
  void printFront();
  void printNextBest();
  void printBinding();
  void printProof();

  const PlanContext &context;
  const SearchResult &result;
  const Report &report;
  const Candidate &plan;
  const double limit; ///< bytes that a device may use
};
} // namespace

template <typename Whole>
void Page::parts(llvm::StringRef id, llvm::StringRef prefix,
                 llvm::ArrayRef<Part<Whole>> parts, const Whole &whole,
                 double total, const Scale &scale,
                 llvm::function_ref<llvm::StringRef(llvm::StringRef)> meaning) {
  table(id, {"", "#" + std::string(scale.name), "#%", ""}, [&] {
    auto row = [&](llvm::StringRef style, llvm::StringRef name, double value,
                   llvm::StringRef remark) {
      html.element("tr", {{"class", style == "" ? "total" : ""}}, [&] {
        html.element("td", {}, [&] {
          if (style != "")
            html.element("i", {{"class", (prefix + style).str()}}, "");
          html.text(name);
        });
        cell(scale.format(value), true);
        cell(llvm::formatv("{0:F1}", 100 * value / total).str(), true);
        html.element("td", {{"class", "remark"}}, remark);
      });
    };
    double sum = 0;
    for (const Part<Whole> &part : parts) {
      sum += whole.*part.value;
      if (whole.*part.value != 0)
        row(part.key, part.name, whole.*part.value, meaning(part.key));
    }
    row("", "total", sum, "");
  });
}

void Page::candidates(llvm::StringRef id, llvm::ArrayRef<Candidate> list) {
  Scale seconds = Scale::ofSeconds(list.back().estimate.step);
  Scale bytes = Scale::ofBytes(limit);
  std::string second = std::string("#step, ") + seconds.name;
  table(
      id,
      {"#", second, "#+ %", "#tokens/s/device", "#MFU, %", "#memory, GB",
       "layout"},
      [&] {
        for (auto [number, candidate] : llvm::enumerate(list))
          html.element("tr", {}, [&] {
            cell(std::to_string(number + 1), true);
            cell(seconds.format(candidate.estimate.step), true);
            cell(llvm::formatv(
                     "{0:F1}",
                     100 * (candidate.estimate.step / plan.estimate.step - 1))
                     .str(),
                 true);
            cell(llvm::formatv("{0:N}", std::llround(context.getTokensPerSecond(
                                            candidate)))
                     .str(),
                 true);
            cell(llvm::formatv("{0:F1}", 100 * context.getMFU(candidate)).str(),
                 true);
            cell(bytes.format(candidate.estimate.memory.getTotal()), true);
            html.element("td", {{"class", "layout"}},
                         toString(candidate.layout));
          });
      });
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

void Page::printHeader(llvm::StringRef title) {
  const Workload &work = context.request.work;
  double parameters = context.model.getParameters();
  bool billions = parameters >= 1e9;
  const Estimate &estimate = plan.estimate;
  html.element("header", {}, [&] {
    html.element("h1", {}, [&] {
      html.text(title);
      html.element("small",
                   llvm::formatv(" on {0:N} x {1}", context.machine.devices,
                                 context.machine.device.name)
                       .str());
    });
    html.element(
        "p", {{"class", "note"}},
        llvm::formatv("{0}, {1} {2} parameters; {3:N} sequences of {4:N} "
                      "tokens a step; {5} matrix products; software as "
                      "profile \"{6}\"",
                      context.model.name,
                      llvm::format("%.4g", parameters / (billions ? 1e9 : 1e6)),
                      billions ? "B" : "M", work.globalBatch, work.seqLen,
                      getName(work.dtype), context.request.profile.name)
            .str());
    html.element("p", {{"class", "chosen"}}, toString(plan.layout));
    html.element("div", {{"class", "tiles"}}, [&] {
      Scale seconds = Scale::ofSeconds(estimate.step);
      double tokens = context.getTokensPerSecond(plan);
      tile("step", seconds.format(estimate.step), seconds.name,
           llvm::formatv("{0:N} device{1}", plan.layout.getDevices(),
                         plan.layout.getDevices() == 1 ? "" : "s")
               .str());
      tile(
          "tokens/s/device", llvm::formatv("{0:N}", std::llround(tokens)).str(),
          "",
          llvm::formatv("{0:N} tokens/s in all",
                        std::llround(tokens * double(plan.layout.getDevices())))
              .str());
      tile("MFU", llvm::formatv("{0:F1}", 100 * context.getMFU(plan)).str(),
           "%", context.getMFUConvention());
      Scale bytes = Scale::ofBytes(limit);
      double used = estimate.memory.getTotal();
      tile("memory", bytes.format(used), "GB",
           llvm::formatv("{0} of {1} on the fullest device",
                         context.fits(plan)
                             ? "fits: " + formatShare(used, limit)
                             : "does not fit",
                         formatBytes(limit))
               .str());
    });
  });
}

/// Whether a field says more than that something is one or off.
static bool matters(const TrainLayout &layout, llvm::StringRef field) {
  return getField(layout, field) != getField({}, field) ||
         field == "micro-batch" || field == "recompute" ||
         (field == "pipeline-schedule" && layout.pp > 1) ||
         (field == "cp-kind" && layout.cp > 1);
}

void Page::printLayout() {
  auto getTitle = [](llvm::StringRef field) {
    return llvm::StringSwitch<llvm::StringRef>(field)
        .Case("tp", "tensor parallel")
        .Case("cp", "context parallel")
        .Case("cp-kind", "context parallel by")
        .Case("dp", "data parallel")
        .Case("pp", "pipeline stages")
        .Case("virtual-stages", "chunks a stage")
        .Case("ep", "expert parallel")
        .Case("expert-tp", "tensor parallel experts")
        .Case("pipeline-schedule", "pipeline schedule")
        .Case("sequence-parallel", "sequence parallel")
        .Case("zero", "ZeRO stage")
        .Case("recompute", "recomputation")
        .Case("recompute-modules", "of a block, recomputed")
        .Case("recompute-blocks", "blocks of a chunk that recompute")
        .Case("first-blocks", "blocks beside the embedding")
        .Case("last-blocks", "blocks beside the head")
        .Case("order", "axes, innermost first")
        .Case("shard-group", "ranks of a ZeRO copy")
        .Case("micro-batch", "micro-batch, sequences")
        .Default(field);
  };
  html.element("dl", {{"id", "layout"}}, [&] {
    for (llvm::StringRef field : getLayoutFields())
      if (matters(plan.layout, field))
        html.element("div", {}, [&] {
          html.element("dt", getTitle(field));
          html.element("dd", getFieldText(plan.layout, field));
        });
    html.element("div", {}, [&] {
      html.element("dt", "micro-batches a step");
      html.element("dd", std::to_string(report.shape.microBatches));
    });
  });
}

void Page::printStep() {
  section("Where the time of a step goes", [&] {
    const Estimate &estimate = plan.estimate;
    std::vector<BarPart> bar;
    for (const Part<Estimate> &part : getTimeParts()) {
      double seconds = estimate.*part.value;
      bar.push_back(
          {("t-" + part.key).str(), seconds / estimate.step,
           llvm::formatv("{0}: {1}, {2}", part.name, formatSeconds(seconds),
                         formatShare(seconds, estimate.step))});
    }
    drawBar(html, bar);
    auto getMeaning = [](llvm::StringRef key) {
      return llvm::StringSwitch<llvm::StringRef>(key)
          .Case("compute", "kernels of the slowest stage, recomputation too")
          .Case("tensor", "tensor-parallel communication that nothing hides")
          .Case("context", "context-parallel communication, likewise")
          .Case("expert", "exchange of tokens between experts, likewise")
          .Case("pipeline", "messages between stages that lengthen the step")
          .Case("data", "gradients and ZeRO's parameters, likewise, and what "
                        "they slow down")
          .Case("bubble", "stages that wait for others")
          .Case("optimizer", "update of the weights")
          .Case("host", "the device waits for launches")
          .Default("");
    };
    parts<Estimate>("time", "t-", getTimeParts(), estimate, estimate.step,
                    Scale::ofSeconds(estimate.step), getMeaning);
  });
}

void Page::printMemory() {
  section("Memory of the fullest device", [&] {
    const MemoryUse &memory = plan.estimate.memory;
    double most = std::max(limit, memory.getTotal());
    std::vector<BarPart> bar;
    for (const Part<MemoryUse> &part : getMemoryParts())
      bar.push_back({("m-" + part.key).str(), memory.*part.value / most,
                     llvm::formatv("{0}: {1}", part.name,
                                   formatBytes(memory.*part.value))});
    drawBar(html, bar);
    auto getMeaning = [](llvm::StringRef key) {
      return llvm::StringSwitch<llvm::StringRef>(key)
          .Case("parameters", "as the forward pass reads them")
          .Case("gradients", "summed over micro-batches")
          .Case("optimizer", "moments, and weights in f32")
          .Case("activations", "of all micro-batches in flight")
          .Case("temporaries", "inside a block, and whole layers of ZeRO")
          .Case("reserve",
                "the driver's context, collectives' buffers, libraries, gaps")
          .Default("");
    };
    parts<MemoryUse>("memory", "m-", getMemoryParts(), memory, limit,
                     Scale::ofBytes(memory.getTotal()), getMeaning);
    note(llvm::formatv("Shares are of the {0} that a device {1}.",
                       formatBytes(limit),
                       context.request.memoryLimit > 0 ? "may use" : "has"));
    if (report.memory.size() > 1) {
      html.element("h3", "By stage");
      drawMemoryOfStages(html, report.memory, limit);
    }
  });
}

void Page::printTimeline() {
  section("The step, stage by stage", [&] {
    if (!report.simulation) {
      note(llvm::formatv(
          "{0:N} forward passes of stages are too many to play; at most {1:N} "
          "are.",
          report.shape.getVirtualStages() * report.shape.microBatches,
          Report::mostOps));
      return;
    }
    std::string left = drawTimeline(html, report.shape, *report.simulation);
    double played =
        report.simulation->step + context.request.profile.hostPerStep;
    note(llvm::formatv(
        "{0}, numbered from 0, played event by event: {1}, {2} from the "
        "price{3}{4}.{5}",
        formatNumber(report.shape.microBatches, "micro-batch"),
        formatSeconds(played),
        formatShare(std::abs(played - plan.estimate.step), plan.estimate.step),
        left.empty() ? "" : "; ", left,
        report.shape.endsAlone()
            ? " Its optimizer does not wait for other stages, so a step takes "
              "what its longest stage takes from its own start to its own end."
            : ""));
  });
}

void Page::printFront() {
  section("Less memory, more time", [&] {
    drawFront(html, report.front, limit);
    candidates("front", report.front);
    note(llvm::formatv("The fastest layouts within equal steps of {0}; the "
                       "first is the plan.",
                       formatBytes(limit)));
  });
}

void Page::printNextBest() {
  if (result.best.size() == 1)
    return;
  section("The next best", [&] { candidates("top", result.best); });
}

void Page::printBinding() {
  section("What binds", [&] {
    note("The best plan once one condition is relaxed: what gains most is what "
         "binds.");
    Scale seconds = Scale::ofSeconds(plan.estimate.step);
    std::string second = std::string("#step, ") + seconds.name;
    double most = 0;
    for (const Relaxation &relaxation : report.explanation.relaxations)
      most = std::max(most, relaxation.getGain(plan));
    table("binds", {"with", second, "#% faster", "", "in layout"}, [&] {
      for (const Relaxation &relaxation : report.explanation.relaxations)
        html.element("tr", {}, [&] {
          double gain = relaxation.getGain(plan);
          cell(relaxation.what);
          cell(seconds.format(relaxation.seconds), true);
          cell(llvm::formatv("{0:F1}", 100 * gain).str(), true);
          html.element("td", {{"class", "gain"}}, [&] {
            drawBar(html, {{"t-compute", most > 0 ? gain / most : 0,
                            formatShare(gain, 1)}});
          });
          html.element("td", {{"class", "layout"}},
                       !relaxation.searched ? "this one; others may gain more"
                       : relaxation.layout == plan.layout
                           ? "this one"
                           : toString(relaxation.layout));
        });
    });
    if (report.explanation.slower.empty())
      return;
    html.element("h3", "Slower links");
    table("slower", {"with", "#step, here", "#% slower", "then the best"}, [&] {
      for (const SlowerLink &slower : report.explanation.slower)
        html.element("tr", {}, [&] {
          double step = slower.kept.estimate.step;
          cell(slower.link + " - 20 %");
          cell(seconds.format(step), true);
          cell(llvm::formatv("{0:F1}", 100 * (step / plan.estimate.step - 1))
                   .str(),
               true);
          html.element("td", {{"class", "layout"}},
                       slower.changes() ? toString(slower.best.layout)
                                        : std::string("this layout"));
        });
    });
  });
}

void Page::printProof() {
  section("The proof", [&] {
    std::string proof = getProof(context, result);
    proof.front() = llvm::toUpper(proof.front());
    html.element("p", proof + ".");
    std::string constraints;
    for (const Constraint &constraint : context.request.constraints)
      constraints += llvm::formatv(
          "{0}{1} {2}", constraints.empty() ? "" : ", ",
          constraint.forbids ? "--forbid" : "--pin", constraint.text);
    if (!constraints.empty())
      html.element("p", "Layouts are those that satisfy " + constraints + ".");
    html.element("details", {}, [&] {
      html.element("summary", "The plan as JSON");
      html.element("pre", {{"id", "plan"}},
                   llvm::formatv("{0:2}", llvm::json::Value(
                                              toJSON(context, result, false)))
                       .str());
    });
  });
}

void Page::print(llvm::StringRef title) {
  page(llvm::formatv("{0} on {1} {2}", title, context.machine.devices,
                     context.machine.device.name)
           .str(),
       [&] {
         printHeader(title);
         html.element("main", {}, [&] {
           printLayout();
           printStep();
           printMemory();
           printTimeline();
           printFront();
           printNextBest();
           printBinding();
           printProof();
         });
       });
}

void cleave::printReport(llvm::raw_ostream &os, llvm::StringRef title,
                         const PlanContext &context, const SearchResult &result,
                         const Report &report) {
  Page(os, context, result, report).print(title);
}
