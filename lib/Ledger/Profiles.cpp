//===- Profiles.cpp - What is known of the software of a run --------------===//
#include "Words.h"
#include "cleave/Catalog/Catalog.h"
#include "cleave/Json/Json.h"
#include "cleave/Json/Reader.h"
#include "cleave/Ledger/Ledger.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace cleave;
namespace json = llvm::json;

namespace cleave {
extern const Catalog profileCatalog;
}

/// A set of a field's values, each by its name, or by its number if `names` is
/// empty; all of them where there is no such key.
static unsigned readSet(JsonReader &reader, const json::Object &in,
                        llvm::StringRef key,
                        llvm::ArrayRef<llvm::StringRef> names, int count) {
  const json::Value *value = in.get(key);
  if (!value)
    return ~0u;
  std::string legal = names.empty()
                          ? llvm::formatv("integers in 0..{0}", count - 1).str()
                          : "names of " + llvm::join(names, ", ");
  const json::Array *array = value->getAsArray();
  if (!array) {
    reader.fail(key, "an array of " + legal, value);
    return ~0u;
  }
  unsigned set = 0;
  for (const json::Value &each : *array) {
    int64_t at = each.getAsInteger().value_or(-1);
    if (!names.empty())
      at = llvm::find(names, each.getAsString().value_or("")) - names.begin();
    if (at < 0 || at >= count)
      reader.fail(key, "an array of " + legal, value);
    else
      set |= 1u << at;
  }
  return set;
}

/// What the software can run; see docs/formats.md.
static Abilities readAbilities(JsonReader &reader, const json::Object &in) {
  std::vector<llvm::StringRef> schedules, contexts;
  for (int i = 0; i != numSchedules; ++i)
    schedules.push_back(getName(Schedule(i)));
  for (int i = 0; i != numContextKinds; ++i)
    contexts.push_back(getName(ContextKind(i)));
  constexpr int numZeros = 4;
  Abilities able;
  able.schedules =
      readSet(reader, in, "schedules", schedules, int(schedules.size()));
  able.contexts =
      readSet(reader, in, "context", contexts, int(contexts.size()));
  able.zeros = readSet(reader, in, "zero", {}, numZeros);
  if (able.zeros == 0)
    reader.fail("zero", "at least one stage", in.get("zero"));
  able.zerosWithPipeline =
      able.zeros & readSet(reader, in, "zero_with_pipeline", {}, numZeros);
  able.tensor = reader.getFlag(in, "tensor", "", true);
  able.sequenceParallel = reader.getFlag(in, "sequence_parallel", "", true);
  return able;
}

static llvm::Expected<Profile> readProfile(const json::Object &object,
                                           llvm::StringRef name,
                                           llvm::StringRef file) {
  Profile profile;
  profile.name = name.str();
  // PyTorch's allocator, where a file does not say more. Megatron-Bridge's
  // recomputation card: a run that needs 59 GB, and passes with expandable
  // segments, fails for want of memory on 80 GiB.
  profile.allocatorGaps = 0.05;
  profile.scatteredGaps = 0.28;
  struct Constant {
    llvm::StringRef key;
    double &value;
    double most;
  };
  const Constant constants[] = {
      {"matrix_rate", profile.matrixRate, 1},
      {"pointwise_traffic", profile.pointwiseTraffic, 100},
      {"data_overlap", profile.dataOverlap, 1},
      {"tensor_overlap", profile.tensorOverlap, 1},
      {"expert_overlap", profile.expertOverlap, 1},
      {"host_per_block", profile.hostPerBlock, 1},
      {"gradient_bytes", profile.gradientBytes, 8},
      {"vocab_multiple", profile.vocabMultiple, 1 << 20},
      {"logit_bytes", profile.logitBytes, 100},
      {"rank_skew", profile.rankSkew, 1},
      {"allocator_gaps", profile.allocatorGaps, 1},
      {"scattered_gaps", profile.scatteredGaps, 1}};
  const std::pair<llvm::StringRef, bool *> facts[] = {
      {"fused_projections", &profile.fusedProjections},
      {"sequence_first", &profile.sequenceFirst},
      {"gathers_again", &profile.gathersAgain},
      {"cuts_products", &profile.cutsProducts},
      {"prunes_repeats", &profile.prunesRepeats},
      {"sends_parts", &profile.sendsParts},
      {"post_validates", &profile.postValidates}};
  std::vector<llvm::StringRef> keys = {"why", "match", "attention"};
  for (const auto &[key, value] : facts)
    keys.push_back(key);
  for (llvm::StringRef key :
       {"block_buffers", "schedules", "context", "zero", "zero_with_pipeline",
        "tensor", "sequence_parallel"})
    keys.push_back(key);
  for (const Constant &constant : constants)
    keys.push_back(constant.key);
  JsonReader reader(file);
  reader.checkKeys(object, "", keys);
  reader.getString(object, "why", "");
  profile.attention = reader.getString(object, "attention", "");
  for (auto [key, value] : facts)
    *value = reader.getFlag(object, key, "", *value);
  for (const Constant &constant : constants)
    constant.value = reader.getNumber(object, constant.key, "", 0,
                                      constant.most, constant.value);
  // In an arena each tensor is exchanged where it lies.
  profile.blockBuffers =
      reader.getFlag(object, "block_buffers", "", !profile.hasArena());
  profile.abilities = readAbilities(reader, object);
  // An arena without gaps has none of either kind.
  if (profile.hasArena() && !object.get("scattered_gaps"))
    profile.scatteredGaps = 0;
  if (llvm::Error error = reader.takeError())
    return error;
  return profile;
}

