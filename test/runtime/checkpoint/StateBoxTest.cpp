//===- StateBoxTest.cpp ---------------------------------------------------===//
#include "runtime/checkpoint/StateBox.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <gtest/gtest.h>
#include <map>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// A state whose box is given by its definition.
struct Case {
  std::vector<uint64_t> view, starts, logical, shape;
  std::vector<uint8_t> drop;
  std::vector<std::vector<uint8_t>> dims;
};

/// Elements of the rank's shard and of the source that belong together, by the
/// definition in program.fbs, one at a time.
std::map<uint64_t, uint64_t> computeElements(const Case &c, const Mesh &mesh,
                                             int rank) {
  std::vector<uint64_t> local, first;
  uint64_t size = 1;
  for (size_t d = 0; d < c.shape.size(); ++d) {
    uint64_t count = 1, index = 0;
    for (uint8_t axis : c.dims[d]) {
      count *= uint64_t(mesh.getSizes()[axis]);
      index = index * uint64_t(mesh.getSizes()[axis]) +
              uint64_t(mesh.getCoordinate(rank, axis));
    }
    local.push_back(c.shape[d] / count);
    first.push_back(index * local[d]);
    size *= local[d];
  }
  std::map<uint64_t, uint64_t> elements;
  for (uint64_t i = 0; i < size; ++i) {
    std::vector<uint64_t> index(local.size());
    uint64_t rest = i;
    bool isPadding = false;
    for (size_t d = local.size(); d-- > 0; rest /= local[d]) {
      index[d] = first[d] + rest % local[d];
      isPadding |= index[d] >= c.logical[d];
    }
    if (isPadding)
      continue;
    uint64_t source = 0;
    for (size_t v = 0, d = 0; v < c.view.size(); ++v) {
      bool dropped = std::find(c.drop.begin(), c.drop.end(), v) != c.drop.end();
      source = source * c.view[v] + c.starts[v] + (dropped ? 0 : index[d++]);
    }
    elements[i] = source;
  }
  return elements;
}

TEST(StateBox, FollowsTheDefinition) {
  Mesh mesh({2, 3});
  const Case cases[] = {
      {{5}, {0}, {5}, {6}, {}, {{1}}},
      {{5}, {2}, {3}, {6}, {}, {{0, 1}}},
      {{4, 6}, {0, 0}, {4, 6}, {4, 6}, {}, {{}, {}}},
      {{4, 6}, {0, 0}, {4, 6}, {4, 6}, {}, {{0}, {1}}},
      {{4, 6}, {0, 0}, {4, 6}, {6, 6}, {}, {{1, 0}, {}}},
      {{4, 7}, {1, 0}, {2, 7}, {2, 12}, {}, {{}, {1}}},
      // A third of a fused weight, [H, 3, A, D].
      {{4, 3, 2, 5}, {0, 1, 0, 0}, {4, 2, 5}, {4, 2, 5}, {1}, {{}, {0}, {}}},
      {{4, 3, 2, 5}, {0, 2, 0, 0}, {4, 2, 5}, {6, 2, 6}, {1}, {{1}, {0}, {}}},
      // Dropped dims at both ends.
      {{3, 4, 2}, {2, 0, 1}, {4}, {6}, {0, 2}, {{1}}},
      {{3, 4, 2}, {2, 1, 1}, {}, {}, {0, 1, 2}, {}},
      {{1},
       {0},
       {
           1,
       },
       {6},
       {},
       {{0, 1}}},
  };
  int checked = 0;
  for (const Case &c : cases) {
    cleave::test::ProgramBuilder b({{"a", 2}, {"b", 3}});
    fb::StateT &state = b.state("s", c.shape, c.dims, {});
    state.logical = c.logical;
    state.source = "t";
    state.view = c.view;
    state.starts = c.starts;
    state.drop = c.drop;
    std::vector<uint8_t> packed = b.pack();
    const fb::State *read =
        fb::GetProgram(packed.data())->stages()->Get(0)->states()->Get(0);
    for (int rank = 0; rank < mesh.getWorldSize(); ++rank) {
      std::map<uint64_t, uint64_t> expected = computeElements(c, mesh, rank);
      StateBox box(*read, mesh, rank);
      ASSERT_EQ(box.getSize(), expected.size());
      // Whole, and in pieces.
      for (uint64_t piece : {uint64_t(1), uint64_t(3), uint64_t(1000)}) {
        std::map<uint64_t, uint64_t> actual;
        for (uint64_t i = 0; i < box.getSize(); i += piece)
          box.forEachRun(
              i, std::min(box.getSize(), i + piece),
              [&](uint64_t local, uint64_t source, uint64_t stride,
                  uint64_t count) {
                for (uint64_t k = 0; k < count; ++k)
                  EXPECT_TRUE(
                      actual.emplace(local + k, source + k * stride).second);
              });
        ASSERT_EQ(actual, expected);
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, int(std::size(cases)) * 6 * 3);
}

TEST(StateBox, MergesWhatIsOneRun) {
  cleave::test::ProgramBuilder b({{"a", 2}});
  fb::StateT &state = b.state("s", {8, 4, 4}, {{0}, {}, {}}, {});
  state.source = "t";
  state.view = {8, 4, 4};
  state.starts = {0, 0, 0};
  std::vector<uint8_t> packed = b.pack();
  StateBox box(
      *fb::GetProgram(packed.data())->stages()->Get(0)->states()->Get(0),
      Mesh({2}), 1);
  int runs = 0;
  box.forEachRun(
      0, box.getSize(),
      [&](uint64_t local, uint64_t source, uint64_t, uint64_t count) {
        ++runs;
        EXPECT_EQ(local, 0u);
        EXPECT_EQ(source, 64u);
        EXPECT_EQ(count, 64u);
      });
  EXPECT_EQ(runs, 1);
}

TEST(StateBox, OneReplicaWrites) {
  cleave::test::ProgramBuilder b({{"a", 2}, {"pp", 2}, {"b", 3}});
  b.program.stage_axis = 1;
  auto add = [&](const char *name, std::vector<uint64_t> shape,
                 const std::vector<std::vector<uint8_t>> &dims,
                 uint64_t bytes) {
    b.state(name, std::move(shape), dims, b.allocate(bytes));
  };
  add("none", {6}, {{}}, 24);
  add("b", {6}, {{2}}, 8);
  b.beginStage();
  add("both", {6, 2}, {{2}, {0}}, 8);
  add("none", {6}, {{}}, 24);
  Program program;
  Status status = b.load(program);
  ASSERT_TRUE(status.ok()) << status.message();
  int writers[3] = {};
  for (int rank = 0; rank < 12; ++rank)
    for (int i = 0; i < 3; ++i)
      writers[i] += isWriter(program, *program.getStates()[i], rank);
  EXPECT_EQ(writers[0], 1);
  EXPECT_EQ(writers[1], 3);
  EXPECT_EQ(writers[2], 6);
  // Of both stages that have it, the first.
  EXPECT_TRUE(isWriter(program, *program.getStates()[0], 0));
  EXPECT_FALSE(isWriter(program, *program.getStates()[0], 3));
}

} // namespace
