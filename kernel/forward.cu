// F: O, LSE and the statistics (M, l) that the backward reads. One CTA takes 128 queries of one head.
//
// Warpgroup 0 produces (one thread issues bulk copies of K and V^T tiles of 64 keys), warpgroups 1 and 2
// consume, 64 queries each. Per tile: S = Q K^T, row-window maximum, codes of P as A fragments, P V^T in
// chunks of 64 channels, promotion into O. The next S runs while O is promoted (D <= 128).
#define TIED_SCORES (!CAUSAL)  // what ptxas 13.0 can allocate in every mode at D = 256
#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"
#include "tasks.cuh"
#include "wgmma.cuh"

constexpr int STAGES = D == 256 ? 4 : (D == 128 ? 8 : 10);
constexpr int CHUNKS = D / 64;
constexpr bool OVERLAP = D <= 128;
constexpr int LAST_COLUMNS = UNROUNDED ? 64 : 72;  // of P V^T: 64 channels, and the ones
#ifndef PINGPONG
#define PINGPONG 1
#endif

constexpr int SLOT_K = ROWS_IMAGE, SLOT_V = VALUES_IMAGE;
constexpr int AT_BARRIERS = 0;
constexpr int AT_HEADERS = 512;  // 16 bytes per slot
constexpr int AT_Q = 1024;
constexpr int AT_K = AT_Q + 2 * ROWS_IMAGE;
constexpr int AT_V = AT_K + STAGES * SLOT_K;
constexpr int AT_KEYS = AT_V + STAGES * SLOT_V;  // shifted: first key of each row's largest score
constexpr int SHARED = AT_KEYS + 128 * 4;
static_assert(SHARED + 1024 <= SHARED_LIMIT, "shared memory");

constexpr float OFFSET = 8.0f;      // the window maximum codes as 2^8
constexpr float HEADROOM = 32.0f;   // how far a window may exceed the row's reference

struct RowState {
  float reference, sum, codes_sum, top;  // R, l, lh (lane t = 0 only), largest b
};

// Steps 2 to 4 for one 64 x 64 window: turns scores into codes, updates l, returns beta in `weight`.
template <bool MASKED>
INLINE void softmax_window(float (&s)[32], u32 (&codes)[8], RowState (&row)[2], float (&weight)[2], float (&o)[D / 2],
                           float ct, const int (&limit)[2], int tile, u32 top_keys) {
  u32 lane_column = 2 * (threadIdx.x & 3);
  const float lowest = from_bits(0xFF800000u);
  float m[2], shift[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    constexpr int CHAINS = OVERLAP ? 4 : 1;  // a maximum has no order: four chains at once
    float chain[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) chain[i] = lowest;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int b = 0; b < 2; ++b)
        if (!MASKED || (int)(8 * j + lane_column + b) <= limit[h])
          chain[(2 * j + b) % CHAINS] = maximum(chain[(2 * j + b) % CHAINS], s[4 * j + 2 * h + b]);
    m[h] = chain[0];
#pragma unroll
    for (int i = 1; i < CHAINS; ++i) m[h] = maximum(m[h], chain[i]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    m[h] = maximum(m[h], shuffle_xor(m[h], 1));
    m[h] = maximum(m[h], shuffle_xor(m[h], 2));
    bool any = bits(m[h]) != 0xFF800000u;
    float b = any ? multiply_add(m[h], ct, neg(OFFSET)) : 0.0f;
    if (any && b > add(row[h].reference, HEADROOM)) {
      float next = ceiling(b);
      float factor = pow2(to_int(sub(row[h].reference, next)));
      row[h].reference = next;
      row[h].sum = mul(row[h].sum, factor);
      row[h].codes_sum = mul(row[h].codes_sum, factor);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        o[4 * j + 2 * h] = mul(o[4 * j + 2 * h], factor);
        o[4 * j + 2 * h + 1] = mul(o[4 * j + 2 * h + 1], factor);
      }
    }
    if constexpr (MODE == SHIFTED) {
      int key = BLOCK;
#pragma unroll
      for (int i = 15; i >= 0; --i) {
        const int column = 8 * (i >> 1) + lane_column + (i & 1);
        if (s[4 * (i >> 1) + 2 * h + (i & 1)] == m[h] && (!MASKED || column <= limit[h])) key = column;
      }
      key = min(key, __shfl_xor_sync(~0u, key, 1));
      key = min(key, __shfl_xor_sync(~0u, key, 2));
      if (any && b > row[h].top) store_shared(top_keys + 32 * h, tile * BLOCK + key);
    }
    if (any) row[h].top = maximum(row[h].top, b);
    weight[h] = any ? ex2(sub(b, row[h].reference)) : 0.0f;
    shift[h] = neg(b);
  }
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bool hidden = MASKED && (int)(8 * j + lane_column + (i & 1)) > limit[i >> 1];
      s[4 * j + i] = hidden ? 0.0f : ex2(multiply_add(s[4 * j + i], ct, shift[i >> 1]));
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float even = s[2 * h], odd = s[2 * h + 1];
#pragma unroll
    for (int j = 1; j < 8; ++j) even = add(even, s[4 * j + 2 * h]), odd = add(odd, s[4 * j + 2 * h + 1]);
    row[h].sum = multiply_add(add(even, odd), weight[h], row[h].sum);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      float* x = &s[8 * g + 2 * h];
      codes[4 * (g >> 1) + 2 * (g & 1) + h] = pack16(to_e4m3x2(x[0], x[1]), to_e4m3x2(x[4], x[5]));
    }
  }
}

