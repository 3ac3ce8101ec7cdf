//===- SafetensorsTest.cpp ------------------------------------------------===//
#include "runtime/io/Safetensors.h"
#include "TestFiles.h"
#include "runtime/base/Quote.h"
#include "runtime/io/OutputFile.h"
#include <cmath>
#include <limits>

using namespace cleave::runtime;

namespace {

Status parse(const std::string &bytes) {
  std::vector<TensorInfo> tensors;
  return parseSafetensors(bytes, "f", tensors);
}

/// With 8 bytes of data.
Status parseHeader(const std::string &header) {
  return parse(makeSafetensors(header, std::string(8, 'x')));
}

TEST(Safetensors, ReadsAFile) {
  std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"I32","shape":[],"data_offsets":[8,12]},)"
      R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("empty":{"shape":[0,7],"dtype":"F16","data_offsets":[12,12]}}   )";
  std::string data = toBytes(1.5f) + toBytes(-2.0f) + toBytes(int32_t(7));
  TestFolder folder;
  std::string path =
      folder.write("m.safetensors", makeSafetensors(header, data));
  SafetensorsFile file;
  ASSERT_OK(SafetensorsFile::open(path, file));
  ASSERT_EQ(file.getTensors().size(), 3u);
  const TensorInfo *a = file.find("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->shape, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(a->elements, 2u);
  float values[2];
  readAsFloat(file.getData(*a), a->dtype, 0, 1, 2, values);
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_EQ(values[1], -2.0f);
  readAsFloat(file.getData(*file.find("b")), "I32", 0, 1, 1, values);
  EXPECT_EQ(values[0], 7.0f);
  EXPECT_EQ(file.find("empty")->elements, 0u);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, ConvertsEveryDType) {
  float out[4];
  std::string f64 = toBytes(1e300) + toBytes(0.1) + toBytes(-3.0);
  readAsFloat(f64.data(), "F64", 0, 2, 2, out);
  EXPECT_EQ(out[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(out[1], -3.0f);
  readAsFloat(f64.data(), "F64", 1, 1, 1, out);
  EXPECT_EQ(out[0], 0.1f);
  std::string bf16 = toBytes(uint16_t(0x3f80)) + toBytes(uint16_t(0xc0a0));
  readAsFloat(bf16.data(), "BF16", 0, 1, 2, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -5.0f);
  std::string i64 = toBytes(int64_t(-9));
  readAsFloat(i64.data(), "I64", 0, 1, 1, out);
  EXPECT_EQ(out[0], -9.0f);
}

TEST(Safetensors, ConvertsEveryHalf) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    // IEEE 754: (-1)^s * 2^(e - 15) * 1.m, or 2^-14 * 0.m.
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double expected;
    if (exponent == 31)
      expected = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
      expected = std::ldexp(mantissa, -24);
    else
      expected = std::ldexp(1024 + mantissa, exponent - 25);
    if (bits & 0x8000)
      expected = -expected;
    std::string bytes = toBytes(uint16_t(bits));
    float value;
    readAsFloat(bytes.data(), "F16", 0, 1, 1, &value);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(value, static_cast<float>(expected)) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
  }
}

TEST(Safetensors, WritesWhatItReads) {
  SafetensorsLayout layout;
  layout.add("x.weight", "F32", {2, 3});
  layout.add("loss", "F64", {1});
  layout.add("n\"ame", "I32", {});
  std::string bytes = layout.getHeader();
  EXPECT_EQ(bytes.size() % 8, 0u);
  bytes.resize(layout.getFileSize(), 'd');
  std::vector<TensorInfo> tensors;
  ASSERT_OK(parseSafetensors(bytes, "f", tensors));
  std::vector<TensorInfo> expected = layout.getTensors();
  ASSERT_EQ(tensors.size(), expected.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].name, expected[i].name);
    EXPECT_EQ(tensors[i].begin, expected[i].begin);
    EXPECT_EQ(tensors[i].end, expected[i].end);
    EXPECT_EQ(tensors[i].shape, expected[i].shape);
  }
}

TEST(Safetensors, RefusesBadLengths) {
  EXPECT_ERROR(parse(""), "f: has 0 bytes");
  EXPECT_ERROR(parse("1234567"), "f: has 7 bytes");
  EXPECT_ERROR(parse(toBytes(uint64_t(0))), "does not start with '{'");
  EXPECT_ERROR(parse(toBytes(uint64_t(3)) + "{}"),
               "header length 3 reaches beyond the file's 10 bytes");
  EXPECT_ERROR(parse(toBytes(UINT64_MAX) + "{}"), "is over 100000000 bytes");
  EXPECT_ERROR(parse(toBytes(uint64_t(100'000'001)) + "{}"), "is over");
}

