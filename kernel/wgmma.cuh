// FP8 matrix multiply on the tensor core: wgmma m64nNk32, E4M3 x E4M3, fp32 accumulators.
//
// One call is one k32 instruction; KEEP = false starts a chain (the accumulator is read as +0).
// A comes from registers (rs) or shared memory (ss), B always from shared memory, both K-major.
// Accumulator of lane (g = lane / 4, t = lane % 4), warp w: register 4j + 2h + b is row 16w + g + 8h,
// column 8j + 2t + b. A fragment: register 2f + h, byte i is row 16w + g + 8h, k = 16f + 4t + i.
//
// A kernel says before it includes this how it goes about each head dim: `Path<D>`, of which this file reads
// FRAGMENTS, TIED and TIED_SCORES.
#pragma once

INLINE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
INLINE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
INLINE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from moving reads or writes of registers that a wgmma in flight owns.
template <int N>
INLINE void pin(float (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(r[i])::"memory");
}
template <int N>
INLINE void pin(u32 (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(r[i])::"memory");
}

// What a multiply knows of a matrix in shared memory: start address, bytes from 8 rows to the next 8, swizzle
// (1: 128 bytes, 2: 64 bytes).
template <u32 STRIDE, u32 SWIZZLE>
struct Descriptor {
  u32 start;

  explicit INLINE Descriptor(u32 address) : start((address >> 4) | (1u << 16)) {}
  // Of the matrix so many bytes further on: shared memory ends below 2^18, so that nothing carries.
  INLINE u64 at(u32 bytes) const {
    u64 d;
    asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(start + bytes / 16), "r"((STRIDE >> 4) | (SWIZZLE << 30)));
    return d;
  }
};
using RowsDescriptor = Descriptor<D == 64 ? 512 : 1024, D == 64 ? 2 : 1>;
using ChannelsDescriptor = Descriptor<512, 2>;

#define ACC32                                                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS8(c, r, i) c(r[i]), c(r[i + 1]), c(r[i + 2]), c(r[i + 3]), c(r[i + 4]), c(r[i + 5]), c(r[i + 6]), c(r[i + 7])
#define REGISTERS32(c, r) REGISTERS8(c, r, 0), REGISTERS8(c, r, 8), REGISTERS8(c, r, 16), REGISTERS8(c, r, 24)
#define KEPT(x) "+f"(x)
// A chain's first instruction reads no accumulator, so old values need not be moved there (FRESH). Where
// registers are short the tie stays (TIED; TIED_SCORES for A in shared memory): it makes temporaries share registers.
#define FRESH(x) "=f"(x)

#define WGMMA_RS64(c, scale)                                                                                \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " scale ", 0;\n\t"                                   \
               "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 " ACC32                               \
               "}, {%32, %33, %34, %35}, %36, p, 1, 1;\n\t}"                                               \
               : REGISTERS32(c, d)                                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WGMMA_RS72(c, scale)                                                                                \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " scale ", 0;\n\t"                                   \
               "wgmma.mma_async.sync.aligned.m64n72k32.f32.e4m3.e4m3 " ACC32                               \
               ", %32, %33, %34, %35}, {%36, %37, %38, %39}, %40, p, 1, 1;\n\t}"                           \
               : REGISTERS32(c, d), c(d[32]), c(d[33]), c(d[34]), c(d[35])                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WGMMA_SS64(c, scale)                                                                                \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " scale ", 0;\n\t"                                   \
               "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 " ACC32                               \
               "}, %32, %33, p, 1, 1;\n\t}"                                                                \
               : REGISTERS32(c, d)                                                                         \
               : "l"(a), "l"(b))

// 64 columns, A from registers.
template <bool KEEP>
INLINE void wgmma_rs64(float* d, const u32* a, u64 b) {
  if constexpr (KEEP)
    WGMMA_RS64(KEPT, "1");
  else if constexpr (Path<D>::TIED)
    WGMMA_RS64(KEPT, "0");
  else
    WGMMA_RS64(FRESH, "0");
}

// 72 columns, A from registers: the last 64 channels and the ones.
template <bool KEEP>
INLINE void wgmma_rs72(float* d, const u32* a, u64 b) {
  if constexpr (KEEP)
    WGMMA_RS72(KEPT, "1");
  else if constexpr (Path<D>::TIED)
    WGMMA_RS72(KEPT, "0");
  else
    WGMMA_RS72(FRESH, "0");
}

// 64 columns, A from shared memory.
template <bool KEEP>
INLINE void wgmma_ss64(float* d, u64 a, u64 b) {
  if constexpr (KEEP)
    WGMMA_SS64(KEPT, "1");
  else if constexpr (Path<D>::TIED_SCORES)
    WGMMA_SS64(KEPT, "0");
  else
    WGMMA_SS64(FRESH, "0");
}

// The A operand of a 64-row block of a rows image: in registers where a path has FRAGMENTS, else in place.
constexpr bool FRAGMENTS = Path<D>::FRAGMENTS;
struct RowsOperand {
  u32 fragment[FRAGMENTS ? D / 8 : 1];
  u32 address;

  // After every wait for a wgmma that read the fragments.
  INLINE void keep() {
    if constexpr (FRAGMENTS) pin(fragment);
  }

  INLINE void load(u32 image) {
    address = image;
    if constexpr (FRAGMENTS) {
      u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
      u32 row = 16 * warp + (lane & 15), half = lane >> 4;
#pragma unroll
      for (int k = 0; k < D / 32; ++k) {
        u32 r[4];
        load_matrix_x4(r, image + rows_chunk(row, 2 * k + half));
#pragma unroll
        for (int i = 0; i < 4; ++i) fragment[4 * k + i] = r[i];
      }
    }
  }
};

// One k32 step of A B^T over the channels of a rows image.
template <int K>
INLINE void issue_rows_step(float (&acc)[32], RowsOperand& a, RowsDescriptor image) {
  const u64 b = image.at(rows_step(K));
  if constexpr (FRAGMENTS)
    wgmma_rs64<(K > 0)>(acc, &a.fragment[4 * K], b);
  else
    wgmma_ss64<(K > 0)>(acc, RowsDescriptor(a.address).at(rows_step(K)), b);
}

// Issues acc = A B^T over the D channels: 64 rows by the 64 tokens of the rows image at `image`.
INLINE void issue_rows(float (&acc)[32], RowsOperand& a, u32 address) {
  const RowsDescriptor image(address);
  issue_rows_step<0>(acc, a, image);
  issue_rows_step<1>(acc, a, image);
  if constexpr (D >= 128) {
    issue_rows_step<2>(acc, a, image);
    issue_rows_step<3>(acc, a, image);
  }
  if constexpr (D >= 256) {
    issue_rows_step<4>(acc, a, image);
    issue_rows_step<5>(acc, a, image);
    issue_rows_step<6>(acc, a, image);
    issue_rows_step<7>(acc, a, image);
  }
}

// Issues acc = A B^T over 64 tokens: A is a 64 x 64 code tile in fragments, B COLUMNS rows of a
// channels image from channel `first`.
template <int COLUMNS>
INLINE void issue_channels(float* acc, const u32 (&a)[8], u32 image, int first) {
  const ChannelsDescriptor rows(image);
  const u64 b = rows.at(first * 64), c = rows.at(first * 64 + 32);
  if constexpr (COLUMNS == 72) {
    wgmma_rs72<false>(acc, &a[0], b);
    wgmma_rs72<true>(acc, &a[4], c);
  } else {
    wgmma_rs64<false>(acc, &a[0], b);
    wgmma_rs64<true>(acc, &a[4], c);
  }
}
