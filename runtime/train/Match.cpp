//===- Match.cpp - Which tensor of the weights is which source ------------===//
#include "runtime/base/Quote.h"
#include "runtime/train/Weights.h"
#include <algorithm>
#include <cstring>
#include <set>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// Prefixes that a bare model's weights lack.
constexpr std::string_view optionalPrefixes[] = {"transformer.", "model.",
                                                 "gpt_neox."};

/// Buffers that some published folders carry beside their weights.
bool isHarmless(std::string_view name) {
  for (std::string_view suffix :
       {".attn.bias", ".attn.masked_bias", ".attention.bias",
        ".attention.masked_bias", ".rotary_emb.inv_freq"})
    if (name.ends_with(suffix))
      return true;
  return false;
}

/// The entry under `name`, or without its optional prefix.
const HuggingFaceWeights::Entry *findByName(const HuggingFaceWeights &weights,
                                            const std::string &name) {
  if (const auto *entry = weights.find(name))
    return entry;
  for (std::string_view prefix : optionalPrefixes)
    if (name.starts_with(prefix))
      if (const auto *entry = weights.find(name.substr(prefix.size())))
        return entry;
  return nullptr;
}

bool haveEqualValues(const HuggingFaceWeights::Entry &a,
                     const HuggingFaceWeights::Entry &b) {
  if (a.tensor->shape != b.tensor->shape)
    return false;
  if (a.tensor->dtype == b.tensor->dtype)
    return std::memcmp(a.getData(), b.getData(),
                       a.tensor->end - a.tensor->begin) == 0;
  if (!isReadableAsFloat(b.tensor->dtype))
    return false;
  std::vector<float> left(4096), right(4096);
  for (uint64_t i = 0; i < a.tensor->elements; i += left.size()) {
    uint64_t count = std::min<uint64_t>(left.size(), a.tensor->elements - i);
    readAsFloat(a.getData(), a.tensor->dtype, i, 1, count, left.data());
    readAsFloat(b.getData(), b.tensor->dtype, i, 1, count, right.data());
    if (!std::equal(left.begin(), left.begin() + count, right.begin()))
      return false;
  }
  return true;
}

std::vector<std::string> getTiedNames(const fb::State &state) {
  std::vector<std::string> names;
  for (size_t i = 0; i < getSize(state.tied()); ++i)
    names.emplace_back(toView(state.tied()->Get(flatbuffers::uoffset_t(i))));
  return names;
}

class Matcher {
public:
  Matcher(const HuggingFaceWeights &weights, bool compareTied,
          WeightMatch &match)
      : weights(weights), compareTied(compareTied), match(match) {}

  Status add(const fb::State &state) {
    std::string source(toView(state.source()));
    if (!seen.insert(source).second)
      return {};
    std::vector<std::string> names = {source};
    for (std::string &name : getTiedNames(state))
      names.push_back(std::move(name));
    const HuggingFaceWeights::Entry *chosen = nullptr;
    for (const std::string &name : names) {
      const HuggingFaceWeights::Entry *entry = findByName(weights, name);
      if (!entry || entry == chosen)
        continue;
      used.insert(entry->tensor->name);
      if (!chosen) {
        chosen = entry;
        if (name != source)
          match.notes.push_back("tensor " + quote(source) +
                                " is read from its tied " + quote(name));
        continue;
      }
      if (compareTied && !haveEqualValues(*chosen, *entry))
        return fail(entry, "differs from " + quote(chosen->tensor->name) +
                               ", which the config ties to it");
      match.notes.push_back("tensor " + quote(entry->tensor->name) +
                            " is tied to " + quote(chosen->tensor->name) +
                            " and equal to it");
    }
    if (!chosen) {
      missing.push_back(source);
      return {};
    }
    const TensorInfo &tensor = *chosen->tensor;
    auto shape = toSpan(state.source_shape());
    if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(),
                    tensor.shape.end()))
      return fail(chosen, "has shape " + formatList(tensor.shape) +
                              "; the model expects " + formatList(shape));
    if (!isReadableAsFloat(tensor.dtype))
      return fail(chosen, "has dtype " + tensor.dtype +
                              ", which is not one of F32, BF16, F16, F64, "
                              "I32, I64");
    match.sources.emplace(source, *chosen);
    return {};
  }

  Status finish() {
    if (!missing.empty())
      return Status::error(weights.getPath() + ": tensor " +
                           quote(missing.front()) + " is missing" +
                           formatOthers(missing.size() - 1));
    std::vector<std::string> extra;
    for (const auto &[name, entry] : weights.getEntries()) {
      if (used.count(name))
        continue;
      if (isHarmless(name))
        match.notes.push_back("tensor " + quote(name) +
                              " holds no weights and is skipped");
      else
        extra.push_back(name);
    }
    if (!extra.empty())
      return fail(weights.find(extra.front()),
                  "is not one of the model's" + formatOthers(extra.size() - 1));
    return {};
  }

private:
  Status fail(const HuggingFaceWeights::Entry *entry,
              const std::string &how) const {
    return Status::error(entry->file->getPath() + ": tensor " +
                         quote(entry->tensor->name) + ": " + how);
  }
  static std::string formatOthers(size_t count) {
    return count == 0 ? "" : ", and " + std::to_string(count) + " more";
  }

  const HuggingFaceWeights &weights;
  bool compareTied;
  WeightMatch &match;
  std::set<std::string> seen, used;
  std::vector<std::string> missing;
};

} // namespace

Status cleave::runtime::matchWeights(const Program &program,
                                     const HuggingFaceWeights &weights,
                                     bool compareTied, WeightMatch &match) {
  WeightMatch result;
  Matcher matcher(weights, compareTied, result);
  for (const fb::State *state : program.getStates())
    if (isWeight(*state))
      CLEAVE_RETURN_IF_ERROR(matcher.add(*state));
  CLEAVE_RETURN_IF_ERROR(matcher.finish());
  match = std::move(result);
  return {};
}
