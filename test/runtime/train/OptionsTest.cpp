//===- OptionsTest.cpp ----------------------------------------------------===//
#include "runtime/train/Options.h"
#include <gtest/gtest.h>
#include <sstream>

using namespace cleave::runtime;

namespace {

struct Parsed {
  ParseResult result;
  Options options;
  std::string message;
};

Parsed parse(const std::string &line) {
  std::istringstream words(line);
  std::vector<std::string> arguments = {"train"};
  for (std::string word; words >> word;)
    arguments.push_back(word);
  std::vector<const char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(argument.c_str());
  Parsed parsed;
  parsed.result = parseOptions(int(argv.size()), argv.data(), parsed.options,
                               parsed.message);
  return parsed;
}

TEST(Options, ReadsAll) {
  Parsed p = parse("--data a b.idx --steps 20 --init in --seed 7 --save out "
                   "--save-every 4 --keep 3 --resume --export hf "
                   "--max-shard-size 500MB --overwrite --skip-budget 9 "
                   "--spike-sigmas 6 "
                   "--metrics m --trace t --trace-steps 3 --dump-outputs d "
                   "--transport local --lr 1e-3 --min-lr 1e-4 --warmup-steps 0 "
                   "--decay-steps 50 --log-every 5 --peak-gflops 100 "
                   "--threads 2 --watchdog 2.5");
  ASSERT_EQ(p.result, ParseResult::Run) << p.message;
  const Options &o = p.options;
  EXPECT_EQ(o.data, (std::vector<std::string>{"a", "b.idx"}));
  EXPECT_EQ(o.steps, 20);
  EXPECT_EQ(o.init, "in");
  EXPECT_EQ(o.seed, 7u);
  EXPECT_EQ(o.save, "out");
  EXPECT_EQ(o.saveEvery, 4);
  EXPECT_EQ(o.keep, 3);
  EXPECT_TRUE(o.resume);
  EXPECT_EQ(o.resumeFrom, "out");
  EXPECT_EQ(o.exported.folder, "hf");
  EXPECT_EQ(o.exported.fileBytes, 500'000'000u);
  EXPECT_TRUE(o.exported.overwrite);
  EXPECT_EQ(o.skipBudget, 9);
  EXPECT_EQ(o.spikeSigmas, 6);
  EXPECT_EQ(o.metrics, "m");
  EXPECT_EQ(o.trace, "t");
  EXPECT_EQ(o.traceSteps, 3);
  EXPECT_EQ(o.dumpOutputs, "d");
  EXPECT_EQ(o.backend, Backend::Local);
  EXPECT_EQ(o.schedule.lr, 1e-3);
  EXPECT_EQ(o.schedule.minLr, 1e-4);
  EXPECT_EQ(o.schedule.warmupSteps, 0);
  EXPECT_EQ(o.schedule.decaySteps, 50);
  EXPECT_EQ(o.logEvery, 5);
  EXPECT_EQ(o.peakGflops, 100);
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.watchdogSeconds, 2.5);
}

TEST(Options, HasDefaults) {
  Parsed p = parse("--tokens t");
  ASSERT_EQ(p.result, ParseResult::Run) << p.message;
  EXPECT_EQ(p.options.steps, 0);
  EXPECT_EQ(p.options.watchdogSeconds, 10);
  EXPECT_FALSE(p.options.schedule.lr);
  EXPECT_FALSE(p.options.schedule.warmupSteps);
  EXPECT_EQ(p.options.traceSteps, 10);
  EXPECT_FALSE(p.options.resume);
  EXPECT_EQ(p.options.exported.fileBytes, 5'000'000'000u);
  EXPECT_EQ(parse("--tokens t --resume dir").options.resumeFrom, "dir");
  EXPECT_EQ(parse("--data a --steps 1 --transport mpi").options.backend,
            Backend::Mpi);
  EXPECT_EQ(parse("--data a --steps 1 --transport tcp").options.backend,
            Backend::Tcp);
}

TEST(Options, TheWatchdogIsOffOrHasASecond) {
  for (auto [text, seconds] : {std::pair("0", 0.), {"1", 1.}, {"1.5", 1.5}}) {
    Parsed p = parse(std::string("--tokens t --watchdog ") + text);
    ASSERT_EQ(p.result, ParseResult::Run) << p.message;
    EXPECT_EQ(p.options.watchdogSeconds, seconds);
  }
}

TEST(Options, NamesWrongUsage) {
  const std::pair<const char *, const char *> cases[] = {
      {"", "expects --data or --tokens"},
      {"--data a", "expects --steps with --data"},
      {"--data a --steps 0", "--steps"},
      {"--data a --steps -3", "--steps"},
      {"--data a --steps x", "--steps"},
      {"--data a --steps 99999999999999999999", "--steps"},
      {"--data a --steps 1 --seed -1", "--seed"},
      {"--data a --steps 1 --lr nan", "--lr"},
      {"--data a --steps 1 --lr -0.1", "--lr"},
      {"--data a --steps 1 --lr inf", "--lr"},
      {"--data a --steps 1 --warmup-steps -1", "--warmup-steps"},
      {"--data a --steps 1 --threads 0", "--threads"},
      {"--data a --steps 1 --transport udp", "--transport"},
      {"--data a --steps 1 --tokens t", "--tokens"},
      {"--data a --steps 1 --what", "--what"},
      {"--data a --steps 1 --save", "--save"},
      {"--data a --steps 1 --save-every 2", "--save"},
      {"--data a --steps 1 --save d --save-every 0", "--save-every"},
      {"--data a --steps 1 --keep 2", "--save"},
      {"--data a --steps 1 --save d --keep 0", "--keep"},
      {"--data a --steps 1 --resume", "--resume DIR"},
      {"--data a --steps 1 --overwrite", "--export"},
      {"--data a --steps 1 --export d --max-shard-size x", "--max-shard-size"},
      {"--data a --steps 1 --export d --max-shard-size 0", "--max-shard-size"},
      {"--data a --steps 1 --skip-budget -1", "--skip-budget"},
      {"--data a --steps 1 --spike-sigmas -1", "--spike-sigmas"},
      {"--data a --steps 1 --watchdog 0.999",
       "--watchdog: \"0.999\" is not 0, or a finite number of seconds of at "
       "least 1"},
  };
  for (auto [line, word] : cases) {
    Parsed p = parse(line);
    EXPECT_EQ(p.result, ParseResult::UsageError) << line;
    EXPECT_NE(p.message.find(word), std::string::npos)
        << line << ": " << p.message;
    EXPECT_EQ(p.message.find('\n'), std::string::npos) << p.message;
  }
}

TEST(Options, HelpListsEveryOption) {
  Parsed p = parse("--help");
  ASSERT_EQ(p.result, ParseResult::Help);
  for (const char *option :
       {"--data",        "--tokens",       "--steps",          "--init",
        "--seed",        "--save",         "--save-every",     "--keep",
        "--resume",      "--export",       "--max-shard-size", "--overwrite",
        "--skip-budget", "--spike-sigmas", "--metrics",        "--trace",
        "--trace-steps", "--dump-outputs", "--transport",      "--threads",
        "--lr",          "--min-lr",       "--warmup-steps",   "--decay-steps",
        "--log-every",   "--peak-gflops"})
    EXPECT_NE(p.message.find(option), std::string::npos) << option;
}

} // namespace
