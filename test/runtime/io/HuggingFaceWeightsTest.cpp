//===- HuggingFaceWeightsTest.cpp -----------------------------------------===//
#include "runtime/io/HuggingFaceWeights.h"
#include "TestFiles.h"

using namespace cleave::runtime;

namespace {

/// A file with one F32 tensor of one element.
std::string makeFile(const std::string &name, float value) {
  return makeSafetensors(
      "{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      toBytes(value));
}

float readFirst(const HuggingFaceWeights &weights, const std::string &name) {
  const HuggingFaceWeights::Entry *entry = weights.find(name);
  float value = -1;
  if (entry)
    readAsFloat(entry->getData(), entry->tensor->dtype, 0, 1, 1, &value);
  return value;
}

constexpr char index[] = "model.safetensors.index.json";

TEST(HuggingFaceWeights, OpensAFolderOrAFile) {
  TestFolder folder;
  std::string path = folder.write("model.safetensors", makeFile("a", 3));
  HuggingFaceWeights weights;
  ASSERT_OK(HuggingFaceWeights::open(folder.path, weights));
  EXPECT_EQ(readFirst(weights, "a"), 3);
  ASSERT_OK(HuggingFaceWeights::open(path, weights));
  EXPECT_EQ(readFirst(weights, "a"), 3);
  EXPECT_EQ(weights.find("b"), nullptr);
}

TEST(HuggingFaceWeights, OpensShards) {
  TestFolder folder;
  folder.write("1.safetensors", makeFile("a", 1));
  folder.write("2.safetensors", makeFile("b", 2));
  folder.write(index,
               R"({"metadata":{"total_size":8,"x":[1,[2]],"y":{"z":null}},)"
               R"("weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  HuggingFaceWeights weights;
  ASSERT_OK(HuggingFaceWeights::open(folder.path, weights));
  EXPECT_EQ(weights.getEntries().size(), 2u);
  EXPECT_EQ(readFirst(weights, "a"), 1);
  EXPECT_EQ(readFirst(weights, "b"), 2);
}

TEST(HuggingFaceWeights, RefusesShardsThatDisagree) {
  TestFolder folder;
  folder.write("1.safetensors", makeFile("a", 1));
  folder.write("2.safetensors", makeFile("b", 2));
  folder.write("3.safetensors", makeFile("a", 3));
  HuggingFaceWeights weights;
  struct Case {
    const char *map, *message;
  } cases[] = {
      {R"({"a":"2.safetensors","b":"2.safetensors"})",
       R"(tensor "a" is not in "2.safetensors")"},
      {R"({"a":"1.safetensors","b":"3.safetensors"})", "is also in"},
      {R"({"a":"1.safetensors","c":"2.safetensors"})",
       R"(tensor "c" is not in "2.safetensors")"},
      {R"({"a":"1.safetensors","b":"4.safetensors"})", "cannot open"},
      {R"({"a":"../1.safetensors"})", "is not the name of a file"},
      {R"({"a":"/etc/passwd"})", "is not the name of a file"},
      {R"({"a":".."})", "is not the name of a file"},
      {R"({"a":3})", "expects a file name, got a number"},
      {R"({"a":{}})", "expects a file name, got an object"},
      {R"({"a":"x","a":"y"})", R"(tensor "a" is listed twice)"},
      {R"([])", R"("weight_map" expects an object, got an array)"},
      {R"(null)", R"("weight_map" expects an object, got null)"},
      {R"({},"weight_map":{})", "is given twice"},
  };
  for (const Case &c : cases) {
    folder.write(index, std::string("{\"weight_map\":") + c.map + "}");
    EXPECT_ERROR(HuggingFaceWeights::open(folder.path, weights), c.message);
  }
  folder.write(index, R"({"weight_map":{"a":"1.safetensors"}})");
  folder.write("1.safetensors",
               makeSafetensors(
                   R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("z":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                   std::string(8, '\0')));
  EXPECT_ERROR(HuggingFaceWeights::open(folder.path, weights),
               R"(does not list tensor "z")");
}

TEST(HuggingFaceWeights, RefusesWhatIsNotAnIndex) {
  std::map<std::string, std::string> map;
  EXPECT_ERROR(parseIndex("", "i", map), "i: is not JSON");
  EXPECT_ERROR(parseIndex("[]", "i", map), "expects an object, got an array");
  EXPECT_ERROR(parseIndex("7", "i", map), "expects an object, got a number");
  EXPECT_ERROR(parseIndex("{}", "i", map), "expects the key \"weight_map\"");
  std::string deep = "{\"x\":" + std::string(50'000, '[');
  EXPECT_ERROR(parseIndex(deep, "i", map), "is nested deeper than 16");
}

TEST(HuggingFaceWeights, NamesAFolderWithoutWeights) {
  TestFolder folder;
  HuggingFaceWeights weights;
  EXPECT_ERROR(HuggingFaceWeights::open(folder.path, weights),
               folder.path + ": has neither model.safetensors nor");
  EXPECT_ERROR(HuggingFaceWeights::open(folder / "none", weights),
               "cannot open");
}

} // namespace