template <int N>
INLINE void promote(float (&o)[D / 2], const float (&t)[N], int chunk, const float (&w)[2]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) o[32 * chunk + i] = multiply_add(t[i], w[(i >> 1) & 1], o[32 * chunk + i]);
}

#if DUMP
#define DUMP_PARAMETERS , u8 *dump_codes, float2 *dump_windows
struct Dump {
  u8* codes;        // of P, one a score
  float2* windows;  // beta and R of each row and window
  i64 row;          // padded row of the warpgroup's first query
  int k_tiles;

  INLINE void window(const u32 (&p)[8], const float (&beta)[2], const RowState (&state)[2], int tile) const {
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const i64 at = (row + 16 * warp + (lane >> 2) + 8 * h) * k_tiles + tile;
#pragma unroll
      for (int j = 0; j < 8; ++j)  // columns 8 j + 2 (lane & 3) and the next
        *(u16*)(codes + at * BLOCK + 8 * j + 2 * (lane & 3)) =
            (u16)(p[4 * (j >> 2) + 2 * ((j >> 1) & 1) + h] >> (16 * (j & 1)));
      if ((lane & 3) == 0) windows[at] = make_float2(beta[h], state[h].reference);
    }
  }
};
#else
#define DUMP_PARAMETERS
#endif

// One consumer warpgroup: 64 queries.
struct Consumer {
#if DUMP
  Dump to;
#endif
  u32 base, full_k, full_v, empty_k, empty_v;
  int first_row, nq, nk, rows[2];
  float sq;
  float s[32], o[D / 2], t0[32], t1[LAST_COLUMNS / 2];
  u32 codes[8];
  RowState row[2];
  RowsOperand q;

  // Ping-pong: the halves issue their products in turns, so that one computes its softmax while the tensor
  // core works for the other. Barrier 1 + half opens this half's turn.
  int half;
  INLINE void take_turn() const {
    if constexpr (OVERLAP && PINGPONG) named_barrier(1 + half, 256);
  }
  INLINE void pass_turn() const {
    if constexpr (OVERLAP && PINGPONG) named_arrive(2 - half, 256);
  }

