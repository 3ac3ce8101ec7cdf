//===- WrongPrograms.cpp - Executables whose programs are made wrong ------===//
//
// usage: WrongPrograms [--all] [--kind KIND]... COUNT SEED FOLDER EXECUTABLE...
//
// Of each executable COUNT wrong programs are made of each kind, or of those
// that are named, and loaded as the runtime loads them. Kinds: those of `kinds`
// below, in the order of a step (waits, events, streams, buckets, runs), the
// places that values have (lifetimes, places of micro-batches) and messages
// between stages. Which one, SEED decides.
//
// A wrong program that loads may be no different: a wait can be dropped that
// another implies. So each of those must have no race, by every pair of
// accesses (EveryPair.h), and is written to FOLDER, sealed, for
// wrong_programs.py to train with; with --all those that are refused are, too.
// Prints a line for each kind: how many were made, were refused, loaded with a
// race, loaded without, tab-separated; and FOLDER/list.tsv has a line for each
// file: executable, file, kind, what was changed, and of those that are refused
// why, and which of its races GPUs can show (SeenRaces.h). The exit code is 1
// if one loaded with a race, or a correct program was refused.
//
//===----------------------------------------------------------------------===//
#include "runtime/program/Elf.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Program.h"
#include "runtime/program/Work.h"
#include "test/mutants/SeenRaces.h"
#include "test/runtime/program/EveryPair.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <string>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

using Change = std::optional<std::string>;

/// One change of a stage of a program.
class Mutator {
public:
  Mutator(fb::ProgramT &program, uint64_t seed)
      : program(program), random(seed),
        stage(*program.stages[pick(program.stages.size())]) {}

  // Order.
  Change dropWait();
  Change waitForOther();
  Change moveStream();
  Change swapEvents();
  Change swapNeighbours();
  Change beginTogether();
  Change mixBucket();
  // Runs.
  Change swapRuns();
  Change dropRun();
  Change repeatRun();
  Change changeMicroBatch();
  Change flipFirst();
  Change changeSegment();
  Change moveUpdate();
  // Places.
  Change shortenLifetime();
  Change takePlace();
  Change readOtherPlace();
  // Messages.
  Change swapMessages();
  Change swapContents();
  Change redirect();
  Change dropMessage();

private:
  size_t pick(size_t count) { return size_t(random() % count); }
  fb::InstructionT &at(size_t i) { return *stage.instructions[i]; }
  std::string name(size_t i) {
    return "instruction " + std::to_string(i) + " (" + at(i).name + ")";
  }
  /// One of the instructions that `has`, or none.
  std::optional<size_t>
  pickInstruction(const std::function<bool(const fb::InstructionT &)> &has);
  /// Two different ones.
  std::optional<std::pair<size_t, size_t>>
  pickPair(const std::function<bool(const fb::InstructionT &)> &has);
  /// Puts in the place of each operand of `buffer` what `change` makes of it.
  void changeOperands(uint32_t buffer,
                      const std::function<void(fb::Operand &)> &change);
  static void setOffset(fb::Operand &operand, uint64_t offset) {
    operand = {offset, operand.bytes(), operand.stride(), operand.places(),
               operand.buffer()};
  }

  fb::ProgramT &program;
  std::mt19937_64 random;
  fb::StageT &stage;
};

bool waits(const fb::InstructionT &instruction) {
  return !instruction.waits.empty();
}
bool records(const fb::InstructionT &instruction) {
  return instruction.event > 0;
}
bool isMessage(const fb::InstructionT &instruction) {
  return instruction.work.type == fb::Opcode::Send ||
         instruction.work.type == fb::Opcode::Recv;
}

std::optional<size_t> Mutator::pickInstruction(
    const std::function<bool(const fb::InstructionT &)> &has) {
  std::vector<size_t> all;
  for (size_t i = 0; i < stage.instructions.size(); ++i)
    if (has(at(i)))
      all.push_back(i);
  if (all.empty())
    return std::nullopt;
  return all[pick(all.size())];
}

