//===- Space.cpp - Which layouts there are --------------------------------===//
#include "Space.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <numeric>

using namespace cleave;

/// More chunks of a device mostly add sends to what is left of the bubble, so
/// beyond these the space has only what cuts the blocks evenly.
static constexpr int64_t mostUnevenChunks = 8;

/// Divisors of n, ascending.
static std::vector<int64_t> getDivisors(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t i = 1; i * i <= n; ++i)
    if (n % i == 0) {
      low.push_back(i);
      if (i != n / i)
        high.push_back(n / i);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// Key-value heads are cut, or each is copied to ranks of the same number.
static bool cutsHeads(const Block &block, int64_t ranks) {
  return block.heads % ranks == 0 &&
         (block.latentRank > 0 || block.kvHeads % ranks == 0 ||
          ranks % block.kvHeads == 0);
}

/// Says why not, if somebody asks; most of what is tried is illegal.
static bool refuse(std::string *why, const llvm::formatv_object_base &message) {
  if (why)
    *why = message.str();
  return false;
}

static bool checkTensor(const Architecture &model, int64_t tp,
                        std::string *why) {
  for (const auto &[block, count] : model.blocks) {
    if (!cutsHeads(block, tp))
      return refuse(
          why, llvm::formatv("tp {0} does not divide {1} with {2} of keys", tp,
                             formatNumber(block.heads, "head"), block.kvHeads));
    for (int64_t width : {block.ffn, block.sharedFfn})
      if (width % tp != 0)
        return refuse(
            why, llvm::formatv("tp {0} does not divide the MLP's width {1}", tp,
                               width));
  }
  return true;
}

/// Only published runs have tp groups that leave their node.
static bool checkNode(const Machine &machine, int64_t tp, std::string *why) {
  return machine.getDevicesPerNode() % tp == 0 ||
         refuse(why, llvm::formatv(
                         "tp {0} does not divide the {1} of a node", tp,
                         formatNumber(machine.getDevicesPerNode(), "device")));
}

static bool checkContext(const Architecture &model, int64_t seqLen, int64_t tp,
                         int64_t cp, ContextKind kind, std::string *why) {
  if (cp == 1)
    return kind == ContextKind::AllGather ||
           refuse(why, llvm::formatv("without cp there is no kind of it"));
  // Each rank has a piece from the front and one from the back, so that the
  // causal mask leaves all of them the same work.
  if (seqLen % (2 * cp) != 0)
    return refuse(why, llvm::formatv("cp {0} does not cut {1} into 2 cp pieces",
                                     cp, formatNumber(seqLen, "token")));
  if (kind == ContextKind::Ulysses)
    for (const auto &[block, count] : model.blocks)
      if (!cutsHeads(block, tp * cp))
        return refuse(why,
                      llvm::formatv("ulysses: tp x cp = {0} does not "
                                    "divide {1} with {2} of keys",
                                    tp * cp, formatNumber(block.heads, "head"),
                                    block.kvHeads));
  return true;
}

static bool checkExperts(const Architecture &model, int64_t tp, int64_t ranks,
                         int64_t ep, int64_t expertTp, std::string *why) {
  bool sparse = false;
  for (const auto &[block, count] : model.blocks)
    if (block.isSparse()) {
      sparse = true;
      if (block.experts % ep != 0)
        return refuse(why,
                      llvm::formatv("ep {0} does not divide {1}", ep,
                                    formatNumber(block.experts, "expert")));
      if (block.expertFfn % expertTp != 0)
        return refuse(why,
                      llvm::formatv("expert-tp {0} does not divide an expert's "
                                    "width {1}",
                                    expertTp, block.expertFfn));
    }
  if (!sparse && (ep > 1 || expertTp > 1))
    return refuse(why, llvm::formatv("the model has no experts"));
  if (expertTp != 1 && expertTp != tp)
    return refuse(why, llvm::formatv("expert-tp {0} is neither 1 nor tp {1}",
                                     expertTp, tp));
  if (ranks % (ep * expertTp) != 0)
    return refuse(
        why, llvm::formatv("ep x expert-tp = {0} does not divide the {1} of tp "
                           "x cp x dp",
                           ep * expertTp, formatNumber(ranks, "rank")));
  return true;
}

static bool checkSchedule(const TrainLayout &layout, int64_t blocks,
                          int64_t microBatches, std::string *why,
                          int64_t empty = 0) {
  int64_t chunks = layout.virtualStages;
  if (layout.pp == 1)
    return (layout.schedule == Schedule::OneFOneB && chunks == 1) ||
           refuse(why, llvm::formatv("one stage needs no schedule"));
  bool chunked =
      layout.schedule == Schedule::Interleaved || isVShaped(layout.schedule);
  if (isVShaped(layout.schedule) && chunks != 2)
    return refuse(why, llvm::formatv("{0} has 2 virtual stages, not {1}",
                                     getName(layout.schedule), chunks));
  if (chunked != (chunks > 1))
    return refuse(why, llvm::formatv("{0} does not have {1}",
                                     getName(layout.schedule),
                                     formatNumber(chunks, "virtual stage")));
  if (layout.pp * chunks > blocks + empty)
    return refuse(why, llvm::formatv("{0} stages of {1} are more than {2}",
                                     layout.pp, formatNumber(chunks, "chunk"),
                                     formatNumber(blocks, "block")));
  if (layout.schedule == Schedule::Interleaved && microBatches % layout.pp)
    return refuse(
        why, llvm::formatv("interleaved: pp {0} does not divide {1}", layout.pp,
                           formatNumber(microBatches, "micro-batch")));
  return true;
}

/// Blocks of the ends, and how many recompute.
static bool checkStages(const TrainLayout &layout, int64_t blocks,
                        std::string *why) {
  int64_t all = layout.pp * layout.virtualStages;
  int64_t first = layout.firstBlocks, last = layout.lastBlocks;
  if ((first == TrainLayout::even) != (last == TrainLayout::even))
    return refuse(why, llvm::formatv("first-blocks and last-blocks are both "
                                     "even or both numbers"));
  if (first != TrainLayout::even) {
    int64_t inner = blocks - first - last;
    if (all == 1)
      return refuse(why, llvm::formatv("one stage has all blocks"));
    if (all == 2 ? inner != 0 : inner < all - 2)
      return refuse(
          why, llvm::formatv("first-blocks {0} and last-blocks {1} leave "
                             "{2} of {3} for {4}",
                             first, last, inner, formatNumber(blocks, "block"),
                             formatNumber(all - 2, "virtual stage")));
  }
  if (layout.recompute == Recompute::None)
    return layout.recomputeBlocks == 0 ||
           refuse(why, llvm::formatv("recompute-blocks {0}: nothing recomputes",
                                     layout.recomputeBlocks));
  int64_t most = layout.getMostBlocks(blocks);
  return layout.recomputeBlocks < std::max<int64_t>(most, 1) ||
         refuse(why, llvm::formatv("recompute-blocks {0}: a virtual stage has "
                                   "{1}; 0 recomputes all",
                                   layout.recomputeBlocks,
                                   formatNumber(most, "block")));
}

static bool checkZero(const TrainLayout &layout, std::string *why) {
  int64_t ranks = layout.dp * layout.cp;
  if (ranks == 1 && layout.zero > 0)
    return refuse(why, llvm::formatv("zero needs dp or cp"));
  if (layout.zeroGroup == 0)
    return true;
  if (layout.zero == 0)
    return refuse(why, llvm::formatv("a shard group needs zero 1 or more"));
  if (layout.zeroGroup < 2 || layout.zeroGroup >= ranks ||
      ranks % layout.zeroGroup != 0)
    return refuse(why,
                  llvm::formatv("shard-group {0} does not cut dp x cp = {1}",
                                layout.zeroGroup, ranks));
  return true;
}

static bool checkDevices(const TrainLayout &layout, const Machine &machine,
                         std::string *why) {
  double devices = double(layout.tp) * double(layout.cp) * double(layout.dp) *
                   double(layout.pp);
  return devices == double(machine.devices) ||
         refuse(why,
                llvm::formatv(
                    "tp {0} x cp {1} x dp {2} x pp {3} = {4}, there are {5}",
                    layout.tp, layout.cp, layout.dp, layout.pp,
                    llvm::format("%.0f", devices),
                    formatNumber(machine.devices, "device")));
}

/// The rules that a published run keeps as well, but for virtual stages without
/// a block.
static bool checkCuts(const Architecture &model, const Workload &work,
                      const TrainLayout &layout, std::string *why,
                      int64_t emptyStages = 0) {
  int64_t blocks = model.getNumBlocks(), ranks = layout.dp * layout.microBatch;
  if (layout.pp > blocks)
    return refuse(why, llvm::formatv("pp {0} is more than {1}", layout.pp,
                                     formatNumber(blocks, "block")));
  if (!checkTensor(model, layout.tp, why) ||
      !checkContext(model, work.seqLen, layout.tp, layout.cp,
                    layout.contextKind, why))
    return false;
  if (layout.sequenceParallel &&
      (layout.tp == 1 || work.seqLen / layout.cp % layout.tp != 0))
    return refuse(
        why, llvm::formatv(
                 "sequence-parallel: tp {0} does not cut the {1} of a rank",
                 layout.tp, formatNumber(work.seqLen / layout.cp, "token")));
  if (work.globalBatch % ranks != 0)
    return refuse(why, llvm::formatv("dp x micro-batch = {0} does not divide "
                                     "the global batch {1}",
                                     ranks, work.globalBatch));
  return checkExperts(model, layout.tp, layout.tp * layout.cp * layout.dp,
                      layout.ep, layout.expertTp, why) &&
         checkSchedule(layout, blocks, work.globalBatch / ranks, why,
                       emptyStages) &&
         checkStages(layout, blocks, why) && checkZero(layout, why);
}

std::string cleave::checkRun(const Architecture &model, const Machine &machine,
                             const Workload &work, const TrainLayout &layout) {
  std::string why;
  // One rank has nothing to split, though its stack may say that it does.
  TrainLayout split = layout;
  if (layout.dp * layout.cp == 1 || layout.zeroGroup == 1)
    split.zero = split.zeroGroup = 0;
  if (checkDevices(layout, machine, &why))
    checkCuts(model, work, split, &why, mostEmptyStages);
  return why;
}

/// Whether a degree is legal whatever the others are.
static bool checkDegree(const Architecture &model, const Machine &machine,
                        const Workload &work, llvm::StringRef field,
                        int64_t degree, std::string *why) {
  if (machine.devices % degree != 0)
    return refuse(why, llvm::formatv("{0} {1} does not divide the {2}", field,
                                     degree,
                                     formatNumber(machine.devices, "device")));
  if (field == "tp")
    return checkNode(machine, degree, why) && checkTensor(model, degree, why);
  if (field == "cp")
    return degree == 1 ||
           checkContext(model, work.seqLen, 1, degree, ContextKind::Ring, why);
  if (field == "pp")
    return degree <= model.getNumBlocks() ||
           refuse(why,
                  llvm::formatv("pp {0} is more than {1}", degree,
                                formatNumber(model.getNumBlocks(), "block")));
  assert(field == "dp" && "a degree that devices are cut by");
  return work.globalBatch % degree == 0 ||
         refuse(why,
                llvm::formatv("dp {0} does not divide the global batch {1}",
                              degree, work.globalBatch));
}

static bool checkDegrees(const Architecture &model, const Machine &machine,
                         const Workload &work, const TrainLayout &layout,
                         std::string *why) {
  for (llvm::StringRef field : {"tp", "cp", "pp", "dp"}) {
    if (checkDegree(model, machine, work, field, getField(layout, field), why))
      continue;
    std::vector<int64_t> legal = getDivisors(machine.devices);
    llvm::erase_if(legal, [&](int64_t degree) {
      return !checkDegree(model, machine, work, field, degree, nullptr);
    });
    *why += "; legal degrees are " + formatNumbers(legal);
    return false;
  }
  int64_t samples = work.globalBatch / layout.dp;
  return samples % layout.microBatch == 0 ||
         refuse(why, llvm::formatv(
                         "micro-batch {0} does not divide the {1} that a "
                         "rank has of the global batch; legal are {2}",
                         layout.microBatch, formatNumber(samples, "sample"),
                         formatNumbers(getDivisors(samples))));
}

std::string cleave::checkLayout(const Architecture &model,
                                const Machine &machine, const Workload &work,
                                const TrainLayout &layout) {
  std::string why;
  if (checkDegrees(model, machine, work, layout, &why) &&
      checkDevices(layout, machine, &why))
    checkCuts(model, work, layout, &why);
  return why;
}

//===----------------------------------------------------------------------===//
// What software can run
//===----------------------------------------------------------------------===//

static bool isAbleZero(const Abilities &able, const TrainLayout &layout) {
  return Abilities::has(able.zeros, layout.zero) &&
         (layout.pp == 1 ||
          Abilities::has(able.zerosWithPipeline, layout.zero));
}

/// The names of a set's values, "no" without any.
template <typename NameOf>
static std::string joinSet(unsigned set, int count, NameOf nameOf) {
  std::vector<std::string> names;
  for (int i = 0; i != count; ++i)
    if (Abilities::has(set, i))
      names.push_back(nameOf(i));
  return names.empty() ? "none" : llvm::join(names, ", ");
}

static std::string getSchedules(const Abilities &able) {
  return joinSet(able.schedules, numSchedules,
                 [](int i) { return getName(Schedule(i)).str(); });
}

static std::string getContexts(const Abilities &able) {
  return joinSet(able.contexts, numContextKinds,
                 [](int i) { return getName(ContextKind(i)).str(); });
}

static std::string getZeros(unsigned set) {
  return joinSet(set, 4, [](int i) { return std::to_string(i); });
}

std::string cleave::getAbilities(const Profile &profile) {
  const Abilities &able = profile.abilities;
  if (able == Abilities())
    return "";
  std::string text = "schedules " + getSchedules(able) + "; cp " +
                     getContexts(able) + "; zero " + getZeros(able.zeros);
  if (able.zerosWithPipeline != able.zeros)
    text += ", with pipelines " + getZeros(able.zerosWithPipeline);
  if (!able.tensor)
    text += "; no tp";
  else if (!able.sequenceParallel)
    text += "; no sp";
  return text;
}

std::string cleave::checkAbilities(const Profile &profile,
                                   const TrainLayout &layout) {
  const Abilities &able = profile.abilities;
  auto lacks = [&](const llvm::Twine &what, const llvm::Twine &has) {
    return ("profile " + profile.name + " has no " + what + ", but " + has)
        .str();
  };
  if (layout.tp > 1 && !able.tensor)
    return lacks("tp", "1");
  if (layout.cp > 1 && !Abilities::has(able.contexts, int(layout.contextKind)))
    return lacks("cp by " + getName(layout.contextKind), getContexts(able));
  if (layout.pp > 1 && !Abilities::has(able.schedules, int(layout.schedule)))
    return lacks("schedule " + getName(layout.schedule), getSchedules(able));
  if (!isAbleZero(able, layout))
    return lacks("zero " + llvm::Twine(layout.zero) +
                     (layout.pp > 1 ? " with a pipeline" : ""),
                 getZeros(layout.pp > 1 ? able.zeros & able.zerosWithPipeline
                                        : able.zeros));
  if (layout.sequenceParallel && !able.sequenceParallel)
    return lacks("sequence-parallel", "sequence-parallel=false");
  return "";
}

Space::Space(const Architecture &model, const Machine &machine,
             const SearchRequest &request)
    : model(model), machine(machine), request(request),
      able(request.profile.abilities) {
  // The head is worth so many blocks.
  double least = std::numeric_limits<double>::infinity();
  for (const auto &[block, count] : model.blocks) {
    if (block.isSparse())
      expertDivisors = getDivisors(block.experts);
    double met = block.getAttentionParameters(model.hidden) +
                 block.getDenseParameters(model.hidden);
    if (block.isSparse())
      met += block.getExpertParameters(model.hidden) *
             double(block.expertsPerToken) / double(block.experts);
    least = std::min(least, met);
  }
  mostFewer = int64_t(std::ceil(double(model.vocab) *
                                double(model.getEmbeddingWidth()) / least));

  TrainLayout layout;
  for (int i = 0; i != numAxisOrders; ++i) {
    layout.order = AxisOrder(i);
    allowedOrders[size_t(i)] = allows(layout, {"order"});
  }
  // Modules that are pinned are repeated, whatever is usual.
  std::vector<Way> all = {
      {Recompute::None, recomputeAttention},
      {Recompute::Selective, recomputeAttention},
      {Recompute::Selective, recomputePointwise},
      {Recompute::Selective, recomputeAttention | recomputePointwise},
      {Recompute::Full, recomputeAttention}};
  bool pinsModules = false;
  for (const Constraint &constraint : request.constraints)
    if (constraint.field == "recompute-modules" && constraint.isPin()) {
      pinsModules = true;
      all.insert(all.end() - 1,
                 {Recompute::Selective, unsigned(constraint.value)});
    }
  // A fused kernel keeps nothing of attention that could be dropped.
  auto kernel = machine.device.attention.find(request.profile.attention);
  bool isFused =
      kernel != machine.device.attention.end() && kernel->second.kept == 0;
  for (const Way &way : all) {
    layout.recompute = way.recompute;
    layout.recomputedModules = way.modules;
    bool isSelective = way.recompute == Recompute::Selective;
    if (isSelective && isFused && !pinsModules &&
        (way.modules & recomputeAttention))
      continue;
    // Only what selects has modules.
    if (!allows(layout, {"recompute"}) || (pinsModules && !isSelective) ||
        (isSelective && !allows(layout, {"recompute-modules"})) ||
        llvm::is_contained(ways, way))
      continue;
    ways.push_back(way);
  }
}

TrainLayout Space::combine(const TrainLayout &pipeline, const TrainLayout &zero,
                           const Way &way, int64_t count) {
  TrainLayout layout = pipeline;
  layout.zero = zero.zero;
  layout.zeroGroup = zero.zeroGroup;
  layout.recompute = way.recompute;
  layout.recomputedModules = way.modules;
  layout.recomputeBlocks = count;
  return layout;
}

bool Space::allows(const TrainLayout &layout,
                   std::initializer_list<llvm::StringRef> fields) const {
  for (const Constraint &constraint : request.constraints)
    for (llvm::StringRef field : fields)
      if (constraint.field == field &&
          !constraint.allows(getField(layout, field)))
        return false;
  return true;
}

void Space::visit(llvm::function_ref<void(const TrainLayout &)> visit) const {
  const Workload &work = request.work;
  int64_t blocks = model.getNumBlocks();
  TrainLayout layout;
  for (int64_t tp :
       getDivisors(std::gcd(machine.devices, machine.getDevicesPerNode()))) {
    layout = TrainLayout();
    layout.tp = tp;
    if (!allows(layout, {"tp"}) || (tp > 1 && !able.tensor) ||
        !checkNode(machine, tp, nullptr) || !checkTensor(model, tp, nullptr))
      continue;
    for (int64_t cp : getDivisors(machine.devices / tp)) {
      for (ContextKind kind :
           {ContextKind::AllGather, ContextKind::Ring, ContextKind::Ulysses}) {
        layout.cp = cp;
        layout.contextKind = kind;
        if ((cp > 1 && !Abilities::has(able.contexts, int(kind))) ||
            !checkContext(model, work.seqLen, tp, cp, kind, nullptr) ||
            !allows(layout, {"cp", "cp-kind"}))
          continue;
        for (int64_t pp : getDivisors(machine.devices / tp / cp)) {
          layout.pp = pp;
          layout.dp = machine.devices / tp / cp / pp;
          if (pp > blocks || (pp > 1 && !hasPipelines()) ||
              work.globalBatch % layout.dp != 0 ||
              !allows(layout, {"pp", "dp"}))
            continue;
          for (int64_t microBatch : getDivisors(work.globalBatch / layout.dp)) {
            layout.microBatch = microBatch;
            if (!allows(layout, {"micro-batch"}))
              continue;
            for (bool sp : {false, true}) {
              layout.sequenceParallel = sp;
              if ((sp && (!able.sequenceParallel || tp == 1 ||
                          work.seqLen / cp % tp != 0)) ||
                  !allows(layout, {"sequence-parallel"}) ||
                  (request.runs && !request.runs(layout)))
                continue;
              visitExperts(layout, visit);
            }
          }
        }
      }
    }
  }
}

void Space::visitExperts(
    TrainLayout &layout,
    llvm::function_ref<void(const TrainLayout &)> visit) const {
  std::vector<AxisOrder> heads;
  for (int64_t expertTp : {int64_t(1), layout.tp}) {
    layout.expertTp = expertTp;
    for (int64_t ep : expertDivisors) {
      layout.ep = ep;
      if (checkExperts(model, layout.tp, layout.tp * layout.cp * layout.dp, ep,
                       expertTp, nullptr) &&
          allows(layout, {"ep", "expert-tp"})) {
        getHeads(heads, layout);
        if (heads.empty())
          continue;
        layout.order = heads.front();
        visit(layout);
      }
    }
    if (layout.tp == 1)
      break;
  }
  layout.ep = layout.expertTp = 1;
}

/// The axes of an order that have more than one device, as digits.
static int getSignature(const TrainLayout &layout, AxisOrder order) {
  static constexpr const char *axes[] = {"cdp", "cpd", "dcp",
                                         "dpc", "pcd", "pdc"};
  int signature = 0;
  for (const char *axis = axes[size_t(order)]; *axis; ++axis) {
    int64_t size = *axis == 'c'   ? layout.cp
                   : *axis == 'd' ? layout.dp
                                  : layout.pp;
    if (size > 1)
      signature = signature * 128 + *axis;
  }
  return signature;
}

llvm::SmallVector<AxisOrder, numAxisOrders>
Space::getDifferentOrders(const TrainLayout &layout) const {
  llvm::SmallVector<AxisOrder, numAxisOrders> orders;
  llvm::SmallVector<int, numAxisOrders> seen;
  for (int i = 0; i != numAxisOrders; ++i) {
    int signature = getSignature(layout, AxisOrder(i));
    if (llvm::is_contained(seen, signature) || !allowedOrders[size_t(i)])
      continue;
    seen.push_back(signature);
    orders.push_back(AxisOrder(i));
  }
  return orders;
}

/// The groups that blocks' costs depend on.
static std::pair<Group, Group> getGroups(const TrainLayout &layout) {
  return {layout.getContextGroup(),
          layout.getRankGroup(layout.ep, layout.expertTp)};
}

void Space::getHeads(std::vector<AxisOrder> &heads,
                     const TrainLayout &branch) const {
  heads.clear();
  llvm::SmallVector<std::pair<Group, Group>, numAxisOrders> seen;
  TrainLayout layout = branch;
  for (AxisOrder order : getDifferentOrders(branch)) {
    layout.order = order;
    if (llvm::is_contained(seen, getGroups(layout)))
      continue;
    seen.push_back(getGroups(layout));
    heads.push_back(order);
  }
}

void Space::getOrders(std::vector<AxisOrder> &orders, const TrainLayout &branch,
                      bool all) const {
  orders.clear();
  TrainLayout layout = branch;
  for (AxisOrder order : getDifferentOrders(branch)) {
    layout.order = order;
    if (all || getGroups(layout) == getGroups(branch))
      orders.push_back(order);
  }
}

void Space::getCounts(std::vector<int64_t> &counts, int64_t blocks) const {
  counts.clear();
  TrainLayout layout;
  for (int64_t count = 1; count <= std::max<int64_t>(blocks, 1); ++count) {
    layout.recomputeBlocks = count < blocks ? count : 0;
    if (allows(layout, {"recompute-blocks"}))
      counts.push_back(layout.recomputeBlocks);
  }
}

void Space::getPipelines(std::vector<TrainLayout> &options,
                         const TrainLayout &branch) const {
  options.clear();
  int64_t blocks = model.getNumBlocks();
  int64_t microBatches =
      request.work.globalBatch / (branch.dp * branch.microBatch);
  TrainLayout layout = branch;
  for (Schedule schedule :
       {Schedule::OneFOneB, Schedule::EagerOneFOneB, Schedule::GPipe,
        Schedule::Interleaved, Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2,
        Schedule::ZeroBubbleV, Schedule::DualPipeV})
    for (int64_t chunks = 1; chunks * layout.pp <= blocks; ++chunks) {
      if ((chunks > mostUnevenChunks && blocks % (layout.pp * chunks) != 0) ||
          (layout.pp > 1 && !Abilities::has(able.schedules, int(schedule))))
        continue;
      layout.schedule = schedule;
      layout.virtualStages = chunks;
      if (checkSchedule(layout, blocks, microBatches, nullptr) &&
          allows(layout, {"pipeline-schedule", "virtual-stages"}))
        addStages(options, layout);
    }
}

/// The stages as even as they can be, and with fewer blocks at the ends.
void Space::addStages(std::vector<TrainLayout> &options,
                      TrainLayout layout) const {
  auto add = [&](int64_t first, int64_t last) {
    layout.firstBlocks = first;
    layout.lastBlocks = last;
    if (checkStages(layout, model.getNumBlocks(), nullptr) &&
        allows(layout, {"first-blocks", "last-blocks"}))
      options.push_back(layout);
  };
  add(TrainLayout::even, TrainLayout::even);
  int64_t blocks = model.getNumBlocks();
  int64_t all = layout.pp * layout.virtualStages;
  if (all == 1)
    return;
  layout.firstBlocks = layout.lastBlocks = TrainLayout::even;
  int64_t first = layout.getNumBlocks(0, blocks);
  int64_t last = layout.getNumBlocks(all - 1, blocks);
  for (int64_t less = 0; less <= std::min(last, mostFewer); ++less) {
    if (all == 2 && less > 0)
      add(blocks - (last - less), last - less);
    for (int64_t ahead = 0; all > 2 && ahead <= std::min(first, mostFewer);
         ++ahead)
      if (less > 0 || ahead > 0)
        add(first - ahead, last - less);
  }
}

void Space::getZeros(std::vector<TrainLayout> &options,
                     const TrainLayout &branch) const {
  options.clear();
  TrainLayout layout = branch;
  int64_t ranks = branch.dp * branch.cp;
  std::vector<int64_t> groups = getDivisors(ranks);
  groups.front() = 0;
  if (groups.size() > 1)
    groups.pop_back();
  for (layout.zero = 0; layout.zero <= 3; ++layout.zero)
    for (int64_t group : groups) {
      if (!isAbleZero(able, layout))
        break;
      layout.zeroGroup = group;
      if (checkZero(layout, nullptr) && allows(layout, {"zero", "shard-group"}))
        options.push_back(layout);
    }
}

void cleave::enumerateLayouts(
    const Architecture &model, const Machine &machine,
    const SearchRequest &request,
    llvm::function_ref<void(const TrainLayout &)> visit) {
  Space space(model, machine, request);
  int64_t blocks = model.getNumBlocks();
  std::vector<TrainLayout> pipelines, zeros;
  std::vector<int64_t> counts;
  std::vector<AxisOrder> orders;
  space.visit([&](const TrainLayout &branch) {
    space.getPipelines(pipelines, branch);
    space.getZeros(zeros, branch);
    space.getOrders(orders, branch, /*all=*/true);
    for (TrainLayout &layout : pipelines)
      for (const TrainLayout &zero : zeros)
        for (const Way &way : space.getWays()) {
          space.getCounts(counts, way.recompute == Recompute::None
                                      ? 0
                                      : layout.getMostBlocks(blocks));
          for (int64_t count : counts)
            for (AxisOrder order : orders) {
              TrainLayout leaf = Space::combine(layout, zero, way, count);
              leaf.order = order;
              visit(leaf);
            }
        }
  });
}
