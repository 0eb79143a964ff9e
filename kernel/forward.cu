// F: O, LSE and the statistics (M, l) that the backward reads. One CTA takes 64 queries of one head for each
// of its consumer warpgroups.
//
// Warpgroup 0 produces (one thread issues bulk copies of K and V^T tiles of 64 keys), the others consume: four at
// D = 64, three at D = 128 (two where there are few queries), two at D = 256. Per tile: S = Q K^T, row-window
// maximum, codes of P as A fragments, P V^T in chunks of 64 channels, promotion into O. Up to D = 128 no product
// overlaps exponentials of its own warpgroup: with few registers each, one warpgroup more hides more.
// What ptxas 13.0 can allocate.
#define PAIRED (HEAD_DIM == 128 && MODE != 4 && !UNROUNDED && !DUMP)
#define TIED (HEAD_DIM == 256 || PAIRED)
#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"
#include "ring.cuh"
#include "tasks.cuh"
#include "wgmma.cuh"
#include "window.cuh"

constexpr int STAGES = D == 256 ? 4 : (D == 128 ? 8 : 10);
constexpr int CHUNKS = D / 64;
constexpr int LAST_COLUMNS = UNROUNDED ? 64 : 72;  // of P V^T: 64 channels, and the ones
constexpr int MOST_GROUPS = D == 64 && MODE != SHIFTED ? 4 : (D <= 128 ? 3 : 2);  // consumer warpgroups
// Of a thread of theirs. What all take together is what the CTA was started with: 640 x 96, 512 x 128, 384 x 168.
constexpr int REGISTERS = MOST_GROUPS == 4 ? 112 : (MOST_GROUPS == 3 ? 160 : 240);
constexpr bool TURNS = D <= 128 || MODE == MATCHED;
constexpr bool FOLLOWS = D <= 128;  // as in launch.py; at D = 256 ptxas 13.0 then lets multiplies wait for each other
constexpr bool PAIRS = PAIRED;  // both chunks of P V^T are under way at once

constexpr int SLOT_K = ROWS_IMAGE, SLOT_V = VALUES_IMAGE;
constexpr int AT_BARRIERS = 0;
constexpr int AT_HEADERS = 512;  // 16 bytes per slot
constexpr int AT_Q = 1024;
constexpr int AT_K = AT_Q + MOST_GROUPS * ROWS_IMAGE;
constexpr int AT_V = AT_K + STAGES * SLOT_K;
constexpr int AT_KEYS = AT_V + STAGES * SLOT_V;  // shifted: first key of each row's largest score
constexpr int SHARED = AT_KEYS + MOST_GROUPS * BLOCK * 4;
static_assert(SHARED + 1024 <= SHARED_LIMIT, "shared memory");

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

// The first of this thread's two rows, of the warpgroup's 64 from `first_row`; the other is 8 below.
INLINE int own_row(int first_row) { return first_row + 16 * ((threadIdx.x >> 5) & 3) + ((threadIdx.x & 31) >> 2); }

// One consumer warpgroup: 64 queries.
struct Consumer {
#if DUMP
  Dump to;
#endif
  u32 base, full_k, full_v, empty_k, empty_v;
  int groups, half;  // of the CTA; which of them this is
  int first_row, nq, nk;
  float sq;
  float s[32], o[D / 2], t0[32], t1[LAST_COLUMNS / 2];
  u32 codes[8];
  RowState row[2];
  RowsOperand q;
  Ring<STAGES> at;
  float w[2], beta[2];  // of the tile in hand: beta times the values' scale, beta

  // The warpgroups take turns at S, so that the others compute while the tensor core works for one. Barrier
  // 1 + half opens this one's turn.
  INLINE void take_turn() const {
    if constexpr (TURNS) named_barrier(1 + half, 256);
  }
  INLINE void pass_turn() const {
    if constexpr (TURNS) named_arrive(half + 1 == groups ? 1 : 2 + half, 256);
  }

  INLINE u32 top_keys() const {
    return base + AT_KEYS + ((threadIdx.x - 128) >> 5) * 64 + ((threadIdx.x & 31) >> 2) * 4;
  }

  // One chunk of 64 channels of P V^T (the last one with the ones).
  template <int COLUMNS>
  INLINE void issue_chunk(float* t, int chunk) {
    wgmma_fence();
    issue_channels<COLUMNS>(t, codes, base + AT_V + at.slot * SLOT_V, 64 * chunk);
    wgmma_commit();
  }