TEST(Safetensors, RefusesWhatIsNotAHeader) {
  EXPECT_ERROR(parse(makeSafetensors("{", "")), "is not JSON at byte");
  EXPECT_ERROR(parse(makeSafetensors("{}{}", "")), "is not JSON at byte");
  EXPECT_ERROR(parse(makeSafetensors(" {}", "")), "does not start with '{'");
  EXPECT_ERROR(parse(makeSafetensors("[]", "")), "does not start with '{'");
  EXPECT_ERROR(parse(makeSafetensors("{\"\xff\":1}", "")), "is not JSON");
  EXPECT_ERROR(parseHeader(R"({"a":[1]})"), "expects an object, got an array");
  EXPECT_ERROR(parseHeader(R"({"a":null})"), "expects an object, got null");
  EXPECT_ERROR(parseHeader(R"({"__metadata__":{"a":1}})"),
               "expects an object of strings, got the number 1");
  EXPECT_ERROR(parseHeader(R"({"__metadata__":3})"), "object of strings");
  EXPECT_ERROR(parseHeader(R"({"__metadata__":{"a":{}}})"), "got an object");
  std::string deep = R"({"a":{"dtype":"F32","shape":)";
  deep.append(100'000, '[');
  EXPECT_ERROR(parse(makeSafetensors(deep, "")), "\"shape\" expects an array");
}

TEST(Safetensors, RefusesBadTensors) {
  struct Case {
    const char *tensor, *message;
  } cases[] = {
      {R"("dtype":"F31","shape":[2],"data_offsets":[0,8])",
       R"(tensor "a": dtype "F31" is not one of BOOL)"},
      {R"("dtype":7,"shape":[2],"data_offsets":[0,8])",
       R"("dtype" expects a string, got the number 7)"},
      {R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])",
       "got the negative number -2"},
      {R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])",
       "got the number \"2.0\""},
      {R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8])",
       "got the number \"99999999999999999999\""},
      {R"("dtype":"F32","shape":"2","data_offsets":[0,8])",
       R"(got the string "2")"},
      {R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])", "got an array"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])",
       "two byte offsets"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0])",
       R"(expects "dtype", "shape" and "data_offsets")"},
      {R"("dtype":"F32","shape":[2])", R"(expects "dtype", "shape" and)"},
      {R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])",
       "is given twice"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)",
       R"(key "x" is not one of)"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[8,0])",
       "data_offsets [8, 0] are not in [0, 8]"},
      {R"("dtype":"F32","shape":[3],"data_offsets":[0,12])",
       "data_offsets [0, 12] are not in [0, 8]"},
      {R"("dtype":"F32","shape":[3],"data_offsets":[0,8])",
       "hold 8 bytes; its F32 shape needs 12"},
      {R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,8])",
       "too many elements"},
      {R"("dtype":"F32","shape":[4294967296,4294967297],"data_offsets":[0,8])",
       "too many elements"},
      {R"("dtype":"F4","shape":[3],"data_offsets":[0,8])", "whole bytes"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[4,8])",
       "leaving a hole; expects 0"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0,4])",
       "cover 4 of the 8 data bytes"},
  };
  for (const Case &c : cases)
    EXPECT_ERROR(parseHeader(std::string("{\"a\":{") + c.tensor + "}}"),
                 c.message);
}

TEST(Safetensors, RefusesOverlapAndRepetition) {
  EXPECT_ERROR(
      parseHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
      R"(tensor "b": data begin at 4, inside the tensor before; expects 8)");
  EXPECT_ERROR(
      parseHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                  R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
      R"(tensor "a" is listed twice)");
}

TEST(Safetensors, NamesFilesThatCannotBeRead) {
  SafetensorsFile file;
  EXPECT_ERROR(SafetensorsFile::open("/nowhere/m.safetensors", file),
               "/nowhere/m.safetensors: cannot open: No such file");
  EXPECT_ERROR(SafetensorsFile::open("/tmp", file), "is not a regular file");
}

TEST(Safetensors, QuotesHostileNames) {
  EXPECT_EQ(quote("a\n\"\x1b"), "\"a\\x0a\\\"\\x1b\"");
  EXPECT_LT(quote(std::string(1000, 'n')).size(), 130u);
}

} // namespace
