//===- PtxEngineTest.cpp - Kernels by their PTX ---------------------------===//
#include "test/cuda/Simulated.h"

using namespace cleave::simulated;

namespace {

/// y[i] += a x[i] for i < n; a thread that n leaves out touches nothing.
const char *const axpy = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .f32 %f<4>;
  .reg .b64 %l<4>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r3, %r1, %r2, %r3;
  ld.param.u32 %r4, [n];
  setp.ge.u32 %p, %r3, %r4;
  @%p ret;
  ld.param.u64 %l1, [x];
  ld.param.u64 %l2, [y];
  ld.param.f32 %f1, [a];
  mul.wide.u32 %l3, %r3, 4;
  add.s64 %l1, %l1, %l3;
  add.s64 %l2, %l2, %l3;
  ld.global.f32 %f2, [%l1];
  ld.global.f32 %f3, [%l2];
  fma.rn.f32 %f3, %f1, %f2, %f3;
  st.global.f32 [%l2], %f3;
  ret;
}
)";

class PtxEngine : public testing::Test {
protected:
  int load(const char *text, const char *name, void **function) {
    void *module = nullptr;
    int code =
        machine.cuda.moduleLoadDataEx(&module, text, 0, nullptr, nullptr);
    return code != success
               ? code
               : machine.cuda.moduleGetFunction(function, module, name);
  }
  int launch(Address x, Address y, unsigned n) {
    void *function = nullptr;
    EXPECT_EQ(load(axpy, "axpy", &function), success);
    float a = 2;
    void *parameters[] = {&x, &y, &a, &n};
    return machine.cuda.launchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream,
                                     parameters, nullptr);
  }

  Simulation machine{{"ENGINE", "ptx"}, {"SEED", "3"}};
  void *stream = machine.makeStream();
  std::vector<float> values = std::vector<float>(100, 3);
};

TEST_F(PtxEngine, Executes) {
  Address x = machine.upload(values), y = machine.upload(values);
  ASSERT_EQ(launch(x, y, 99), success);
  ASSERT_EQ(machine.cuda.streamSynchronize(stream), success);
  std::vector<float> want(100, 9);
  want.back() = 3;
  EXPECT_EQ(machine.download<float>(y, 100), want);
}

TEST_F(PtxEngine, NamesThreadAndAddress) {
  Address x = machine.upload(values), y = machine.allocate(392);
  ASSERT_EQ(launch(x, y, 100), success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine.cuda.streamSynchronize(stream), errorLaunchFailed);
  std::string text = testing::internal::GetCapturedStderr();
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx",
                static_cast<unsigned long long>(y + 392));
  for (const char *part :
       {"launch of axpy", "kernel axpy, block (3, 0, 0), thread (2, 0, 0)",
        static_cast<const char *>(address), "392 bytes", "ld.global.f32"})
    EXPECT_NE(text.find(part), std::string::npos) << part << ": " << text;
}

/// No cubin is for it, so PTX is what it is given.
TEST_F(PtxEngine, IsNewerThanAnyCubin) {
  int major = 0;
  ASSERT_EQ(machine.cuda.deviceGetAttribute(&major, attributeMajor, 0),
            success);
  EXPECT_EQ(major, 10);
}

TEST_F(PtxEngine, SaysWhatItDoesNotKnow) {
  void *function = nullptr;
  testing::internal::CaptureStderr();
  EXPECT_NE(load(".version 8.0\n.target sm_90\n.address_size 64\n"
                 ".visible .entry odd()\n{\n  wobble.u32 %r1;\n}\n",
                 "odd", &function),
            success);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("unknown instruction \"wobble.u32\""), std::string::npos)
      << text;
}

} // namespace
