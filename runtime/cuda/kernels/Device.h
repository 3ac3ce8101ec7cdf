//===- Device.h - What a kernel asks of the GPU ---------------------------===//
//
// The few instructions that the kernels of this folder use, by name: they are
// compiled by clang without NVIDIA's headers. Compiled for the host, the
// instructions that involve other threads are only declared; the kernels' test
// defines them, and so runs the same kernels on a CPU.
//
// All shared memory is dynamic. What only ldmatrix and cp.async touch is named
// by its 32-bit address in shared memory.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_KERNELS_DEVICE_H
#define CLEAVE_RUNTIME_CUDA_KERNELS_DEVICE_H

#include <stdint.h>

#ifdef __CUDA_ARCH__
#define CLEAVE_DEVICE                                                          \
  __attribute__((device)) inline __attribute__((always_inline))
#define CLEAVE_KERNEL(THREADS, BLOCKS)                                         \
  extern "C" __attribute__((global, launch_bounds(THREADS, BLOCKS))) void
#define CLEAVE_UNROLL _Pragma("unroll")
#define CLEAVE_ROLL _Pragma("nounroll")
#else
#define CLEAVE_DEVICE inline
#define CLEAVE_KERNEL(THREADS, BLOCKS) extern "C" void
#define CLEAVE_UNROLL
#define CLEAVE_ROLL
#endif

namespace cleave::cuda {

constexpr int warpSize = 32;

/// Numbers that are moved at once, aligned to their size.
using Words4 = uint32_t __attribute__((vector_size(16)));
using Words2 = uint32_t __attribute__((vector_size(8)));
using Floats4 = float __attribute__((vector_size(16)));

#ifdef __CUDA_ARCH__

extern __attribute__((shared, aligned(128))) char dynamicShared[];

CLEAVE_DEVICE int getThread() { return int(__nvvm_read_ptx_sreg_tid_x()); }
CLEAVE_DEVICE int getBlockX() { return int(__nvvm_read_ptx_sreg_ctaid_x()); }
CLEAVE_DEVICE int getBlockY() { return int(__nvvm_read_ptx_sreg_ctaid_y()); }
CLEAVE_DEVICE int getBlockZ() { return int(__nvvm_read_ptx_sreg_ctaid_z()); }
CLEAVE_DEVICE int getBlocksX() { return int(__nvvm_read_ptx_sreg_nctaid_x()); }
CLEAVE_DEVICE int getBlocksY() { return int(__nvvm_read_ptx_sreg_nctaid_y()); }

CLEAVE_DEVICE char *getShared() { return dynamicShared; }
CLEAVE_DEVICE uint32_t getSharedAddress() {
  return uint32_t(
      uintptr_t((__attribute__((address_space(3))) char *)dynamicShared));
}

/// Waits for all threads of the block, and makes their writes seen.
CLEAVE_DEVICE void syncThreads() { __nvvm_barrier_sync(0); }
/// The same for the threads of a warp.
CLEAVE_DEVICE void syncWarp() { __nvvm_bar_warp_sync(0xffffffffu); }

/// `value` of the lane whose number differs by the bits of `mask`.
CLEAVE_DEVICE float shuffleXor(float value, int mask) {
  return __nvvm_shfl_sync_bfly_f32(0xffffffffu, value, mask, warpSize - 1);
}
/// `value` of the lane `distance` below, or the own one where there is none.
CLEAVE_DEVICE uint32_t shuffleUp(uint32_t value, int distance) {
  return uint32_t(
      __nvvm_shfl_sync_up_i32(0xffffffffu, int(value), distance, 0));
}
/// The lanes whose `value` is this lane's, as bits.
CLEAVE_DEVICE uint32_t matchAny(uint32_t value) {
  return uint32_t(__nvvm_match_any_sync_i32(0xffffffffu, value));
}
CLEAVE_DEVICE void addShared(uint32_t *counter, uint32_t value) {
  __atomic_fetch_add((__attribute__((address_space(3))) uint32_t *)counter,
                     value, __ATOMIC_RELAXED);
}

/// x, of which the compiler knows nothing: what depends on it is computed where
/// it is used, not kept in registers across a loop.
CLEAVE_DEVICE uint32_t hide(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
CLEAVE_DEVICE int64_t hide(int64_t x) {
  asm volatile("" : "+l"(x));
  return x;
}

/// Starts a copy of 16 bytes from global to shared memory, or of 16 zero bytes.
CLEAVE_DEVICE void copyAsync16(uint32_t to, const void *from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(from), "r"(real ? 16 : 0)
               : "memory");
}
/// The same for 4 bytes.
CLEAVE_DEVICE void copyAsync4(uint32_t to, const void *from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to),
               "l"(from), "r"(real ? 4 : 0)
               : "memory");
}
/// Waits for the copies that this thread has started.
CLEAVE_DEVICE void waitCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Four 8x8 matrices of 16-bit numbers; lane 8 i + r gives the address of row r
/// of matrix i. Of matrix i, lane l gets columns 2 (l % 4) and the next of row
/// l / 4.
CLEAVE_DEVICE void loadMatrices(uint32_t (&piece)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
               "[%4];"
               : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
               : "r"(address)
               : "memory");
}
/// The same with each matrix transposed.
CLEAVE_DEVICE void loadMatricesTransposed(uint32_t (&piece)[4],
                                          uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
               "{%0, %1, %2, %3}, [%4];"
               : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
               : "r"(address)
               : "memory");
}

/// c += a b, of 16x16 and 16x8 bf16 numbers, summed in f32. With g = lane / 4
/// and t = 2 (lane % 4): c holds (g, t), (g, t + 1), (g + 8, t), (g + 8, t +
/// 1); a holds pairs of columns at (g, t), (g + 8, t), (g, t + 8), (g + 8, t +
/// 8); b0 and b1 hold rows t, t + 1 and t + 8, t + 9 of column g.
CLEAVE_DEVICE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                            uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two numbers as bf16, the first in the low half.
CLEAVE_DEVICE uint32_t packBf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
/// 2^x within 2 units in the last place, 0 where that is denormal.
CLEAVE_DEVICE float exp2Fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// log2 x within 2^-22 of it, or of 1 where x is close to 1.
CLEAVE_DEVICE float log2Fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x within 1 unit in the last place.
CLEAVE_DEVICE float invertFast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else

CLEAVE_DEVICE uint32_t hide(uint32_t x) { return x; }
CLEAVE_DEVICE int64_t hide(int64_t x) { return x; }

int getThread();
int getBlockX();
int getBlockY();
int getBlockZ();
int getBlocksX();
int getBlocksY();
char *getShared();
uint32_t getSharedAddress();
void syncThreads();
void syncWarp();
float shuffleXor(float value, int mask);
uint32_t shuffleUp(uint32_t value, int distance);
uint32_t matchAny(uint32_t value);
void addShared(uint32_t *counter, uint32_t value);
void copyAsync16(uint32_t to, const void *from, bool real);
void copyAsync4(uint32_t to, const void *from, bool real);
void waitCopies();
void loadMatrices(uint32_t (&piece)[4], uint32_t address);
void loadMatricesTransposed(uint32_t (&piece)[4], uint32_t address);
void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
uint32_t packBf16(float low, float high);
float exp2Fast(float x);
float log2Fast(float x);
float invertFast(float x);

#endif

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_KERNELS_DEVICE_H
