//===- StagesTest.cpp - Whether stages fit each other ---------------------===//
#include "test/runtime/program/Load.h"
#include "test/runtime/program/StagePrograms.h"
#include <functional>
#include <gtest/gtest.h>

using namespace cleave::test;
using namespace cleave::runtime;

namespace {

TEST(Stages, FitForEveryNumberOfMicroBatches) {
  for (uint64_t stages : {1, 2, 4})
    for (uint64_t microBatches : {1, 2, 3, 4, 7, 40})
      for (uint64_t dp : {1, 2}) {
        Status status = load(makeStages(stages, microBatches, dp));
        EXPECT_TRUE(status.ok()) << stages << " stages, " << microBatches
                                 << " micro-batches: " << status.message();
      }
}

TEST(Stages, AreViewsOfOneProgram) {
  Program program;
  ASSERT_TRUE(makeStages(2, 3, 2).load(program).ok());
  EXPECT_EQ(program.getStageCount(), 2u);
  EXPECT_EQ(program.getStageAxes(), AxisList{0});
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(program.getStageOf(rank).getNumber(), size_t(rank / 2));
  EXPECT_EQ(program.getStage(1).getLabel(), "stage 1");
  EXPECT_EQ(program.getArenaBytes(),
            std::max(program.getStage(0)->arena_bytes(),
                     program.getStage(1)->arena_bytes()));
  // Two layers of two states in each; x, and "shared" once.
  EXPECT_EQ(program.getStates().size(), 2u * 4 + 2);
  EXPECT_EQ(program.getOutputs().size(), 1u);
  const fb::State *shared = program.findState("shared");
  EXPECT_EQ(shared, program.getStage(0).findState("shared"));
  EXPECT_NE(program.getStage(1).findState("shared"), nullptr);
  EXPECT_EQ(program.getFirstStage(*shared), 0u);
  EXPECT_EQ(program.getFirstStage(*program.findState("layer.3")), 1u);
  EXPECT_EQ(program.getStage(0).findState("layer.3"), nullptr);
  // What another stage has is found by its name.
  EXPECT_EQ(program.getFirstStage(*program.getStage(1).findState("shared")),
            0u);
  EXPECT_EQ(program.getFirstStage(*program.getStage(1).findOutput("norm")), 0u);
}

/// One way to break the two stages of a step, and words of the message.
struct Broken {
  const char *words;
  std::function<void(fb::ProgramT &)> breakIt;
};

// Each lambda reads as: p is the program, a and b its stages; find(s, opcode)
// is the first instruction of that opcode.
#define BREAK(words, ...)                                                      \
  Broken {                                                                     \
    words, [](fb::ProgramT &p) {                                               \
      [[maybe_unused]] fb::StageT &a = *p.stages[0];                           \
      [[maybe_unused]] fb::StageT &b = *p.stages[1];                           \
      __VA_ARGS__;                                                             \
    }                                                                          \
  }

fb::InstructionT &find(fb::StageT &stage, Opcode opcode) {
  for (auto &instruction : stage.instructions)
    if (instruction->work.type == opcode)
      return *instruction;
  abort();
}
fb::SendT &findSend(fb::StageT &stage) {
  return *find(stage, Opcode::Send).work.AsSend();
}
/// The one over the stages, which is the last.
fb::InstructionT &findMeeting(fb::StageT &stage) {
  for (size_t i = stage.instructions.size(); i-- > 0;)
    if (stage.instructions[i]->work.type == Opcode::AllReduce)
      return *stage.instructions[i];
  abort();
}
fb::StateT &getShared(fb::StageT &stage) {
  for (auto &state : stage.states)
    if (state->name == "shared")
      return *state;
  abort();
}

const Broken brokens[] = {
    BREAK("stage_axis is 2, expects -1, or one of the 2 mesh axes",
          p.stage_axis = 2),
    BREAK("stage_axis is -2", p.stage_axis = -2),
    BREAK("number of stages is 2, expects 1 without a stage_axis",
          p.stage_axis = -1),
    BREAK("number of stages is 3, expects 2, as its axis \"pp\" has ranks",
          p.stages.push_back(std::make_unique<fb::StageT>(b))),
    BREAK("number of stages is 0", p.stages.clear()),
    BREAK("batch_axes is axis 0, expects none of them to be the stage_axis",
          p.batch_axes = {0};
          p.global_batch = 6),
    BREAK("stage 1: the program's arena_bytes is 0", b.arena_bytes = 0),
    BREAK("stage 1: state 0 \"layer.2\" has dim 0 split by axis 0, expects "
          "each mesh axis once, but none of the stages",
          b.states[0]->dims[0]->axes = {0}),
    BREAK("is partial over axis 0", a.outputs[0]->partial = {0}),

    BREAK("stage 2, expects 0 to 1", findSend(a).stage = 2),
    BREAK("stage -1", findSend(a).stage = -1),
    BREAK("has stage 0, expects another than its own", findSend(a).stage = 0),
    BREAK("channel 32768, expects 0 to 32767", findSend(a).channel = 32768),
    BREAK("has a group, expects none", find(a, Opcode::Send).group = {0}),
    BREAK("stage 1, instruction 0 (Recv \"test Recv\") receives for "
          "micro-batch 0 what stage 0, instruction 3 (Send \"test Send\") has "
          "sent for micro-batch 1",
          std::swap(a.runs[0], a.runs[1])),
    BREAK("and the two would meet",
          findMeeting(b).work.AsAllReduce()->reduction = fb::Reduction::Max),
    BREAK("and the two would meet", findMeeting(b).group = {1, 0}),
    BREAK("is not what stage 1, the beginning of the update is, and the two "
          "would meet",
          findMeeting(b).group = {1}),

    BREAK("parameter \"shared\" has another shape in stage 0 than in stage 1",
          getShared(b).shape = getShared(b).logical = {2, 8},
          getShared(b).source.clear()),
    BREAK("\"shared\" has another source", getShared(b).source = "other"),
    BREAK("\"shared\" has another source", getShared(b).tied = {"head"}),
    BREAK("\"shared\" has another initialization",
          getShared(b).init_scale = 0.5),
    BREAK("\"shared\" has another placement", getShared(b).dims[0]->axes = {1}),
    BREAK("output \"norm\" has another shape in stage 0 than in stage 1",
          b.outputs[0]->shape = b.outputs[0]->logical = {1},
          b.outputs[0]->dims = ProgramBuilder::placement({{}})),
};

TEST(Stages, ThatDoNotFitAreRefused) {
  for (const Broken &broken : brokens) {
    ProgramBuilder builder = makeStages(2, 3);
    broken.breakIt(builder.program);
    Status status = load(builder);
    EXPECT_NE(status.message().find(broken.words), std::string::npos)
        << "says:       " << status.message()
        << "\nshould say: " << broken.words;
  }
}

/// Two stages of nothing but messages and an update: "0>1" sends from stage 0
/// to 1 on channel 1, "1<0" receives it, "|" begins the update, "+" is a
/// collective of all. The micro-batches of a stage are those of `order`.
ProgramBuilder makeChat(const std::vector<std::string> &stages,
                        const std::vector<std::vector<uint32_t>> &orders = {}) {
  ProgramBuilder b({{"pp", stages.size()}}, /*microBatches=*/2);
  b.program.stage_axis = 0;
  for (size_t number = 0; number < stages.size(); ++number) {
    if (number > 0)
      b.beginStage();
    fb::Operand operand = b.allocate(64);
    b.state("x", {16}, {{}}, operand);
    fb::Operand scratch = b.allocate(64);
    std::vector<uint32_t> order = {0};
    if (number < orders.size())
      order = orders[number];
    auto cut = [&] {
      size_t begin =
          b.stage->segments.empty() ? 0 : b.stage->segments.back()->end;
      if (begin == b.stage->instructions.size())
        return;
      b.cutSegment("segment");
      for (uint32_t m : order)
        b.stage->runs.emplace_back(uint32_t(b.stage->segments.size()) - 1, m,
                                   true);
    };
    for (size_t i = 0; i < stages[number].size(); ++i) {
      char kind = stages[number][i];
      if (kind == '|') {
        cut();
        b.stage->update_run = b.stage->runs.size();
      } else if (kind == '+') {
        b.add(fb::AllReduceT{{}, 16}, {operand, scratch}, {0});
      } else if (kind == '>' || kind == '<') {
        int64_t peer = stages[number][++i] - '0';
        int64_t self = int64_t(number), from = kind == '>' ? self : peer,
                to = kind == '>' ? peer : self;
        if (kind == '>')
          b.add(fb::SendT{{}, peer, from * 8 + to}, {operand});
        else
          b.add(fb::RecvT{{}, peer, from * 8 + to}, {scratch});
      }
    }
    cut();
    if (stages[number].find('|') == std::string::npos)
      b.stage->update_run = b.stage->runs.size();
  }
  return b;
}

TEST(Stages, ComeToAnEnd) {
  auto expectEnd = [&](const std::vector<std::string> &stages) {
    Status status = load(makeChat(stages));
    EXPECT_TRUE(status.ok()) << status.message();
  };
  expectEnd({">1<1", ">0<0"}); // a send does not wait
  expectEnd({">1", "<2<0", ">1"});
  expectEnd({">1+<1", "<0+>0"});
  expectEnd({">1+", "+<0"});
  expectEnd({"|>1", "|<0"});
  expectEnd({">1>2+|", "<0+|>2", "<0+|<1"});
  auto expectRefused = [&](const std::vector<std::string> &stages,
                           const std::string &words) {
    std::string message = load(makeChat(stages)).message();
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expectRefused({"<1>1", "<0>0"}, "would wait for ever: stage 0, instruction 0 "
                                  "(Recv \"test Recv\") waits for stage 1");
  expectRefused({"<2>1", "<0>2", "<1>0"},
                "stage 2, instruction 0 (Recv \"test Recv\") waits for stage "
                "1");
  expectRefused({"+>1", "<0+"},
                "would wait for ever: stage 0, instruction 0 (AllReduce \"test "
                "AllReduce\") waits for all stages; stage 1, instruction 0");
  expectRefused({"+", ""}, "is not what");
  expectRefused({"++", "+"}, "is not what");
  // Stages are checked as if they met where the update begins.
  expectRefused({"|>1", "<0|"},
                "stage 0, the beginning of the update waits for all stages");
  // Nor is a message under way there.
  expectRefused({">1|", "|<0"},
                "stage 0, instruction 0 (Send \"test Send\") sends for "
                "micro-batch 0 what stage 1, instruction 0 (Recv \"test "
                "Recv\") has not received when the update begins");
}

TEST(Stages, ChannelsHaveTwoEnds) {
  auto expectRefused = [&](const ProgramBuilder &builder,
                           const std::string &words) {
    std::string message = load(builder).message();
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expectRefused(makeChat({">1", ""}),
                "stage 0, instruction 0 (Send \"test Send\") sends on channel "
                "1, where nothing receives");
  expectRefused(makeChat({"", "<0"}),
                "stage 1, instruction 0 (Recv \"test Recv\") receives on "
                "channel 1, where nothing sends");
  // An end may be several instructions that are alike.
  EXPECT_TRUE(load(makeChat({">1>1", "<0<0"})).ok());
  expectRefused(makeChat({">1>1", "<0"}),
                "has not received when the update begins");
  expectRefused(makeChat({">1", "<0<0"}), "the stages would wait for ever");
  auto getSecond = [](ProgramBuilder &builder) -> fb::InstructionT & {
    return *builder.program.stages[0]->instructions[1];
  };
  ProgramBuilder stream = makeChat({">1>1", "<0<0"});
  getSecond(stream).stream = 1;
  expectRefused(stream, "stage 0, instruction 1 (Send \"test Send\") sends on "
                        "channel 1, as does stage 0, instruction 0 (Send "
                        "\"test Send\") of another stream");
  ProgramBuilder to = makeChat({">1>1", "<0<0", ""});
  getSecond(to).work.AsSend()->stage = 2;
  expectRefused(to, "of another peer");
  ProgramBuilder bytes = makeChat({">1>1", "<0<0"});
  fb::Operand &sent = getSecond(bytes).operands[0];
  sent = fb::Operand(sent.offset(), sent.bytes() / 2, 0, 0, 0);
  expectRefused(bytes, "of another size");
  ProgramBuilder peer = makeChat({">1", "<0", ""});
  findSend(*peer.program.stages[0]).stage = 2;
  expectRefused(peer,
                "stage 0, instruction 0 (Send \"test Send\") has stage 2, "
                "but the other end of channel 1 is stage 1, instruction "
                "0 (Recv \"test Recv\")");
  ProgramBuilder size = makeChat({">1", "<0"});
  size.program.stages[1]->instructions[0]->operands[0] = {64, 32, 0, 0, 0};
  expectRefused(size, "stage 1, instruction 0 (Recv \"test Recv\") receives 32 "
                      "bytes, but stage 0, instruction 0 (Send \"test Send\") "
                      "sends 64");
}

TEST(Stages, MicroBatchesArriveInTheOrderInWhichTheyAreReceived) {
  EXPECT_TRUE(load(makeChat({">1", "<0"}, {{1, 0}, {1, 0}})).ok());
  EXPECT_FALSE(load(makeChat({">1", "<0"}, {{1, 0}, {0, 1}})).ok());
  EXPECT_NE(load(makeChat({">1", "<0"}, {{0, 1}, {0}}))
                .message()
                .find("has not received when the update begins"),
            std::string::npos);
  EXPECT_NE(load(makeChat({">1", "<0"}, {{0}, {0, 1}}))
                .message()
                .find("waits for stage 0"),
            std::string::npos);
}

} // namespace
