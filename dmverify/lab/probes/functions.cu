// One kernel per instruction of one operand: out[i] = op(bits base + i), so that a launch needs no input.
// Inline PTX names every instruction, so compiler flags cannot change it.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

__device__ u32 index() { return blockIdx.x * blockDim.x + threadIdx.x; }

#define SWEEP(NAME, PTX)                                                             \
  extern "C" __global__ void sweep_##NAME(u32 base, u32* out) {                      \
    float y;                                                                         \
    asm volatile(PTX " %0, %1;" : "=f"(y) : "f"(__uint_as_float(base + index())));   \
    out[index()] = __float_as_uint(y);                                               \
  }                                                                                  \
  extern "C" __global__ void map_##NAME(const u32* x, u32* out) {                    \
    float y;                                                                         \
    asm volatile(PTX " %0, %1;" : "=f"(y) : "f"(__uint_as_float(x[index()])));       \
    out[index()] = __float_as_uint(y);                                               \
  }

SWEEP(ex2_ftz, "ex2.approx.ftz.f32")
SWEEP(ex2, "ex2.approx.f32")
SWEEP(lg2_ftz, "lg2.approx.ftz.f32")
SWEEP(lg2, "lg2.approx.f32")
SWEEP(rcp_ftz, "rcp.approx.ftz.f32")
SWEEP(rcp, "rcp.approx.f32")
SWEEP(rcp_rn, "rcp.rn.f32")
SWEEP(sqrt_rn, "sqrt.rn.f32")

// The packed conversions take two operands; both lanes are converted and must agree.
#define CONVERT(NAME, PTX, CODE, BITS)                                               \
  extern "C" __global__ void sweep_##NAME(u32 base, CODE* out, u32* disagree) {      \
    float x = __uint_as_float(base + index()), other = __uint_as_float(~(base + index())); \
    PACKED(BITS) high, low;                                                          \
    asm volatile(PTX " %0, %1, %2;" : CONSTRAINT(BITS)(high) : "f"(x), "f"(other));  \
    asm volatile(PTX " %0, %1, %2;" : CONSTRAINT(BITS)(low) : "f"(other), "f"(x));   \
    CODE h = (CODE)(high >> BITS), l = (CODE)low;                                    \
    if (h != l) atomicAdd(disagree, 1u);                                             \
    out[index()] = h;                                                                \
  }
#define PACKED(BITS) PACKED_##BITS
#define PACKED_8 u16
#define PACKED_16 u32
#define CONSTRAINT(BITS) CONSTRAINT_##BITS
#define CONSTRAINT_8 "=h"
#define CONSTRAINT_16 "=r"

CONVERT(cvt_e4m3, "cvt.rn.satfinite.e4m3x2.f32", u8, 8)
CONVERT(cvt_e5m2, "cvt.rn.satfinite.e5m2x2.f32", u8, 8)
CONVERT(cvt_bf16, "cvt.rn.bf16x2.f32", u16, 16)

#define TERNARY(NAME, PTX, OPERANDS, ...)                                            \
  extern "C" __global__ void arith_##NAME(const u32* xs, const u32* ys, const u32* zs, u32* out) { \
    float x = __uint_as_float(xs[index()]), y = __uint_as_float(ys[index()]),        \
          z = __uint_as_float(zs[index()]), d;                                       \
    asm volatile(PTX OPERANDS : "=f"(d) : __VA_ARGS__);                              \
    out[index()] = __float_as_uint(d);                                               \
  }
#define ONE " %0, %1;"
#define TWO " %0, %1, %2;"
#define THREE " %0, %1, %2, %3;"
TERNARY(add_rn, "add.rn.f32", TWO, "f"(x), "f"(y))
TERNARY(add_rn_ftz, "add.rn.ftz.f32", TWO, "f"(x), "f"(y))
TERNARY(mul_rn, "mul.rn.f32", TWO, "f"(x), "f"(y))
TERNARY(mul_rn_ftz, "mul.rn.ftz.f32", TWO, "f"(x), "f"(y))
TERNARY(fma_rn, "fma.rn.f32", THREE, "f"(x), "f"(y), "f"(z))
TERNARY(fma_rn_ftz, "fma.rn.ftz.f32", THREE, "f"(x), "f"(y), "f"(z))
TERNARY(div_rn, "div.rn.f32", TWO, "f"(x), "f"(y))
TERNARY(div_rn_ftz, "div.rn.ftz.f32", TWO, "f"(x), "f"(y))
TERNARY(rcp_rn, "rcp.rn.f32", ONE, "f"(x))
TERNARY(rcp_rn_ftz, "rcp.rn.ftz.f32", ONE, "f"(x))
TERNARY(sqrt_rn, "sqrt.rn.f32", ONE, "f"(x))
TERNARY(sqrt_rn_ftz, "sqrt.rn.ftz.f32", ONE, "f"(x))
TERNARY(max, "max.f32", TWO, "f"(x), "f"(y))
TERNARY(max_ftz, "max.ftz.f32", TWO, "f"(x), "f"(y))
