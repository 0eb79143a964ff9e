// F: O, LSE and the statistics (M, l) that the backward reads. One CTA takes 64 queries of one head for each
// of its consumer warpgroups.
//
// Warpgroup 0 produces (one thread issues bulk copies of K and V^T tiles of 64 keys), the others consume: four at
// D = 64, three at D = 128 (two where there are few queries), two at D = 256. Per tile: S = Q K^T, row-window
// maximum, codes of P as A fragments, P V^T in chunks of 64 channels, promotion into O. Up to D = 128 no product
// overlaps exponentials of its own warpgroup: with few registers each, one warpgroup more hides more.
#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"
#include "params.cuh"
#include "ring.cuh"

// The way of P V^T: a chunk of 64 channels after the other; both of them under way at once; one is promoted while the
// next is computed.
enum Order { IN_TURN, TOGETHER, AHEAD };

// One path a head dim.
//   STAGES     places of the rings of K and V
//   GROUPS     most consumer warpgroups (launch.py: most_groups), REGISTERS of a thread of theirs; what all take
//              together is what the CTA was started with: 640 x 96, 512 x 128, 384 x 168
//   ORDER      of P V^T; the shifted delta's search for keys and a dump take the registers of more than IN_TURN
//   TURNS      the warpgroups take turns at S
//   FOLLOWS    it waits for the launch before it by itself, as in launch.py
//   FRAGMENTS  Q rests in registers, TIED see wgmma.cuh: what ptxas 13.0 can allocate
template <int DIM>
struct Path;
template <>
struct Path<64> {
  static constexpr int STAGES = 10, GROUPS = MODE == SHIFTED ? 3 : 4, REGISTERS = MODE == SHIFTED ? 160 : 112;
  static constexpr Order ORDER = IN_TURN;
  static constexpr bool TURNS = true, FOLLOWS = true, FRAGMENTS = true, TIED = false, TIED_SCORES = false;
};
template <>
struct Path<128> {
  static constexpr int STAGES = 8, GROUPS = 3, REGISTERS = 160;
  static constexpr Order ORDER = MODE != SHIFTED && !UNROUNDED && !DUMP ? TOGETHER : IN_TURN;
  static constexpr bool TIED = ORDER == TOGETHER, TIED_SCORES = TIED;
  static constexpr bool TURNS = true, FOLLOWS = true, FRAGMENTS = false;
};
template <>
struct Path<256> {
  static constexpr int STAGES = 4, GROUPS = 2, REGISTERS = 240;
  static constexpr Order ORDER = MODE != SHIFTED ? AHEAD : IN_TURN;
  static constexpr bool TURNS = MODE == MATCHED;
  static constexpr bool FOLLOWS = false;  // ptxas 13.0 would let multiplies wait for each other
  static constexpr bool FRAGMENTS = false, TIED = true, TIED_SCORES = true;
};

#include "tasks.cuh"
#include "wgmma.cuh"
#include "window.cuh"

constexpr int STAGES = Path<D>::STAGES, MOST_GROUPS = Path<D>::GROUPS;
constexpr int CHUNKS = D / 64;
constexpr int LAST_COLUMNS = UNROUNDED ? 64 : 72;  // of P V^T: 64 channels, and the ones

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
#endif

struct ForwardParameters STRUCT(FORWARD_FIELDS);

// The barriers of a CTA: the rings of K and V, and Q's.
struct Barriers {
  Ring<STAGES> keys, values;
  u32 full_q;

  INLINE Barriers(u32 base) {
    const u32 row = Ring<STAGES>::BYTES, at = base + AT_BARRIERS;
    keys = {at, at + 2 * row}, values = {at + row, at + 3 * row}, full_q = at + 4 * row;
  }
  INLINE void init(int groups) const {
    init_rings<STAGES>(GROUP_WARPS * groups, keys, values);
    barrier_init(full_q, 1);
    barrier_init_fence();
  }
};

// The first of this thread's two rows, of the warpgroup's 64 from `first_row`; the other is 8 below.
INLINE int own_row(int first_row) { return first_row + 16 * ((threadIdx.x >> 5) & 3) + ((threadIdx.x & 31) >> 2); }

// One consumer warpgroup: 64 queries.
struct Consumer {
#if DUMP
  Dump to;
#endif
  u32 base;
  Ring<STAGES> keys, values;
  int groups, half;  // of the CTA; which of them this is
  int first_row, nq, nk;
  float sq;
  float s[32], o[D / 2], t0[32], t1[LAST_COLUMNS / 2];
  u32 codes[8];
  RowState row[2];
  RowsOperand q;
  Stage<STAGES> at;
  float w[2], beta[2];  // of the tile in hand: beta times the values' scale, beta

  // The warpgroups take turns at S, so that the others compute while the tensor core works for one. Barrier
  // 1 + half opens this one's turn.
  INLINE void take_turn() const {
    if constexpr (Path<D>::TURNS) named_barrier(1 + half, 256);
  }
  INLINE void pass_turn() const {
    if constexpr (Path<D>::TURNS) named_arrive(half + 1 == groups ? 1 : 2 + half, 256);
  }

