//===- CollectiveChecks.cpp -----------------------------------------------===//
#include "test/runtime/comm/CollectiveChecks.h"
#include "runtime/base/Crc32c.h"
#include "runtime/cpu/Bf16.h"
#include <algorithm>
#include <cstring>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// Element `index` of the input of `rank`: from -8 to 8.
int getInput(int rank, uint64_t index) {
  return int((uint64_t(rank) * 11 + index * 5 + index / 7) % 17) - 8;
}

/// A buffer of one element type, with integers in it. Outputs start as 99.
class Buffer {
public:
  Buffer(ElementType type, uint64_t size)
      : type(type), bytes(size * getElementBytes(type)) {
    for (uint64_t i = 0; i < size; ++i)
      set(i, 99);
  }

  void fill(int rank) {
    for (uint64_t i = 0; i < size(); ++i)
      set(i, getInput(rank, i));
  }
  uint64_t size() const { return bytes.size() / getElementBytes(type); }
  void *data() { return bytes.data(); }

  void set(uint64_t i, int value) {
    if (type == ElementType::I32)
      store(i, int32_t(value));
    else if (type == ElementType::F32)
      store(i, float(value));
    else
      store(i, cleave::cpu::toBf16(float(value)));
  }
  double get(uint64_t i) const {
    if (type == ElementType::I32)
      return load<int32_t>(i);
    if (type == ElementType::F32)
      return load<float>(i);
    return cleave::cpu::fromBf16(load<uint16_t>(i));
  }

private:
  template <typename T>
  void store(uint64_t i, T value) {
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  T load(uint64_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }

  ElementType type;
  std::vector<char> bytes;
};

std::vector<int> getCoordinates(const std::vector<int> &sizes, int rank) {
  std::vector<int> coordinates(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0; rank /= sizes[axis])
    coordinates[axis] = rank % sizes[axis];
  return coordinates;
}

/// Members of the group over `axes`, by their definition.
std::vector<int> findGroup(const std::vector<int> &sizes, int rank,
                           const AxisList &axes) {
  int world = 1;
  for (int size : sizes)
    world *= size;
  std::vector<int> mine = getCoordinates(sizes, rank);
  std::vector<std::pair<int, int>> members; // shard index, rank
  for (int other = 0; other < world; ++other) {
    std::vector<int> theirs = getCoordinates(sizes, other);
    bool same = true;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (std::find(axes.begin(), axes.end(), uint8_t(axis)) == axes.end())
        same = same && mine[axis] == theirs[axis];
    int index = 0;
    for (uint8_t axis : axes)
      index = index * sizes[axis] + theirs[axis];
    if (same)
      members.push_back({index, other});
  }
  std::sort(members.begin(), members.end());
  std::vector<int> ranks;
  for (auto &[index, other] : members)
    ranks.push_back(other);
  return ranks;
}

/// Every ordered selection of axes, the empty one included.
void listGroups(int axes, AxisList &prefix, std::vector<AxisList> &lists) {
  lists.push_back(prefix);
  for (uint8_t axis = 0; axis < axes; ++axis) {
    if (std::find(prefix.begin(), prefix.end(), axis) != prefix.end())
      continue;
    prefix.push_back(axis);
    listGroups(axes, prefix, lists);
    prefix.pop_back();
  }
}

class Checker {
public:
  Checker(Communicator &communicator, const AxisList &axes)
      : comm(communicator), axes(axes), sizes(comm.getMesh().getSizes().begin(),
                                              comm.getMesh().getSizes().end()),
        members(findGroup(sizes, comm.getRank(), axes)) {
    me = int(std::find(members.begin(), members.end(), comm.getRank()) -
             members.begin());
  }