  template <int PENDING, int N>
  INLINE void promote_chunk(float (&t)[N], int chunk) {
    wgmma_wait<PENDING>();
    pin(t);
    promote(o, t, chunk, w);
  }

  // Steps 4 and 5: P V^T into O. At D = 256 one chunk is promoted while the next one is computed, unless the
  // shifted delta's search for keys takes the registers.
  INLINE void contract() {
    pin(codes);
    if constexpr (CHUNKS == 4 && MODE != SHIFTED) {
      issue_chunk<64>(t0, 0);
      issue_chunk<64>(t1, 1);
      promote_chunk<1>(t0, 0);
      issue_chunk<64>(t0, 2);
      promote_chunk<1>(t1, 1);
      issue_chunk<LAST_COLUMNS>(t1, 3);
      promote_chunk<1>(t0, 2);
    } else if constexpr (PAIRS) {
      issue_chunk<64>(s, 0);  // the scores are codes by now
      issue_chunk<LAST_COLUMNS>(t1, 1);
      promote_chunk<1>(s, 0);
    } else {
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS - 1; ++chunk) {
        issue_chunk<64>(t0, chunk);
        promote_chunk<0>(t0, chunk);
      }
      issue_chunk<LAST_COLUMNS>(t1, CHUNKS - 1);
    }
    promote_chunk<0>(t1, CHUNKS - 1);
    pin(codes);
    if constexpr (!UNROUNDED) {
      row[0].codes_sum = multiply_add(t1[32], beta[0], row[0].codes_sum);
      row[1].codes_sum = multiply_add(t1[34], beta[1], row[1].codes_sum);
    }
  }

  template <bool MASKED>
  INLINE void step(int tile) {
    barrier_wait(full_k + 8 * at.slot, at.parity);
    take_turn();
    wgmma_fence();
    issue_rows(s, q, base + AT_K + at.slot * SLOT_K);
    wgmma_commit();
    const float4 header = load_shared4(base + AT_HEADERS + at.slot * 16);
    const float ct = mul(sq, header.x);
    wgmma_wait<0>();
    pin(s);
    q.keep();
    pass_turn();
    warp_arrive(empty_k + 8 * at.slot);
    const int row0 = own_row(first_row);
    const int limit[2] = {visible_limit(row0, tile, nq, nk), visible_limit(row0 + 8, tile, nq, nk)};
    Window window = open_window<MASKED>(s, row, ct, limit, tile, top_keys());
    move_references(window, row, o);
    close_window<MASKED>(window, s, codes, row, ct, limit);
#pragma unroll
    for (int h = 0; h < 2; ++h) beta[h] = window.weight[h], w[h] = mul(window.weight[h], header.y);
#if DUMP
    to.window(codes, beta, row, tile);
#endif
    barrier_wait(full_v + 8 * at.slot, at.parity);
    contract();
    warp_arrive(empty_v + 8 * at.slot);
    at.next();
  }

  // Takes part in the hand-over of a tile that none of its rows sees.
  INLINE void pass_over() {
    barrier_wait(full_k + 8 * at.slot, at.parity);
    take_turn();
    pass_turn();
    warp_arrive(empty_k + 8 * at.slot);
    barrier_wait(full_v + 8 * at.slot, at.parity);
    warp_arrive(empty_v + 8 * at.slot);
    at.next();
  }

  // All `tiles` of the CTA, of which these rows see `own`, and the first `whole` without a mask.
  INLINE void all(int whole, int own, int tiles) {
    int tile = 0;
    for (; tile < whole; ++tile) step<false>(tile);
    for (; tile < own; ++tile) step<true>(tile);
    for (; tile < tiles; ++tile) pass_over();
  }
};