std::optional<std::pair<size_t, size_t>>
Mutator::pickPair(const std::function<bool(const fb::InstructionT &)> &has) {
  auto a = pickInstruction(has);
  if (!a)
    return std::nullopt;
  auto b = pickInstruction([&](const fb::InstructionT &other) {
    return has(other) && &other != &at(*a);
  });
  if (!b)
    return std::nullopt;
  return std::pair(*a, *b);
}

Change Mutator::dropWait() {
  auto i = pickInstruction(waits);
  if (!i)
    return std::nullopt;
  size_t which = pick(at(*i).waits.size());
  std::string text = name(*i) + " no longer waits for event " +
                     std::to_string(at(*i).waits[which]);
  at(*i).waits.erase(at(*i).waits.begin() + long(which));
  return text;
}

Change Mutator::waitForOther() {
  auto i = pickInstruction(waits), other = pickInstruction(records);
  if (!i || !other)
    return std::nullopt;
  uint32_t &event = at(*i).waits[pick(at(*i).waits.size())];
  if (std::ranges::count(at(*i).waits, at(*other).event))
    return std::nullopt;
  std::string text = name(*i) + " waits for " + name(*other) +
                     " instead of event " + std::to_string(event);
  event = at(*other).event;
  return text;
}

Change Mutator::beginTogether() {
  auto i = pickInstruction([](const fb::InstructionT &instruction) {
    return isBucketed(instruction.work.type);
  });
  if (!i)
    return std::nullopt;
  at(*i).with_next = !at(*i).with_next;
  return name(*i) + (at(*i).with_next ? " begins together with the next one"
                                      : " no longer begins with the next one");
}

/// One of a bucket touches what another one writes. (That it reads what another
/// one reads says nothing to a loader: meaning is for `compile --check`.)
Change Mutator::mixBucket() {
  auto i = pickInstruction([](const fb::InstructionT &instruction) {
    return instruction.with_next;
  });
  if (!i)
    return std::nullopt;
  auto &operands = at(*i).operands, &others = at(*i + 1).operands;
  size_t from = pick(2), to = from == 0 ? 1 : pick(2);
  if (operands[from].bytes() != others[to].bytes())
    return std::nullopt;
  others[to] = operands[from];
  return name(*i + 1) + " has operand " + std::to_string(from) + " of " +
         name(*i) + " as its operand " + std::to_string(to);
}

Change Mutator::moveStream() {
  auto i = pickInstruction([](const fb::InstructionT &) { return true; });
  auto other = pickInstruction([&](const fb::InstructionT &instruction) {
    return instruction.stream != at(*i).stream;
  });
  if (!other)
    return std::nullopt;
  at(*i).stream = at(*other).stream;
  return name(*i) + " is of stream " + std::to_string(at(*i).stream);
}

Change Mutator::swapEvents() {
  auto pair = pickPair(records);
  if (!pair)
    return std::nullopt;
  std::swap(at(pair->first).event, at(pair->second).event);
  return name(pair->first) + " and " + name(pair->second) +
         " record each other's event";
}

Change Mutator::swapNeighbours() {
  const fb::SegmentT &segment = *stage.segments[pick(stage.segments.size())];
  if (segment.end - segment.begin < 2)
    return std::nullopt;
  size_t i = segment.begin + pick(segment.end - segment.begin - 1);
  // Zeros that rows are laid on are written, whether the rows are there or not:
  // which of the two a reader wants, `compile --check` knows and no loader.
  for (const fb::Operand &operand : at(i).operands)
    for (size_t k = segment.begin; k < i; ++k)
      if (at(k).work.type == fb::Opcode::Fill &&
          at(k).operands[0].buffer() == operand.buffer() &&
          std::ranges::count(at(i + 1).operands, operand.buffer(),
                             &fb::Operand::buffer))
        return std::nullopt;
  std::swap(stage.instructions[i], stage.instructions[i + 1]);
  return name(i + 1) + " comes behind " + name(i);
}

