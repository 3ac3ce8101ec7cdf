//===- Row.cpp - One published run, as the cost model sees it -------------===//
#include "Words.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Search/Search.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace cleave;
namespace json = llvm::json;

namespace {
/// Reads the fields of one row; the first thing wrong is kept.
class RowReader {
public:
  RowReader(const json::Object &object, std::string where)
      : object(object), where(std::move(where)) {}

  std::string message;

  bool has(llvm::StringRef key) const {
    const json::Value *value = object.get(key);
    return value && value->kind() != json::Value::Null;
  }

  std::string getText(llvm::StringRef key) {
    if (!has(key))
      return "";
    if (std::optional<llvm::StringRef> text = object.getString(key))
      return text->str();
    fail(key, "expects text");
    return "";
  }

  /// A text, or what a switch or a number would be as one.
  std::string getWords(llvm::StringRef key) {
    if (std::optional<bool> flag = object.getBoolean(key))
      return *flag ? "true" : "false";
    if (std::optional<int64_t> number = object.getInteger(key))
      return std::to_string(*number);
    return getText(key);
  }

  /// 0 if absent; positive otherwise.
  double getNumber(llvm::StringRef key) {
    if (!has(key))
      return 0;
    std::optional<double> value = object.getNumber(key);
    if (value && *value >= 1e-18 && *value <= 1e18)
      return *value;
    fail(key, "expects a positive number, from 1e-18 to 1e18");
    return 0;
  }

  int64_t getCount(llvm::StringRef key, int64_t absent,
                   int64_t most = 1 << 24) {
    if (!has(key))
      return absent;
    std::optional<int64_t> value = object.getInteger(key);
    if (value && *value >= 1 && *value <= most)
      return *value;
    fail(key, "expects a whole number from 1 to " + llvm::Twine(most));
    return absent;
  }

  bool getFlag(llvm::StringRef key, bool absent) {
    if (!has(key))
      return absent;
    if (std::optional<bool> value = object.getBoolean(key))
      return *value;
    fail(key, "expects true or false");
    return absent;
  }

  void fail(llvm::StringRef key, const llvm::Twine &what) {
    if (message.empty())
      message = llvm::formatv("{0}: key \"{1}\": value {2}: {3}", where, key,
                              *object.get(key), what);
  }

  /// The same of what several keys say together.
  void fail(const llvm::Twine &what) {
    if (message.empty())
      message = (where + ": " + what).str();
  }

private:
  const json::Object &object;
  std::string where;
};
} // namespace

/// The width of what all tokens pass: "2 shared experts", of routed experts'
/// width, or "1 shared expert of width 20480".
static int64_t getSharedWidth(llvm::StringRef notes, int64_t expertWidth) {
  size_t at = notes.find_insensitive("shared expert");
  if (at == llvm::StringRef::npos)
    return 0;
  llvm::StringRef before = notes.take_front(at).rtrim();
  llvm::StringRef count =
      before.drop_front(before.find_last_not_of("0123456789") + 1);
  int64_t shared = 1;
  count.getAsInteger(10, shared);
  llvm::StringRef after = notes.drop_front(at).split(';').first;
  int64_t width = getNumberAfter(after, "width");
  return shared * (width > 0 ? width : expertWidth);
}

/// Samples of a step, stated or of micro-batches; 0 if neither.
static int64_t readGlobalBatch(RowReader &reader) {
  if (reader.has("gbs") || !reader.has("mbs") || !reader.has("ga"))
    return reader.getCount("gbs", 0);
  int64_t inner = reader.getCount("tp", 1) * reader.getCount("cp", 1) *
                  reader.getCount("pp", 1, 1 << 14);
  int64_t ranks = std::max<int64_t>(reader.getCount("num_gpus", 1) / inner, 1);
  constexpr int64_t most = 1 << 24;
  int64_t each = reader.getCount("mbs", 1) * reader.getCount("ga", 1);
  if (each <= most / ranks)
    return each * ranks;
  reader.fail("ga", "expects at most " + llvm::Twine(most) +
                        " samples of a step, mbs x ga of each rank");
  return most;
}