  Status checkAll(int64_t &checks);

private:
  template <typename Fn>
  Status compare(const std::string &what, const Buffer &out, Fn &&expected) {
    for (uint64_t i = 0; i < out.size(); ++i)
      if (out.get(i) != expected(i))
        return fail(what + " element " + std::to_string(i) + " is " +
                    std::to_string(out.get(i)) + ", expects " +
                    std::to_string(double(expected(i))));
    return {};
  }
  Status fail(const std::string &what) const {
    std::string text = "mesh [";
    for (int size : sizes)
      text += " " + std::to_string(size);
    text += " ] group {";
    for (uint8_t axis : axes)
      text += " " + std::to_string(axis);
    return Status::error(text + " } rank " + std::to_string(comm.getRank()) +
                         ": " + what);
  }

  double reduce(Reduction reduction, uint64_t index) const {
    double result = getInput(members[0], index);
    for (size_t i = 1; i < members.size(); ++i) {
      double next = getInput(members[i], index);
      result =
          reduction == Reduction::Sum ? result + next : std::max(result, next);
    }
    return result;
  }

  Status checkAllReduce(uint64_t elements, ElementType type,
                        Reduction reduction, bool inPlace);
  Status checkAllGather(uint64_t outer, uint64_t inner, ElementType type);
  Status checkReduceScatter(uint64_t outer, uint64_t inner, ElementType type,
                            Reduction reduction);
  Status checkAllToAll(bool concatFirst, ElementType type, uint64_t a,
                       uint64_t b);
  Status checkTogether(Reduction reduction);

