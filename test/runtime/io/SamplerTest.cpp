//===- SamplerTest.cpp ----------------------------------------------------===//
#include "runtime/io/Sampler.h"
#include "TestFiles.h"
#include <numeric>

using namespace cleave::runtime;

namespace {

TEST(Permutation, IsOne) {
  for (uint64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    for (uint64_t key : {0, 1, 42}) {
      Permutation permutation(size, key);
      std::vector<bool> seen(size);
      for (uint64_t i = 0; i < size; ++i) {
        uint64_t j = permutation(i);
        ASSERT_LT(j, size);
        ASSERT_FALSE(seen[j]) << size << " " << key << " " << i;
        seen[j] = true;
      }
    }
  }
}

TEST(Permutation, TakesHugeSizes) {
  Permutation permutation(uint64_t(1) << 62, 7);
  EXPECT_LT(permutation(12345), uint64_t(1) << 62);
  EXPECT_NE(permutation(12345), permutation(12346));
}

TEST(Permutation, MovesUniformly) {
  // Where index 3 of 16 goes, over 16,000 keys: about 1,000 times to each
  // place. The 99.99 % bound of chi-squared with 15 degrees of freedom is 44.
  std::vector<double> counts(16);
  for (uint64_t key = 0; key < 16000; ++key)
    ++counts[Permutation(16, key)(3)];
  double chi = 0;
  for (double count : counts)
    chi += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi, 44);
}

/// A text of n letters that names its positions: token i = i % 251.
TokenStream makeStream(const TestFolder &folder, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i)
    text += static_cast<char>(i % 127);
  TokenStream stream;
  EXPECT_OK(TokenStream::open({folder.write("t", text)}, stream));
  return stream;
}

TEST(Sampler, GivesEverySampleOnceAnEpoch) {
  TestFolder folder;
  std::unique_ptr<BatchSource> source;
  // 103 tokens: 20 samples of 5 + 1, two tokens left over.
  BatchShape shape{.globalBatch = 4, .seqLen = 5, .vocab = 127};
  ASSERT_OK(Sampler::create(makeStream(folder, 103), shape, 1, source));
  const auto &sampler = static_cast<const Sampler &>(*source);
  ASSERT_EQ(sampler.getSamplesPerEpoch(), 20u);
  std::vector<std::vector<int32_t>> epochs;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> firsts;
    for (uint64_t step = epoch * 5; step < epoch * 5 + 5; ++step)
      for (uint64_t sample = 0; sample < 4; ++sample) {
        int32_t inputs[5], targets[5];
        ASSERT_OK(source->read(step, sample, inputs, targets));
        for (int i = 0; i < 5; ++i) {
          EXPECT_EQ(inputs[i], inputs[0] + i);
          EXPECT_EQ(targets[i], inputs[i] + 1);
        }
        firsts.push_back(inputs[0]);
      }
    epochs.push_back(firsts);
    std::sort(firsts.begin(), firsts.end());
    for (int32_t i = 0; i < 20; ++i)
      EXPECT_EQ(firsts[i], i * 5);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Sampler, DependsOnSeedAndSampleOnly) {
  TestFolder folder;
  auto getOrder = [&](uint64_t seed, uint64_t globalBatch) {
    std::unique_ptr<BatchSource> source;
    EXPECT_OK(Sampler::create(makeStream(folder, 103), {globalBatch, 5, 127},
                              seed, source));
    std::vector<int32_t> firsts;
    for (uint64_t n = 0; n < 40; ++n) {
      int32_t inputs[5], targets[5];
      EXPECT_OK(
          source->read(n / globalBatch, n % globalBatch, inputs, targets));
      firsts.push_back(inputs[0]);
    }
    return firsts;
  };
  EXPECT_EQ(getOrder(1, 4), getOrder(1, 4));
  EXPECT_EQ(getOrder(1, 4), getOrder(1, 8));
  EXPECT_EQ(getOrder(1, 4), getOrder(1, 1));
  EXPECT_NE(getOrder(1, 4), getOrder(2, 4));
}

TEST(Sampler, NamesTooLittleData) {
  TestFolder folder;
  std::unique_ptr<BatchSource> source;
  EXPECT_ERROR(Sampler::create(makeStream(folder, 5), {1, 5, 127}, 0, source),
               "has 5 tokens in all; one sample needs 6");
  EXPECT_OK(Sampler::create(makeStream(folder, 6), {1, 5, 127}, 0, source));
}