Change Mutator::swapRuns() {
  if (stage.runs.size() < 2)
    return std::nullopt;
  // Half of them neighbours.
  size_t a = pick(stage.runs.size() - 1);
  size_t b = pick(2) ? a + 1 : pick(stage.runs.size());
  if (stage.runs[a].segment() == stage.runs[b].segment() &&
      stage.runs[a].micro_batch() == stage.runs[b].micro_batch() &&
      stage.runs[a].first() == stage.runs[b].first())
    return std::nullopt;
  std::swap(stage.runs[a], stage.runs[b]);
  return "runs " + std::to_string(a) + " and " + std::to_string(b) +
         " change places";
}

Change Mutator::dropRun() {
  size_t run = pick(stage.runs.size());
  stage.runs.erase(stage.runs.begin() + long(run));
  if (run < stage.update_run)
    --stage.update_run;
  return "run " + std::to_string(run) + " is left out";
}

Change Mutator::repeatRun() {
  size_t run = pick(stage.runs.size());
  fb::Run again = stage.runs[run];
  stage.runs.insert(stage.runs.begin() + long(run), again);
  if (run < stage.update_run)
    ++stage.update_run;
  return "run " + std::to_string(run) + " is there twice";
}

Change Mutator::changeMicroBatch() {
  size_t at = pick(stage.runs.size());
  auto other = uint32_t(pick(program.micro_batches));
  fb::Run &run = stage.runs[at];
  if (other == run.micro_batch())
    return std::nullopt;
  run = {run.segment(), other, run.first()};
  return "run " + std::to_string(at) + " is of micro-batch " +
         std::to_string(other);
}

Change Mutator::flipFirst() {
  size_t at = pick(stage.runs.size());
  fb::Run &run = stage.runs[at];
  run = {run.segment(), run.micro_batch(), !run.first()};
  return "run " + std::to_string(at) +
         (run.first() ? " is said to be first" : " is no longer first");
}

Change Mutator::changeSegment() {
  size_t at = pick(stage.runs.size());
  auto other = uint32_t(pick(stage.segments.size()));
  fb::Run &run = stage.runs[at];
  if (other == run.segment())
    return std::nullopt;
  run = {other, run.micro_batch(), run.first()};
  return "run " + std::to_string(at) + " is of segment " +
         std::to_string(other);
}

Change Mutator::moveUpdate() {
  uint64_t other = pick(stage.runs.size() + 1);
  if (other == stage.update_run)
    return std::nullopt;
  stage.update_run = other;
  return "the update begins with run " + std::to_string(other);
}

void Mutator::changeOperands(uint32_t buffer,
                             const std::function<void(fb::Operand &)> &change) {
  auto visit = [&](fb::Operand &operand) {
    if (operand.buffer() == buffer)
      change(operand);
  };
  for (auto &instruction : stage.instructions)
    std::ranges::for_each(instruction->operands, visit);
  for (auto &output : stage.outputs)
    visit(*output->operand);
}

/// Puts a buffer where another one lies that is written between its own first
/// and last use.
Change Mutator::shortenLifetime() {
  const fb::SegmentT &segment = *stage.segments[pick(stage.segments.size())];
  struct Life {
    size_t first, last;
    bool isRead; ///< last
  };
  std::map<uint32_t, Life> lives;
  for (size_t i = segment.begin; i < segment.end; ++i)
    for (const fb::Operand &operand : at(i).operands) {
      Life &life =
          lives.try_emplace(operand.buffer(), Life{i, i, false}).first->second;
      life.last = i;
      life.isRead = &operand == &at(i).operands.front();
    }
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const auto &[a, life] : lives)
    for (const auto &[b, other] : lives) {
      const fb::BufferT &mine = *stage.buffers[a - 1],
                        &its = *stage.buffers[b - 1];
      if (a != b && !mine.pinned && !its.pinned && life.isRead &&
          life.first < other.first && other.first < life.last &&
          mine.offset != its.offset &&
          its.offset + mine.bytes <= stage.arena_bytes)
        pairs.emplace_back(a, b);
    }
  if (pairs.empty())
    return std::nullopt;
  auto [a, b] = pairs[pick(pairs.size())];
  fb::BufferT &mine = *stage.buffers[a - 1];
  uint64_t offset = stage.buffers[b - 1]->offset;
  changeOperands(a, [&](fb::Operand &operand) {
    setOffset(operand, operand.offset() - mine.offset + offset);
  });
  mine.offset = offset;
  return "buffer " + std::to_string(a) + " lies where buffer " +
         std::to_string(b) + " does";
}

