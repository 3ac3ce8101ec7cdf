//===- Options.cpp --------------------------------------------------------===//
#include "runtime/train/Options.h"
#include "runtime/base/Version.h"
#include "runtime/train/HelpFormatter.h"
#include <CLI/CLI.hpp>
#include <cmath>
#include <map>

using namespace cleave::runtime;

static bool readFinite(const std::string &text, double &value) {
  return CLI::detail::lexical_cast(text, value) && std::isfinite(value);
}

/// A finite number of at least 0.
static std::string checkRate(const std::string &text) {
  double value;
  if (readFinite(text, value) && value >= 0)
    return "";
  return "\"" + text + "\" is not a finite number of at least 0";
}

/// Ranks of a busy machine may be held up for less than a second.
static std::string checkWatchdog(const std::string &text) {
  double value;
  if (readFinite(text, value) && (value == 0 || value >= 1))
    return "";
  return "\"" + text +
         "\" is not 0, or a finite number of seconds of at least 1";
}

ParseResult cleave::runtime::parseOptions(int argc, const char *const *argv,
                                          Options &options,
                                          std::string &message) {
  CLI::App app("Trains the model that this executable was compiled for.");
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", std::string("cleave ") + getVersion(),
                       "print the version of what compiled this, and exit");
  Options result;
  const int64_t most = int64_t(1) << 53;
  CLI::Range atLeastOne(int64_t(1), most, "INT of at least 1");
  CLI::Range atLeastZero(int64_t(0), most, "INT of at least 0");
  CLI::Validator rate([](std::string &text) { return checkRate(text); },
                      "FLOAT", "rate");

  CLI::Validator digits(
      [](std::string &text) {
        bool legal = text.find_first_not_of("0123456789") == text.npos;
        return legal ? std::string()
                     : "\"" + text +
                           "\" is not a number of "
                           "digits only";
      },
      "INT of at least 0", "digits");

  auto *data = app.add_option("--data", result.data,
                              "training data, one or more of: X.idx, X.bin or "
                              "X (a Megatron dataset), or a UTF-8 text file, "
                              "read as bytes");
  data->type_name("DATA");
  auto *tokens =
      app.add_option("--tokens", result.tokens,
                     "in place of --data: a safetensors file with \"inputs\" "
                     "and \"targets\" [steps, batch, seq], -100 = ignored");
  tokens->type_name("FILE")->excludes(data);
  app.add_option("--steps", result.steps,
                 "optimizer steps; needed with --data, else all of --tokens")
      ->check(atLeastOne)
      ->type_name("N");
  app.add_option("--init", result.init,
                 "start from the weights in DIR (safetensors, HuggingFace "
                 "names); default: random")
      ->type_name("DIR");
  app.add_option("--seed", result.seed,
                 "of random weights and sample order; default 0")
      ->check(digits)
      ->type_name("N");
  auto *save =
      app.add_option("--save", result.save,
                     "save what the run needs to go on, at its end and when "
                     "it is stopped, as DIR/step-N")
          ->type_name("DIR");
  app.add_option("--save-every", result.saveEvery,
                 "save after every N steps as well, behind the training")
      ->check(atLeastOne)
      ->type_name("N")
      ->needs(save);
  app.add_option("--keep", result.keep,
                 "keep the newest K checkpoints under --save; default: all")
      ->check(atLeastOne)
      ->type_name("K")
      ->needs(save);
  auto *resume =
      app.add_option("--resume", result.resumeFrom,
                     "go on from the newest whole checkpoint under DIR, or "
                     "under --save; in any layout. Without a checkpoint under "
                     "--save, begin")
          ->type_name("[DIR]")
          ->expected(0, 1);
  auto *exported =
      app.add_option("--export", result.exported.folder,
                     "write model.safetensors and config.json, which "
                     "transformers reads, to DIR at the end")
          ->type_name("DIR");
  app.add_option("--max-shard-size", result.exported.fileBytes,
                 "of --export: begin another file beyond so many bytes, such "
                 "as 500MB; default 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(atLeastOne)
      ->type_name("SIZE")
      ->needs(exported);
  app.add_flag("--overwrite", result.exported.overwrite,
               "let --export replace the weights in DIR")
      ->needs(exported);
  app.add_option("--skip-budget", result.skipBudget,
                 "steps that may be skipped because their loss or gradient "
                 "norm is infinite or not a number, or a spike; default 0")
      ->check(atLeastZero)
      ->type_name("N");
  app.add_option("--spike-sigmas", result.spikeSigmas,
                 "what a spike is: so many standard deviations above the last "
                 "128 steps, such as 6; default 0: there are none")
      ->check(rate)
      ->type_name("X");
  app.add_option("--metrics", result.metrics, "write one JSON object per step")
      ->type_name("FILE");
  app.add_option("--trace", result.trace,
                 "write the first steps as a Chrome/Perfetto trace")
      ->type_name("FILE");
  app.add_option("--trace-steps", result.traceSteps,
                 "steps in the trace; default 10")
      ->check(atLeastOne)
      ->type_name("N");
  app.add_option("--dump-outputs", result.dumpOutputs,
                 "write the first step's outputs and all losses and gradient "
                 "norms as safetensors")
      ->type_name("FILE");
  std::string device = "auto";
  app.add_option("--device", device,
                 "where to run: \"auto\" (default; a GPU where the executable "
                 "has code for it and the machine one), \"cpu\" or \"cuda\"")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->option_text("{auto,cpu,cuda}");
  std::string transport = "auto";
  app.add_option("--transport", transport,
                 "local: ranks are threads; mpi: they are processes of mpirun "
                 "or srun; tcp: of torchrun, or of whatever sets RANK, "
                 "WORLD_SIZE, MASTER_ADDR and MASTER_PORT; default auto: by "
                 "the launcher's variables, MPI's first")
      ->check(CLI::IsMember({"auto", "local", "mpi", "tcp"}))
      ->type_name("NAME");
  app.add_option(
         "--threads", result.threads,
         "compute threads of a rank on CPUs; default and most: the program's")
      ->check(CLI::Range(1, 1024, "INT of at least 1"))
      ->type_name("N");
  app.add_option("--lr", result.schedule.lr, "peak learning rate")
      ->check(rate)
      ->type_name("X");
  app.add_option("--min-lr", result.schedule.minLr,
                 "learning rate after the decay")
      ->check(rate)
      ->type_name("X");
  app.add_option("--warmup-steps", result.schedule.warmupSteps,
                 "steps of linear warm-up")
      ->check(atLeastZero)
      ->type_name("N");
  app.add_option("--decay-steps", result.schedule.decaySteps,
                 "step at which the decay ends; default: the program's, else "
                 "--steps")
      ->check(atLeastOne)
      ->type_name("N");
  app.add_option("--log-every", result.logEvery,
                 "steps between progress lines; 0: none; default 1")
      ->check(atLeastZero)
      ->type_name("N");
  app.add_option("--peak-gflops", result.peakGflops,
                 "peak of a core, or of a GPU, for MFU; default: of a core, "
                 "measured multiply-adds of the type that the program's matrix "
                 "products are of; of a GPU, its device file's")
      ->check(rate)
      ->type_name("X");
  app.add_option("--watchdog", result.watchdogSeconds,
                 "a rank that hangs is found in X seconds, or 3 steps if that "
                 "is longer, and ends the run; 1 or more, or 0: never; "
                 "default 10")
      ->check(CLI::Validator(checkWatchdog, "FLOAT", "watchdog"))
      ->type_name("X");
  app.add_flag("--serial", result.serial,
               "run all streams of the program on each rank's own thread, one "
               "instruction after the other; the same bits");
  app.add_option("--stream-delays", result.streamDelays,
                 "let streams sleep at random, from the seed N, to test that "
                 "their order does not depend on it; default 0: never")
      ->check(digits)
      ->type_name("N");
  app.add_option_function<std::vector<std::string>>(
         "--emulate-link",
         [&](const std::vector<std::string> &texts) {
           for (const std::string &text : texts)
             if (Status status = parseLink(text, result.links.emplace_back());
                 !status.ok())
               throw CLI::ValidationError("--emulate-link", status.message());
         },
         "collectives and messages along a mesh axis take at least as long as "
         "over a link of so many bytes per second and so many seconds of "
         "latency, such as dp=1e9,2e-5; without using a core")
      ->type_name("AXIS=BYTES_PER_S,LATENCY")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app.footer(
      "The learning rate, its minimum and its warm-up and decay steps "
      "default to what was\ncompiled in. Exit code: 0, 1 on failure, 2 "
      "on wrong usage, 3 where SIGTERM,\nSIGINT or SIGUSR1 stopped the "
      "run (after saving), 4 where a rank hung or died,\n5 where more steps "
      "were bad than --skip-budget lets be skipped.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    message = app.help();
    return ParseResult::Help;
  } catch (const CLI::CallForVersion &version) {
    message = std::string(version.what()) + "\n";
    return ParseResult::Help;
  } catch (const CLI::ParseError &error) {
    message = error.what();
    return ParseResult::UsageError;
  }
  message.clear();
  if (result.data.empty() && result.tokens.empty())
    message = "expects --data or --tokens";
  else if (result.steps == 0 && result.tokens.empty())
    message = "expects --steps with --data";
  result.resume = resume->count() > 0;
  if (result.resume && result.resumeFrom.empty()) {
    if (result.save.empty())
      message = "expects --resume DIR, or --save DIR to resume from";
    result.resumeFrom = result.save;
  }
  if (!message.empty())
    return ParseResult::UsageError;
  result.device = device == "cpu"    ? DeviceKind::Cpu
                  : device == "cuda" ? DeviceKind::Cuda
                                     : DeviceKind::Auto;
  result.backend = transport == "auto" ? detectBackend() : Backend::Local;
  for (Backend each : {Backend::Mpi, Backend::Tcp})
    if (transport == getName(each))
      result.backend = each;
  options = std::move(result);
  return ParseResult::Run;
}