static void readModel(RowReader &reader, LedgerRow &row) {
  Architecture &model = row.model;
  model.name = reader.getText("model");
  model.hidden = reader.getCount("hidden", 0);
  model.vocab = reader.getCount("vocab", 50257);
  int64_t layers = reader.getCount("layers", 0, 1 << 14);
  std::string notes = reader.getText("arch_notes");

  Block dense;
  dense.heads = reader.getCount("heads", 0);
  dense.kvHeads = reader.getCount("kv_heads", dense.heads);
  dense.headDim = dense.valueDim = reader.getCount(
      "head_dim", dense.heads > 0 ? model.hidden / dense.heads : 0);
  dense.gated = reader.getFlag("gated_mlp", false);
  dense.ffn = reader.getCount("ffn", 0);
  if (says(notes, "MLA")) { // sizes of DeepSeek-V2 and later
    dense.headDim = 192;
    dense.valueDim = 128;
    dense.latentRank = 512;
    dense.sharedKeyDim = 64;
    dense.queryRank = model.hidden >= 7168 ? 1536 : 0;
  }
  int64_t experts = reader.getCount("experts", 0);
  if (experts == 0) {
    model.blocks.push_back({dense, layers});
    return;
  }
  Block sparse = dense;
  sparse.experts = experts;
  sparse.expertsPerToken = reader.getCount("topk", 1);
  sparse.expertFfn = reader.getCount("moe_ffn", 0);
  sparse.ffn = 0;
  sparse.sharedFfn = getSharedWidth(notes, sparse.expertFfn);
  if (says(notes, "every 2nd layer")) {
    for (int64_t i = 0; i < layers; ++i)
      model.blocks.push_back({i % 2 == 0 ? dense : sparse, 1});
    return;
  }
  int64_t first = says(notes, "first ") ? getNumberAfter(notes, "first ")
                  : says(notes, "1 dense layer") ? 1
                                                 : 0;
  if (first > layers) {
    reader.fail("arch_notes",
                llvm::formatv("expects at most the {0} layers there are to be "
                              "dense, got {1}",
                              layers, first));
    first = layers;
  }
  if (first > 0)
    model.blocks.push_back({dense, first});
  if (int64_t window = getNumberAfter(notes, "sliding-window")) {
    Block local = sparse;
    local.window = window;
    for (int64_t i = first; i < layers; ++i)
      model.blocks.push_back({(i - first) % 2 == 0 ? local : sparse, 1});
    return;
  }
  if (first < layers)
    model.blocks.push_back({sparse, layers - first});
}

/// ZeRO's stage and the ranks that share a copy; false if the text says no
/// stage that is known.
static bool readZero(llvm::StringRef text, int usualStage, TrainLayout &layout,
                     int64_t devicesPerNode) {
  std::optional<int> stage = getZeroStage(text);
  if (!stage)
    return false;
  layout.zero = text.empty() ? usualStage : *stage;
  if (layout.zero == 0)
    return true;
  for (llvm::StringRef word :
       {"groups of", "shard group", "full shard", "shard"})
    if (int64_t group = getNumberAfter(text, word)) {
      layout.zeroGroup = group;
      break;
    }
  if (says(text, "HSDP"))
    layout.zeroGroup = devicesPerNode;
  return true;
}

static constexpr std::pair<llvm::StringLiteral, unsigned> megatronModules[] = {
    {"core_attn", recomputeAttention},
    {"layernorm", recomputeNorms},
    {"mlp", recomputeUp | recomputeActivation | recomputeDown},
    {"moe", recomputeExperts},
    {"moe_act", recomputeExpertActivation},
    {"mla_up_proj", recomputeLatent}};

/// What Megatron calls a part of a block; 0 if it is none.
static unsigned getMegatronModule(llvm::StringRef name) {
  for (auto [module, parts] : megatronModules)
    if (module == name)
      return parts;
  return 0;
}