/// Leaves a buffer one place less for micro-batches.
Change Mutator::takePlace() {
  auto i = pickInstruction([](const fb::InstructionT &instruction) {
    return std::ranges::any_of(instruction.operands, [](const auto &operand) {
      return operand.places() > 1;
    });
  });
  if (!i)
    return std::nullopt;
  std::vector<fb::Operand> all;
  for (const fb::Operand &operand : at(*i).operands)
    if (operand.places() > 1)
      all.push_back(operand);
  uint32_t buffer = all[pick(all.size())].buffer();
  changeOperands(buffer, [](fb::Operand &operand) {
    if (operand.places() > 1)
      operand = {operand.offset(), operand.bytes(), operand.stride(),
                 operand.places() - 1, operand.buffer()};
  });
  return "buffer " + std::to_string(buffer) + " has a place less";
}

/// Has one operand begin at its buffer's next place.
Change Mutator::readOtherPlace() {
  auto i = pickInstruction([](const fb::InstructionT &instruction) {
    return std::ranges::any_of(instruction.operands, [](const auto &operand) {
      return operand.places() > 1;
    });
  });
  if (!i)
    return std::nullopt;
  size_t which = pick(at(*i).operands.size());
  fb::Operand &operand = at(*i).operands[which];
  if (operand.places() < 2)
    return std::nullopt;
  uint64_t offset = operand.offset() + operand.stride();
  // With as many places, and with those that are left.
  uint32_t places = operand.places() - uint32_t(pick(2));
  operand = {offset, operand.bytes(), operand.stride(), places,
             operand.buffer()};
  return "operand " + std::to_string(which) + " of " + name(*i) +
         " begins a place later, with " + std::to_string(places);
}

Change Mutator::swapMessages() {
  auto pair = pickPair(isMessage);
  if (!pair || at(pair->first).work.type != at(pair->second).work.type)
    return std::nullopt;
  std::swap(at(pair->first).work, at(pair->second).work);
  return name(pair->first) + " and " + name(pair->second) +
         " change stage and channel";
}

Change Mutator::swapContents() {
  auto pair = pickPair(isMessage);
  if (!pair || at(pair->first).work.type != at(pair->second).work.type)
    return std::nullopt;
  std::swap(at(pair->first).operands, at(pair->second).operands);
  return name(pair->first) + " and " + name(pair->second) + " change operands";
}

Change Mutator::redirect() {
  auto i = pickInstruction(isMessage);
  if (!i)
    return std::nullopt;
  auto other = int64_t(pick(program.stages.size()));
  if (auto *send = at(*i).work.AsSend())
    send->stage = send->stage == other ? other + 1 : other;
  else if (auto *recv = at(*i).work.AsRecv())
    recv->stage = recv->stage == other ? other + 1 : other;
  return name(*i) + " is with another stage";
}

Change Mutator::dropMessage() {
  auto i = pickInstruction(isMessage);
  if (!i)
    return std::nullopt;
  std::string text = name(*i) + " is left out";
  stage.instructions.erase(stage.instructions.begin() + long(*i));
  for (auto &segment : stage.segments) {
    segment->begin -= segment->begin > *i;
    segment->end -= segment->end > *i;
  }
  return text;
}

