//===- CalibrateCommand.cpp - cleave calibrate ----------------------------===//
#include "Calibrate.h"
#include "CommandLine.h"
#include "Files.h"
#include "Measure.h"
#include "runtime/base/Cpus.h"
#include "runtime/train/Peak.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <chrono>
#include <unistd.h>

using namespace cleave;
using tool::makeConstant;
namespace json = llvm::json;

namespace {
/// What a machine cannot say of itself.
struct Assumed {
  double watts = 0, pricePerHour = 0, mtbfHours = 50'000;
};
} // namespace

json::Object tool::makeConstant(double value, llvm::StringRef unit,
                                llvm::StringRef source) {
  return json::Object{
      {"value", value}, {"unit", unit}, {"source", source.str()}};
}

static constexpr llvm::StringLiteral measured = "measured by cleave calibrate";

static json::Object toJSON(const MatrixUnit &unit, llvm::StringRef peak) {
  return json::Object{
      {"peak", makeConstant(unit.peak, "FLOP/s", peak)},
      {"efficiency", makeConstant(unit.efficiency, "1", measured)},
      {"tile_startup", makeConstant(unit.tileStartup, "s", measured)},
      {"tile_slope", makeConstant(unit.tileSlope, "1", measured)},
      {"throttle", makeConstant(unit.throttle, "1", measured)},
      {"launch", makeConstant(unit.launch, "s", measured)},
      {"memory_efficiency",
       makeConstant(unit.memoryEfficiency, "1", measured)}};
}

static json::Object toJSON(const AttentionUnit &unit) {
  return json::Object{
      {"forward", makeConstant(unit.forward, "1", measured)},
      {"backward", makeConstant(unit.backward, "1", measured)},
      {"ramp", makeConstant(unit.ramp, "token", measured)},
      {"kept", makeConstant(unit.kept, "byte/pair",
                            "only a number for each row is kept")},
      {"narrow", makeConstant(unit.narrow, "1", measured)}};
}

static json::Object toJSON(const Link &link) {
  json::Object curves;
  for (size_t kind = 0; kind != numCollectiveKinds; ++kind) {
    const CollectiveCurve &curve = link.collectives[kind];
    json::Array rows;
    for (auto [ranks, rate] : curve.bandwidth)
      rows.push_back(json::Array{ranks, rate});
    curves[getName(CollectiveKind(kind))] = json::Object{
        {"startup", makeConstant(curve.startup, "s", measured)},
        {"startup_per_rank", makeConstant(curve.startupPerRank, "s", measured)},
        {"pipeline", makeConstant(0, "s", "one copy, in no pieces")},
        {"bandwidth", json::Object{{"value", std::move(rows)},
                                   {"unit", "byte/s by ranks"},
                                   {"source", measured}}}};
  }
  return json::Object{
      {"name", link.name},
      {"bandwidth", makeConstant(link.bandwidth, "byte/s", measured)},
      {"latency", makeConstant(link.latency, "s", measured)},
      {"collectives", std::move(curves)}};
}

static Link fitLink(llvm::StringRef name,
                    llvm::ArrayRef<CollectiveSample> samples) {
  Link link;
  link.name = name.str();
  for (size_t kind = 0; kind != numCollectiveKinds; ++kind)
    link.collectives[kind] = fitCollective(CollectiveKind(kind), samples);
  const CollectiveCurve &exchange = link.getCurve(CollectiveKind::AllToAll);
  link.bandwidth = exchange.bandwidth.front().second;
  link.latency = exchange.startup + exchange.startupPerRank;
  return link;
}

/// Collectives between as many ranks; what fails is the error.
static llvm::Expected<std::vector<CollectiveSample>>
measureRanks(llvm::ArrayRef<int> counts) {
  std::vector<CollectiveSample> samples;
  for (int ranks : counts)
    if (runtime::Status status = tool::measureCollectives(ranks, samples);
        !status.ok())
      return llvm::createStringError(status.message());
  return samples;
}

static double getMedian(std::vector<double> values) {
  llvm::sort(values);
  return values[values.size() / 2];
}

namespace {
/// Rounds of the same measurements, some seconds apart: what disturbs a machine
/// for a while is in few of them.
constexpr int numRounds = 3;

template <class Sample>
class Rounds {
public:
  void add(std::vector<Sample> samples) {
    rounds.push_back(std::move(samples));
  }

