//===- Words.cpp - What the free text of a published run says -------------===//
#include "Words.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <utility>

using namespace cleave;

bool cleave::says(llvm::StringRef text, llvm::StringRef word) {
  return text.contains_insensitive(word);
}

int64_t cleave::getNumberAfter(llvm::StringRef text, llvm::StringRef word) {
  size_t at = text.find_insensitive(word);
  if (at == llvm::StringRef::npos)
    return 0;
  text = text.drop_front(at + word.size());
  text = text.drop_until([](char c) { return llvm::isDigit(c); });
  int64_t number = 0;
  text.take_while([](char c) { return llvm::isDigit(c); })
      .getAsInteger(10, number);
  return number;
}

/// Whether `text` has `word` as a whole: no digit before, none after.
static bool saysNumber(llvm::StringRef text, llvm::StringRef word) {
  for (size_t at = text.find(word); at != llvm::StringRef::npos;
       at = text.find(word, at + 1)) {
    size_t end = at + word.size();
    if ((at == 0 || !llvm::isDigit(text[at - 1])) &&
        (end == text.size() || !llvm::isDigit(text[end])))
      return true;
  }
  return false;
}

llvm::StringRef cleave::getPreset(llvm::StringRef gpu) {
  // A cap that is not stated cannot be priced, and cards in PCIe slots have
  // other clocks and links.
  if (says(gpu, "power limited") || says(gpu, "PCIe") || says(gpu, "NVL ") ||
      gpu.ends_with_insensitive("NVL"))
    return "";
  static constexpr std::pair<llvm::StringRef, llvm::StringRef> presets[] = {
      {"GB300", "gb300-nvl72"}, {"GB200", "gb200-nvl72"}, {"GH200", "gh200"},
      {"B300", "b300"},         {"B200", "b200"},         {"H200", "h200"},
      {"H20", "h20"},           {"H800", "h800"},         {"H100", "h100-sxm"},
      {"A800", "a800-80"},      {"A100", "a100-80"},      {"V100", "v100-32"},
      {"MI300X", "mi300x"},
  };
  for (auto [name, preset] : presets)
    if (says(gpu, name)) {
      if (preset == "h100-sxm" && says(gpu, "HBM2e"))
        return "h100-96-hbm2e";
      if (preset == "a100-80" && saysNumber(gpu, "40"))
        return "a100-40";
      return preset;
    }
  return "";
}

//===----------------------------------------------------------------------===//
// Networks
//===----------------------------------------------------------------------===//

/// A number as digits at the end of `text`, which is cut off; 0 if there is
/// none.
static double takeNumber(llvm::StringRef &text) {
  text = text.rtrim(" (");
  size_t start = text.size();
  while (start > 0 &&
         (llvm::isDigit(text[start - 1]) || text[start - 1] == '.'))
    --start;
  double number = 0;
  if (start == text.size() || text.drop_front(start).getAsDouble(number))
    return 0;
  text = text.take_front(start);
  return number;
}

/// A count of cards as the last word of `text`; 0 if it is none.
static double getCount(llvm::StringRef text) {
  text = text.rtrim();
  size_t space = text.find_last_of(" :;,(/");
  llvm::StringRef word =
      space == llvm::StringRef::npos ? text : text.drop_front(space + 1);
  int64_t digits = 0;
  if (!word.getAsInteger(10, digits))
    return digits > 0 && digits <= 32 ? double(digits) : 0;
  return llvm::StringSwitch<double>(word.lower())
      .Case("one", 1)
      .Case("two", 2)
      .Case("four", 4)
      .Case("eight", 8)
      .Case("ten", 10)
      .Case("sixteen", 16)
      .Default(0);
}

/// Position in `text` of the first of `names`, and what goes with it.
template <size_t N>
static std::pair<size_t, double>
findFirst(llvm::StringRef text,
          const std::pair<llvm::StringRef, double> (&names)[N]) {
  std::pair<size_t, double> first{llvm::StringRef::npos, 0};
  for (auto [name, value] : names)
    if (size_t at = text.find(name); at < first.first)
      first = {at, value};
  return first;
}

static constexpr llvm::StringRef cardNames[] = {
    "NIC", "HCA", "card", " link", "adapter", "rail", "port"};

