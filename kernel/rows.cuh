// The rows of B: scores of a tile, exponentials, tile maxima, the reference of the shifted delta.
#pragma once

#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"
#include "params.cuh"
#include "ring.cuh"

// One path a head dim.
//   STAGES      places of the ring of K, V and K^T
//   GROUPS      most consumer warpgroups (launch.py: most_groups), REGISTERS of a thread of theirs
//   FRAGMENTS   Q and dO rest in registers, TIED see wgmma.cuh: what ptxas 13.0 can allocate
//   AHEAD       sweep 1 issues a tile before it uses the one before
//   TWO_CHUNKS  of dS K are under way at once
// At D = 128 a third warpgroup has to leave Q and dO in shared memory and one temporary to spare: that pays for the
// associated delta alone, whose exponentials take longest.
template <int DIM>
struct Path;
template <>
struct Path<64> {
  static constexpr int STAGES = 8, GROUPS = 3, REGISTERS = 160;
  static constexpr bool FRAGMENTS = true, TIED = false, TIED_SCORES = MODE != ASSOCIATED;
  static constexpr bool AHEAD = false, TWO_CHUNKS = false;
};
template <>
struct Path<128> {
  static constexpr bool THREE = MODE == ASSOCIATED;
  static constexpr int STAGES = THREE ? 4 : 5, GROUPS = THREE ? 3 : 2, REGISTERS = THREE ? 160 : 240;
  static constexpr bool FRAGMENTS = !THREE, TIED = THREE, TIED_SCORES = true;
  static constexpr bool AHEAD = !THREE, TWO_CHUNKS = !THREE;
};
template <>
struct Path<256> {
  static constexpr int STAGES = 2, GROUPS = 2, REGISTERS = 240;
  static constexpr bool FRAGMENTS = false, TIED = true, TIED_SCORES = MODE != ASSOCIATED;
  static constexpr bool AHEAD = false, TWO_CHUNKS = true;
};

#include "tasks.cuh"
#include "wgmma.cuh"

constexpr bool TWO_SWEEPS = MODE == MATCHED || MODE == RENORMALIZED || MODE == SHIFTED;
constexpr bool SUMS_P = MODE == RENORMALIZED || MODE == SHIFTED;
constexpr int CHUNKS = D / 64;
constexpr int STAGES = Path<D>::STAGES, MOST_GROUPS = Path<D>::GROUPS;
constexpr int TABLE_TILES = 2048;  // tile maxima kept on chip: up to 131,072 keys

constexpr int SLOT = 2 * ROWS_IMAGE + CHANNELS_IMAGE;
constexpr int AT_HEADERS = 512;
constexpr int AT_SCRATCH = 768;  // per half: 4 floats, then 4 bytes
constexpr int AT_TABLE = 1024;
constexpr int AT_STAGING = AT_TABLE + MOST_GROUPS * TABLE_TILES * 4;
constexpr int AT_Q = AT_STAGING + 2 * MOST_GROUPS * RECORD_SLOT;
constexpr int AT_G = AT_Q + MOST_GROUPS * ROWS_IMAGE;
constexpr int AT_RING = AT_G + MOST_GROUPS * ROWS_IMAGE;
constexpr int AT_ROWS = AT_RING + STAGES * SLOT;  // per row 2 floats that would not fit in registers
static_assert(AT_Q % 1024 == 0 && AT_ROWS + MOST_GROUPS * BLOCK * 8 + 1024 <= SHARED_LIMIT, "shared memory");

// Biased exponent of the smallest 1.75 * 2^n that is >= x: 448 = 1.75 * 2^8.
// 0 is kept for 0.
INLINE u32 ceiling_exponent_448(float x) { return max((bits(x) + 0x1FFFFF) >> 23, min(bits(x), 1u)); }
// The least n with x <= 2^n, clamped to [-100, 120]; 0 for 0.
INLINE int binade(float x) {
  return bits(x) == 0 ? 0 : max(-100, min(120, (int)((bits(x) + 0x7FFFFF) >> 23) - 127));
}
constexpr float HEADROOM = 32.0f, OFFSET = 8.0f;  // as in the forward