  /// Each sample with the median of its seconds.
  std::vector<Sample> getMedians() const {
    std::vector<Sample> medians = rounds.front();
    for (size_t i = 0; i != medians.size(); ++i) {
      std::vector<double> seconds;
      for (const std::vector<Sample> &round : rounds)
        seconds.push_back(round[i].seconds);
      medians[i].seconds = getMedian(std::move(seconds));
    }
    return medians;
  }

private:
  std::vector<std::vector<Sample>> rounds;
};

/// What kernels take on all cores.
struct KernelRounds {
  std::vector<double> streams; ///< byte/s
  Rounds<MatmulSample> products[2];
  Rounds<AttentionSample> attention;

  void measure(int cores) {
    streams.push_back(tool::measureStream(cores));
    products[0].add(tool::measureMatmuls(DType::F32, cores));
    products[1].add(tool::measureMatmuls(DType::BF16, cores));
    attention.add(tool::measureAttention(cores));
  }
};
} // namespace

void tool::CalibrateFlags::say(const llvm::Twine &line) const {
  if (!quiet)
    llvm::errs() << line << '\n';
}

static double getMemoryBytes() {
  return double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
}

/// cluster.json of this machine's CPU.
static llvm::Expected<json::Object>
calibrateCpu(const tool::CalibrateFlags &flags) {
  auto start = std::chrono::steady_clock::now();
  double foreign = tool::getForeignSeconds();
  int cores = runtime::getAvailableCpus();
  Device device;
  device.name = "local";
  device.cores = device.multiprocessors = cores;
  device.memory = getMemoryBytes();
  KernelRounds kernels;
  for (int round = 1; round <= numRounds; ++round) {
    flags.say(llvm::formatv("round       {0} of {1}", round, numRounds));
    kernels.measure(cores);
  }
  device.memoryBandwidth = getMedian(kernels.streams);
  flags.say(
      llvm::formatv("memory      {0:F1} GB/s", device.memoryBandwidth / 1e9));
  json::Object matrix;
  for (DType dtype : {DType::F32, DType::BF16}) {
    MatrixUnit &unit = device.matrix[size_t(dtype)];
    std::vector<MatmulSample> samples =
        kernels.products[dtype == DType::BF16].getMedians();
    double best = 0;
    for (const MatmulSample &each : samples)
      best = std::max(best, 2. * double(each.m) * double(each.n) *
                                double(each.k) / each.seconds);
    // A run counts its MFU against the same.
    double corePeak = runtime::measureCorePeakGflops(
        dtype == DType::BF16 ? program::DType::BF16 : program::DType::F32);
    unit.peak = std::max(double(cores) * corePeak * 1e9, best);
    fitMatmuls(device, dtype, samples);
    matrix[getName(dtype)] = toJSON(unit, "measured multiply-adds");
    flags.say(llvm::formatv("{0,-11} {1:F1} GFLOP/s of {2:F1}", getName(dtype),
                            unit.peak * unit.efficiency / 1e9,
                            unit.peak / 1e9));
  }
  AttentionUnit attention =
      fitAttention(device, kernels.attention.getMedians());
  flags.say(llvm::formatv(
      "attention   {0:F1} GFLOP/s forward, {1:F1} backward",
      attention.forward * device.getMatrix(DType::BF16).peak / 1e9,
      attention.backward * device.getMatrix(DType::BF16).peak / 1e9));

  // Ranks with cores of their own, and ranks that share them.
  std::vector<int> own, shared{2 * cores, 4 * cores};
  for (int ranks = 2; ranks < cores; ranks *= 2)
    own.push_back(ranks);
  own.push_back(std::max(cores, 2));
  llvm::Expected<std::vector<CollectiveSample>> ownSamples = measureRanks(own);
  if (!ownSamples)
    return ownSamples.takeError();
  llvm::Expected<std::vector<CollectiveSample>> sharedSamples =
      measureRanks(shared);
  if (!sharedSamples)
    return sharedSamples.takeError();
  Link link = fitLink("memory", *ownSamples);
  Link sharedLink = fitLink("memory of shared cores", *sharedSamples);
  for (const Link *each : {&link, &sharedLink}) {
    const CollectiveCurve &sum = each->getCurve(CollectiveKind::AllReduce);
    flags.say(llvm::formatv(
        "all-reduce  {0:F1} us and {1:F1} GB/s of {2} ranks",
        1e6 * (sum.startup + sum.startupPerRank),
        sum.bandwidth.front().second / 1e9, sum.bandwidth.front().first));
  }

  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  foreign = (tool::getForeignSeconds() - foreign) / taken.count() / cores;
  constexpr double noticed = 0.03;
  if (foreign > noticed)
    llvm::errs() << llvm::formatv(
        "cleave: note: other processes used {0:F0} % of the cores meanwhile; "
        "calibrate again when they do not\n",
        100 * foreign);

  Assumed assumed;
  const char *unknown = "not known; change it here";
  return json::Object{
      {"version", 1},
      {"name", "local"},
      {"device",
       json::Object{
           {"name", device.name},
           {"cores", makeConstant(cores, "1", "the operating system")},
           {"memory",
            makeConstant(device.memory, "byte", "the operating system")},
           {"memory_bandwidth",
            makeConstant(device.memoryBandwidth, "byte/s", measured)},
           {"memory_efficiency",
            makeConstant(1, "1", "the bandwidth is measured")},
           {"multiprocessors",
            makeConstant(cores, "1", "a core works on one tile")},
           {"matrix", std::move(matrix)},
           {"attention", json::Object{{"cleave", toJSON(attention)}}},
           {"power", makeConstant(assumed.watts, "W", unknown)},
           {"price", makeConstant(assumed.pricePerHour, "USD/h", unknown)},
           {"mtbf", makeConstant(assumed.mtbfHours, "h", unknown)}}},
      {"nodes", 1},
      {"devices_per_node", cores},
      {"levels",
       json::Array{json::Object{{"size", 0},
                                {"link", toJSON(link)},
                                {"shared_link", toJSON(sharedLink)}}}}};
}

