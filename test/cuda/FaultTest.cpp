//===- FaultTest.cpp - Errors of the simulated machine --------------------===//
#include "runtime/cuda/kernels/Kernels.h"
#include "test/cuda/Simulated.h"
#include <cstring>
#include <elf.h>

using namespace cleave::simulated;

namespace {

TEST(Fault, CopyOutOfBoundsNamesTheCall) {
  Simulation machine;
  const DriverApi &cuda = machine.cuda;
  Address place = machine.allocate(100);
  std::vector<char> bytes(101);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuda.copyHostToDevice(place, bytes.data(), 101), errorInvalidValue);
  EXPECT_EQ(cuda.copyDeviceToHost(bytes.data(), place + 1, 100),
            errorInvalidValue);
  EXPECT_EQ(cuda.copyDeviceToHost(bytes.data(), 4096, 1), errorInvalidValue);
  // A device address is no host memory.
  EXPECT_EQ(cuda.copyHostToDevice(
                place, reinterpret_cast<void *>(uintptr_t(place)), 4),
            errorInvalidValue);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cuMemcpyHtoD: the destination: 101 bytes"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("allocation of 100 bytes"), std::string::npos) << text;
  // Nothing was enqueued, and nothing failed.
  EXPECT_EQ(cuda.copyHostToDevice(place, bytes.data(), 100), success);
  EXPECT_EQ(cuda.contextSynchronize(), success);
}

TEST(Fault, UseOfFreedMemoryEndsEverything) {
  Simulation machine;
  const DriverApi &cuda = machine.cuda;
  Address place = machine.allocate(100);
  void *stream = machine.makeStream();
  ASSERT_EQ(cuda.memsetAsync(place, 0, 100, stream), success);
  ASSERT_EQ(cuda.memFree(place), success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuda.streamSynchronize(stream), errorIllegalAddress);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cuMemsetD8Async of 100 bytes in stream"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("was freed"), std::string::npos) << text;
  EXPECT_EQ(cuda.streamSynchronize(stream), errorIllegalAddress);
  EXPECT_EQ(cuda.memAlloc(&place, 4), errorIllegalAddress);
  const char *name = nullptr, *what = nullptr;
  ASSERT_EQ(cuda.getErrorName(errorIllegalAddress, &name), success);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  ASSERT_EQ(cuda.getErrorString(errorIllegalAddress, &what), success);
  EXPECT_NE(std::string(what).find("cuMemsetD8Async"), std::string::npos);
}

TEST(Fault, CopyOntoItself) {
  Simulation machine;
  Address place = machine.allocate(101);
  void *stream = machine.makeStream();
  ASSERT_EQ(machine.cuda.copyDeviceToDeviceAsync(place, place + 50, 50, stream),
            success);
  ASSERT_EQ(machine.cuda.streamSynchronize(stream), success);
  ASSERT_EQ(machine.cuda.copyDeviceToDeviceAsync(place, place + 50, 51, stream),
            success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine.cuda.streamSynchronize(stream), errorIllegalAddress);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("overlap"), std::string::npos) << text;
}

TEST(Fault, MemoryOfAnotherDevice) {
  Simulation machine{{"GPUS", "2"}};
  Address place = machine.allocate(100);
  void *context = nullptr;
  ASSERT_EQ(machine.cuda.primaryContextRetain(&context, 1), success);
  ASSERT_EQ(machine.cuda.contextSetCurrent(context), success);
  void *function = machine.getFunction("cleave_convert_f32_bf16");
  cleave::cuda::ConvertParams params{
      1, reinterpret_cast<float *>(uintptr_t(place)), nullptr};
  void *parameters[] = {&params};
  ASSERT_EQ(machine.launch(function, parameters, nullptr), success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine.cuda.contextSynchronize(), errorIllegalAddress);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("but of device 0"), std::string::npos) << text;
}

TEST(Fault, NoDevice) {
  Simulation::reset({{"FAULT", "no-device"}});
  EXPECT_EQ(Libraries::get().driver.init(0), errorNoDevice);
}

TEST(Fault, NothingBeforeInit) {
  Simulation::reset({});
  int count;
  EXPECT_EQ(Libraries::get().driver.deviceGetCount(&count), 3);
}

TEST(Fault, WrongSettingIsNamed) {
  testing::internal::CaptureStderr();
  Simulation::reset({{"FAULT", "ecc@x"}});
  EXPECT_EQ(Libraries::get().driver.init(0), errorInvalidValue);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ecc@x"),
            std::string::npos);
}

TEST(Fault, OldDriver) {
  Simulation machine{{"FAULT", "old-driver"}};
  int version = 0;
  ASSERT_EQ(machine.cuda.driverGetVersion(&version), success);
  EXPECT_EQ(version, 11000);
}

TEST(Fault, Memory) {
  Simulation machine{{"FAULT", "memory=1048576"}};
  size_t free = 0, total = 0;
  ASSERT_EQ(machine.cuda.memGetInfo(&free, &total), success);
  EXPECT_EQ(total, 1048576u);
}