/// "none", "full" or "selective" with what it says in brackets; false if it is
/// none of them.
static bool readRecompute(RowReader &reader, int64_t blocks,
                          TrainLayout &layout) {
  double share = 1; // of the blocks
  std::string recompute = reader.getWords("recompute");
  llvm::StringRef text = recompute;
  std::optional<Recompute> said = getRecompute(text);
  if (!said)
    return false;
  layout.recompute = *said;
  if (layout.recompute != Recompute::Selective)
    return true;
  if (says(text, "every other layer")) {
    layout.recompute = Recompute::Full;
    share = 0.5;
  } else if (says(text, "per-op") || says(text, "selective op")) {
    layout.recomputedModules = recomputeHalf;
  } else if (says(text, "maxtext")) {
    std::optional<unsigned> modules = getMaxTextModules(text);
    if (!modules)
      return false;
    layout.recomputedModules = *modules;
  } else if (text.contains('[')) {
    layout.recomputedModules = 0;
    llvm::SmallVector<llvm::StringRef> modules;
    text.split('[').second.split(']').first.split(modules, ',');
    for (llvm::StringRef module : modules) {
      unsigned known = getMegatronModule(module.trim());
      if (known == 0)
        reader.fail(
            "recompute",
            llvm::formatv(
                "unknown module \"{0}\", expects "
                "{1}",
                module.trim(),
                llvm::join(llvm::make_first_range(megatronModules), ", ")));
      layout.recomputedModules |= known;
    }
  } else if (layout.zero == 3 && reader.has("mfu") && reader.has("hfu")) {
    // PyTorch's wraps whole blocks; forward is a third of the model's FLOPs.
    double ratio = reader.getNumber("hfu") / reader.getNumber("mfu");
    layout.recompute = Recompute::Full;
    share = std::clamp(3 * (ratio - 1), 0., 1.);
  } else if (layout.zero == 3) {
    layout.recomputedModules = recomputeHalf;
  }
  int64_t most = layout.getMostBlocks(blocks);
  layout.recomputeBlocks = std::llround(share * double(most));
  if (layout.recomputeBlocks == 0)
    layout.recompute = Recompute::None;
  if (layout.recomputeBlocks == most)
    layout.recomputeBlocks = 0;
  return true;
}

