//===- AgreementTest.cpp - Ranks with other options, data, weights --------===//
#include "runtime/io/Sampler.h"
#include "runtime/train/OptionItems.h"
#include "test/runtime/io/TestFiles.h"
#include "test/runtime/train/ToyProgram.h"
#include <functional>
#include <set>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// A change of one option, and the words that name it.
struct Change {
  std::string what;
  std::function<void(Options &)> make;
};

const Change changes[] = {
    {"--data", [](Options &o) { o.data = {"x", "y"}; }},
    {"--tokens", [](Options &o) { o.tokens = "x"; }},
    {"--steps", [](Options &o) { o.steps = 7; }},
    {"--init", [](Options &o) { o.init = "x"; }},
    {"--save", [](Options &o) { o.save = "x"; }},
    {"--save-every", [](Options &o) { o.saveEvery = 7; }},
    {"--keep", [](Options &o) { o.keep = 7; }},
    {"--resume", [](Options &o) { o.resume = true; }},
    {"the folder to resume from", [](Options &o) { o.resumeFrom = "x"; }},
    {"--export", [](Options &o) { o.exported.folder = "x"; }},
    {"--max-shard-size", [](Options &o) { o.exported.fileBytes = 7; }},
    {"--overwrite", [](Options &o) { o.exported.overwrite = true; }},
    {"--skip-budget", [](Options &o) { o.skipBudget = 7; }},
    {"--spike-sigmas", [](Options &o) { o.spikeSigmas = 7; }},
    {"--watchdog", [](Options &o) { o.watchdogSeconds = 7; }},
    {"--metrics", [](Options &o) { o.metrics = "x"; }},
    {"--trace", [](Options &o) { o.trace = "x"; }},
    {"--trace-steps", [](Options &o) { o.traceSteps = 7; }},
    {"--dump-outputs", [](Options &o) { o.dumpOutputs = "x"; }},
    {"--seed", [](Options &o) { o.seed = UINT64_MAX; }},
    {"--transport", [](Options &o) { o.backend = Backend::Mpi; }},
    {"--device", [](Options &o) { o.device = DeviceKind::Cuda; }},
    {"--threads", [](Options &o) { o.threads = 7; }},
    {"--log-every", [](Options &o) { o.logEvery = 7; }},
    {"--peak-gflops", [](Options &o) { o.peakGflops = 7; }},
    {"--serial", [](Options &o) { o.serial = true; }},
    {"--stream-delays", [](Options &o) { o.streamDelays = 7; }},
    {"--emulate-link", [](Options &o) { o.links = {{"dp", 1e9, 0}}; }},
    {"--lr", [](Options &o) { o.schedule.lr = 1e-3; }},
    {"--min-lr", [](Options &o) { o.schedule.minLr = 0; }},
    {"--warmup-steps", [](Options &o) { o.schedule.warmupSteps = 0; }},
    {"--decay-steps", [](Options &o) { o.schedule.decaySteps = 7; }},
    {"the kind of schedule",
     [](Options &o) { o.schedule.kind = ScheduleKind::Constant; }},
    {"the schedule's stable steps",
     [](Options &o) { o.schedule.stableSteps = 7; }},
    {"the schedule's total steps",
     [](Options &o) { o.schedule.totalSteps = 7; }},
};

/// Each option shows in its own item, and in no other.
TEST(OptionItems, EachOptionHasItsItem) {
  std::vector<AgreementItem> plain = describeOptions(Options());
  std::set<std::string> seen;
  for (const Change &change : changes) {
    Options options;
    change.make(options);
    std::vector<AgreementItem> items = describeOptions(options);
    ASSERT_EQ(items.size(), plain.size());
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(items[i].what, plain[i].what);
      EXPECT_EQ(items[i].value != plain[i].value, items[i].what == change.what)
          << change.what << " " << items[i].what;
    }
    seen.insert(change.what);
  }
  // And each item has been seen to change.
  EXPECT_EQ(seen.size(), plain.size());
}

/// What a person can give has a name there that he knows.
TEST(OptionItems, EachFlagOfTheHelpIsThere) {
  const char *argv[] = {"train", "--help"};
  Options options;
  std::string help;
  ASSERT_EQ(parseOptions(2, argv, options, help), ParseResult::Help);
  std::vector<AgreementItem> items = describeOptions(options);
  std::istringstream words(help);
  int flags = 0;
  for (std::string line; std::getline(words, line);) {
    size_t at = line.find("--");
    if (at > 6 || line.find("--help") != line.npos ||
        line.find("--version") != line.npos)
      continue;
    std::string flag = line.substr(at, line.find_first_of(" ,[", at) - at);
    ++flags;
    EXPECT_TRUE(std::ranges::any_of(items, [&](const AgreementItem &item) {
      return item.what == flag;
    })) << flag;
  }
  EXPECT_GE(flags, 18);
}