  Communicator &comm;
  const AxisList &axes;
  std::vector<int> sizes;
  std::vector<int> members;
  int me;
  const Group *group = nullptr;
};

Status Checker::checkAllReduce(uint64_t elements, ElementType type,
                               Reduction reduction, bool inPlace) {
  Buffer in(type, elements), out(type, elements);
  in.fill(comm.getRank());
  Buffer &result = inPlace ? in : out;
  CLEAVE_RETURN_IF_ERROR(comm.allReduce(*group, in.data(), result.data(),
                                        elements, type, reduction));
  return compare("allReduce", result,
                 [&](uint64_t i) { return reduce(reduction, i); });
}

Status Checker::checkAllGather(uint64_t outer, uint64_t inner,
                               ElementType type) {
  uint64_t n = members.size();
  Buffer in(type, outer * inner), out(type, outer * n * inner);
  in.fill(comm.getRank());
  CLEAVE_RETURN_IF_ERROR(comm.allGather(*group, in.data(), out.data(), outer,
                                        inner * getElementBytes(type)));
  return compare("allGather", out, [&](uint64_t i) {
    uint64_t o = i / (n * inner), q = i / inner % n;
    return getInput(members[q], o * inner + i % inner);
  });
}

Status Checker::checkReduceScatter(uint64_t outer, uint64_t inner,
                                   ElementType type, Reduction reduction) {
  uint64_t n = members.size();
  Buffer in(type, outer * n * inner), out(type, outer * inner);
  in.fill(comm.getRank());
  CLEAVE_RETURN_IF_ERROR(comm.reduceScatter(*group, in.data(), out.data(),
                                            outer, inner, type, reduction));
  return compare("reduceScatter", out, [&](uint64_t i) {
    return reduce(reduction,
                  (i / inner * n + uint64_t(me)) * inner + i % inner);
  });
}

Status Checker::checkAllToAll(bool concatFirst, ElementType type, uint64_t a,
                              uint64_t b) {
  const uint64_t n = members.size(), outer = 2, mid = 3, inner = 2;
  Buffer in(type, outer * a * mid * n * b * inner);
  Buffer out(type, in.size());
  in.fill(comm.getRank());
  CLEAVE_RETURN_IF_ERROR(comm.allToAll(
      *group, in.data(), out.data(),
      {outer, a, mid, b, inner, getElementBytes(type), concatFirst}));
  // By the README: sizes of the dims a and b before and after.
  uint64_t inA = concatFirst ? a : n * a, inB = concatFirst ? n * b : b;
  uint64_t outA = concatFirst ? n * a : a, outB = concatFirst ? b : n * b;
  return compare("allToAll", out, [&](uint64_t index) {
    uint64_t i = index % inner, rest = index / inner;
    uint64_t ob = rest % outB;
    rest /= outB;
    uint64_t m = rest % mid;
    rest /= mid;
    uint64_t oa = rest % outA, o = rest / outA;
    // The dim that grows says whom it is from, in rank order; of the dim that
    // shrinks the sender had all, and gave this rank its part.
    uint64_t from, fromA, fromB;
    if (concatFirst) {
      from = oa / a;
      fromA = oa % a;
      fromB = uint64_t(me) * b + ob;
    } else {
      from = ob / b;
      fromB = ob % b;
      fromA = uint64_t(me) * a + oa;
    }
    return double(
        getInput(members[from],
                 (((o * inA + fromA) * mid + m) * inB + fromB) * inner + i));
  });
}

/// A bucket of one of each kind, and of each type.
Status Checker::checkTogether(Reduction reduction) {
  uint64_t n = members.size();
  constexpr uint64_t outer = 3, inner = 50;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Collective> collectives;
  for (ElementType type :
       {ElementType::F32, ElementType::BF16, ElementType::I32})
    for (CollectiveCall call :
         {CollectiveCall::AllReduce, CollectiveCall::AllGather,
          CollectiveCall::ReduceScatter}) {
      uint64_t part = outer * inner, whole = part * n;
      bool scatters = call == CollectiveCall::ReduceScatter,
           gathers = call == CollectiveCall::AllGather;
      buffers.push_back(
          std::make_unique<Buffer>(type, scatters ? whole : part));
      buffers.back()->fill(comm.getRank());
      const void *in = buffers.back()->data();
      buffers.push_back(std::make_unique<Buffer>(type, gathers ? whole : part));
      collectives.push_back(
          {{call, outer, inner, type, reduction}, in, buffers.back()->data()});
    }
  CLEAVE_RETURN_IF_ERROR(comm.runTogether(*group, collectives));
  for (size_t i = 0; i < collectives.size(); ++i) {
    const Buffer &out = *buffers[2 * i + 1];
    auto expect = [&](uint64_t at) -> double {
      switch (collectives[i].call) {
      case CollectiveCall::AllReduce:
        return reduce(reduction, at);
      case CollectiveCall::AllGather:
        return getInput(members[at / inner % n],
                        at / (n * inner) * inner + at % inner);
      default:
        return reduce(reduction,
                      (at / inner * n + uint64_t(me)) * inner + at % inner);
      }
    };
    CLEAVE_RETURN_IF_ERROR(compare("runTogether", out, expect));
  }
  return {};
}

Status Checker::checkAll(int64_t &checks) {
  CLEAVE_RETURN_IF_ERROR(comm.getGroup(axes, group));
  if (!std::equal(members.begin(), members.end(), group->getRanks().begin(),
                  group->getRanks().end()) ||
      group->getIndex() != me)
    return fail("has the wrong group");
  for (Reduction reduction : {Reduction::Sum, Reduction::Max}) {
    CLEAVE_RETURN_IF_ERROR(checkTogether(reduction));
    checks += 9;
  }
  for (ElementType type :
       {ElementType::F32, ElementType::BF16, ElementType::I32}) {
    for (Reduction reduction : {Reduction::Sum, Reduction::Max}) {
      for (uint64_t elements : {1, 15, 16, 100, 5001}) {
        for (bool inPlace : {false, true})
          CLEAVE_RETURN_IF_ERROR(
              checkAllReduce(elements, type, reduction, inPlace));
        checks += 2;
      }
      for (uint64_t outer : {1, 3})
        for (uint64_t inner : {1, 7, 2500}) {
          CLEAVE_RETURN_IF_ERROR(
              checkReduceScatter(outer, inner, type, reduction));
          ++checks;
        }
    }
    for (uint64_t outer : {1, 3})
      for (uint64_t inner : {1, 7, 700}) {
        CLEAVE_RETURN_IF_ERROR(checkAllGather(outer, inner, type));
        ++checks;
      }
    for (bool concatFirst : {false, true})
      for (uint64_t a : {1, 3})
        for (uint64_t b : {1, 2}) {
          CLEAVE_RETURN_IF_ERROR(checkAllToAll(concatFirst, type, a, b));
          ++checks;
        }
  }
  return comm.barrier(*group);
}

} // namespace