static void readLayout(RowReader &reader, LedgerRow &row) {
  TrainLayout &layout = row.layout;
  layout.tp = reader.getCount("tp", 1);
  layout.cp = reader.getCount("cp", 1);
  layout.pp = reader.getCount("pp", 1, 1 << 14);
  layout.ep = reader.getCount("ep", 1);
  layout.expertTp = reader.getCount("etp", 1);
  layout.virtualStages = reader.getCount("vpp", 1, 1 << 14);
  // Transformer Engine's and PyTorch's way unless the row says otherwise.
  if (layout.cp > 1 && !says(reader.getText("notes"), "all-gather"))
    layout.contextKind = ContextKind::Ring;
  int64_t inner = layout.tp * layout.cp * layout.pp;
  layout.dp = std::max<int64_t>(row.machine.devices / inner, 1);
  if (row.machine.devices % inner != 0)
    reader.fail("num_gpus", llvm::formatv("expects a multiple of tp x cp x pp "
                                          "= {0} x {1} x {2}",
                                          layout.tp, layout.cp, layout.pp));
  layout.microBatch = reader.getCount("mbs", 0);
  if (layout.microBatch == 0)
    layout.microBatch = std::max<int64_t>(
        row.work.globalBatch / (layout.dp * reader.getCount("ga", 1)), 1);
  std::string software = row.source + "\n" + reader.getText("software") + "\n" +
                         reader.getText("framework");
  // Interleaving takes micro-batches in rounds of the stages.
  int64_t blocks = row.model.getNumBlocks();
  int64_t rounds = layout.dp * layout.microBatch * layout.pp;
  if (layout.pp > 1 && !reader.has("vpp") && !reader.has("schedule") &&
      interleavesUsually(software) && blocks % layout.pp == 0 &&
      row.work.globalBatch % rounds == 0)
    layout.virtualStages = blocks / layout.pp;
  // Megatron's sequence parallelism (May 2022) goes with tp since then, and so
  // on devices that came later.
  std::string month = getMonth(reader.getText("date"));
  bool recent = month.empty()
                    ? row.machine.device.getMatrix(DType::FP8).peak > 0
                    : month >= "2022-06";
  bool divides = row.work.seqLen / layout.cp % layout.tp == 0;
  layout.sequenceParallel =
      layout.tp > 1 && reader.getFlag("sp", recent && divides);
  auto miss = [&](llvm::StringRef key) {
    if (row.missing.empty())
      row.missing = (key + " \"" + reader.getWords(key) + "\"").str();
  };
  if (!readZero(reader.getWords("zero"), getUsualZeroStage(software), layout,
                row.machine.getDevicesPerNode()))
    miss("zero");
  // All of dp means all that share the weights, those of cp too.
  if (layout.zero == 0 || layout.zeroGroup >= layout.dp)
    layout.zeroGroup = 0;

  if (std::optional<Schedule> schedule =
          getSchedule(reader.getText("schedule"), layout.virtualStages > 1))
    layout.schedule = *schedule;
  else
    miss("schedule");
  // Chunks of one block, the most that interleaving can; the two of a V.
  if (layout.schedule == Schedule::Interleaved && layout.virtualStages == 1)
    layout.virtualStages =
        std::max<int64_t>(std::min((blocks + layout.pp - 1) / layout.pp,
                                   (blocks + mostEmptyStages) / layout.pp),
                          1);
  if (isVShaped(layout.schedule) && layout.virtualStages == 1)
    layout.virtualStages = 2;
  // One stage has no schedule, and all of its chunks follow each other.
  if (layout.pp == 1) {
    layout.schedule = Schedule::OneFOneB;
    layout.virtualStages = 1;
  }

  if (!readRecompute(reader, blocks, layout))
    miss("recompute");
}

/// The kernel that the run names, or its stack's usual one, if it was there at
/// the time and the device has it; otherwise the newest that frameworks took
/// without being asked.
static std::string chooseAttentionOfRun(RowReader &reader, llvm::StringRef said,
                                        const Profile &profile,
                                        const Device &device) {
  if (llvm::StringRef named = getAttentionKernel(said);
      device.attention.count(named.str()))
    return named.str();
  std::string date = reader.getText("date");
  return chooseAttention(profile, device, [&](llvm::StringRef kernel) {
    return wasAttentionKernel(kernel, date);
  });
}

static void readMachine(RowReader &reader, LedgerRow &row, llvm::Error &error) {
  std::string gpu = reader.getText("gpu");
  llvm::StringRef preset = getPreset(gpu);
  if (preset.empty()) {
    row.missing = "device \"" + gpu + "\"";
    return;
  }
  llvm::Expected<Machine> machine = getMachine(
      llvm::formatv("{0}:{1}", preset, reader.getCount("num_gpus", 1)).str());
  if (!machine) {
    error = machine.takeError();
    return;
  }
  row.machine = std::move(*machine);
  int64_t perNode = reader.getCount("gpus_per_node", 8);
  Level &inner = row.machine.levels.front();
  // A rack's NVLink domain is larger than any node.
  constexpr int64_t largestNode = 16;
  if (inner.size <= largestNode)
    inner.size = perNode;
  double gigabits = getNodeGigabits(reader.getText("interconnect"), perNode);
  if (gigabits > 0)
    row.machine.levels.back().link.setBandwidth(gigabits * 1e9 / 8 /
                                                double(perNode));
}

