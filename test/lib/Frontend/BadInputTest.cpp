// What must be refused, and what the message says: file, key, value and what
// is legal, in one line.

#include "TestConfigs.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace cleave;
using namespace cleave::test;
using nlohmann::json;

namespace {

struct BadChange {
  const char *type;
  json changes;
  const char *message; ///< after "config.json: "
};

TEST(BadInput, BadKeys) {
  const BadChange cases[] = {
      // Missing.
      {"llama",
       {{"model_type", "absent"}},
       "key \"model_type\" is missing; supported are gpt2, gpt_neox, llama, "
       "mistral, qwen2, qwen3, olmo2, phi3, gemma, granite, starcoder2, opt"},
      {"llama",
       {{"hidden_size", "absent"}},
       "key \"hidden_size\" is missing; legal: an integer in 1..1048576"},
      {"llama",
       {{"vocab_size", "absent"}},
       "key \"vocab_size\" is missing; legal: an integer in 1..16777216"},
      {"llama",
       {{"num_hidden_layers", "absent"}},
       "key \"num_hidden_layers\" is missing; legal: an integer in 1..4096"},
      {"llama",
       {{"num_attention_heads", "absent"}},
       "key \"num_attention_heads\" is missing; legal: an integer in 1..16384"},
      {"llama",
       {{"intermediate_size", "absent"}},
       "key \"intermediate_size\" is missing; legal: an integer in "
       "1..16777216"},
      {"gpt2",
       {{"n_positions", "absent"}},
       "key \"n_positions\" is missing; legal: an integer in 1..16777216"},
      {"opt", {{"ffn_dim", "absent"}}, "key \"ffn_dim\" is missing"},
      // Of the wrong type.
      {"llama",
       {{"model_type", 3}},
       "key \"model_type\": value 3 is not a string"},
      {"llama",
       {{"hidden_size", "64"}},
       "key \"hidden_size\": value \"64\" is not an integer; legal: an integer "
       "in 1..1048576"},
      {"llama",
       {{"hidden_size", 64.0}},
       "key \"hidden_size\": value 64.0 is not an integer"},
      {"llama",
       {{"hidden_size", true}},
       "key \"hidden_size\": value true is not an integer"},
      {"llama",
       {{"hidden_size", nullptr}},
       "key \"hidden_size\": value null is not an integer"},
      {"llama",
       {{"hidden_size", {64}}},
       "key \"hidden_size\": value [...] is not an integer"},
      {"llama",
       {{"hidden_act", 1}},
       "key \"hidden_act\": value 1 is not a string"},
      {"llama",
       {{"rms_norm_eps", "1e-5"}},
       "key \"rms_norm_eps\": value \"1e-5\" is not a number; legal: a number "
       "in (0.0, 1.0]"},
      {"llama",
       {{"tie_word_embeddings", 0}},
       "key \"tie_word_embeddings\": value 0 is not a boolean; legal: true, "
       "false"},
      {"llama",
       {{"attention_bias", "false"}},
       "key \"attention_bias\": value \"false\" is not a boolean"},
      {"llama",
       {{"rope_scaling", 4}},
       "key \"rope_scaling\": value 4 is not an object"},
      {"llama",
       {{"rope_theta", nullptr}},
       "key \"rope_theta\": value null is not a number"},
      {"llama",
       {{"torch_dtype", 32}},
       "key \"torch_dtype\": value 32 is not a string"},
      // Negative, zero, huge.
      {"llama",
       {{"hidden_size", -64}},
       "key \"hidden_size\": value -64 is out of range; legal: an integer in "
       "1..1048576"},
      {"llama",
       {{"hidden_size", 0}},
       "key \"hidden_size\": value 0 is out of range"},
      {"llama",
       {{"hidden_size", 1048577}},
       "key \"hidden_size\": value 1048577 is out of range"},
      {"llama",
       {{"hidden_size", 18446744073709551615u}},
       "key \"hidden_size\": value 18446744073709551615 is out of range"},
      {"llama",
       {{"num_hidden_layers", 1000000000}},
       "key \"num_hidden_layers\": value 1000000000 is out of range; legal: an "
       "integer in 1..4096"},
      {"llama",
       {{"num_key_value_heads", 0}},
       "key \"num_key_value_heads\": value 0 is out of range"},
      {"llama",
       {{"head_dim", -1}},
       "key \"head_dim\": value -1 is out of range"},
      {"llama",
       {{"vocab_size", 0}},
       "key \"vocab_size\": value 0 is out of range"},
      {"llama",
       {{"max_position_embeddings", 0}},
       "key \"max_position_embeddings\": value 0 is out of range"},
      {"llama",
       {{"rms_norm_eps", 0}},
       "key \"rms_norm_eps\": value 0 is out of range; legal: a number in "
       "(0.0, 1.0]"},
      {"llama",
       {{"rms_norm_eps", -1e-5}},
       "key \"rms_norm_eps\": value -1e-05 is out of range"},
      {"llama",
       {{"rope_theta", 0}},
       "key \"rope_theta\": value 0 is out of range; legal: a number in (1.0, "
       "1000000000000.0]"},
      {"llama",
       {{"initializer_range", -1}},
       "key \"initializer_range\": value -1 is out of range"},
      {"llama",
       {{"attention_dropout", 2}},
       "key \"attention_dropout\": value 2 is out of range; legal: a number in "
       "[0.0, 1.0]"},
      {"llama",
       {{"pad_token_id", 331}},
       "key \"pad_token_id\": value 331 is out of range; legal: an integer in "
       "-331..330"},
      {"mistral",
       {{"sliding_window", 0}},
       "key \"sliding_window\": value 0 is out of range"},
      {"qwen2",
       {{"max_window_layers", -1}},
       "key \"max_window_layers\": value -1 is out of range"},
      {"gpt_neox",
       {{"rotary_pct", 1.5}},
       "key \"rotary_pct\": value 1.5 is out of range; legal: a number in "
       "(0.0, 1.0]"},
      {"granite",
       {{"logits_scaling", 0}},
       "key \"logits_scaling\": value 0 is out of range"},
      // Dims that do not fit each other.
      {"llama",
       {{"hidden_size", 65}},
       "key \"hidden_size\": value 65 is not divisible by "
       "\"num_attention_heads\" (8)"},
      {"gpt2",
       {{"n_embd", 66}},
       "key \"n_embd\": value 66 is not divisible by \"n_head\" (4)"},
      {"llama",
       {{"num_key_value_heads", 3}},
       "key \"num_attention_heads\": value 8 is not divisible by "
       "\"num_key_value_heads\" (3)"},
      {"llama",
       {{"num_key_value_heads", 16}},
       "key \"num_attention_heads\": value 8 is not divisible by "
       "\"num_key_value_heads\" (16)"},
      {"llama",
       {{"head_dim", 9}},
       "head dim 9 (\"hidden_size\" / \"num_attention_heads\", or "
       "\"head_dim\") times \"partial_rotary_factor\" gives 9 rotary dims; "
       "legal: a positive even number"},
      {"gpt_neox",
       {{"rotary_pct", 0.2},
        {"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}},
       "times \"rotary_pct\" gives 3 rotary dims; legal: a positive even "
       "number"},
      {"gpt_neox",
       {{"rotary_pct", 0.01}},
       "times \"rotary_pct\" gives 0 rotary dims"},
      {"opt",
       {{"word_embed_proj_dim", 0}},
       "key \"word_embed_proj_dim\": value 0 is out of range; legal: an "
       "integer in 1..1048576"},
      // Names that nobody knows.
      {"llama",
       {{"model_type", "mixtral"}},
       "key \"model_type\": value \"mixtral\" is not supported; supported are "
       "gpt2, "},
      {"llama",
       {{"hidden_act", "tanh"}},
       "key \"hidden_act\": value \"tanh\" is not supported; supported are "
       "gelu, gelu_python, gelu_new, gelu_pytorch_tanh, gelu_python_tanh, "
       "gelu_accurate, gelu_fast, quick_gelu, silu, swish, relu, relu2"},
      {"llama",
       {{"torch_dtype", "int8"}},
       "key \"torch_dtype\": value \"int8\" is not supported; supported are "
       "float32, bfloat16, float16, float64"},
      {"llama",
       {{"rope_scaling", {{"type", "ntk"}, {"factor", 2}}}},
       "key \"rope_scaling.type\": value \"ntk\" is not supported; "
       "supported are default, linear, dynamic, llama3, yarn, longrope"},
      {"llama",
       {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}},
        {"head_dim", 2}},
       "rope type \"dynamic\" expects more than 2 rotary dims"},
      {"llama",
       {{"rope_parameters", {{"rope_type", "ntk"}}}},
       "key \"rope_parameters.rope_type\": value \"ntk\" is not supported"},
      {"phi3",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}},
       "key \"rope_scaling.type\": value \"linear\" is not supported; "
       "supported are default, longrope"},
      {"qwen2",
       {{"layer_types", {"full_attention", "chunked_attention"}}},
       "key \"layer_types\": value [...] has element \"chunked_attention\"; "
       "legal: \"full_attention\", \"sliding_attention\""},
      // Options that are not supported.
      {"gemma",
       {{"use_bidirectional_attention", true}},
       "key \"use_bidirectional_attention\": value true is not supported: it "
       "may change what the model computes"},
      {"opt",
       {{"layer_norm_elementwise_affine", false}},
       "key \"layer_norm_elementwise_affine\": value false is not supported; "
       "legal: true"},
      {"starcoder2",
       {{"norm_type", "rms_norm"}},
       "key \"norm_type\": value \"rms_norm\" is not supported; legal: "
       "\"layer_norm\""},
      {"llama",
       {{"partial_rotary_factor", 0.5}},
       "key \"partial_rotary_factor\": value 0.5 is not supported by "
       "\"llama\"; legal: 1"},
      {"llama",
       {{"chunk_size_feed_forward", 8}},
       "key \"chunk_size_feed_forward\": value 8 is not supported; legal: 0"},
      {"llama",
       {{"pruned_heads", {{"0", {1}}}}},
       "key \"pruned_heads\": value {...} is not supported; legal: {}"},
      // Keys by which transformers computes something else.
      {"llama",
       {{"quantization_config", {{"bits", 4}}}},
       "key \"quantization_config\": value {...} is not supported"},
      {"llama",
       {{"per_layer_config", {{"0", {{"head_dim", 4}}}}}},
       "key \"per_layer_config\": value {...} is not supported"},
      {"llama",
       {{"is_causal", false}},
       "key \"is_causal\": value false is not supported; legal: true"},
      {"gpt2",
       {{"add_cross_attention", true}},
       "key \"add_cross_attention\": value true is not supported"},
      {"gpt_neox",
       {{"head_dim", 8}},
       "key \"head_dim\": value 8 is not supported"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"alpha", 1}}}},
       "key \"rope_scaling.alpha\": value 1 is not supported"},
      // Keys that contradict each other.
      {"llama",
       {{"torch_dtype", "float16"}, {"dtype", "float32"}},
       "key \"torch_dtype\": value \"float16\" contradicts \"dtype\" "
       "(\"float32\")"},
      {"llama",
       {{"rope_theta", 20000}, {"rope_parameters", {{"rope_theta", 5000}}}},
       "key \"rope_parameters.rope_theta\": value 5000 contradicts "
       "\"rope_theta\" (20000.0)"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
        {"rope_parameters", {{"type", "linear"}, {"factor", 4}}}},
       "key \"rope_parameters\": value {...} contradicts \"rope_scaling\"; "
       "give one of them"},
      {"llama",
       {{"rope_scaling",
         {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2}}}},
       "key \"rope_scaling.type\": value \"linear\" contradicts \"rope_type\""},
      {"gpt_neox",
       {{"rope_theta", 500}},
       "key \"rope_theta\": value 500 contradicts \"rotary_emb_base\""},
      {"gpt_neox",
       {{"rope_theta", 500}, {"rotary_emb_base", "absent"}},
       "key \"rope_theta\": value 500 contradicts \"rotary_emb_base\" "
       "(10000.0)"},
      {"gpt2",
       {{"hidden_size", 128}},
       "key \"hidden_size\": value 128 contradicts \"n_embd\" (64)"},
      {"phi3",
       {{"original_max_position_embeddings", 64},
        {"rope_scaling",
         {{"type", "longrope"}, {"original_max_position_embeddings", 32}}}},
       "key \"rope_scaling.original_max_position_embeddings\": value 32 "
       "contradicts the one beside it (64)"},
      {"gemma",
       {{"hidden_act", "silu"}, {"hidden_activation", "relu"}},
       "key \"hidden_activation\": value \"relu\" contradicts \"hidden_act\""},
      {"gemma",
       {{"hidden_act", "absent"}, {"hidden_activation", "relu"}},
       "key \"hidden_activation\": value \"relu\" contradicts \"hidden_act\""},
      {"llama",
       {{"layer_types", {"full_attention", "sliding_attention"}}},
       "key \"layer_types\": value [...] contradicts the sliding window of the "
       "model (none)"},
      {"mistral",
       {{"layer_types", {"full_attention", "sliding_attention"}}},
       "key \"layer_types\": value [...] contradicts the sliding window of the "
       "model (16)"},
      {"qwen2",
       {{"layer_types", {"full_attention", "sliding_attention"}}},
       "key \"layer_types\": value [...] contradicts the sliding window of the "
       "model (none)"},
      {"qwen2",
       {{"layer_types", {"full_attention"}}},
       "key \"layer_types\": value [...] is not a list of 2 layer types"},
      // Scaling without its numbers.
      {"llama",
       {{"rope_scaling", {{"type", "linear"}}}},
       "key \"rope_scaling.factor\" is missing; legal: a number in [1.0, "
       "1000000.0]"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}},
       "key \"rope_scaling.factor\": value 0.5 is out of range"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", nullptr}}}},
       "key \"rope_scaling.factor\": value null is not a number"},
      {"llama",
       {{"rope_scaling",
         {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}}}},
       "key \"rope_scaling.high_freq_factor\" is missing"},
      {"llama",
       {{"rope_scaling",
         {{"type", "llama3"},
          {"factor", 8},
          {"low_freq_factor", 4},
          {"high_freq_factor", 4}}}},
       "key \"rope_scaling.low_freq_factor\": value 4 is not less than "
       "\"high_freq_factor\""},
      {"phi3",
       {{"rope_scaling", {{"type", "longrope"}}}},
       "key \"rope_scaling.short_factor\" is missing; legal: a list of 4 "
       "numbers"},
      {"phi3",
       {{"rope_scaling", {{"type", "longrope"}, {"short_factor", 1}}}},
       "key \"rope_scaling.short_factor\": value 1 is not a list of 4 numbers, "
       "half the rotary dims"},
      {"phi3",
       {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 2}}}}},
       "key \"rope_scaling.short_factor\": value [...] has 2 elements; legal: "
       "4 numbers, half the rotary dims"},
      {"phi3",
       {{"rope_scaling",
         {{"type", "longrope"}, {"short_factor", {1, 2, 0, 4}}}}},
       "key \"rope_scaling.short_factor\": value [...] has element 2 = 0; "
       "legal: a number in (0, 1000000.0]"},
  };
  for (const BadChange &c : cases) {
    const std::string error = getError(change(c.type, c.changes));
    EXPECT_TRUE(llvm::StringRef(error).starts_with("config.json: ")) << error;
    EXPECT_NE(error.find(c.message), std::string::npos)
        << "got:    " << error << "\nwanted: " << c.message;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(BadInput, UnreadKeysThatAreOffPass) {
  const json config = change("llama", {{"clip_qkv", nullptr},
                                       {"use_mrope", false},
                                       {"partial_rotary_factor", nullptr},
                                       {"quantization_config", nullptr}});
  EXPECT_EQ(getError(config, {.strict = true}), "");
  EXPECT_EQ(parse(config).notes, std::vector<std::string>());
}

/// Keys that other families' code reads, and one that nobody's does.
TEST(BadInput, KeysThatNobodyReadsAreNamed) {
  const std::pair<const char *, json> cases[] = {
      {"llama", {{"clip_qkv", 8}}},
      {"llama", {{"sliding_window", 128}}},
      {"mistral", {{"attention_bias", true}}},
      {"gpt2", {{"head_dim", 16}}},
      {"gpt2", {{"rope_theta", 10000}}},
      {"starcoder2", {{"activation_function", "relu"}}},
      {"olmo2", {{"nobody\nreads", {1, 2}}}},
  };
  for (const auto &[type, changes] : cases) {
    const json config = change(type, changes);
    const std::string key = json(changes.begin().key()).dump();
    const Model model = parse(config), without = parse(getSmallConfig(type));
    EXPECT_EQ(model.notes.back(),
              "keys that no code of \"" + std::string(type) +
                  "\" reads are ignored: " + key + "; --strict refuses them");
    EXPECT_EQ(model.notes.size(), without.notes.size() + 1);
    EXPECT_EQ(getModelSummary(model), getModelSummary(without));
    EXPECT_NE(getError(config, {.strict = true})
                  .find("config.json: key " + key + ": value "),
              std::string::npos);
    EXPECT_EQ(getError(getSmallConfig(type), {.strict = true}), "");
  }
  EXPECT_EQ(getError(change("llama", {{"clip_qkv", 8}}), {.strict = true}),
            "config.json: key \"clip_qkv\": value 8 is read by nobody; without "
            "--strict it is ignored");
}

TEST(BadInput, OneNoteNamesAllKeysThatNobodyReads) {
  json changes = {{"rope_scaling",
                   {{"type", "linear"}, {"factor", 2}, {"origin", "here"}}}};
  for (int i = 0; i < 30; ++i)
    changes["z" + std::to_string(10 + i)] = 1;
  const Model model = parse(change("llama", changes));
  ASSERT_EQ(model.notes.size(), 1u);
  const std::string &note = model.notes.front();
  EXPECT_NE(note.find("ignored: \"rope_scaling.origin\", \"z10\", \"z11\""),
            std::string::npos)
      << note;
  EXPECT_NE(note.find("\"z28\" and 11 more; --strict"), std::string::npos)
      << note;
}

/// No key that the code of a family in transformers reads is ignored.
TEST(BadInput, KeysThatTransformersReadsAreNeverIgnored) {
  const json all = readJson("read-keys.json");
  EXPECT_EQ(all.size(), getModelTypes().size());
  for (const auto &[type, keys] : all.items())
    for (const std::string key : keys) {
      const json config = change(type, {{key, {{"some", "thing"}}}});
      llvm::Expected<Model> model = parseModel(config.dump(), "config.json");
      if (!model) {
        EXPECT_NE(toString(model.takeError()).find("\"" + key + "\""),
                  std::string::npos)
            << type << " " << key;
        continue;
      }
      for (const std::string &note : model->notes)
        EXPECT_EQ(note.find("ignored: \"" + key + "\""), std::string::npos)
            << type << ": " << note;
    }
}

TEST(BadInput, NotJson) {
  const std::string good = getSmallConfig("llama").dump();
  const std::pair<std::string, const char *> cases[] = {
      {"", "not valid JSON"},
      {"\xff\xfe", "not valid JSON"},
      {"{\"model_type\": \"ll\xff\"}", "not valid JSON"},
      {"{'model_type': 'llama'}", "not valid JSON"},
      {"{\"hidden_size\": 1e999}", "not valid JSON"},
      {good + "}", "not valid JSON"},
      {good + good, "not valid JSON"},
      {"[]", "a config is a JSON object, not [...]"},
      {"3", "a config is a JSON object, not 3"},
      {"null", "a config is a JSON object, not null"},
      {"\"llama\"", "a config is a JSON object, not \"llama\""},
      {"{}", "key \"model_type\" is missing"},
  };
  for (const auto &[text, message] : cases) {
    const std::string error = getError(llvm::StringRef(text));
    EXPECT_TRUE(llvm::StringRef(error).starts_with("config.json: ")) << error;
    EXPECT_NE(error.find(message), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(getError(llvm::StringRef(good).take_front(length))
                  .find("config.json: not valid JSON"),
              std::string::npos)
        << length;
}

TEST(BadInput, DeepNesting) {
  auto nest = [](size_t depth) {
    json config = getSmallConfig("llama");
    std::string text = config.dump();
    text.pop_back();
    return text + ",\"task_specific_params\":" + std::string(depth, '[') +
           std::string(depth, ']') + "}";
  };
  EXPECT_EQ(getError(llvm::StringRef(nest(63))), "");
  EXPECT_EQ(getError(llvm::StringRef(nest(64))),
            "config.json: nested deeper than 64 levels");
  EXPECT_EQ(getError(llvm::StringRef(nest(1000000))),
            "config.json: nested deeper than 64 levels");
  EXPECT_EQ(getError(llvm::StringRef(std::string(1000000, '['))),
            "config.json: nested deeper than 64 levels");
}

TEST(BadInput, RepeatedKeys) {
  std::string text = getSmallConfig("llama").dump();
  text.insert(1, "\"hidden_size\":64,");
  EXPECT_EQ(getError(llvm::StringRef(text)),
            "config.json: key \"hidden_size\" appears twice in one object");
}

TEST(BadInput, OversizedText) {
  std::string text = getSmallConfig("llama").dump();
  text += std::string((size_t(16) << 20) - text.size(), ' ');
  EXPECT_EQ(getError(llvm::StringRef(text)), "");
  text += ' ';
  EXPECT_EQ(getError(llvm::StringRef(text)),
            "config.json: 16777217 bytes; legal: at most 16 MiB");
}

TEST(BadInput, NonFiniteNumbersAreRefusedByKey) {
  std::string text = change("llama", {{"rope_theta", "absent"}}).dump();
  for (const char *number : {"NaN", "Infinity", "-Infinity"}) {
    std::string bad = text;
    bad.insert(1, "\"rope_theta\":" + std::string(number) + ",");
    EXPECT_NE(getError(llvm::StringRef(bad))
                  .find("config.json: key \"rope_theta\": value \"" +
                        std::string(number) + "\" is not a number"),
              std::string::npos);
  }
  // Where nobody reads them they do not matter, as in transformers.
  std::string unread = text;
  unread.insert(1, "\"time_step_limit\":[0.0,Infinity,-Infinity,NaN],");
  EXPECT_EQ(getError(llvm::StringRef(unread)), "");
  // Inside strings they are what they are.
  EXPECT_EQ(getError(change("llama", {{"prefix", "a \\\"NaN\\\" Infinity"}})),
            "");
}

TEST(BadInput, ValuesAreShownShortAndPrintable) {
  std::string name(100000, 'x');
  name[1] = '\n';
  name[2] = '\x1b';
  const std::string error = getError(change("llama", {{"model_type", name}}));
  EXPECT_LT(error.size(), 300u);
  for (char c : error)
    EXPECT_TRUE(c >= ' ' && c < 127) << error;
}

TEST(BadInput, TheLargestLegalModelCanBeCounted) {
  const int64_t heads = 1 << 14, hidden = 1 << 20, inner = 1 << 24;
  Model model = parse(change("llama", {{"num_attention_heads", heads},
                                       {"num_key_value_heads", heads},
                                       {"head_dim", heads},
                                       {"hidden_size", hidden},
                                       {"intermediate_size", inner},
                                       {"vocab_size", inner},
                                       {"num_hidden_layers", 4096}}));
  EXPECT_EQ(
      model.getParameterCount(),
      4096 * (4 * heads * heads * hidden + 3 * inner * hidden + 2 * hidden) +
          2 * inner * hidden + hidden);
}

TEST(BadInput, SequencesLongerThanLearnedPositions) {
  const json gpt2 = getSmallConfig("gpt2");
  EXPECT_EQ(getError(gpt2, {.seqLen = 128}), "");
  EXPECT_EQ(getError(gpt2, {.seqLen = 129}),
            "config.json: key \"n_positions\": value 128 is less than the "
            "sequence length (129)");
  EXPECT_EQ(getError(getSmallConfig("llama"), {.seqLen = 1024}), "");
}

TEST(BadInput, Files) {
  auto load = [](const std::string &path) {
    llvm::Expected<Model> model = loadModel(path);
    return model ? "" : toString(model.takeError());
  };
  EXPECT_EQ(load("/nonexistent/config.json"),
            "/nonexistent/config.json: No such file or directory");
  EXPECT_EQ(load("/"), "/: not a regular file");
  EXPECT_EQ(load("/dev/zero"), "/dev/zero: not a regular file");

  llvm::SmallString<128> path;
  int descriptor;
  ASSERT_FALSE(
      llvm::sys::fs::createTemporaryFile("config", "json", descriptor, path));
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true)
      << getSmallConfig("llama").dump();
  EXPECT_EQ(load(path.str().str()), "");
  ASSERT_FALSE(llvm::sys::fs::openFileForWrite(path, descriptor));
  ASSERT_FALSE(llvm::sys::fs::resize_file(descriptor, (16 << 20) + 1));
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true).flush();
  EXPECT_EQ(load(path.str().str()),
            path.str().str() + ": 16777217 bytes; legal: at most 16 MiB");
  llvm::sys::fs::remove(path);
}

} // namespace
