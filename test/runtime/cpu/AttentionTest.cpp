#include "runtime/cpu/Attention.h"
#include "runtime/cpu/ThreadPool.h"
#include "test/runtime/cpu/AttentionReference.h"

using namespace cleave::cpu;

namespace {

constexpr ElementType F32 = ElementType::F32, BF16 = ElementType::BF16;

/// Everything that both directions read and write, run on `threads`.
class Problem {
public:
  explicit Problem(const AttentionShape &s)
      : shape(s), queries(s.batch * s.seq * s.heads * s.headDim),
        keys(s.batch * s.seq * s.kvHeads * s.headDim),
        q(Buffer::random(s.type, queries, 1)),
        k(Buffer::random(s.type, keys, 2)), v(Buffer::random(s.type, keys, 3)),
        dout(Buffer::random(s.type, queries, 4)), out(s.type, queries),
        lse(F32, s.batch * s.heads * s.seq), dq(s.type, queries),
        dk(s.type, keys), dv(s.type, keys) {}

  void run(int threads) {
    const AttentionShape &s = shape;
    ThreadPool pool(threads);
    {
      Workspace workspace(attentionWorkspaceBytes(s.batch, s.seq, s.heads,
                                                  s.kvHeads, s.headDim,
                                                  int64_t(s.type), threads));
      attention({s, q.data(), k.data(), v.data(), out.data(),
                 static_cast<float *>(lse.data())},
                workspace.data(), pool);
    }
    Workspace workspace(attentionGradWorkspaceBytes(s.batch, s.seq, s.heads,
                                                    s.kvHeads, s.headDim,
                                                    int64_t(s.type), threads));
    attentionGrad({s, q.data(), k.data(), v.data(), out.data(),
                   static_cast<const float *>(lse.data()), dout.data(),
                   dq.data(), dk.data(), dv.data()},
                  workspace.data(), pool);
  }

  void check() const {
    Reference reference(shape, q, k, v, dout);
    // f32: a few roundings of sums of up to `seq` terms. bf16: the results'
    // own rounding, and for the gradients that of the stored out.
    bool narrow = shape.type == BF16;
    double near = narrow ? 4e-3 : 1e-6;
    EXPECT_LT(getError(out, reference.out), near);
    EXPECT_LT(getError(lse, reference.lse), 1e-6);
    EXPECT_LT(getError(dq, reference.dq, reference.dqSize / 10),
              narrow ? 2e-2 : 2e-6);
    EXPECT_LT(getError(dk, reference.dk, reference.dkSize / 10),
              narrow ? 2e-2 : 2e-6);
    EXPECT_LT(getError(dv, reference.dv), near);
  }

  AttentionShape shape;
  size_t queries, keys;
  Buffer q, k, v, dout, out, lse, dq, dk, dv;
};

AttentionShape getShape(int64_t seq, int64_t headDim) {
  return {1, seq, 2, 2, headDim, 0, F32, float(1 / std::sqrt(headDim)), 0};
}

class AttentionTest : public testing::TestWithParam<Isa> {
protected:
  void check(const AttentionShape &s) {
    SCOPED_TRACE(testing::Message()
                 << "batch " << s.batch << " seq " << s.seq << " heads "
                 << s.heads << '/' << s.kvHeads << " dim " << s.headDim
                 << " window " << s.window << " cap " << s.softcap << " type "
                 << int(s.type));
    Problem problem(s);
    problem.run(1);
    problem.check();
  }
};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, testing::ValuesIn(getIsas()),
                         [](const auto &info) { return getName(info.param); });

TEST_P(AttentionTest, EveryLength) {
  UseIsa use(GetParam());
  for (int64_t seq : {1, 2, 3, 15, 16, 17, 63, 64, 65, 100, 127, 128, 131, 200})
    check(getShape(seq, 24));
}

TEST_P(AttentionTest, EveryHeadDim) {
  UseIsa use(GetParam());
  for (int64_t dim : {1, 2, 7, 8, 16, 24, 33, 64, 80, 96, 100, 128, 160, 256})
    for (ElementType type : {F32, BF16}) {
      AttentionShape s = getShape(70, dim);
      s.type = type;
      check(s);
    }
}