llvm::Expected<LedgerRow> cleave::readLedgerRow(const json::Object &object,
                                                const llvm::Twine &where) {
  RowReader reader(object, where.str());
  LedgerRow row;
  row.id = reader.getText("id");
  row.source = reader.getText("source");
  if (row.id.empty())
    row.id = where.str();

  auto need = [&](std::initializer_list<llvm::StringRef> keys) {
    for (llvm::StringRef key : keys)
      if (row.missing.empty() && !reader.has(key))
        row.missing = key.str();
  };
  need({"layers", "hidden", "heads", "num_gpus", "gpu"});
  int64_t globalBatch = readGlobalBatch(reader);
  if (globalBatch == 0)
    need({"gbs"});
  std::string notes = reader.getText("notes");
  int64_t seqLen = reader.getCount("seq_len", getNumberAfter(notes, "default"));
  if (seqLen == 0)
    need({"seq_len"});
  if (!reader.has("ffn") && !reader.has("moe_ffn"))
    need({"ffn"});
  if (reader.has("experts"))
    need({"ep"});
  // Without a pipeline a step is one micro-batch unless the row says more; one
  // that says nothing of pipelines may have any.
  if (!reader.has("ga") && (reader.getCount("pp", 1) > 1 || !reader.has("pp")))
    need({"mbs"});

  llvm::Error error = llvm::Error::success();
  if (row.missing.empty())
    readMachine(reader, row, error);
  if (error)
    return error;
  llvm::consumeError(std::move(error));
  if (row.missing.empty()) {
    row.work.seqLen = seqLen;
    row.work.globalBatch = globalBatch;
    std::string precision = reader.getText("precision");
    std::optional<DType> type = getProductType(precision);
    if (!type)
      row.missing = "precision \"" + precision + "\"";
    row.work.dtype = type.value_or(DType::BF16);
    readModel(reader, row);
    readLayout(reader, row);
    if (row.layout.pp > row.model.getNumBlocks())
      reader.fail("layers", "expects at least one layer for each stage (pp)");
    if (reader.message.empty() && row.missing.empty()) {
      std::string broken =
          checkRun(row.model, row.machine, row.work, row.layout);
      if (!broken.empty())
        reader.fail("layout: " + broken);
    }
    if (row.missing.empty() &&
        row.machine.device.getMatrix(row.work.dtype).peak == 0)
      row.missing = "device rate in " + getName(row.work.dtype).str();
    llvm::Expected<Profile> profile = findProfile(object);
    if (!profile)
      return profile.takeError();
    row.profile = *profile;
    std::string said = reader.getText("software") + "\n" +
                       reader.getText("framework") + "\n" + notes;
    row.profile.attention =
        chooseAttentionOfRun(reader, said, row.profile, row.machine.device);
    if (!keepsLogits(said))
      row.profile.logitBytes = 0;
  }
  row.group =
      llvm::formatv("{0}|{1}|{2}|{3}|{4}|{5}|{6}", row.source, row.model.name,
                    reader.getText("gpu"), reader.getCount("num_gpus", 1),
                    row.work.globalBatch, row.work.seqLen,
                    reader.getText("precision"))
          .str();
  if (row.model.name.empty())
    row.group +=
        llvm::formatv(
            "|{0}|{1}|{2}", row.model.hidden, row.model.getNumBlocks(),
            row.model.blocks.empty() ? 0 : row.model.blocks[0].block.heads)
            .str();
  if (reader.has("step_time_s"))
    row.stepSeconds = reader.getNumber("step_time_s");
  else if (reader.has("tokens_per_s_per_gpu"))
    row.stepSeconds = double(row.work.globalBatch) * row.work.seqLen /
                      double(row.machine.devices) /
                      reader.getNumber("tokens_per_s_per_gpu");
  if (reader.has("peak_mem_gb"))
    row.memoryBytes = reader.getNumber("peak_mem_gb") *
                      (says(notes, "GiB") ? double(1 << 30) : 1e9);
  if (reader.has("oom"))
    row.fits = !reader.getFlag("oom", false);
  if (!reader.message.empty())
    return llvm::createStringError(reader.message);
  return row;
}