static int runCalibrate(const tool::CalibrateFlags &flags) {
  bool isCpu = flags.cluster == "local";
  std::string output = flags.output;
  if (output.empty() && !isCpu)
    return tool::fail("--cluster " + flags.cluster +
                      ": say by --output where to write it");
  if (output.empty()) {
    llvm::Expected<std::string> path = getLocalPath();
    if (!path)
      return tool::fail(llvm::toString(path.takeError()) +
                        ": say by --output where to write it");
    output = *path;
    if (std::error_code error = llvm::sys::fs::create_directories(
            llvm::sys::path::parent_path(output)))
      return tool::fail(output + ": " + error.message());
  }
  if (llvm::Error error = tool::checkReplaceable(output))
    return tool::fail(std::move(error));
  llvm::Expected<json::Object> cluster =
      isCpu ? calibrateCpu(flags) : tool::calibrateGpu(flags);
  if (!cluster)
    return tool::fail(cluster.takeError());
  std::string text = llvm::formatv("{0:2}\n", json::Value(std::move(*cluster)));
  if (llvm::Error error = tool::writeFile(output, text))
    return tool::fail(std::move(error));
  if (output != "-")
    flags.say("wrote " + output + ", which --cluster " +
              (flags.output.empty() ? "local:N" : output) + " reads");
  return 0;
}

void tool::addCalibrateCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<tool::CalibrateFlags>();
  CLI::App *command = app.add_subcommand(
      "calibrate", "Measure this machine for --cluster: its CPU's products, "
                   "attention, memory and collectives, or a GPU's products and "
                   "memory; about a minute");
  command->add_option("-o,--output", flags->output,
                      "cluster.json to write (default: local.json in "
                      "$CLEAVE_CACHE, or else in $XDG_CACHE_HOME/cleave or "
                      "~/.cache/cleave)");
  command
      ->add_option("--cluster", flags->cluster,
                   "local: this machine's CPU; or a preset and a number of "
                   "devices, such as h200:8: its constants but for what is "
                   "measured on this machine's first GPU")
      ->capture_default_str();
  command
      ->add_option("--largest-product", flags->largestProduct,
                   "measure none on a GPU that takes more FLOP")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_flag("-q,--quiet", flags->quiet, "print errors only");
  command->callback(
      [flags, &run] { run = [flags] { return runCalibrate(*flags); }; });
}