TEST_P(AttentionTest, GroupsWindowsAndCaps) {
  UseIsa use(GetParam());
  for (auto [heads, kvHeads] :
       {std::array<int64_t, 2>{4, 4}, {4, 2}, {6, 2}, {5, 1}})
    for (int64_t window : {0, 1, 2, 17, 64, 65, 100, 149, 150, 1000})
      for (float softcap : {0.0f, 0.5f, 30.0f}) {
        AttentionShape s = getShape(150, 16);
        s.batch = window == 65 ? 2 : 1;
        s.heads = heads;
        s.kvHeads = kvHeads;
        s.window = window;
        s.softcap = softcap;
        s.type = heads == 6 ? BF16 : F32;
        check(s);
      }
}

TEST_P(AttentionTest, LargeScoresStayFinite) {
  UseIsa use(GetParam());
  AttentionShape s = getShape(90, 32);
  s.scale = 60; // scores of several hundred: one key takes all the weight
  Problem problem(s);
  problem.run(1);
  Reference reference(s, problem.q, problem.k, problem.v, problem.dout);
  // Scores carry f32 errors of about 1e-4 here, and so do the weights.
  EXPECT_LT(getError(problem.out, reference.out), 2e-4);
  EXPECT_LT(getError(problem.dv, reference.dv), 2e-4);
  EXPECT_LT(getError(problem.lse, reference.lse), 1e-6);
}

TEST_P(AttentionTest, SameBitsWhateverTheThreads) {
  UseIsa use(GetParam());
  // Many key heads a thread, and fewer than threads: one pass or two backward.
  for (auto [batch, heads, kvHeads, window] :
       {std::array<int64_t, 4>{2, 6, 3, 0}, {1, 3, 1, 0}, {1, 4, 2, 70}})
    for (ElementType type : {F32, BF16}) {
      AttentionShape s = getShape(270, 40);
      s.batch = batch;
      s.heads = heads;
      s.kvHeads = kvHeads;
      s.window = window;
      s.type = type;
      Problem one(s);
      one.run(1);
      one.check();
      for (int threads : {2, 3, 4, 7}) {
        Problem many(s);
        many.run(threads);
        EXPECT_TRUE(many.out == one.out && many.lse == one.lse);
        EXPECT_TRUE(many.dq == one.dq && many.dk == one.dk && many.dv == one.dv)
            << kvHeads << " key heads, threads " << threads;
      }
    }
}

TEST_P(AttentionTest, FutureKeysDoNotMatter) {
  UseIsa use(GetParam());
  Problem full(getShape(100, 16));
  full.run(1);
  Problem changed(getShape(100, 16));
  for (size_t i = 60 * 2 * 16; i < changed.keys; ++i) {
    changed.k.set(i, 1e30f);
    changed.v.set(i, 1e30f);
  }
  changed.run(1);
  for (size_t i = 0; i < 60 * 2 * 16; ++i)
    ASSERT_EQ(changed.out[i], full.out[i]);
}

// The reference's analytic gradients are those of its forward.
TEST(AttentionReference, GradientsAgreeWithFiniteDifferences) {
  for (float softcap : {0.0f, 0.7f})
    for (int64_t window : {0, 3}) {
      AttentionShape s{1, 7, 4, 2, 5, window, F32, 0.9f, softcap};
      Problem p(s);
      Reference reference(s, p.q, p.k, p.v, p.dout);
      const float step = 0x1p-10f;
      auto checkAll = [&](Buffer &x, const std::vector<double> &grad) {
        double most = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          float at = float(x[i]), up = at + step, down = at - step;
          auto getValue = [&](float moved) {
            x.set(i, moved);
            Reference r(s, p.q, p.k, p.v, p.dout);
            double sum = 0;
            for (size_t j = 0; j < r.out.size(); ++j)
              sum += r.out[j] * p.dout[j];
            return sum;
          };
          double slope =
              (getValue(up) - getValue(down)) / (double(up) - double(down));
          x.set(i, at);
          most = std::max(most, std::abs(slope - grad[i]));
        }
        EXPECT_LT(most, 1e-5); // second order: step^2 times a third derivative
      };
      checkAll(p.q, reference.dq);
      checkAll(p.k, reference.dk);
      checkAll(p.v, reference.dv);
    }
}

} // namespace