extern "C" __global__ void __launch_bounds__(128 + 128 * MOST_GROUPS, 1)
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
  const int groups = MOST_GROUPS == 2 ? 2 : (blockDim.x >> 7) - 1;
  const int bh = blockIdx.x % batch_heads;
  // Blocks of 64 queries; the last CTA of a head may have fewer than warpgroups.
  const int first_block = first_block_of(blockIdx.x, batch_heads, q_blocks, groups);
  const int blocks = MOST_GROUPS == 2 ? 2 : min(groups, 2 * q_blocks - first_block);
  const int kv = bh / (heads / kv_heads_count);
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform over the warp
  const int tiles = visible_tiles((first_block + blocks - 1) * BLOCK, nq, nk);

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(full_k + 8 * i, 1);
      barrier_init(full_v + 8 * i, 1);
      barrier_init(empty_k + 8 * i, GROUP_WARPS * groups);
      barrier_init(empty_v + 8 * i, GROUP_WARPS * groups);
    }
    barrier_init(full_q, 1);
    barrier_init_fence();
  }
  __syncthreads();
  if constexpr (FOLLOWS) follow_launch();

  if (group == 0) {
    registers_shrink<24>();
    if (threadIdx.x == 0) {
      barrier_expect(full_q, blocks * ROWS_IMAGE);
      bulk_load(base + AT_Q, q_rows + ((i64)bh * q_blocks * 2 + first_block) * ROWS_IMAGE, blocks * ROWS_IMAGE, full_q);
      Ring<STAGES> at;
      for (int j = 0; j < tiles; ++j, at.next()) {
        const u32 slot = at.slot, parity = at.parity ^ 1;
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
    registers_grow<REGISTERS>();
    const int half = group - 1;
    const bool there = MOST_GROUPS == 2 || half < blocks;
    const int first_row = (first_block + half) * BLOCK;
    const int own_tiles = there ? visible_tiles(first_row, nq, nk) : 0;
    const float sq = there ? mul(q_heads[(i64)bh * q_blocks * 2 + first_block + half].x, c) : 0.0f;

    Consumer me;
    me.groups = groups, me.half = half;
#if DUMP
    me.to = {dump_codes, dump_windows, (i64)bh * q_blocks * 128 + first_row, k_tiles};
#endif
    if (half == groups - 1) me.pass_turn();  // the first one starts
    me.base = base, me.full_k = full_k, me.full_v = full_v, me.empty_k = empty_k, me.empty_v = empty_v;
    me.first_row = first_row, me.nq = nq, me.nk = nk, me.sq = sq;
#pragma unroll
    for (int h = 0; h < 2; ++h) me.row[h] = {from_bits(0xFF800000u), 0.0f, 0.0f, from_bits(0xFF800000u)};
#pragma unroll
    for (int i = 0; i < D / 2; ++i) me.o[i] = 0.0f;
    if (MODE == SHIFTED) {
      if (threadIdx.x < 128 + BLOCK * groups) store_shared(base + AT_KEYS + (threadIdx.x - 128) * 4, 0);
      named_barrier(7, 128 * groups);
    }
    barrier_wait(full_q, 0);
    me.q.load(base + AT_Q + half * ROWS_IMAGE);

    me.all(min(own_tiles, whole_tiles(first_row, nq, nk)), own_tiles, tiles);

    const int index = block_index(), lane = threadIdx.x & 31;
    const int end_bh = index % batch_heads, b = end_bh / heads, head = end_bh % heads;
    const int end_block = first_block_of(index, batch_heads, q_blocks, groups) + half;
    const bool stores = (lane & 3) == 0 && (MOST_GROUPS == 2 || end_block < 2 * q_blocks);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = own_row(end_block * BLOCK) + 8 * h;
      const i64 padded = (i64)end_bh * q_blocks * 128 + row;
      float l = me.row[h].sum;
      l = add(l, shuffle_xor(l, 1));
      l = add(l, shuffle_xor(l, 2));
      float lh = __shfl_sync(~0u, me.row[h].codes_sum, lane & ~3u);
      if (UNROUNDED) lh = l;  // the other normaliser, relative to R as O is
      bool dead = bits(me.row[h].top) == 0xFF800000u && bits(l) == 0;
      float m = dead ? 0.0f : add(ceiling(me.row[h].top), OFFSET);
      l = dead ? 0.0f : mul(l, pow2(to_int(sub(me.row[h].reference, m))));
      float inverse = dead ? 0.0f : rcp(lh);
      bool real = row < nq;
      if (stores) {
        statistics[padded] = real ? make_float2(m, l) : make_float2(0.0f, 0.0f);
        if constexpr (MODE == SHIFTED) top_keys[padded] =
              load_shared(base + AT_KEYS + ((threadIdx.x - 128) >> 5) * 64 + (lane >> 2) * 4 + 32 * h);
        if constexpr (KEEPS_EXACT)
          rescales[padded] = make_float2(me.row[h].reference, real ? inverse : 0.0f);
        if (real)
          lse[(i64)end_bh * nq + row] =  // natural, with what centring K took off the logits
              dead ? from_bits(0xFF800000u)
                   : add(mul(add(m, lg2(l)), from_bits(0x3F317218u)),
                         mul(q_shift[padded], scale));
      }
      if (real) {
        const i64 at = (((i64)b * nq + row) * heads + head) * (D / 2) + (lane & 3);
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