  INLINE u32 top_keys() const {
    return base + AT_KEYS + ((threadIdx.x - 128) >> 5) * 64 + ((threadIdx.x & 31) >> 2) * 4;
  }

  // Before the first tile: state, and Q.
  INLINE void begin(const Barriers& bars) {
#pragma unroll
    for (int h = 0; h < 2; ++h) row[h] = {from_bits(0xFF800000u), 0.0f, 0.0f, from_bits(0xFF800000u)};
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] = 0.0f;
    if (MODE == SHIFTED) {
      if (threadIdx.x < 128 + BLOCK * groups) store_shared(base + AT_KEYS + (threadIdx.x - 128) * 4, 0);
      named_barrier(7, 128 * groups);
    }
    barrier_wait(bars.full_q, 0);
    q.load(base + AT_Q + half * ROWS_IMAGE);
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

  // The chunks in each order, all of them issued and all but the last promoted.
  INLINE void chunks_in_turn() {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS - 1; ++chunk) {
      issue_chunk<64>(t0, chunk);
      promote_chunk<0>(t0, chunk);
    }
    issue_chunk<LAST_COLUMNS>(t1, CHUNKS - 1);
  }
  INLINE void chunks_together() {
    issue_chunk<64>(s, 0);  // the scores are codes by now
    issue_chunk<LAST_COLUMNS>(t1, 1);
    promote_chunk<1>(s, 0);
  }
  INLINE void chunks_ahead() {
    issue_chunk<64>(t0, 0);
    issue_chunk<64>(t1, 1);
    promote_chunk<1>(t0, 0);
    issue_chunk<64>(t0, 2);
    promote_chunk<1>(t1, 1);
    issue_chunk<LAST_COLUMNS>(t1, 3);
    promote_chunk<1>(t0, 2);
  }

  // Steps 4 and 5: P V^T into O.
  INLINE void contract() {
    pin(codes);
    if constexpr (Path<D>::ORDER == AHEAD) chunks_ahead();
    if constexpr (Path<D>::ORDER == TOGETHER) chunks_together();
    if constexpr (Path<D>::ORDER == IN_TURN) chunks_in_turn();
    promote_chunk<0>(t1, CHUNKS - 1);
    pin(codes);
    if constexpr (!UNROUNDED) {
      row[0].codes_sum = multiply_add(t1[32], beta[0], row[0].codes_sum);
      row[1].codes_sum = multiply_add(t1[34], beta[1], row[1].codes_sum);
    }
  }

  template <bool MASKED>
  INLINE void step(int tile) {
    keys.await_filled(at);
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
    keys.release(at);
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
    values.await_filled(at);
    contract();
    values.release(at);
    at.next();
  }

  // Takes part in the hand-over of a tile that none of its rows sees.
  INLINE void pass_over() {
    keys.await_filled(at);
    take_turn();
    pass_turn();
    keys.release(at);
    values.await_filled(at);
    values.release(at);
    at.next();
  }

  // All `tiles` of the CTA, of which these rows see `own`, and the first `whole` without a mask.
  INLINE void all(int whole, int own, int tiles) {
    int tile = 0;
    for (; tile < whole; ++tile) step<false>(tile);
    for (; tile < own; ++tile) step<true>(tile);
    for (; tile < tiles; ++tile) pass_over();
  }

  // What row h leaves: M and l, whether it saw no key, and the inverse of its normaliser.
  struct RowEnd {
    float m, l, inverse;
    bool dead;
  };
  INLINE RowEnd end_row(int h) const {
    float l = row[h].sum;
    l = add(l, shuffle_xor(l, 1));
    l = add(l, shuffle_xor(l, 2));
    float lh = __shfl_sync(~0u, row[h].codes_sum, threadIdx.x & 28);
    if (UNROUNDED) lh = l;  // the other normaliser, relative to R as O is
    const bool dead = bits(row[h].top) == 0xFF800000u && bits(l) == 0;
    const float m = dead ? 0.0f : add(ceiling(row[h].top), OFFSET);
    l = dead ? 0.0f : mul(l, pow2(to_int(sub(row[h].reference, m))));
    const float inverse = dead ? 0.0f : rcp(lh);
    return {m, l, inverse, dead};
  }

  // Row h of O, from element `at` of pairs of channels on.
  INLINE void store_row(const ForwardParameters& p, int h, float inverse, i64 at) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const float x = mul(o[4 * j + 2 * h], inverse), y = mul(o[4 * j + 2 * h + 1], inverse);
      p.out[at + 4 * j] = to_bf16x2(x, y);
      if constexpr (KEEPS_EXACT) p.exact_out[at + 4 * j] = make_float2(x, y);
    }
  }
};