Status cleave::test::checkAllCollectives(Communicator &communicator,
                                         int64_t &checks) {
  std::vector<AxisList> lists;
  AxisList prefix;
  listGroups(int(communicator.getMesh().getSizes().size()), prefix, lists);
  for (const AxisList &axes : lists)
    CLEAVE_RETURN_IF_ERROR(Checker(communicator, axes).checkAll(checks));
  return {};
}

Status cleave::test::checkHostCalls(Communicator &comm) {
  int world = comm.getWorldSize();
  std::vector<double> all;
  double mine[] = {double(comm.getRank()), 0.5};
  CLEAVE_RETURN_IF_ERROR(comm.gatherDoubles(mine, all));
  if (all.size() != size_t(2 * world))
    return Status::error("gatherDoubles has the wrong size");
  for (int rank = 0; rank < world; ++rank)
    if (all[2 * rank] != rank || all[2 * rank + 1] != 0.5)
      return Status::error("gatherDoubles has the wrong values");
  for (int root = 0; root < world; ++root) {
    std::string text(100, char('a' + comm.getRank()));
    CLEAVE_RETURN_IF_ERROR(comm.broadcast(text, root));
    if (text != std::string(100, char('a' + root)))
      return Status::error("broadcast has the wrong text");
  }
  return comm.agree(Status());
}

Status cleave::test::computeDigest(Communicator &comm, uint64_t elements,
                                   ElementType type, uint64_t &digest) {
  const Group *world;
  CLEAVE_RETURN_IF_ERROR(comm.getWorldGroup(world));
  // Values of very different sizes: every other order of the sum shows.
  uint64_t bytes = elements * getElementBytes(type);
  std::vector<char> in(bytes), out(bytes);
  uint64_t state = uint64_t(comm.getRank()) * 0x9e3779b97f4a7c15 + 1;
  for (uint64_t i = 0; i < elements; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    float value = (float(int32_t(state >> 32)) / 2147483648.0f) *
                  float(1 << (state >> 20 & 15));
    uint16_t narrow = cleave::cpu::toBf16(value);
    if (type == ElementType::BF16)
      std::memcpy(in.data() + i * 2, &narrow, 2);
    else
      std::memcpy(in.data() + i * 4, &value, 4);
  }
  CLEAVE_RETURN_IF_ERROR(comm.allReduce(*world, in.data(), out.data(), elements,
                                        type, Reduction::Sum));
  uint32_t crc = computeCrc32c(out.data(), out.size());
  uint64_t inner = elements / uint64_t(world->getSize());
  CLEAVE_RETURN_IF_ERROR(comm.reduceScatter(*world, in.data(), out.data(), 1,
                                            inner, type, Reduction::Sum));
  crc = computeCrc32c(out.data(), out.size(), crc);
  CLEAVE_RETURN_IF_ERROR(
      comm.allToAll(*world, in.data(), out.data(),
                    {1, 1, 1, inner, 1, getElementBytes(type), true}));
  crc = computeCrc32c(out.data(), out.size(), crc);
  double mine = crc;
  std::vector<double> all;
  CLEAVE_RETURN_IF_ERROR(comm.gatherDoubles({&mine, 1}, all));
  digest = computeCrc32c(all.data(), all.size() * sizeof(double));
  return {};
}

std::vector<std::vector<int>> cleave::test::getAllMeshes(int ranks) {
  std::vector<std::vector<int>> meshes = {{1}, {1, 3}, {4, 1}, {2, 1, 2}};
  for (int a = 2; a <= ranks; ++a) {
    meshes.push_back({a});
    for (int b = 2; a * b <= ranks; ++b) {
      meshes.push_back({a, b});
      for (int c = 2; a * b * c <= ranks; ++c)
        meshes.push_back({a, b, c});
    }
  }
  return meshes;
}
