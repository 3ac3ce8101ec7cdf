//===- Words.cpp - What the free text of a published run says -------------===//
#include "Words.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <algorithm>
#include <utility>

using namespace cleave;

bool cleave::says(llvm::StringRef text, llvm::StringRef word) {
  return text.contains_insensitive(word);
}

bool cleave::hasName(llvm::StringRef text, llvm::StringRef name) {
  for (size_t at = text.find_insensitive(name); at != llvm::StringRef::npos;
       at = text.find_insensitive(name, at + 1)) {
    llvm::StringRef after = text.drop_front(at + name.size());
    if (after.empty() || !llvm::isLower(after.front()) ||
        !llvm::isAlpha(name.back()))
      return true;
  }
  return false;
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

/// Whether an A100 is the one of 40 GB: its memory, or a cloud's machine.
static bool hasSmallMemory(llvm::StringRef gpu) {
  return saysNumber(gpu, "40") || says(gpu, "p4d.") ||
         says(gpu, "a2-highgpu") || says(gpu, "ND96asr");
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
      if (preset == "a100-80" && hasSmallMemory(gpu))
        return "a100-40";
      return preset;
    }
  return "";
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

std::optional<DType> cleave::getProductType(llvm::StringRef precision) {
  // Of two, that of products comes first: "NVFP4, attention in FP8".
  auto find = [&](llvm::StringRef name, llvm::StringRef other) {
    return std::min(precision.find_insensitive(name),
                    precision.find_insensitive(other));
  };
  size_t eight = find("FP8", "float8"), four = find("FP4", "float4");
  if (eight != four)
    return eight < four ? DType::FP8 : DType::FP4;
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
  if (has("offload") && !has("nooffload"))
    return std::nullopt; // waits for the host's memory, which is not priced
  if (has("fsdp=0"))
    return 1; // Megatron-Core's recipes shard the optimizer all the same
  if (has("noshard"))
    return 0;
  if (word.size() == 1 && word[0] >= '0' && word[0] <= '3')
    return word[0] - '0';
  if (has("shardgradop") || has("zero2") || has("stage2"))
    return 2;
  if (has("zero1") || has("stage1") || has("distributedoptimizer") ||
      has("distopt"))
    return 1;
  if (has("fsdp") || has("fullshard") || has("fullysharded") || has("hsdp") ||
      has("hybridshard") || has("zero3") || has("stage3"))
    return 3;
  if (word.empty() || has("none") || has("ddp") || has("zero0") ||
      has("stage0") || word == "dp" || word == "no")
    return 0;
  return std::nullopt;
}

int cleave::getUsualZeroStage(llvm::StringRef software) {
  // Megatron-Core's recipes shard the optimizer unless they shard more;
  // torchtitan's data_parallel_shard_degree is all ranks.
  for (llvm::StringRef name : {"Megatron-Bridge", "Megatron-Core", "NeMo"})
    if (hasName(software, name))
      return 1;
  return hasName(software, "torchtitan") ? 3 : 0;
}

bool cleave::interleavesUsually(llvm::StringRef software) {
  // virtual_pipeline_model_parallel_size of NeMo-Framework-Launcher's recipes
  // (175b.yaml: "interleaved pipeline, set to maximum"), and what all of its
  // performance tables state; Megatron-Bridge's leave it out where it is 1.
  return hasName(software, "NeMo") && !hasName(software, "Megatron-Bridge");
}

std::optional<Recompute> cleave::getRecompute(llvm::StringRef text) {
  text = text.trim();
  if (text.starts_with_insensitive("full"))
    return Recompute::Full;
  for (llvm::StringRef none : {"no", "off", "false", "without", "disabled"})
    if (text.starts_with_insensitive(none))
      return Recompute::None;
  if (text.empty())
    return Recompute::None;
  if (says(text, "selective") || says(text, "core_attn") ||
      says(text, "core attention"))
    return Recompute::Selective;
  for (llvm::StringRef full : {"full", "uniform", "checkpointing"})
    if (says(text, full))
      return Recompute::Full;
  if (text.equals_insensitive("true") || text.equals_insensitive("yes"))
    return Recompute::Full;
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
  if (says(text, "DualPipeV"))
    return Schedule::DualPipeV;
  if (says(text, "ZB-V") || says(text, "ZBV"))
    return Schedule::ZeroBubbleV;
  if (says(text, "eager 1F1B") || says(text, "1F1B-eager"))
    return Schedule::EagerOneFOneB;
  if (says(text, "interleav") && !says(text, "non-interleav"))
    return Schedule::Interleaved;
  if (says(text, "GPipe") || says(text, "AFAB"))
    return Schedule::GPipe;
  if (text.trim().empty() || says(text, "1F1B") || says(text, "none") ||
      says(text, "non-interleav") || says(text, "PipeDream"))
    return virtualStages ? Schedule::Interleaved : Schedule::OneFOneB;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Letters and digits of `text` in lower case: "Flash-Attention 2", "flash
/// attention2" are the same word.
static std::string squeeze(llvm::StringRef text) {
  std::string word;
  for (char c : text)
    if (llvm::isAlnum(c))
      word += llvm::toLower(c);
  return word;
}

/// Whether `word` stands in `text` with no letter or digit beside it.
static bool saysWord(llvm::StringRef text, llvm::StringRef word) {
  for (size_t at = text.find(word); at != llvm::StringRef::npos;
       at = text.find(word, at + 1)) {
    llvm::StringRef after = text.drop_front(at + word.size());
    if ((at == 0 || !llvm::isAlnum(text[at - 1])) &&
        (after.empty() || !llvm::isAlnum(after.front())))
      return true;
  }
  return false;
}

llvm::StringRef cleave::getAttentionKernel(llvm::StringRef text) {
  std::string word = squeeze(text);
  // FlashAttention 4 is Blackwell's, of the rate of cuDNN's there (Zadouri et
  // al. 2026).
  static constexpr std::pair<llvm::StringRef, llvm::StringRef> kernels[] = {
      {"flashattention4", "cudnn"},     {"flashattnv4", "cudnn"},
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
  static constexpr std::pair<llvm::StringRef, llvm::StringRef> shortNames[] = {
      {"FA4", "cudnn"}, {"FA3", "flash3"}, {"FA2", "flash2"}};
  for (auto [name, kernel] : shortNames)
    if (saysWord(text, name))
      return kernel;
  return "";
}

bool cleave::keepsLogits(llvm::StringRef text) {
  std::string word = squeeze(text);
  llvm::StringRef said = word;
  if (said.contains("noliger") || said.contains("withoutliger"))
    return true;
  for (llvm::StringRef name :
       {"chunkedloss", "losschunk", "chunkedcross", "chunkedlinear", "liger",
        "fusedlinearcross", "cutcross"})
    if (said.contains(name))
      return false;
  return true;
}

std::string cleave::getMonth(llvm::StringRef date) {
  // A release has the last two digits of its year.
  std::string month = date.str();
  if (date.size() >= 5 && date[2] == '.')
    month = "20" + date.take_front(2).str() + "-" + date.substr(3, 2).str();
  if (month.size() == 4)
    month += "-12";
  return month;
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
  std::string month = getMonth(date);
  return month.empty() || since <= month;
}