struct Arguments {
  int nq, nk;
};

#if DUMP
struct Dump {
  float *p, *dp, *ds;       // before the casts, each in units of its codes
  u8 *p_codes, *ds_codes;   // one a score
  int2* exponents;          // kP and log2(1 / u) of each tile, at its rows
  int k_tiles;
  i64 row;  // padded row of the warpgroup's first query
};
#endif

// What one consumer warpgroup knows of its 64 rows, and what it does to one tile of scores.
struct Rows {
  Arguments to;
#if DUMP
  Dump dump;
#endif
  u32 base;
  Ring<STAGES> ring;
  int groups, half;  // of the CTA; which of them this is
  int first_row, rows[2];
  u8* record;           // this half's record of tile 0
  float sqc, sq, sg, ng;  // sQ * c, sQ, sdO, ndO
  float m[2], r[2], delta[2], low[2], acc[2], mass[2];
  float reference[2];  // associated: R
  float largest;        // max over the 64 rows of |delta| (shifted: |d0| + |lo|)
  float s[32], d[32], dq[D / 2], t0[32], t1[32];
  u32 p_pairs[8], x_pairs[8], a[8];
  RowsOperand q, g;

  // Two numbers of row h that rest in shared memory: (d0, lo) or (last R, rcp(lh)).
  INLINE u32 row_address(int h) const {
    return base + AT_ROWS + (half * BLOCK + 16 * ((threadIdx.x >> 5) & 3) + ((threadIdx.x & 31) >> 2) + 8 * h) * 8;
  }
  INLINE void rest_row(int h, float x, float y) const {
    __syncwarp();
    if ((threadIdx.x & 3) == 0) store_shared(row_address(h), bits(x)), store_shared(row_address(h) + 4, bits(y));
    __syncwarp();
  }
  INLINE float row_constant(int h, int which) const { return from_bits(load_shared(row_address(h) + 4 * which)); }

  INLINE u32 slot_address(u32 slot) const { return base + AT_RING + slot * SLOT; }

  // Issues S and dP of the tile in a slot, into the given accumulators.
  INLINE void issue_scores(u32 slot, float (&s)[32], float (&d)[32]) {
    const u32 at = slot_address(slot);
    if constexpr (D == 64) {
      // ptxas 13.0 gives the fragments' registers to other values inside the loop when they are loaded
      // before it (one-sweep modes: dP was wrong from the second tile on); tests/kernel looks for that.
      q.load(q.address);
      g.load(g.address);
    }
    wgmma_fence();
    issue_rows(s, q, at);
    issue_rows(d, g, at + ROWS_IMAGE);
    wgmma_commit();
  }

  template <int PENDING>
  INLINE void wait_scores(float (&s)[32], float (&d)[32]) {
    wgmma_wait<PENDING>();
    pin(s);
    pin(d);
    q.keep();
    g.keep();
  }