struct Kind {
  const char *name;
  Change (Mutator::*change)();
};

constexpr Kind kinds[] = {
    {"a wait dropped", &Mutator::dropWait},
    {"a wait for another event", &Mutator::waitForOther},
    {"an instruction in another stream", &Mutator::moveStream},
    {"two events exchanged", &Mutator::swapEvents},
    {"two instructions exchanged", &Mutator::swapNeighbours},
    {"a bucket larger or smaller", &Mutator::beginTogether},
    {"a bucket's contents mixed", &Mutator::mixBucket},
    {"a run moved", &Mutator::swapRuns},
    {"a run dropped", &Mutator::dropRun},
    {"a run twice", &Mutator::repeatRun},
    {"a run of another micro-batch", &Mutator::changeMicroBatch},
    {"a run first, or no longer", &Mutator::flipFirst},
    {"a run of another segment", &Mutator::changeSegment},
    {"another beginning of the update", &Mutator::moveUpdate},
    {"a lifetime shortened", &Mutator::shortenLifetime},
    {"a place taken away", &Mutator::takePlace},
    {"an operand at another place", &Mutator::readOtherPlace},
    {"two messages exchanged", &Mutator::swapMessages},
    {"two messages' contents exchanged", &Mutator::swapContents},
    {"a message to another stage", &Mutator::redirect},
    {"a message dropped", &Mutator::dropMessage},
};

struct Count {
  int made = 0, refused = 0, races = 0, loaded = 0;
};

std::vector<uint8_t> pack(const fb::ProgramT &program) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, &program), fb::ProgramIdentifier());
  return {builder.GetBufferPointer(),
          builder.GetBufferPointer() + builder.GetSize()};
}

bool anyRace(const Program &program) {
  for (size_t i = 0; i < program.getStageCount(); ++i)
    if (cleave::test::hasRace(program.getStage(i)))
      return true;
  return false;
}

/// What the command line says.
struct Settings {
  bool all = false;
  std::vector<std::string_view> kinds; ///< none: all
  uint64_t count, seed;
  std::string folder;
  std::vector<std::string> executables;

  bool parse(std::vector<std::string_view> arguments);
  bool has(const Kind &kind) const {
    return kinds.empty() || std::ranges::count(kinds, kind.name);
  }
};

bool Settings::parse(std::vector<std::string_view> arguments) {
  auto at = arguments.begin(), end = arguments.end();
  for (; at != end && at->starts_with("--"); ++at) {
    if (*at == "--all")
      all = true;
    else if (*at == "--kind" && ++at != end &&
             std::ranges::count(::kinds, *at, &Kind::name))
      kinds.push_back(*at);
    else
      return false;
  }
  if (end - at < 4)
    return false;
  count = std::strtoull(at++->data(), nullptr, 10);
  seed = std::strtoull(at++->data(), nullptr, 10);
  folder = *at++;
  executables.assign(at, end);
  return true;
}

/// Makes wrong programs, counts them and writes them down.
class Campaign {
public:
  explicit Campaign(Settings settings)
      : settings(std::move(settings)),
        list(this->settings.folder + "/list.tsv") {}

  /// Of an executable of that number; whether none was let through that should
  /// not be, and there was room for all.
  bool add(const std::string &path, size_t number);
  void print() const;

private:
  bool addOne(const Program &right, size_t bytes, const std::string &path,
              size_t kind, uint64_t seed);
  bool write(fb::ProgramT &program, size_t bytes, const std::string &path,
             size_t kind, const std::string &change, const std::string &refusal,
             const std::string &races);

  Settings settings;
  std::ofstream list;
  std::vector<Count> counts{std::size(kinds)};
  size_t files = 0;
};