TEST(TokenStream, JoinsFilesOfBothKinds) {
  TestFolder folder;
  folder.write("d.bin", toBytes(uint16_t(500)) + toBytes(uint16_t(501)));
  folder.write("d.idx", std::string("MMIDIDX\0\0", 9) + toBytes(uint64_t(1)) +
                            '\x08' + toBytes(uint64_t(1)) +
                            toBytes(uint64_t(2)) + toBytes(int32_t(2)) +
                            toBytes(int64_t(0)) + toBytes(int64_t(0)) +
                            toBytes(int64_t(1)));
  std::string ab = folder.write("ab.txt", "ab"), none = folder.write("e", "");
  TokenStream stream;
  ASSERT_OK(TokenStream::open(
      {ab, folder / "d.idx", none, folder / "d.bin", folder / "d", ab},
      stream));
  std::vector<int32_t> tokens(stream.getTokenCount());
  ASSERT_OK(stream.read(0, tokens.size(), 502, tokens.data()));
  EXPECT_EQ(tokens, (std::vector<int32_t>{'a', 'b', 500, 501, 500, 501, 500,
                                          501, 'a', 'b'}));
  int32_t middle[5];
  ASSERT_OK(stream.read(1, 5, 502, middle));
  EXPECT_TRUE(std::equal(middle, middle + 5, tokens.begin() + 1));
  EXPECT_ERROR(stream.read(0, tokens.size(), 501, tokens.data()),
               "d.bin: token 1 has id 501; the model's vocabulary is 0 to 500");
  EXPECT_ERROR(stream.read(0, 1, 97, tokens.data()),
               "ab.txt: token 0 has id 97; the model's vocabulary is 0 to 96");
}

TEST(TokenStream, NamesWhatIsNeither) {
  TestFolder folder;
  TokenStream stream;
  EXPECT_ERROR(TokenStream::open({folder / "x"}, stream), "x: cannot open");
  EXPECT_ERROR(TokenStream::open({folder / "x.bin"}, stream),
               "x.idx: cannot open");
  EXPECT_ERROR(TokenStream::open({folder.path}, stream), "not a regular file");
  EXPECT_ERROR(TokenStream::open({folder.write("b", "ok \xc0\xaf")}, stream),
               "b: byte 3 is not UTF-8");
}

/// The check goes piece by piece: characters that a piece cuts, and damage at
/// and around each cut.
TEST(Text, ChecksLongFilesToTheEnd) {
  TestFolder folder;
  constexpr size_t piece = 1 << 20;
  for (size_t shift : {0, 1, 2, 3}) {
    std::string text(shift, 'a');
    while (text.size() < 2 * piece + 10)
      text += "\xf0\x9f\x98\x80";
    Text file;
    ASSERT_OK(Text::open(folder.write("t", text), file));
    std::vector<int64_t> tokens(text.size());
    ASSERT_OK(file.read(0, tokens.size(), tokens.data()));
    for (size_t i = 0; i < text.size(); ++i)
      ASSERT_EQ(tokens[i], static_cast<unsigned char>(text[i]));
    for (size_t at :
         {piece - 3, piece, piece + 2, 2 * piece - 1, text.size()}) {
      std::string damaged = text;
      if (at == text.size())
        damaged.pop_back();
      else
        damaged[at] = '\xff';
      size_t bad = findInvalidUtf8(damaged);
      ASSERT_LT(bad, damaged.size());
      EXPECT_ERROR(Text::open(folder.write("t", damaged), file),
                   "t: byte " + std::to_string(bad) + " is not UTF-8");
    }
  }
}

TEST(Text, NamesAFileThatWasCutShort) {
  TestFolder folder;
  TokenStream stream;
  std::string path = folder.write("t", std::string(100, 'a'));
  ASSERT_OK(TokenStream::open({path}, stream));
  std::filesystem::resize_file(path, 20);
  int32_t tokens[10];
  EXPECT_OK(stream.read(10, 10, 128, tokens));
  EXPECT_ERROR(stream.read(50, 10, 128, tokens),
               "t: ends at byte 50, inside the 10 bytes at byte 50; it had 100 "
               "bytes when it was opened");
}