TEST(OptionItems, TellsNumbersApartThatLookAlike) {
  Options one, two;
  one.schedule.lr = 0.1;
  two.schedule.lr = std::nextafter(0.1, 1);
  EXPECT_NE(describeOptions(one), describeOptions(two));
}

/// What the ranks of a world say where rank 1 differs.
struct World {
  TestFolder folder;
  Program programs[2];
  Options options[2];

  World() {
    folder.write("text", std::string(1000, '\1'));
    options[0].data = options[1].data = {folder / "text"};
    for (Program &program : programs)
      EXPECT_OK(load(makeToyProgram(2, 1), program));
  }
  static Status load(ProgramBuilder builder, Program &program) {
    std::vector<uint8_t> bytes = builder.seal();
    return Program::load(bytes.data(), bytes.size(), "toy", program);
  }

  std::string agree() {
    Status status = runRanks(Mesh({2}), {}, [&](Communicator &communicator) {
      const Options &mine = options[communicator.getRank()];
      BatchShape shape{8, 4, 256};
      TokenStream stream;
      std::unique_ptr<BatchSource> source;
      Status opened =
          mine.tokens.empty()
              ? TokenStream::open(mine.data, stream)
              : GivenBatches::create(mine.tokens, {1, 3, 256}, source);
      if (opened.ok() && mine.tokens.empty())
        opened = Sampler::create(std::move(stream), shape, mine.seed, source);
      CLEAVE_RETURN_IF_ERROR(communicator.agree(opened));
      std::vector<DataIdentity> files;
      return agreeOnRun(communicator, programs[communicator.getRank()], mine,
                        *source, files);
    });
    return status.message();
  }
};

TEST(AgreeOnRun, IsSilentWhereAllAreAlike) {
  World world;
  EXPECT_EQ(world.agree(), "");
}

TEST(AgreeOnRun, NamesEveryOption) {
  for (const Change &change : changes) {
    if (change.what == "--data" || change.what == "--tokens")
      continue; // files that are not there
    World world;
    change.make(world.options[1]);
    std::string message = world.agree();
    EXPECT_EQ(message.rfind("the ranks were not started alike: " + change.what +
                                " is \"",
                            0),
              0u)
        << message;
    EXPECT_NE(message.find("on rank 1, but"), std::string::npos) << message;
    EXPECT_NE(message.find("on rank 0"), std::string::npos) << message;
  }
}

TEST(AgreeOnRun, NamesTheProgram) {
  World world;
  ASSERT_OK(World::load(makeToyProgram(2, 2), world.programs[1]));
  EXPECT_NE(world.agree().find("the program's checksum is \""),
            std::string::npos);
}

/// Copies on the disks of two hosts have one path here, as the options say it;
/// the test has to give two.
TEST(AgreeOnRun, NamesDataThatDiffers) {
  World world;
  std::string changed(1000, '\1');
  changed[500] = '\2';
  world.options[1].data = {world.folder.write("text2", changed)};
  EXPECT_NE(world.agree().find("--data is \""), std::string::npos);
  auto describe = [](const std::string &path) {
    TokenStream stream;
    EXPECT_OK(TokenStream::open({path}, stream));
    std::vector<DataIdentity> files;
    EXPECT_OK(stream.describe(files));
    return describeFiles(files);
  };
  std::vector<AgreementItem> before = describe(world.folder / "text");
  EXPECT_EQ(describe(world.folder / "text"), before);
  world.folder.write("text", changed);
  std::vector<AgreementItem> after = describe(world.folder / "text");
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(after[0].what, "the content of " + (world.folder / "text"));
  EXPECT_EQ(after[0].what, before[0].what);
  EXPECT_NE(after[0].value, before[0].value);
}

/// As a folder of each host's own: relative to where the rank is.
TEST(AgreeOnRun, NamesWhatIsInAFileOfOnePath) {
  World world;
  std::string path = world.folder / "text";
  Status status = runRanks(Mesh({2}), {}, [&](Communicator &communicator) {
    // One after the other, each with its own content under that path.
    const Group *everyone;
    CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(everyone));
    std::unique_ptr<BatchSource> source;
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == communicator.getRank()) {
        std::filesystem::remove(path);
        world.folder.write("text", std::string(1000, char('a' + turn)));
        TokenStream stream;
        CLEAVE_RETURN_IF_ERROR(TokenStream::open({path}, stream));
        CLEAVE_RETURN_IF_ERROR(
            Sampler::create(std::move(stream), {8, 4, 256}, 0, source));
      }
      CLEAVE_RETURN_IF_ERROR(communicator.barrier(*everyone));
    }
    std::vector<DataIdentity> files;
    return agreeOnRun(communicator, world.programs[0], world.options[0],
                      *source, files);
  });
  EXPECT_EQ(status.message().rfind("the ranks were not started alike: the "
                                   "content of " +
                                       path + " is \"1000 bytes, 1000 tokens",
                                   0),
            0u)
      << status.message();
}

} // namespace