bool Campaign::add(const std::string &path, size_t number) {
  std::vector<uint8_t> bytes;
  std::string version;
  Program right;
  Status status = readProgramBytes(path, bytes, version);
  if (status.ok())
    status = Program::load(bytes.data(), bytes.size(), path, right);
  if (!status.ok() || anyRace(right)) {
    std::cerr << path << ": a correct program is refused, or has a race: "
              << status.message() << "\n";
    return false;
  }
  bool isGood = true;
  for (size_t k = 0; k < std::size(kinds); ++k)
    for (uint64_t i = 0; settings.has(kinds[k]) && i < settings.count; ++i) {
      std::seed_seq mix{settings.seed, uint64_t(number), uint64_t(k), i};
      std::mt19937_64 random(mix);
      isGood &= addOne(right, bytes.size(), path, k, random());
    }
  return isGood;
}

bool Campaign::addOne(const Program &right, size_t bytes,
                      const std::string &path, size_t kind, uint64_t seed) {
  std::unique_ptr<fb::ProgramT> program(right->UnPack());
  Mutator mutator(*program, seed);
  Change change = (mutator.*kinds[kind].change)();
  if (!change)
    return true;
  ++counts[kind].made;
  std::vector<uint8_t> buffer = pack(*program);
  std::vector<uint8_t> sealed = sealProgram(buffer.data(), buffer.size());
  Program wrong;
  Status status = Program::load(sealed.data(), sealed.size(), "mutant", wrong);
  if (!status.ok()) {
    ++counts[kind].refused;
    return !settings.all ||
           write(*program, bytes, path, kind, *change, status.message(),
                 cleave::test::describeRaces(*fb::GetProgram(buffer.data())));
  }
  if (anyRace(wrong)) {
    ++counts[kind].races;
    std::cerr << path << ": loads with a race: " << *change << "\n";
    return false;
  }
  ++counts[kind].loaded;
  return write(*program, bytes, path, kind, *change, "", "");
}

/// As long as the right one, in whose place in the executable it comes: without
/// what only a reader wants, and with zeros at the end.
bool Campaign::write(fb::ProgramT &program, size_t bytes,
                     const std::string &path, size_t kind,
                     const std::string &change, const std::string &refusal,
                     const std::string &races) {
  for (auto &kernel : program.kernels)
    kernel->body.clear();
  std::vector<uint8_t> buffer = pack(program);
  if (buffer.size() > bytes - programHeaderBytes) {
    std::cerr << path << ": no room for: " << change << "\n";
    return false;
  }
  buffer.resize(bytes - programHeaderBytes);
  std::vector<uint8_t> sealed = sealProgram(buffer.data(), buffer.size());
  std::string file =
      settings.folder + "/" + std::to_string(files++) + ".program";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char *>(sealed.data()),
             std::streamsize(sealed.size()));
  list << path << "\t" << file << "\t" << kinds[kind].name << "\t" << change
       << "\t" << refusal << "\t" << races << "\n";
  return true;
}

void Campaign::print() const {
  std::cout << "kind\tmade\trefused\traces\tloaded\n";
  for (size_t k = 0; k < std::size(kinds); ++k)
    if (settings.has(kinds[k]))
      std::cout << kinds[k].name << "\t" << counts[k].made << "\t"
                << counts[k].refused << "\t" << counts[k].races << "\t"
                << counts[k].loaded << "\n";
}

} // namespace

int main(int argc, char **argv) {
  Settings settings;
  if (!settings.parse({argv + 1, argv + argc})) {
    std::cerr << "usage: WrongPrograms [--all] [--kind KIND]... COUNT SEED "
                 "FOLDER EXECUTABLE...\nkinds:\n";
    for (const Kind &kind : kinds)
      std::cerr << "  " << kind.name << "\n";
    return 2;
  }
  Campaign campaign(settings);
  bool isGood = true;
  for (size_t i = 0; i < settings.executables.size(); ++i)
    isGood &= campaign.add(settings.executables[i], i);
  campaign.print();
  return isGood ? 0 : 1;
}