  // Step 6: s becomes e = ex2(a ct - M); masked keys give 0.
  template <bool MASKED>
  INLINE void exponentials(float (&s)[32], int tile, float ct) {
    if constexpr (MODE == ASSOCIATED) return rounded_probabilities<MASKED>(s, tile, ct);
    const int column = 2 * (threadIdx.x & 3);
    const int limit[2] = {visible_limit(rows[0], tile, to.nq, to.nk), visible_limit(rows[1], tile, to.nq, to.nk)};
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      bool hidden = MASKED && 8 * (i >> 2) + column + (i & 1) > limit[(i >> 1) & 1];
      s[i] = hidden ? 0.0f : ex2(multiply_add(s[i], ct, neg(m[(i >> 1) & 1])));
    }
  }

  // Associated: steps 2 and 3 again; s becomes the forward's rounded, normalised P.
  template <bool MASKED>
  INLINE void rounded_probabilities(float (&s)[32], int tile, float ct) {
    const int column = 2 * (threadIdx.x & 3);
    float shift[2], weight[2];
    int limit[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      limit[h] = visible_limit(rows[h], tile, to.nq, to.nk);
      float top = from_bits(0xFF800000u);
#pragma unroll
      for (int i = 0; i < 32; ++i)
        if (((i >> 1) & 1) == h && (!MASKED || 8 * (i >> 2) + column + (i & 1) <= limit[h])) top = maximum(top, s[i]);
      top = maximum(top, shuffle_xor(top, 1));
      top = maximum(top, shuffle_xor(top, 2));
      const bool any = bits(top) != 0xFF800000u;
      const float b = any ? multiply_add(top, ct, neg(OFFSET)) : 0.0f;
      if (any && b > add(reference[h], HEADROOM)) reference[h] = ceiling(b);
      const float beta = any ? ex2(sub(b, reference[h])) : 0.0f;
      weight[h] = mul(mul(beta, pow2(to_int(sub(reference[h], row_constant(h, 0))))), row_constant(h, 1));
      shift[h] = neg(b);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        float e[2];
#pragma unroll
        for (int h = 0; h < 2; ++h)
          e[h] = MASKED && 8 * j + column + b > limit[h] ? 0.0f : ex2(multiply_add(s[4 * j + 2 * h + b], ct, shift[h]));
        from_e4m3x2(to_e4m3x2(e[0], e[1]), e[0], e[1]);
#pragma unroll
        for (int h = 0; h < 2; ++h) s[4 * j + 2 * h + b] = mul(e[h], weight[h]);
      }
  }

  // Shifted: d0 = dP at the row's largest score. The 64 keys, one a row, become a B operand of their own,
  // so that d0 has the tensor core's bits; row r finds its product in column r.
  INLINE void find_shift(const int* top_keys, const u8* v_rows, const float4* kv_heads, u32 image) {
    const u32 thread = threadIdx.x & 127, lane = thread & 31, warp = thread >> 5;
    for (u32 i = thread; i < BLOCK * (D / 16); i += 128) {
      const u32 token = i / (D / 16), chunk = i % (D / 16);
      const int key = top_keys[token];
      const float4* from =
          reinterpret_cast<const float4*>(v_rows + (i64)(key / BLOCK) * ROWS_IMAGE + rows_chunk(key % BLOCK, chunk));
      store_shared4(image + rows_chunk(token, chunk), *from);
    }
    proxy_fence();
    named_barrier(1 + half, 128);
    wgmma_fence();
    issue_rows(d, g, image);
    wgmma_commit();
    wgmma_wait<0>();
    pin(d);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const u32 row = (lane >> 2) + 8 * h + 16 * warp;
      float mine = 0.0f;
#pragma unroll
      for (int i = 0; i < 32; ++i)
        if (((i >> 1) & 1) == h && 8 * (i >> 2) + 2 * (lane & 3) + (i & 1) == row) mine = d[i];
      mine = __shfl_sync(~0u, mine, (lane & ~3u) + ((row & 7) >> 1));
      delta[h] = mul(mine, mul(sg, kv_heads[top_keys[row] / BLOCK].y));
    }
    named_barrier(1 + half, 128);  // the staging slots are free again
  }

  // Largest P of this warp's 16 rows of the tile, as the exponent byte of step 8.
  INLINE void store_maximum(const float (&s)[32], u32 address) {
    float top[4] = {s[0], s[1], s[2], s[3]};  // a maximum has no order: four chains at once
#pragma unroll
    for (int i = 4; i < 32; ++i) top[i & 3] = maximum(top[i & 3], s[i]);
    float p = warp_max(maximum(mul(maximum(top[0], top[1]), r[0]), mul(maximum(top[2], top[3]), r[1])));
    if ((threadIdx.x & 31) == 0) store_shared_byte(address + ((threadIdx.x >> 5) & 3), ceiling_exponent_448(p));
  }
};