  // One tile. With LAST the next S is not issued, and the general (masked) softmax serves.
  template <bool LAST>
  INLINE void step(int j) {
    const int slot = j % STAGES, next = (j + 1) % STAGES;
    const u32 parity = (j / STAGES) & 1, next_parity = ((j + 1) / STAGES) & 1;
    if constexpr (!OVERLAP) {
      barrier_wait(full_k + 8 * slot, parity);
      wgmma_fence();
      issue_rows(s, q, base + AT_K + slot * SLOT_K);
      wgmma_commit();
    }
    wgmma_wait<0>();
    pin(s);
    q.keep();
    const float4 header = load_shared4(base + AT_HEADERS + slot * 16);
    warp_arrive(empty_k + 8 * slot);
    const float ct = mul(sq, header.x);
    float w[2];
    const u32 top_keys = base + AT_KEYS + ((threadIdx.x - 128) >> 5) * 64 + ((threadIdx.x & 31) >> 2) * 4;
    const int limit[2] = {visible_limit(rows[0], j, nq, nk), visible_limit(rows[1], j, nq, nk)};
    if (!LAST && visible_limit(first_row, j, nq, nk) >= BLOCK - 1)
      softmax_window<false>(s, codes, row, w, o, ct, limit, j, top_keys);
    else
      softmax_window<true>(s, codes, row, w, o, ct, limit, j, top_keys);
#if DUMP
    to.window(codes, w, row, j);
#endif

    barrier_wait(full_v + 8 * slot, parity);
    take_turn();
    const u32 values = base + AT_V + slot * SLOT_V;
    const float beta[2] = {w[0], w[1]};
    w[0] = mul(w[0], header.y), w[1] = mul(w[1], header.y);
    pin(codes);
    if constexpr (OVERLAP) {
      pin(s);
      wgmma_fence();
      if constexpr (CHUNKS == 2) issue_channels<64>(t0, codes, values, 0);
      issue_channels<LAST_COLUMNS>(t1, codes, values, 64 * (CHUNKS - 1));
      wgmma_commit();
      if constexpr (!LAST) {
        barrier_wait(full_k + 8 * next, next_parity);
        wgmma_fence();
        issue_rows(s, q, base + AT_K + next * SLOT_K);
        wgmma_commit();
        pass_turn();
        wgmma_wait<1>();
      } else {
        pass_turn();
        wgmma_wait<0>();
      }
      pin(codes);
      if constexpr (CHUNKS == 2) {
        pin(t0);
        promote(o, t0, 0, w);
      }
      pin(t1);
      promote(o, t1, CHUNKS - 1, w);
    } else {
      // Four chunks through two temporaries: one is promoted while the other is computed.
      wgmma_fence();
      issue_channels<64>(t0, codes, values, 0);
      wgmma_commit();
      wgmma_fence();
      issue_channels<64>(t1, codes, values, 64);
      wgmma_commit();
      wgmma_wait<1>();
      pin(t0);
      promote(o, t0, 0, w);
      wgmma_fence();
      issue_channels<64>(t0, codes, values, 128);
      wgmma_commit();
      wgmma_wait<1>();
      pin(t1);
      promote(o, t1, 1, w);
      wgmma_fence();
      issue_channels<LAST_COLUMNS>(t1, codes, values, 192);
      wgmma_commit();
      wgmma_wait<1>();
      pin(t0);
      promote(o, t0, 2, w);
      wgmma_wait<0>();
      pin(codes);
      pin(t1);
      promote(o, t1, 3, w);
    }
    if constexpr (!UNROUNDED) {
      row[0].codes_sum = multiply_add(t1[32], beta[0], row[0].codes_sum);
      row[1].codes_sum = multiply_add(t1[34], beta[1], row[1].codes_sum);
    }
    warp_arrive(empty_v + 8 * slot);
  }
};