/// Everything that a row says of its software, wherever it says it.
static std::string getSoftwareText(const json::Object &row) {
  std::string text;
  for (llvm::StringRef key :
       {"source", "source_ref", "software", "framework", "zero", "notes"})
    if (std::optional<llvm::StringRef> value = row.getString(key))
      text += value->str() + "\n";
  // Where a document lies says nothing of its software.
  for (size_t at = text.find("://"); at != std::string::npos;
       at = text.find("://", at + 1))
    text.erase(at, text.find_first_of("/\n", at + 3) - at);
  return text;
}

/// Whether each key of `match` is in the row with one of its texts; the key
/// "any" stands for all that says something of the software, "not" for none of
/// it, the text "" for a key that the row does not have.
static bool matches(const json::Object &match, const json::Object &row) {
  for (const auto &entry : match) {
    llvm::StringRef key = entry.first;
    bool wants = key != "not";
    std::string text = key == "any" || key == "not"
                           ? getSoftwareText(row)
                           : row.getString(key).value_or("").str();
    // A flag that is off says what the software is not.
    if (size_t off = text.find("FSDP=0"); off != std::string::npos)
      text.erase(off, 6);
    const json::Array *any = entry.second.getAsArray();
    if (!any || wants != llvm::any_of(*any, [&](const json::Value &each) {
                  llvm::StringRef wanted = *each.getAsString();
                  return wanted.empty() ? text.empty() : hasName(text, wanted);
                }))
      return false;
  }
  return true;
}

namespace {
struct ProfileFile {
  llvm::StringRef name;
  json::Object object;
};
} // namespace

/// The built-in files, read once; they are part of the program and parse.
static llvm::ArrayRef<ProfileFile> getProfileFiles() {
  static const std::vector<ProfileFile> files = [] {
    std::vector<ProfileFile> list;
    for (const CatalogFile &file : profileCatalog)
      list.push_back(
          {file.name, llvm::cantFail(parseJsonObject(file.text, file.name))});
    return list;
  }();
  return files;
}

/// How particular a match is: a key that names the software says more than
/// what it ran on and when, and one that is absent says nothing.
static int getWeight(const json::Object &match) {
  int weight = 1;
  for (const auto &[key, texts] : match) {
    bool names = llvm::is_contained(
        {"any", "source", "source_ref", "software", "framework", "notes"},
        llvm::StringRef(key));
    bool absent = llvm::all_of(*texts.getAsArray(), [](const auto &text) {
      return text.getAsString()->empty();
    });
    weight += absent || key == "not" ? 0 : names ? 4 : 1;
  }
  return weight;
}

/// The weight of the most particular of a profile's matches that the row fits;
/// 0 if none does.
static int getFit(const json::Object &profile, const json::Object &row) {
  int fit = 0;
  auto consider = [&](const json::Object &match) {
    if (matches(match, row))
      fit = std::max(fit, getWeight(match));
  };
  if (const json::Object *match = profile.getObject("match"))
    consider(*match);
  if (const json::Array *list = profile.getArray("match"))
    for (const json::Value &match : *list)
      consider(*match.getAsObject());
  return fit;
}

llvm::StringRef cleave::getOwnProfile(const Device &device) {
  return device.cores > 0 ? "cleave-cpu" : "cleave";
}

llvm::Expected<Profile> cleave::loadOwnProfile(const Device &device) {
  llvm::Expected<Profile> profile = loadProfile(getOwnProfile(device));
  if (profile)
    profile->attention = chooseAttention(*profile, device);
  return profile;
}

std::string
cleave::chooseAttention(const Profile &profile, const Device &device,
                        llvm::function_ref<bool(llvm::StringRef)> allows) {
  for (llvm::StringRef kernel :
       {llvm::StringRef(profile.attention), llvm::StringRef("cudnn"),
        llvm::StringRef("flash2"), llvm::StringRef("flash1"),
        llvm::StringRef("unfused")})
    if (device.attention.count(kernel.str()) && (!allows || allows(kernel)))
      return kernel.str();
  return device.attention.begin()->first;
}

llvm::Expected<Profile> cleave::findProfile(const json::Object &row) {
  // The most particular match; of equals the first.
  const ProfileFile *best = nullptr;
  int most = 0;
  for (const ProfileFile &file : getProfileFiles())
    if (int fit = getFit(file.object, row); fit > most) {
      best = &file;
      most = fit;
    }
  if (!best)
    return llvm::createStringError("no profile for rows that say nothing");
  return readProfile(best->object, best->name, best->name);
}

llvm::Expected<Profile> cleave::loadProfile(llvm::StringRef name) {
  if (name.ends_with(".json")) {
    llvm::Expected<json::Object> object = loadJsonObject(name);
    if (!object)
      return object.takeError();
    return readProfile(*object, llvm::sys::path::stem(name), name);
  }
  std::string names;
  for (const ProfileFile &file : getProfileFiles()) {
    if (file.name == name)
      return readProfile(file.object, file.name, file.name);
    names += (names.empty() ? "" : ", ") + file.name.str();
  }
  return llvm::createStringError(
      llvm::formatv("unknown profile \"{0}\", expects one of {1}, or the path "
                    "of a .json file",
                    name, names));
}