// One thread copies Q, then the tiles of K and V^T in order.
INLINE void produce(const ForwardParameters& p, const QueryTask& task, const Barriers& bars, u32 base) {
  barrier_expect(bars.full_q, task.blocks * ROWS_IMAGE);
  bulk_load(base + AT_Q, p.q_rows + ((i64)task.bh * p.q_blocks * 2 + task.block) * ROWS_IMAGE, task.blocks * ROWS_IMAGE,
            bars.full_q);
  const Ring<STAGES> keys = bars.keys, values = bars.values;
  Stage<STAGES> at;
  for (int j = 0; j < task.tiles; ++j, at.next()) {
    const i64 tile = (i64)task.kv * p.k_tiles + j;
    keys.await_free(at);
    keys.expect(at, SLOT_K + 16);
    bulk_load(base + AT_K + at.slot * SLOT_K, p.k_rows + tile * ROWS_IMAGE, SLOT_K, keys.filled(at));
    bulk_load(base + AT_HEADERS + at.slot * 16, p.kv_heads + tile, 16, keys.filled(at));
    values.await_free(at);
    values.expect(at, SLOT_V);
    bulk_load(base + AT_V + at.slot * SLOT_V, p.v_channels + tile * VALUES_IMAGE, SLOT_V, values.filled(at));
  }
}

extern "C" __global__ void __launch_bounds__(128 + 128 * MOST_GROUPS, 1) forward SIGNATURE(FORWARD_FIELDS) {
  const ForwardParameters p = GATHERED(FORWARD_FIELDS);
  const u32 base = shared_base();
  const Barriers bars(base);
  const int groups = MOST_GROUPS == 2 ? 2 : (blockDim.x >> 7) - 1;
  const QuerySchedule schedule = {0, 1, p.batch_heads, 0, p.q_blocks, groups};
  const int bh = schedule.head(schedule.local_head(blockIdx.x)), block = schedule.local_block(blockIdx.x);
  const int blocks = schedule.count(block);
  const int kv = bh / (p.heads / p.kv_heads_count);
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform over the warp
  const QueryTask task = {bh, block, blocks, kv, visible_tiles((block + blocks - 1) * BLOCK, p.nq, p.nk)};

  if (threadIdx.x == 0) bars.init(groups);
  __syncthreads();
  if constexpr (Path<D>::FOLLOWS) follow_launch();

  if (group == 0) {
    registers_shrink<24>();
    if (threadIdx.x == 0) produce(p, task, bars, base);
  } else {
    registers_grow<Path<D>::REGISTERS>();
    const int half = group - 1;
    const bool there = MOST_GROUPS == 2 || half < task.blocks;
    const int first_row = (block + half) * BLOCK;
    const int own_tiles = there ? visible_tiles(first_row, p.nq, p.nk) : 0;
    const float sq = there ? mul(p.q_heads[(i64)task.bh * p.q_blocks * 2 + block + half].x, p.c) : 0.0f;

    Consumer me;
    me.groups = groups, me.half = half;
#if DUMP
    me.to = {p.dump_codes, p.dump_windows, (i64)task.bh * p.q_blocks * 128 + first_row, p.k_tiles};
#endif
    if (half == groups - 1) me.pass_turn();  // the first one starts
    me.base = base, me.keys = bars.keys, me.values = bars.values;
    me.first_row = first_row, me.nq = p.nq, me.nk = p.nk, me.sq = sq;
    me.begin(bars);
    me.all(min(own_tiles, whole_tiles(me.first_row, p.nq, p.nk)), own_tiles, task.tiles);

    const int index = block_index(), lane = threadIdx.x & 31;  // read afresh
    const int end_bh = schedule.head(schedule.local_head(index)), b = end_bh / p.heads, head = end_bh % p.heads;
    const int end_block = schedule.local_block(index) + half;
    const bool stores = (lane & 3) == 0 && (MOST_GROUPS == 2 || end_block < 2 * p.q_blocks);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = own_row(end_block * BLOCK) + 8 * h;
      const i64 padded = (i64)end_bh * p.q_blocks * 128 + row;
      const Consumer::RowEnd end = me.end_row(h);
      const bool real = row < p.nq;
      if (stores) {
        p.statistics[padded] = real ? make_float2(end.m, end.l) : make_float2(0.0f, 0.0f);
        if constexpr (MODE == SHIFTED) p.top_keys[padded] =
              load_shared(base + AT_KEYS + ((threadIdx.x - 128) >> 5) * 64 + (lane >> 2) * 4 + 32 * h);
        if constexpr (KEEPS_EXACT)
          p.rescales[padded] = make_float2(me.row[h].reference, real ? end.inverse : 0.0f);
        if (real)
          p.lse[(i64)end_bh * p.nq + row] =  // natural, with what centring K took off the logits
              end.dead ? from_bits(0xFF800000u)
                       : add(mul(add(end.m, lg2(end.l)), from_bits(0x3F317218u)),
                             mul(p.q_shift[padded], p.scale));
      }
      if (real) me.store_row(p, h, end.inverse, (((i64)b * p.nq + row) * p.heads + head) * (D / 2) + (lane & 3));
    }
  }
}
