// Every fp32 operation of the kernels, each one PTX instruction by name.
//
// Why: C++ operators and the __fmaf_rn family become .ftz forms under -use_fast_math, and mul + add
// contract into fma under -fmad. A named instruction keeps its bits under every flag set. Nothing
// outside this file computes on floats with operators; comparisons act on values that no flush alters.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define INLINE __device__ __forceinline__

INLINE u32 bits(float x) { return __float_as_uint(x); }
INLINE float from_bits(u32 x) { return __uint_as_float(x); }

#define UNARY(NAME, OP)                                  \
  INLINE float NAME(float a) {                           \
    float d;                                             \
    asm(OP " %0, %1;" : "=f"(d) : "f"(a));               \
    return d;                                            \
  }
#define BINARY(NAME, OP)                                 \
  INLINE float NAME(float a, float b) {                  \
    float d;                                             \
    asm(OP " %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));   \
    return d;                                            \
  }

UNARY(neg, "neg.f32")
UNARY(absolute, "abs.f32")
UNARY(rcp, "rcp.rn.f32")
UNARY(root, "sqrt.rn.f32")
UNARY(ceiling, "cvt.rpi.f32.f32")
UNARY(ex2, "ex2.approx.ftz.f32")
UNARY(lg2, "lg2.approx.ftz.f32")
BINARY(add, "add.rn.f32")
BINARY(sub, "sub.rn.f32")
BINARY(mul, "mul.rn.f32")
BINARY(divide, "div.rn.f32")
BINARY(maximum, "max.f32")  // a NaN operand yields the other operand
BINARY(maximum_or_nan, "max.NaN.f32")

INLINE float multiply_add(float a, float b, float c) {
  float d;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

INLINE int to_int(float x) {
  int d;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(d) : "f"(x));
  return d;
}

INLINE float to_float(u32 x) {
  float d;
  asm("cvt.rn.f32.u32 %0, %1;" : "=f"(d) : "r"(x));
  return d;
}

// 2^k for -126 <= k <= 127; +0 below, 2^127 above. Built from bits, so it is exact by construction.
INLINE float pow2(int k) {
  k = k < -127 ? -127 : (k > 127 ? 127 : k);
  return from_bits((u32)(k + 127) << 23);
}

// Two E4M3 codes, round to nearest even, saturating at 448: `lo` in the low byte.
INLINE u16 to_e4m3x2(float lo, float hi) {
  u16 d;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
  return d;
}

// The two values that a pair of E4M3 codes stands for (exact).
INLINE void from_e4m3x2(u16 codes, float& lo, float& hi) {
  asm("{\n\t.reg .b32 pair;\n\t.reg .b16 l, h;\n\t"
      "cvt.rn.f16x2.e4m3x2 pair, %2;\n\tmov.b32 {l, h}, pair;\n\t"
      "cvt.f32.f16 %0, l;\n\tcvt.f32.f16 %1, h;\n\t}"
      : "=f"(lo), "=f"(hi)
      : "h"(codes));
}

INLINE u32 pack16(u16 lo, u16 hi) { return (u32)lo | ((u32)hi << 16); }

// Two BF16 values, round to nearest even: `lo` in the low half.
INLINE u32 to_bf16x2(float lo, float hi) {
  u32 d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}

INLINE float bf16_low(u32 pair) { return from_bits(pair << 16); }
INLINE float bf16_high(u32 pair) { return from_bits(pair & 0xFFFF0000u); }

INLINE u32 permute(u32 a, u32 b, u32 selector) {
  u32 d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}

INLINE float shuffle_xor(float x, int lanes) { return __shfl_xor_sync(~0u, x, lanes); }

// Maximum over the warp of non-negative floats, which order as their bits do.
INLINE float warp_max(float x) { return from_bits(__reduce_max_sync(~0u, bits(x))); }
