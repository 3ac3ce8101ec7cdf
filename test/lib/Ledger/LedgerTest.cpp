//===- LedgerTest.cpp - Statistics and rows of the ledger -----------------===//
#include "cleave/Ledger/Ledger.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace cleave;
namespace json = llvm::json;

namespace {

LedgerRow makeRow(double measured, double predicted, std::string group = "g",
                  std::string source = "s") {
  LedgerRow row{};
  row.source = std::move(source);
  row.group = std::move(group);
  row.stepSeconds = measured;
  row.predicted.step = predicted;
  return row;
}

TEST(LedgerTest, ErrorsByHand) {
  Ledger ledger;
  // Errors +10 %, -20 %, 0, +50 %.
  ledger.rows = {makeRow(10, 11), makeRow(10, 8), makeRow(4, 4), makeRow(2, 3)};
  LedgerErrors errors = ledger.getErrors("");
  EXPECT_EQ(errors.rows, 4);
  EXPECT_NEAR(errors.median, 0.15, 1e-12);
  EXPECT_NEAR(errors.mean, 0.20, 1e-12);
  // Between the third (0.2) and the fourth (0.5), at 2.7.
  EXPECT_NEAR(errors.p90, 0.41, 1e-12);
  EXPECT_NEAR(errors.bias, 0.10, 1e-12);
}

TEST(LedgerTest, SpearmanByHand) {
  auto get = [](std::vector<double> measured, std::vector<double> predicted) {
    Ledger ledger;
    for (size_t i = 0; i != measured.size(); ++i)
      ledger.rows.push_back(makeRow(measured[i], predicted[i]));
    return ledger.getErrors("").spearman;
  };
  EXPECT_NEAR(get({1, 2, 3, 4}, {10, 200, 3000, 40000}), 1, 1e-12);
  EXPECT_NEAR(get({1, 2, 3, 4}, {4, 3, 2, 1}), -1, 1e-12);
  // 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0, 1, 1, 0.
  EXPECT_NEAR(get({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8, 1e-12);
  // Ties share a rank: 1.5, 1.5, 3 against 1, 2, 3.
  EXPECT_NEAR(get({1, 1, 2}, {1, 2, 3}), std::sqrt(0.75), 1e-12);
  EXPECT_EQ(get({1, 1}, {1, 2}), 0);
}

TEST(LedgerTest, GapOfThePick) {
  Ledger ledger;
  // The pick of "a" is 10 % slower than its best, that of "b" is the best; one
  // row alone is no choice.
  ledger.rows = {makeRow(11, 1, "a"), makeRow(10, 2, "a"), makeRow(12, 3, "a"),
                 makeRow(5, 5, "b"),  makeRow(6, 6, "b"),  makeRow(1, 1, "c")};
  LedgerErrors errors = ledger.getErrors("");
  EXPECT_EQ(errors.groups, 2);
  EXPECT_NEAR(errors.gap, 0.05, 1e-12);
}

TEST(LedgerTest, SourcesApart) {
  Ledger ledger;
  ledger.rows = {makeRow(1, 2, "g", "x"), makeRow(1, 1, "g", "y")};
  EXPECT_EQ(ledger.getSources(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(ledger.getErrors("x").median, 1);
  EXPECT_EQ(ledger.getErrors("y").median, 0);
  EXPECT_EQ(ledger.getErrors("z").rows, 0);
}

TEST(LedgerTest, MemoryAndFits) {
  Ledger ledger;
  LedgerRow row = makeRow(1, 1);
  row.machine.device.memory = 80e9;
  row.predicted.memory.activations = 60e9;
  row.predicted.memory.reserve = 3e9; // not in what frameworks report
  row.memoryBytes = 50e9;
  row.fits = true;
  ledger.rows.push_back(row);
  row.predicted.memory.activations = 79e9; // no room for gaps and libraries
  row.fits = false;
  row.memoryBytes.reset();
  ledger.rows.push_back(row);
  row.fits = true;
  ledger.rows.push_back(row);
  LedgerErrors errors = ledger.getErrors("");
  EXPECT_EQ(errors.memoryRows, 1);
  EXPECT_NEAR(errors.memoryBias, 0.2, 1e-12);
  EXPECT_EQ(errors.fitRows, 3);
  EXPECT_EQ(errors.fitRight, 2);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

json::Object makeObject() {
  return json::Object{{"id", "r"},
                      {"source", "a source"},
                      {"model", "GPT"},
                      {"gpu", "A100-80GB SXM"},
                      {"num_gpus", 64},
                      {"gpus_per_node", 8},
                      {"layers", 32},
                      {"hidden", 4096},
                      {"heads", 32},
                      {"ffn", 16384},
                      {"vocab", 50304},
                      {"seq_len", 2048},
                      {"gbs", 512},
                      {"mbs", 4},
                      {"tp", 4},
                      {"pp", 2},
                      {"step_time_s", 5.0},
                      {"recompute", "full"}};
}

LedgerRow read(const json::Object &object) {
  return llvm::cantFail(readLedgerRow(object, "f: row 0"));
}

std::string getError(const json::Object &object) {
  llvm::Expected<LedgerRow> row = readLedgerRow(object, "f: row 0");
  return row ? "none" : llvm::toString(row.takeError());
}

TEST(LedgerRowTest, ReadsLayout) {
  LedgerRow row = read(makeObject());
  EXPECT_EQ(row.missing, "");
  EXPECT_EQ(row.layout.tp, 4);
  EXPECT_EQ(row.layout.dp, 8);
  EXPECT_EQ(row.layout.microBatch, 4);
  EXPECT_EQ(row.layout.recompute, Recompute::Full);
  EXPECT_EQ(row.machine.devices, 64);
  EXPECT_EQ(row.stepSeconds, 5.0);
}

/// Virtual stages that a run does not state are those of its stack's recipes.
TEST(LedgerRowTest, VirtualStagesOfTheStack) {
  auto get = [](const char *software, int64_t pp, int64_t batch = 512) {
    json::Object object = makeObject();
    object["software"] = software;
    object["pp"] = pp;
    object["gbs"] = batch;
    return read(object).layout;
  };
  EXPECT_EQ(get("NeMo 23.09", 4).virtualStages, 8);
  EXPECT_EQ(get("NeMo 23.09", 4).schedule, Schedule::Interleaved);
  EXPECT_EQ(get("NeMo 23.09", 1).virtualStages, 1);
  EXPECT_EQ(get("NeMo 23.09", 4, 96).virtualStages, 1); // 6 micro-batches
  EXPECT_EQ(get("Megatron-Bridge, NeMo 25.09", 4).virtualStages, 1);
  EXPECT_EQ(get("Megatron-LM", 4).schedule, Schedule::OneFOneB);
  json::Object object = makeObject();
  object["software"] = "NeMo 23.09";
  object["vpp"] = 2;
  EXPECT_EQ(read(object).layout.virtualStages, 2);
}

/// Bytes a second that each of 8 devices has to other nodes.
TEST(LedgerRowTest, NetworksAsSourcesPrintThem) {
  auto get = [](const char *text) {
    json::Object object = makeObject();
    object["interconnect"] = text;
    return read(object).machine.levels.back().link.bandwidth;
  };
  double builtIn = get("");
  EXPECT_EQ(get("8x400Gb/s InfiniBand per node"), 50e9);
  EXPECT_EQ(get("8 x 200 Gb/s"), 25e9);
  EXPECT_EQ(get("1600 Gb/s RoCE per node"), 25e9);
  EXPECT_EQ(get("inter_node_bandwidth 800 (Gb/s)"), 12.5e9);
  EXPECT_EQ(get("NVLink 900 GB/s; 400Gb/s RDMA per GPU"), 50e9);
  EXPECT_EQ(get("EFA 3.2 Tbps"), 50e9);
  EXPECT_EQ(get("HDR 200Gbps"), 25e9);
  EXPECT_EQ(get("eight 200Gbps HDR Infiniband HCAs per node"), 25e9);
  EXPECT_EQ(get("4 Omni-Path links per node"), 6.25e9);
  EXPECT_EQ(get("4x HDR"), 12.5e9);
  EXPECT_EQ(get("8 400Gb/s NICs"), 50e9);
  EXPECT_EQ(get("NDR"), 50e9);
  EXPECT_EQ(get("Slingshot 200 Gb/s x 4"), 12.5e9);
  EXPECT_EQ(get("8 ConnectX-7 adapters of 400 Gb/s per node"), 50e9);
  EXPECT_EQ(get("4 NICs per node, 200Gbps each"), 12.5e9);
  EXPECT_EQ(get("NVLink 3.0, 1600 Gb/s InfiniBand"), 25e9);
  EXPECT_EQ(get("NVLink 900 GB/s; 8 Mellanox 400 Gbps HDR InfiniBand HCAs per "
                "node"),
            50e9);
  EXPECT_EQ(get("4 25 Gbps NICs"), 12.5e9 / 8);
  EXPECT_EQ(get("InfiniBand, 400 Gbps each GPU"), 50e9);
  EXPECT_EQ(get("2 nodes with HDR cards"), 25e9);
  EXPECT_EQ(get("4x100GbE"), 6.25e9);
  EXPECT_EQ(get("RoCE, 100GbE x 4"), 6.25e9);
  EXPECT_EQ(get("8 x 200 Gigabit Ethernet"), 25e9);
  EXPECT_EQ(get("NVLink 600 GB/s"), builtIn);
  EXPECT_EQ(get("fast Gb/s"), builtIn);
}

TEST(LedgerRowTest, StepFromTokens) {
  json::Object object = makeObject();
  object.erase("step_time_s");
  object["tokens_per_s_per_gpu"] = 1000;
  EXPECT_NEAR(*read(object).stepSeconds, 512. * 2048 / 64 / 1000, 1e-9);
}

TEST(LedgerRowTest, SaysWhatIsMissing) {
  for (const char *key : {"layers", "hidden", "heads", "gbs", "num_gpus", "gpu",
                          "ffn", "seq_len", "mbs"}) {
    json::Object object = makeObject();
    object.erase(key);
    EXPECT_EQ(read(object).missing, key);
    object[key] = nullptr;
    EXPECT_EQ(read(object).missing, key);
  }
  json::Object object = makeObject();
  object["gpu"] = "Abacus";
  EXPECT_EQ(read(object).missing, "device \"Abacus\"");
  object = makeObject();
  object["precision"] = "FP8";
  EXPECT_EQ(read(object).missing, "device rate in fp8");
  // A batch is that of its micro-batches.
  object = makeObject();
  object.erase("gbs");
  object["ga"] = 16;
  EXPECT_EQ(read(object).missing, "");
  EXPECT_EQ(read(object).work.globalBatch, 4 * 16 * 8);
  object.erase("mbs");
  EXPECT_EQ(read(object).missing, "gbs");
  // One micro-batch a step without a pipeline.
  object = makeObject();
  object.erase("mbs");
  object["pp"] = 1;
  EXPECT_EQ(read(object).missing, "");
  EXPECT_EQ(read(object).layout.microBatch, 32);
}

/// A word that is not known is never read as its absence.
TEST(LedgerRowTest, SaysWhichWordIsUnknown) {
  for (auto [key, value] :
       {std::pair{"precision", "fp32"}, std::pair{"schedule", "DualPipe"},
        std::pair{"recompute", "blocks 3 to 7"}, std::pair{"zero", "MiCS"},
        std::pair{"zero", "ZeRO-3 offload"}}) {
    json::Object object = makeObject();
    object[key] = value;
    EXPECT_EQ(read(object).missing, std::string(key) + " \"" + value + "\"");
  }
}

TEST(LedgerRowTest, WordsAsSourcesPrintThem) {
  auto get = [](const char *key, const char *value, const char *gpu) {
    json::Object object = makeObject();
    object["gpu"] = gpu;
    object[key] = value;
    return read(object);
  };
  auto zero = [&](const char *text) {
    return get("zero", text, "A100").layout.zero;
  };
  EXPECT_EQ(zero("zero1"), 1);
  EXPECT_EQ(zero("ZeRO stage 2"), 2);
  EXPECT_EQ(zero("FSDP SHARD_GRAD_OP"), 2);
  EXPECT_EQ(zero("FULL_SHARD"), 3);
  EXPECT_EQ(zero("FSDP NO_SHARD"), 0);
  EXPECT_EQ(zero("none (plain DP)"), 0);
  EXPECT_EQ(zero("1"), 1);
  EXPECT_EQ(zero("dist-opt"), 1);
  EXPECT_EQ(zero("ZeRO-2, no offload"), 2);
  json::Object number = makeObject();
  number["zero"] = 3;
  EXPECT_EQ(read(number).layout.zero, 3);
  // What a stack does unless it is told otherwise.
  auto usual = [&](const char *software) {
    return get("software", software, "A100").layout.zero;
  };
  EXPECT_EQ(usual("torchtitan"), 3);
  EXPECT_EQ(usual("Megatron-Core"), 1);
  EXPECT_EQ(usual("Nemotron's own"), 0);
  auto schedule = [&](const char *text) {
    return get("schedule", text, "A100").layout.schedule;
  };
  EXPECT_EQ(schedule("GPipe"), Schedule::GPipe);
  EXPECT_EQ(schedule("1F1B non-interleaved"), Schedule::OneFOneB);
  EXPECT_EQ(schedule("eager 1F1B"), Schedule::EagerOneFOneB);
  EXPECT_EQ(schedule("interleaved 1F1B"), Schedule::Interleaved);
  EXPECT_EQ(schedule("interleave"), Schedule::Interleaved);
  auto type = [&](const char *text) {
    return get("precision", text, "B200").work.dtype;
  };
  EXPECT_EQ(type("bf16+fp8"), DType::FP8);
  EXPECT_EQ(type("NVFP4"), DType::FP4);
  EXPECT_EQ(type("float8 tensorwise; attention bf16"), DType::FP8);
  EXPECT_EQ(type("NVFP4, attention in FP8"), DType::FP4);
  EXPECT_EQ(type("amp (fp32 master weights)"), DType::BF16);
  auto memory = [&](const char *gpu) {
    return get("notes", "", gpu).machine.device.memory / double(1 << 30);
  };
  EXPECT_EQ(memory("A100-SXM4-40GB"), 40);
  EXPECT_EQ(memory("DGX A100 (640GB)"), 80);
  EXPECT_EQ(memory("A100 (p4d.24xlarge)"), 40);
  EXPECT_EQ(memory("A100 (p4de.24xlarge)"), 80);
  EXPECT_EQ(get("notes", "", "H100 NVL").missing, "device \"H100 NVL\"");
}

TEST(LedgerRowTest, SharedExpertsAsSourcesPrintThem) {
  auto get = [](const char *notes) {
    json::Object object = makeObject();
    object["experts"] = 64;
    object["topk"] = 8;
    object["moe_ffn"] = 1000;
    object["ep"] = 4;
    object["arch_notes"] = notes;
    return read(object).model.blocks.at(0).block.sharedFfn;
  };
  EXPECT_EQ(get(""), 0);
  EXPECT_EQ(get("2 shared experts"), 2000);
  EXPECT_EQ(get("12 shared experts, sigmoid"), 12000);
  EXPECT_EQ(get("Shared expert"), 1000);
  EXPECT_EQ(get("1 shared expert of width 20480"), 20480);
}

/// A loss in chunks leaves no array of logits.
TEST(LedgerRowTest, LossAsSourcesPrintIt) {
  auto get = [](const char *software) {
    json::Object object = makeObject();
    object["software"] = software;
    return read(object).profile.logitBytes;
  };
  EXPECT_GT(get("torchtitan"), 0);
  EXPECT_GT(get("Trainer, no Liger"), 0);
  EXPECT_EQ(get("torchtitan, chunked cross-entropy"), 0);
  EXPECT_EQ(get("Trainer, Liger kernels"), 0);
  EXPECT_EQ(get("fused linear cross entropy"), 0);
}

/// The kernel that a run names; else its stack's, if it was there at the time.
TEST(LedgerRowTest, AttentionOfTheTime) {
  auto get = [](const char *software, const char *date) {
    json::Object object = makeObject();
    object["gpu"] = "H100-80GB SXM";
    object["software"] = software;
    object["date"] = date;
    return read(object).profile.attention;
  };
  EXPECT_EQ(get("NeMo", "24.11"), "cudnn");
  EXPECT_EQ(get("NeMo", "2024-11"), "cudnn");
  EXPECT_EQ(get("NeMo", "2024"), "cudnn"); // its end
  EXPECT_EQ(get("NeMo", ""), "cudnn");
  EXPECT_EQ(get("NeMo", "24.07"), "flash2");
  EXPECT_EQ(get("NeMo", "2023-02"), "flash1");
  EXPECT_EQ(get("NeMo with FlashAttention-3", "25.02"), "flash3");
  EXPECT_EQ(get("megatron-core, flash attention 2", "2025"), "flash2");
  EXPECT_EQ(get("NeMo without flash attention", "2025"), "unfused");
  EXPECT_EQ(get("torchtitan, FA3", "2025"), "flash3");
  EXPECT_EQ(get("NeMo on 8 of A30, ALFA2", "2025"), "cudnn");
  json::Object blackwell = makeObject();
  blackwell["gpu"] = "B300";
  blackwell["software"] = "torchtitan";
  EXPECT_EQ(read(blackwell).profile.attention, "flash2");
  blackwell["software"] = "torchtitan, FA4";
  EXPECT_EQ(read(blackwell).profile.attention, "cudnn");
}

/// Sequence parallelism goes with tp since 2022, on devices since then always.
TEST(LedgerRowTest, SequenceParallelismOfTheTime) {
  auto get = [](const char *gpu, const char *date) {
    json::Object object = makeObject();
    object["gpu"] = gpu;
    object["date"] = date;
    return read(object).layout.sequenceParallel;
  };
  EXPECT_TRUE(get("A100", "2023-01"));
  EXPECT_FALSE(get("A100", "2021-04"));
  EXPECT_FALSE(get("A100", "21.12"));
  EXPECT_TRUE(get("A100", "22.08"));
  EXPECT_FALSE(get("A100", ""));
  EXPECT_TRUE(get("H100", ""));
}

TEST(LedgerRowTest, RecomputationAsSourcesSayIt) {
  auto get = [](const char *text, const char *zero = "") {
    json::Object object = makeObject();
    object["recompute"] = text;
    object["zero"] = zero;
    return read(object).layout;
  };
  EXPECT_EQ(get("none").recompute, Recompute::None);
  EXPECT_EQ(get("full").recompute, Recompute::Full);
  EXPECT_EQ(get("selective").recomputedModules, recomputeAttention);
  EXPECT_EQ(get("selective(every other layer)").recompute, Recompute::Full);
  EXPECT_EQ(get("selective(every other layer)").recomputeBlocks, 8);
  EXPECT_EQ(get("selective(per-op)").recomputedModules, recomputeHalf);
  EXPECT_EQ(get("selective", "FSDP").recomputedModules, recomputeHalf);
  EXPECT_EQ(get("selective[mlp, moe_act]").recomputedModules,
            recomputeUp | recomputeActivation | recomputeDown |
                recomputeExpertActivation);
  EXPECT_EQ(get("selective[maxtext save_qkv_proj]").recomputedModules,
            recomputeNorms | recomputeAttention | recomputeOutput |
                recomputeUp | recomputeActivation);
  EXPECT_EQ(get("selective[maxtext minimal_flash]").recomputedModules,
            recomputeNorms | recomputeActivation);
  EXPECT_EQ(get("AC: selective op").recomputedModules, recomputeHalf);
  EXPECT_EQ(get("activation checkpointing").recompute, Recompute::Full);
  EXPECT_EQ(get("no activation checkpointing").recompute, Recompute::None);
  EXPECT_EQ(get("without").recompute, Recompute::None);
  EXPECT_EQ(get("core attention").recomputedModules, recomputeAttention);
  EXPECT_EQ(get("uniform, 1 layer").recompute, Recompute::Full);
  json::Object flag = makeObject();
  flag["recompute"] = true;
  EXPECT_EQ(read(flag).layout.recompute, Recompute::Full);
  flag["recompute"] = false;
  EXPECT_EQ(read(flag).layout.recompute, Recompute::None);
  json::Object unknown = makeObject();
  unknown["recompute"] = "selective[maxtext my_policy]";
  EXPECT_EQ(read(unknown).missing,
            "recompute \"selective[maxtext my_policy]\"");
  // 3 (0.55 / 0.5 - 1) of a stage's 16 blocks repeat their forward pass.
  json::Object object = makeObject();
  object["recompute"] = "selective";
  object["zero"] = "FSDP full shard";
  object["mfu"] = 50;
  object["hfu"] = 55;
  EXPECT_EQ(read(object).layout.recompute, Recompute::Full);
  EXPECT_EQ(read(object).layout.recomputeBlocks, 5);
}

TEST(LedgerRowTest, NodesAreAsLargeAsTheRunSays) {
  auto get = [](const char *gpu, int64_t perNode) {
    json::Object object = makeObject();
    object["gpu"] = gpu;
    object["gpus_per_node"] = perNode;
    return read(object).machine.getDevicesPerNode();
  };
  EXPECT_EQ(get("H100", 4), 4);
  EXPECT_EQ(get("H100", 8), 8);
  EXPECT_EQ(get("V100-32GB (DGX-2)", 16), 16);
  EXPECT_EQ(get("GB200", 4), 72); // a rack's domain
}

TEST(LedgerRowTest, ErrorsNameRowKeyAndValue) {
  json::Object object = makeObject();
  object["hidden"] = -3;
  EXPECT_EQ(getError(object), "f: row 0: key \"hidden\": value -3: expects a "
                              "whole number from 1 to 16777216");
  object = makeObject();
  object["step_time_s"] = "fast";
  EXPECT_EQ(getError(object), "f: row 0: key \"step_time_s\": value \"fast\": "
                              "expects a positive number, from 1e-18 to 1e18");
  object = makeObject();
  object["sp"] = 1;
  EXPECT_EQ(getError(object),
            "f: row 0: key \"sp\": value 1: expects true or false");
  object = makeObject();
  object["recompute"] = json::Array{};
  EXPECT_EQ(getError(object),
            "f: row 0: key \"recompute\": value []: expects text");
}

/// Layouts that no software has are named, and none ends the program.
TEST(LedgerRowTest, IllegalLayoutsAreNamed) {
  auto get =
      [](std::initializer_list<std::pair<const char *, json::Value>> keys) {
        json::Object object = makeObject();
        for (const auto &[key, value] : keys)
          object[key] = value;
        return object;
      };
  // A V has two chunks, said or not, and no other number.
  for (json::Value chunks : {json::Value(nullptr), json::Value(1)}) {
    LedgerRow row = read(get({{"schedule", "ZB-V"}, {"vpp", chunks}}));
    EXPECT_EQ(row.layout.virtualStages, 2);
    EXPECT_GT(CostModel(row.model, row.machine, row.work, row.profile)
                  .price(row.layout)
                  .step,
              0);
  }
  EXPECT_EQ(getError(get({{"schedule", "ZB-V"}, {"vpp", 3}})),
            "f: row 0: layout: zb-v has 2 virtual stages, not 3");
  for (const char *schedule : {"ZB-1p", "ZB-2p", "GPipe"})
    for (int64_t chunks : {2, 4})
      EXPECT_NE(getError(get({{"schedule", schedule}, {"vpp", chunks}}))
                    .find("does not have " + std::to_string(chunks) +
                          " virtual stages"),
                std::string::npos)
          << schedule;
  // One stage has no schedule.
  LedgerRow one = read(get({{"schedule", "ZB-V"}, {"pp", 1}, {"vpp", 4}}));
  EXPECT_EQ(one.layout.schedule, Schedule::OneFOneB);
  EXPECT_EQ(one.layout.virtualStages, 1);
  EXPECT_EQ(getError(get({{"num_gpus", 60}})),
            "f: row 0: key \"num_gpus\": value 60: expects a multiple of tp x "
            "cp x pp = 4 x 1 x 2");
  EXPECT_NE(getError(get({{"tp", 3}, {"num_gpus", 48}})).find("tp 3"),
            std::string::npos);
  EXPECT_EQ(getError(get({{"recompute", "selective[core_attn, zz]"}})),
            "f: row 0: key \"recompute\": value \"selective[core_attn, zz]\": "
            "unknown module \"zz\", expects core_attn, layernorm, mlp, moe, "
            "moe_act, mla_up_proj");
  json::Object sparse = get({{"experts", 8},
                             {"topk", 2},
                             {"moe_ffn", 1024},
                             {"ep", 4},
                             {"arch_notes", "first 33 layers dense"}});
  EXPECT_EQ(getError(sparse),
            "f: row 0: key \"arch_notes\": value \"first 33 layers dense\": "
            "expects at most the 32 layers there are to be dense, got 33");
  // Layers are as many as the row says, whatever their pattern.
  for (const char *notes : {"every 2nd layer", "sliding-window(128)",
                            "sliding-window(128), first 2 dense"})
    for (int64_t layers : {31, 32}) {
      sparse["arch_notes"] = notes;
      sparse["layers"] = layers;
      EXPECT_EQ(read(sparse).model.getNumBlocks(), layers) << notes;
    }
}

/// What is wrong with a row is said in its place.
TEST(LedgerTest, RowsGoOnAfterAnIllegalOne) {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("cleave-rows-" + std::to_string(getpid()) + ".json");
  json::Object bad = makeObject(), good = makeObject();
  bad["id"] = "bad";
  bad["hidden"] = -3;
  json::Array array;
  array.push_back(json::Object(good));
  array.push_back(std::move(bad));
  array.push_back(7);
  array.push_back(std::move(good));
  std::ofstream(path)
      << llvm::formatv("{0}", json::Value(std::move(array))).str();
  Ledger ledger;
  llvm::cantFail(ledger.load(path.string()));
  std::filesystem::remove(path);
  ASSERT_EQ(ledger.rows.size(), 4u);
  EXPECT_EQ(ledger.rows[1].id, "bad");
  EXPECT_NE(ledger.rows[1].wrong.find("row 1: key \"hidden\": value -3"),
            std::string::npos);
  EXPECT_NE(ledger.rows[2].wrong.find("row 2: expects an object"),
            std::string::npos);
  EXPECT_EQ(ledger.getErrors("").rows, 2);
  EXPECT_EQ(ledger.getErrors("").illegal, 2);
}

/// Whatever stands in a key, a row is read or its error names the key, or the
/// rule of layouts that it breaks.
TEST(LedgerRowTest, NoValueOfAKeyIsFatal) {
  const json::Value values[] = {nullptr,
                                true,
                                false,
                                0,
                                -1,
                                1,
                                3,
                                0.5,
                                1e30,
                                -1e30,
                                1LL << 50,
                                16777216,
                                "",
                                "x",
                                "selective[",
                                "shard 0",
                                json::Array{},
                                json::Array{1},
                                json::Object{},
                                json::Object{{"a", 1}}};
  json::Object base = makeObject();
  for (const char *key : {"kv_heads",
                          "head_dim",
                          "gated_mlp",
                          "experts",
                          "topk",
                          "moe_ffn",
                          "arch_notes",
                          "cp",
                          "ep",
                          "etp",
                          "vpp",
                          "sp",
                          "zero",
                          "schedule",
                          "precision",
                          "interconnect",
                          "notes",
                          "date",
                          "ga",
                          "dp",
                          "mfu",
                          "hfu",
                          "tokens_per_s_per_gpu",
                          "peak_mem_gb",
                          "oom"})
    base[key] = nullptr;
  for (const auto &entry : json::Object(base)) {
    for (const json::Value &value : values) {
      json::Object object = base;
      object[entry.first] = value;
      llvm::Expected<LedgerRow> row = readLedgerRow(object, "f: row 0");
      if (!row) {
        std::string error = llvm::toString(row.takeError());
        EXPECT_TRUE(error.find(entry.first.str()) != std::string::npos ||
                    llvm::StringRef(error).starts_with("f: row 0: layout: "))
            << error;
      } else if (row->missing.empty()) {
        Estimate estimate =
            CostModel(row->model, row->machine, row->work, row->profile)
                .price(row->layout);
        EXPECT_TRUE(estimate.step > 0 && std::isfinite(estimate.step))
            << entry.first.str() << " " << llvm::formatv("{0}", value).str();
        EXPECT_TRUE(std::isfinite(estimate.memory.getTotal()));
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Profiles
//===----------------------------------------------------------------------===//

/// At most eight numbers, the attention kernel among them, each known, and a
/// sentence saying why.
TEST(ProfileTest, AreFewPhysicalParameters) {
  for (const auto &entry :
       std::filesystem::directory_iterator(CLEAVE_PROFILES)) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    json::Value root = llvm::cantFail(json::parse(text.str()));
    const json::Object &object = *root.getAsObject();
    EXPECT_TRUE(object.getObject("match") || object.getArray("match"))
        << entry.path();
    EXPECT_TRUE(object.getString("why")) << entry.path();
    EXPECT_TRUE(object.getString("attention")) << entry.path();
    // What it can run and what it does are facts, not numbers to be fitted.
    size_t numbers = 1; // which kernel
    for (const auto &[key, value] : object)
      numbers += value.kind() == json::Value::Number;
    EXPECT_LE(numbers, 8u) << entry.path();
    llvm::Expected<Profile> profile = loadProfile(entry.path().stem().string());
    ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
    EXPECT_EQ(profile->name, entry.path().stem().string());
    EXPECT_EQ(profile->attention, object.getString("attention")->str());
    EXPECT_EQ(profile->pointwiseTraffic,
              object.getNumber("pointwise_traffic").value_or(1.3));
  }
}

TEST(ProfileTest, UnseenSourcesFindTheirStack) {
  auto get = [](const json::Object &row) {
    return llvm::cantFail(findProfile(row)).name;
  };
  EXPECT_EQ(get(json::Object{{"source", "a blog"}}), "default");
  EXPECT_EQ(
      get(json::Object{{"source", "a blog"}, {"zero", "FSDP full shard"}}),
      "pytorch-fsdp");
  EXPECT_EQ(
      get(json::Object{{"source", "a blog"}, {"notes", "torch.compile, 2.6"}}),
      "pytorch-compile");
  EXPECT_EQ(get(json::Object{{"source", "DeepSpeed tutorial"}}), "deepspeed");
  EXPECT_EQ(get(json::Object{
                {"source", "a blog"},
                {"source_ref", "https://huggingface.co/spaces/a/b at main"}}),
            "default");
  EXPECT_EQ(get(json::Object{{"source", "NeMo 25.07"}, {"gpu", "H100"}}),
            "nemo");
  EXPECT_EQ(get(json::Object{{"source", "Megatron-LM SC'21"},
                             {"date", "2021-04"},
                             {"gpu", "A100-80GB"}}),
            "megatron-2020");
  EXPECT_EQ(get(json::Object{{"source", "a blog"},
                             {"software", "Megatron-LM"},
                             {"gpu", "H100"}}),
            "megatron-core");
  EXPECT_EQ(get(json::Object{{"source", "a blog"},
                             {"software", "NeMo with Megatron-Core"},
                             {"gpu", "H100"}}),
            "nemo");
  EXPECT_EQ(get(json::Object{{"source", "MaxText README"}}), "jax");
  EXPECT_EQ(get(json::Object{{"source", "Nemotron-4 report"},
                             {"software", "Megatron-LM"},
                             {"gpu", "H100"}}),
            "megatron-core");
  EXPECT_EQ(get(json::Object{{"source", "PaddleNLP guide"}}), "paddle");
  EXPECT_EQ(get(json::Object{{"source", "a blog"},
                             {"software", "Megatron-DeepSpeed"},
                             {"gpu", "H100"}}),
            "megatron-core");
  EXPECT_EQ(get(json::Object{{"source", "a blog"},
                             {"software", "paddle-2.5.1"},
                             {"zero", "ZeRO-3"}}),
            "paddle");
  // A release, and the time and device of what says nothing else.
  EXPECT_EQ(get(json::Object{{"source", "a blog"}, {"date", "25.11"}}), "nemo");
  json::Object old{{"source", "a paper"}, {"date", "2023-05"}, {"gpu", "A100"}};
  EXPECT_EQ(get(old), "megatron-2020");
  old["zero"] = "ZeRO-3";
  EXPECT_EQ(get(old), "deepspeed");
  // What names the software goes before when and where it ran.
  EXPECT_EQ(get(json::Object{{"source", "torchtitan"},
                             {"date", "2023-05"},
                             {"gpu", "A100"}}),
            "pytorch-compile-2024");
  EXPECT_EQ(get(json::Object{{"source", "torchtitan"}, {"date", "2025-03"}}),
            "pytorch-compile");
}

} // namespace