/// The count of network cards before what they are called, up to two words of
/// which product it is between: "8 ConnectX-7 adapters"; 0 if there is none.
static double getCards(llvm::StringRef text) {
  for (llvm::StringRef name : cardNames) {
    size_t at = text.find_insensitive(name);
    if (at == llvm::StringRef::npos)
      continue;
    llvm::StringRef words = text.take_front(at).rtrim();
    for (int i = 0; i != 3 && !words.empty(); ++i) {
      if (double cards = getCount(words); cards > 1)
        return cards;
      size_t space = words.find_last_of(' ');
      words = space == llvm::StringRef::npos ? "" : words.take_front(space);
      if (llvm::StringRef(",;:").contains(words.take_back(1)))
        break;
    }
  }
  return 0;
}

double cleave::getNodeGigabits(llvm::StringRef text, int64_t devicesPerNode) {
  static constexpr std::pair<llvm::StringRef, double> units[] = {
      {"Gb/s", 1},    {"Gbps", 1},    {"Gbit/s", 1},   {"Gbits", 1},
      {"Tb/s", 1000}, {"Tbps", 1000}, {"Tbit/s", 1000}};
  // What one card of a generation has.
  static constexpr std::pair<llvm::StringRef, double> generations[] = {
      {"EDR", 100}, {"HDR", 200},       {"NDR", 400},
      {"XDR", 800}, {"Omni-Path", 100}, {"OmniPath", 100}};
  auto [unit, scale] = findFirst(text, units);
  auto [named, cardRate] = findFirst(text, generations);
  double rate = 0;
  llvm::StringRef before, after;
  if (unit != llvm::StringRef::npos) {
    before = text.take_front(unit);
    after = text.drop_front(unit).ltrim("GTbpsit/)");
    rate = takeNumber(before) * scale;
  } else if (named != llvm::StringRef::npos) {
    before = text.take_front(named);
    rate = cardRate;
  }
  if (rate == 0)
    return 0;
  before = before.rtrim();
  if (before.consume_back("x") || before.consume_back("×"))
    if (double cards = takeNumber(before))
      return rate * cards;
  after = after.ltrim();
  if (after.consume_front("x") || after.consume_front("×"))
    if (int64_t cards = 0;
        !after.ltrim().consumeInteger(10, cards) && cards > 0)
      return rate * double(cards);
  if (double cards = getCards(text))
    return rate * cards;
  bool ofCards = named != llvm::StringRef::npos;
  for (llvm::StringRef name : cardNames)
    ofCards |= says(text, name);
  if (ofCards)
    if (double cards = getCount(before))
      return rate * cards;
  bool ofCard = says(text, "per gpu") || says(text, "per NIC") ||
                says(text, "per card") || says(text, "per port") ||
                named != llvm::StringRef::npos;
  return ofCard && !says(text, "per node") ? rate * double(devicesPerNode)
                                           : rate;
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

std::optional<DType> cleave::getProductType(llvm::StringRef precision) {
  if (says(precision, "FP8"))
    return DType::FP8;
  if (says(precision, "FP4"))
    return DType::FP4;
  bool half = says(precision, "16") || says(precision, "mixed") ||
              says(precision, "amp");
  if (!half && (says(precision, "fp32") || says(precision, "float32") ||
                says(precision, "tf32")))
    return std::nullopt;
  return DType::BF16;
}

std::optional<int> cleave::getZeroStage(llvm::StringRef text) {
  // "ZeRO-3", "zero 3", "DeepSpeed stage3" are the same word.
  std::string word;
  for (char c : text)
    if (llvm::isAlnum(c) || c == '=' || c == '(')
      word += llvm::toLower(c);
  auto has = [&](llvm::StringRef name) {
    return llvm::StringRef(word).contains(name);
  };
  if (has("fsdp=0"))
    return 1; // Megatron-Core's recipes shard the optimizer all the same
  if (has("noshard"))
    return 0;
  if (has("shardgradop") || has("zero2") || has("stage2"))
    return 2;
  if (has("zero1") || has("stage1") || has("distributedoptimizer"))
    return 1;
  if (has("fsdp") || has("fullshard") || has("fullysharded") || has("hsdp") ||
      has("hybridshard") || has("zero3") || has("stage3"))
    return 3;
  if (word.empty() || has("none") || has("ddp") || has("zero0") ||
      has("stage0") || word == "dp" || word == "no")
    return 0;
  return std::nullopt;
}

std::optional<unsigned> cleave::getMaxTextModules(llvm::StringRef text) {
  // Their names say what they keep: results of products, and of attention
  // ("context", "flash"). The last product's is in no gradient, so that the
  // compiler drops it.
  constexpr unsigned pointwise = recomputeNorms | recomputeActivation;
  return llvm::StringSwitch<std::optional<unsigned>>(
             text.split("maxtext").second.split(']').first.trim())
      .Cases({"minimal_flash", "minimal_with_context"}, pointwise)
      .Case("minimal", pointwise | recomputeAttention)
      .Case("save_dot_with_context_except_mlp", pointwise | recomputeUp)
      .Cases({"custom", "save_dot_except_mlp"},
             pointwise | recomputeAttention | recomputeUp)
      .Case("save_qkv_proj",
            pointwise | recomputeAttention | recomputeUp | recomputeOutput)
      .Default(std::nullopt);
}

std::optional<Schedule> cleave::getSchedule(llvm::StringRef text,
                                            bool virtualStages) {
  if (says(text, "ZB-1p") || says(text, "ZB-H1") || says(text, "ZBH1"))
    return Schedule::ZeroBubbleH1;
  if (says(text, "ZB-2p") || says(text, "ZB-H2") || says(text, "ZBH2"))
    return Schedule::ZeroBubbleH2;
  if (says(text, "ZB-V") || says(text, "ZBV"))
    return Schedule::ZeroBubbleV;
  if (says(text, "interleaved") && !says(text, "non-interleaved"))
    return Schedule::Interleaved;
  if (says(text, "GPipe") || says(text, "AFAB"))
    return Schedule::GPipe;
  if (text.trim().empty() || says(text, "1F1B") || says(text, "none") ||
      says(text, "non-interleaved") || says(text, "PipeDream"))
    return virtualStages ? Schedule::Interleaved : Schedule::OneFOneB;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

llvm::StringRef cleave::getAttentionKernel(llvm::StringRef text) {
  std::string word;
  for (char c : text)
    if (llvm::isAlnum(c))
      word += llvm::toLower(c);
  static constexpr std::pair<llvm::StringRef, llvm::StringRef> kernels[] = {
      {"noflashattention", "unfused"},  {"withoutflashattention", "unfused"},
      {"unfusedattention", "unfused"},  {"flashattention3", "flash3"},
      {"flashattnv3", "flash3"},        {"flashattention2", "flash2"},
      {"flashattentionv2", "flash2"},   {"flashattn2", "flash2"},
      {"flashattnv2", "flash2"},        {"flashattention1", "flash1"},
      {"cudnnattention", "cudnn"},      {"cudnnfusedattention", "cudnn"},
      {"cudnnflashattention", "cudnn"},
  };
  for (auto [name, kernel] : kernels)
    if (llvm::StringRef(word).contains(name))
      return kernel;
  return "";
}

bool cleave::wasAttentionKernel(llvm::StringRef kernel, llvm::StringRef date) {
  // Papers of the first three; cuDNN's on Hopper is as fast as here, and what
  // Transformer Engine takes, from NeMo 24.09 on: Llama3-8B in FP8 takes 12 %
  // less with 24.11 than with 24.07, sequences of 1 M tokens run at
  // FlashAttention 2's rate with 24.03.
  llvm::StringRef since = llvm::StringSwitch<llvm::StringRef>(kernel)
                              .Case("flash1", "2022-06")
                              .Case("flash2", "2023-07")
                              .Case("flash3", "2024-07")
                              .Case("cudnn", "2024-08")
                              .Default("");
  // A release has the last two digits of its year.
  std::string month = date.str();
  if (date.size() >= 5 && date[2] == '.')
    month = "20" + date.take_front(2).str() + "-" + date.substr(3, 2).str();
  if (month.size() == 4)
    month += "-12";
  return month.empty() || since <= month;
}