TEST(Text, FindsInvalidUtf8) {
  auto valid = [](const std::string &text) {
    return findInvalidUtf8(text) == text.size();
  };
  EXPECT_TRUE(valid(""));
  EXPECT_TRUE(valid("plain text that is longer than a word"));
  EXPECT_TRUE(valid("z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80"));
  EXPECT_FALSE(valid("\xc0\x80"));         // overlong
  EXPECT_FALSE(valid("\xe0\x9f\xbf"));     // overlong
  EXPECT_FALSE(valid("\xed\xa0\x80"));     // surrogate
  EXPECT_FALSE(valid("\xf4\x90\x80\x80")); // beyond U+10FFFF
  EXPECT_FALSE(valid("\xe2\x82"));         // cut off
  EXPECT_EQ(findInvalidUtf8("12345678\xff"), 8u);
  // Every code point, encoded by the definition, is valid; so counted, every
  // pair of bytes is valid exactly as often as Unicode has such pairs.
  int pairs = 0;
  for (int i = 0; i < 65536; ++i)
    pairs += valid({char(i >> 8), char(i & 255)});
  EXPECT_EQ(pairs, 128 * 128 + (0x800 - 0x80));
}

/// A file of inputs and targets [2, 1, 3].
std::string makeBatches(std::vector<int32_t> inputs,
                        std::vector<int32_t> targets) {
  std::string data;
  for (int32_t token : inputs)
    data += toBytes(token);
  for (int32_t token : targets)
    data += toBytes(token);
  return makeSafetensors(
      R"({"inputs":{"dtype":"I32","shape":[2,1,3],"data_offsets":[0,24]},)"
      R"("targets":{"dtype":"I32","shape":[2,1,3],"data_offsets":[24,48]}})",
      data);
}

TEST(GivenBatches, ReadsThem) {
  TestFolder folder;
  std::string path =
      folder.write("g", makeBatches({0, 1, 2, 3, 4, 5}, {1, 2, -100, 4, 5, 6}));
  std::unique_ptr<BatchSource> source;
  ASSERT_OK(GivenBatches::create(path, {1, 3, 7}, source));
  EXPECT_EQ(source->getMaxSteps(), 2u);
  int32_t inputs[3], targets[3];
  ASSERT_OK(source->read(0, 0, inputs, targets));
  EXPECT_EQ(targets[2], -100);
  ASSERT_OK(source->read(1, 0, inputs, targets));
  EXPECT_EQ(inputs[0], 3);
  EXPECT_EQ(targets[2], 6);
  EXPECT_ERROR(source->read(2, 0, inputs, targets), "none for step 2");
}

TEST(GivenBatches, RefusesOthers) {
  TestFolder folder;
  std::unique_ptr<BatchSource> source;
  auto open = [&](const std::string &bytes, BatchShape shape) {
    return GivenBatches::create(folder.write("g", bytes), shape, source);
  };
  std::string good = makeBatches({0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6});
  EXPECT_OK(open(good, {1, 3, 7}));
  EXPECT_ERROR(open(good, {1, 3, 6}), "element 5 has id 6; the model's");
  EXPECT_ERROR(open(good, {2, 3, 7}), "shape [2, 1, 3] is not [steps, 2, 3]");
  EXPECT_ERROR(open(good, {1, 4, 7}), "is not [steps, 1, 4]");
  EXPECT_ERROR(
      open(makeBatches({0, -100, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6}), {1, 3, 7}),
      "tensor \"inputs\": element 1 has id -100");
  EXPECT_ERROR(
      open(makeBatches({0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, -1}), {1, 3, 7}),
      "tensor \"targets\": element 5 has id -1");
  // A step without a target has no loss, not one of 0.
  EXPECT_ERROR(
      open(makeBatches({0, 1, 2, 3, 4, 5}, {1, -100, 3, -100, -100, -100}),
           {1, 3, 7}),
      "tensor \"targets\": all targets of step 1 are -100");
  EXPECT_OK(open(makeBatches({0, 1, 2, 3, 4, 5}, {1, -100, 3, -100, 0, -100}),
                 {1, 3, 7}));
  EXPECT_ERROR(open(makeSafetensors("{}", ""), {1, 3, 7}),
               "tensor \"inputs\": is missing");
}

} // namespace