extern "C" __global__ void __launch_bounds__(384, 1)
    forward(const u8* __restrict__ q_rows, const u8* __restrict__ k_rows, const u8* __restrict__ v_channels,
            const float4* __restrict__ q_heads, const float4* __restrict__ kv_heads, const float* __restrict__ q_shift,
            u32* __restrict__ out,
            float2* __restrict__ statistics, float* __restrict__ lse, int* __restrict__ top_keys,
            float2* __restrict__ rescales, float2* __restrict__ exact_out, int heads, int kv_heads_count, int batch_heads,
            int nq, int nk, int q_blocks, int k_tiles, float c, float scale DUMP_PARAMETERS) {
  extern __shared__ __align__(1024) u8 raw[];
  const u32 base = (shared_address(raw) + 1023) & ~1023u;
  const u32 full_k = base + AT_BARRIERS, full_v = full_k + 8 * STAGES, empty_k = full_v + 8 * STAGES,
            empty_v = empty_k + 8 * STAGES, full_q = empty_v + 8 * STAGES;
  const int bh = blockIdx.x % batch_heads;
  const int q_block = q_blocks - 1 - blockIdx.x / batch_heads;
  const int kv = bh / (heads / kv_heads_count);
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform over the warp
  const int tiles = visible_tiles(q_block * 128 + BLOCK, nq, nk);

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(full_k + 8 * i, 1);
      barrier_init(full_v + 8 * i, 1);
      barrier_init(empty_k + 8 * i, CONSUMER_WARPS);
      barrier_init(empty_v + 8 * i, CONSUMER_WARPS);
    }
    barrier_init(full_q, 1);
    barrier_init_fence();
  }
  __syncthreads();

  if (group == 0) {
    registers_shrink<24>();
    if (threadIdx.x == 0) {
      barrier_expect(full_q, 2 * ROWS_IMAGE);
      bulk_load(base + AT_Q, q_rows + (i64)(bh * (i64)q_blocks + q_block) * 2 * ROWS_IMAGE, 2 * ROWS_IMAGE, full_q);
      for (int j = 0; j < tiles; ++j) {
        int slot = j % STAGES;
        u32 parity = ((j / STAGES) & 1) ^ 1;
        i64 tile = (i64)kv * k_tiles + j;
        barrier_wait(empty_k + 8 * slot, parity);
        barrier_expect(full_k + 8 * slot, SLOT_K + 16);
        bulk_load(base + AT_K + slot * SLOT_K, k_rows + tile * ROWS_IMAGE, SLOT_K, full_k + 8 * slot);
        bulk_load(base + AT_HEADERS + slot * 16, kv_heads + tile, 16, full_k + 8 * slot);
        barrier_wait(empty_v + 8 * slot, parity);
        barrier_expect(full_v + 8 * slot, SLOT_V);
        bulk_load(base + AT_V + slot * SLOT_V, v_channels + tile * VALUES_IMAGE, SLOT_V, full_v + 8 * slot);
      }
    }
  } else {
    registers_grow<240>();
    const int half = group - 1;
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
    const int first_row = q_block * 128 + half * BLOCK;
    const int own_tiles = visible_tiles(first_row, nq, nk);
    const int rows[2] = {first_row + (int)(16 * warp + (lane >> 2)), first_row + (int)(16 * warp + (lane >> 2)) + 8};
    const float sq = mul(q_heads[(i64)bh * q_blocks * 2 + q_block * 2 + half].x, c);

    Consumer me;
    me.half = half;
#if DUMP
    me.to = {dump_codes, dump_windows, (i64)bh * q_blocks * 128 + first_row, k_tiles};
#endif
    if (half == 1) me.pass_turn();  // half 0 goes first
    me.base = base, me.full_k = full_k, me.full_v = full_v, me.empty_k = empty_k, me.empty_v = empty_v;
    me.first_row = first_row, me.nq = nq, me.nk = nk, me.rows[0] = rows[0], me.rows[1] = rows[1], me.sq = sq;
#pragma unroll
    for (int h = 0; h < 2; ++h) me.row[h] = {from_bits(0xFF800000u), 0.0f, 0.0f, from_bits(0xFF800000u)};
#pragma unroll
    for (int i = 0; i < D / 2; ++i) me.o[i] = 0.0f;
    if (MODE == SHIFTED) {
      if (threadIdx.x < 256) store_shared(base + AT_KEYS + (threadIdx.x - 128) * 4, 0);
      named_barrier(3, 256);
    }
    barrier_wait(full_q, 0);
    me.q.load(base + AT_Q + half * ROWS_IMAGE);

    if (own_tiles > 0) {
      if constexpr (OVERLAP) {
        barrier_wait(full_k, 0);
        wgmma_fence();
        issue_rows(me.s, me.q, base + AT_K);
        wgmma_commit();
      }
      for (int j = 0; j < own_tiles - 1; ++j) me.step<false>(j);
      me.step<true>(own_tiles - 1);
    }
    // The lower half may see one tile more: take part in its hand-over.
    for (int j = own_tiles; j < tiles; ++j) {
      const u32 slot = j % STAGES, parity = (j / STAGES) & 1;
      barrier_wait(full_k + 8 * slot, parity);
      warp_arrive(empty_k + 8 * slot);
      barrier_wait(full_v + 8 * slot, parity);
      warp_arrive(empty_v + 8 * slot);
      me.take_turn();
      me.pass_turn();
    }

    const int b = bh / heads, head = bh % heads;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float l = me.row[h].sum;
      l = add(l, shuffle_xor(l, 1));
      l = add(l, shuffle_xor(l, 2));
      float lh = __shfl_sync(~0u, me.row[h].codes_sum, lane & ~3u);
      if (UNROUNDED) lh = l;  // the other normaliser, relative to R as O is
      bool dead = bits(me.row[h].top) == 0xFF800000u && bits(l) == 0;
      float m = dead ? 0.0f : add(ceiling(me.row[h].top), OFFSET);
      l = dead ? 0.0f : mul(l, pow2(to_int(sub(me.row[h].reference, m))));
      float inverse = dead ? 0.0f : rcp(lh);
      bool real = rows[h] < nq;
      if ((lane & 3) == 0) {
        statistics[(i64)bh * q_blocks * 128 + rows[h]] = real ? make_float2(m, l) : make_float2(0.0f, 0.0f);
        if constexpr (MODE == SHIFTED) top_keys[(i64)bh * q_blocks * 128 + rows[h]] =
              load_shared(base + AT_KEYS + ((threadIdx.x - 128) >> 5) * 64 + (lane >> 2) * 4 + 32 * h);
        if constexpr (KEEPS_EXACT)
          rescales[(i64)bh * q_blocks * 128 + rows[h]] = make_float2(me.row[h].reference, real ? inverse : 0.0f);
        if (real)
          lse[(i64)bh * nq + rows[h]] =  // natural, with what centring K took off the logits
              dead ? from_bits(0xFF800000u)
                   : add(mul(add(m, lg2(l)), from_bits(0x3F317218u)),
                         mul(q_shift[(i64)bh * q_blocks * 128 + rows[h]], scale));
      }
      if (real) {
        const i64 at = (((i64)b * nq + rows[h]) * heads + head) * (D / 2) + (lane & 3);
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          const float x = mul(me.o[4 * j + 2 * h], inverse), y = mul(me.o[4 * j + 2 * h + 1], inverse);
          out[at + 4 * j] = to_bf16x2(x, y);
          if constexpr (KEEPS_EXACT) exact_out[at + 4 * j] = make_float2(x, y);
        }
      }
    }
  }
}