TEST(Fault, OperationFailsAsWished) {
  const std::pair<const char *, int> faults[] = {
      {"ecc@3", errorEccUncorrectable},
      {"illegal@3", errorIllegalAddress},
      {"timeout@3", errorLaunchTimeout},
      {"gone@3", errorUnknown}};
  for (auto [fault, code] : faults) {
    Simulation machine{{"FAULT", fault}};
    Address place = machine.allocate(4);
    void *stream = machine.makeStream();
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(machine.cuda.memsetAsync(place, 0, 4, stream), success);
      EXPECT_EQ(machine.cuda.streamSynchronize(stream), success);
    }
    ASSERT_EQ(machine.cuda.memsetAsync(place, 0, 4, stream), success);
    EXPECT_EQ(machine.cuda.streamSynchronize(stream), code);
    EXPECT_EQ(machine.cuda.memsetAsync(place, 0, 4, stream), code);
  }
}

/// A cubin with no more than the driver reads: a header, and a section of code.
std::string makeCubin(unsigned arch, bool isNewAbi) {
  const char names[] = "\0.shstrtab\0.text.some_kernel";
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_ABIVERSION] = isNewAbi ? 8 : 7;
  header.e_machine = 190;
  header.e_flags = isNewAbi ? 0x6000002 | arch << 8 : 0x500 | arch << 16 | arch;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = sizeof names;
  sections[2].sh_name = 11;
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_offset = sections[1].sh_offset;
  std::string image(reinterpret_cast<char *>(&header), sizeof header);
  image.append(reinterpret_cast<char *>(sections), sizeof sections);
  return image.append(names, sizeof names);
}

int load(const std::string &image, void *&module) {
  return Libraries::get().driver.moduleLoadDataEx(&module, image.c_str(), 0,
                                                  nullptr, nullptr);
}

TEST(Fault, ImagesOfOtherDevices) {
  const std::string ptx = "// made\n.version 8.0\n.target sm_";
  void *module = nullptr;
  {
    Simulation machine;
    for (bool isNewAbi : {false, true}) {
      EXPECT_EQ(load(makeCubin(90, isNewAbi), module), success);
      EXPECT_EQ(load(makeCubin(80, isNewAbi), module), errorNoBinaryForGpu);
      EXPECT_EQ(load(makeCubin(100, isNewAbi), module), errorNoBinaryForGpu);
    }
    EXPECT_EQ(load(ptx + "80\n", module), success);
    EXPECT_EQ(load(ptx + "90a\n", module), success);
    EXPECT_EQ(load(ptx + "100\n", module), errorInvalidPtx);
    EXPECT_EQ(load("hello", module), errorInvalidImage);
    EXPECT_EQ(load(ELFMAG + std::string(100, 0), module), errorInvalidImage);
  }
  Simulation machine{{"FAULT", "arch=80"}};
  EXPECT_EQ(load(makeCubin(80, true), module), success);
  EXPECT_EQ(load(makeCubin(90, true), module), errorNoBinaryForGpu);
  EXPECT_EQ(load(ptx + "90\n", module), errorInvalidPtx);
}

TEST(Fault, JitLogSaysWhy) {
  Simulation machine;
  char log[200] = {};
  int options[] = {5, 6};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  void *module = nullptr;
  EXPECT_EQ(machine.cuda.moduleLoadDataEx(
                &module, ".version 8.0\n.target sm_100\n", 2, options, values),
            errorInvalidPtx);
  EXPECT_NE(std::string(log).find("sm_100"), std::string::npos);
}

TEST(Fault, FunctionThatTheModuleLacks) {
  Simulation machine;
  void *module = nullptr, *function = nullptr;
  ASSERT_EQ(load(makeCubin(90, true), module), success);
  // The cubin has it, and nothing on the CPU does the same.
  EXPECT_EQ(machine.cuda.moduleGetFunction(&function, module, "some_kernel"),
            errorNotFound);
  // The CPU could, and the cubin lacks it.
  EXPECT_EQ(
      machine.cuda.moduleGetFunction(&function, module, "cleave_copy_rows"),
      errorNotFound);
}

TEST(Fault, LaunchesThatNoDeviceTakes) {
  Simulation machine;
  const DriverApi &cuda = machine.cuda;
  void *function = machine.getFunction("cleave_part_of_nothing");
  void *stream = machine.makeStream();
  auto launch = [&](unsigned blocks, unsigned threads, unsigned shared) {
    return cuda.launchKernel(function, blocks, 1, 1, threads, 1, 1, shared,
                             stream, nullptr, nullptr);
  };
  EXPECT_EQ(launch(1, 1024, 0), success);
  EXPECT_EQ(launch(0, 32, 0), errorInvalidValue);
  EXPECT_EQ(launch(1, 1025, 0), errorInvalidValue);
  EXPECT_EQ(launch(1, 32, 64 << 10), errorInvalidValue);
  EXPECT_EQ(
      cuda.funcSetAttribute(function, attributeMaxDynamicShared, 64 << 10),
      success);
  EXPECT_EQ(launch(1, 32, 64 << 10), success);
}

} // namespace
