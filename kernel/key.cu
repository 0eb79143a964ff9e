// G: dV = P^T dO and dK = dS^T Q from the code records of B. One CTA takes 128 keys of one kv head, or
// with SPLIT (always at D = 256, at D = 128 where there are few tasks) one of the two products. Warpgroup
// 0 produces records and channel images of 64 queries, warpgroups 1 and 2 consume, 64 keys each. Heads of the group ascending, query windows ascending.
//
// A launch covers one stripe: stripe_heads heads from first_bh on, head_step apart (1, or a group: then it takes
// one head of each of several groups), query blocks [first_block, first_block + stripe_blocks). Sums that a stripe leaves open rest in `open_sums` as fp32.
#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"
#include "params.cuh"
#include "ring.cuh"

// One path a head dim: STAGES of the ring; at most 128 accumulators beside two temporaries, which are TIED.
struct Tied {
  static constexpr int GROUPS = 2;
  static constexpr bool FRAGMENTS = false, TIED = true, TIED_SCORES = true;
};
template <int DIM>
struct Path;
template <>
struct Path<64> : Tied {
  static constexpr int STAGES = 8;
};
template <>
struct Path<128> : Tied {
  static constexpr int STAGES = 6;
};
template <>
struct Path<256> : Tied {
  static constexpr int STAGES = 6;
};

#include "tasks.cuh"
#include "wgmma.cuh"

static_assert(D == 128 || SPLIT == (D == 256), "at least two pieces a window, at most 128 sums a thread");
constexpr int PRODUCTS = SPLIT ? 1 : 2;
constexpr int STAGES = Path<D>::STAGES;
constexpr int CHUNKS = D / 64;
constexpr int PIECES = PRODUCTS * CHUNKS;   // 64-channel products of a window, 4 (2 for D = 64)

constexpr int SLOT = 2 * RECORD_SLOT + PRODUCTS * CHANNELS_IMAGE;
constexpr int AT_RING = 1024;
static_assert(RECORD_SLOT % 512 == 0 && AT_RING + STAGES * SLOT + 1024 <= SHARED_LIMIT, "shared memory");

struct Consumer {
  u32 fragment[2][8];  // P^T, dS^T
  float sums[32 * PIECES], t0[32], t1[32];
  float w[2];

  INLINE void load_codes(int which, u32 tile) {
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      u32 r[4];
      load_matrix_x4(r, tile + swizzle64(16 * warp + (lane & 15), 2 * k + (lane >> 4)));
#pragma unroll
      for (int i = 0; i < 4; ++i) fragment[which][4 * k + i] = r[i];
    }
  }

  // Piece p: product p / CHUNKS, channels 64 (p % CHUNKS).
  INLINE void issue(float (&t)[32], int p, u32 images) {
    wgmma_fence();
    issue_channels<64>(t, fragment[p / CHUNKS], images + (p / CHUNKS) * CHANNELS_IMAGE, 64 * (p % CHUNKS));
    wgmma_commit();
  }

  INLINE void promote(const float (&t)[32], int p) {
#pragma unroll
    for (int i = 0; i < 32; ++i) sums[32 * p + i] = multiply_add(t[i], w[p / CHUNKS], sums[32 * p + i]);
  }

  INLINE void window(u32 record, u32 images, int product) {
    const float4 scales = load_shared4(record + 2 * TILE_CODES);
    w[0] = SPLIT && product == 1 ? scales.y : scales.x;
    w[1] = scales.y;
    load_codes(0, record + (SPLIT ? product * TILE_CODES : 0));
    if constexpr (!SPLIT) load_codes(1, record + TILE_CODES);
    pin(fragment[0]);
    pin(fragment[1]);
    issue(t0, 0, images);
    issue(t1, 1, images);
#pragma unroll
    for (int p = 0; p < PIECES; p += 2) {
      wgmma_wait<1>();
      pin(t0);
      promote(t0, p);
      if (p + 2 < PIECES) issue(t0, p + 2, images);
      if (p + 2 < PIECES) wgmma_wait<1>();
      else wgmma_wait<0>();
      pin(t1);
      promote(t1, p + 1);
      if (p + 3 < PIECES) issue(t1, p + 3, images);
    }
    pin(fragment[0]);
    pin(fragment[1]);
  }

  INLINE void store(u32* to, int piece0, float factor, bool scaled, int stride, int row, int nk) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (row + 8 * h < nk)
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          float x = sums[32 * piece0 + 4 * j + 2 * h], y = sums[32 * piece0 + 4 * j + 2 * h + 1];
          if (scaled) x = mul(x, factor), y = mul(y, factor);
          to[(i64)8 * h * stride + 4 * j + (lane & 3)] = to_bf16x2(x, y);
        }
  }
};

// A record, or the codes of one product and the scales.
INLINE void load_record(u32 to, const u8* from, int product, u32 bar) {
  if constexpr (SPLIT) {
    bulk_load(to + product * TILE_CODES, from + product * TILE_CODES, TILE_CODES, bar);
    bulk_load(to + 2 * TILE_CODES, from + 2 * TILE_CODES, 32, bar);
  } else {
    bulk_load(to, from, RECORD, bar);
  }
}

struct KeyParameters STRUCT(KEY_FIELDS);

// One thread copies, window by window: the records of the CTA's two tiles, and the images of dO and Q.
INLINE void produce(const KeyParameters& p, const KeyTask& task, const Ring<STAGES>& ring, u32 base) {
  Stage<STAGES> place;
  const RecordPlaces places(p.first_block, p.stripe_blocks, p.nq, p.nk);
  for (int bh = task.bh0; bh < task.bh1; ++bh) {
    const u8* record =
        p.records + (places.of((bh - p.first_bh) / p.head_step, task.window0, p.nq, p.nk) + 2 * task.key_block) * RECORD;
    for (int window = task.window0; window < task.window1; ++window, place.next()) {
      const int seen = visible_tiles(window * BLOCK, p.nq, p.nk);
      const int here = max(0, min(2, seen - 2 * task.key_block));  // of this CTA's two tiles
      const u32 bar = ring.filled(place), at = base + AT_RING + place.slot * SLOT;
      const i64 image = ((i64)bh * p.q_blocks * 2 + window) * CHANNELS_IMAGE;
      ring.await_free(place);
      ring.expect(place, here * (SPLIT ? TILE_CODES + 32 : RECORD) + PRODUCTS * CHANNELS_IMAGE);
      for (int i = 0; i < here; ++i) load_record(at + i * RECORD_SLOT, record + (i64)i * RECORD, task.product, bar);
      const u32 images = at + 2 * RECORD_SLOT;
      if (!SPLIT || task.product == 0) bulk_load(images, p.g_channels + image, CHANNELS_IMAGE, bar);
      if (!SPLIT || task.product == 1)
        bulk_load(images + (PRODUCTS - 1) * CHANNELS_IMAGE, p.q_channels + image, CHANNELS_IMAGE, bar);
      record += (i64)seen * RECORD;
    }
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    key SIGNATURE(KEY_FIELDS) {
  const KeyParameters p = GATHERED(KEY_FIELDS);
  const u32 base = shared_base();
  const Ring<STAGES> ring = {base, base + Ring<STAGES>::BYTES};
  const int repeat = p.heads / p.kv_heads_count;
  const int first_kv = p.first_bh / repeat, end_bh = p.first_bh + (p.stripe_heads - 1) * p.head_step + 1;
  const KeySchedule schedule = {repeat, p.first_bh, p.head_step, end_bh, first_kv, (end_bh + repeat - 1) / repeat - first_kv};
  const int product = SPLIT ? blockIdx.x & 1 : 0;
  const int index = SPLIT ? blockIdx.x >> 1 : blockIdx.x;
  const int kv = schedule.kv(index), key_block = schedule.key_block(index);
  const int bh0 = schedule.begin(kv), bh1 = schedule.end(kv, bh0);
  const int end_block = p.first_block + p.stripe_blocks;
  const int window0 = max(first_query_block(2 * key_block, p.nq, p.nk), 2 * p.first_block);
  const int window1 = min(2 * end_block, (p.nq + BLOCK - 1) / BLOCK);
  const KeyTask task = {product, kv, key_block, bh0, bh1, window0, window1};
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform over the warp

  if (threadIdx.x == 0) {
    init_rings<STAGES>(2 * GROUP_WARPS, ring);
    barrier_init_fence();
  }
  __syncthreads();
  follow_launch();

  if (group == 0) {
    registers_shrink<24>();
    if (threadIdx.x == 0) produce(p, task, ring, base);
  } else {
    registers_grow<240>();
    const int half = group - 1;
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
    const int tile = 2 * key_block + half;
    const bool opens = bh0 == kv * repeat && p.first_block == 0;
    const bool closes = bh1 == (kv + 1) * repeat && end_block == p.q_blocks;
    Consumer me;
    // Open sums lie in the order of the registers that hold them.
    float* rest = p.open_sums + (((i64)kv * p.k_tiles + tile) * 2 * CHUNKS + task.product * CHUNKS) * 32 * 128 + (threadIdx.x & 127);
#pragma unroll
    for (int i = 0; i < 32 * PIECES; ++i) me.sums[i] = 0.0f;
    if (!opens) {
#pragma unroll
      for (int i = 0; i < 32 * PIECES; ++i) me.sums[i] = rest[i * 128];
    }

    Stage<STAGES> place;
    for (int bh = task.bh0; bh < task.bh1; ++bh)
      for (int window = task.window0; window < task.window1; ++window, place.next()) {
        const u32 at = base + AT_RING + place.slot * SLOT;
        ring.await_filled(place);
        if (visible_tiles(window * BLOCK, p.nq, p.nk) > tile)
          me.window(at + half * RECORD_SLOT, at + 2 * RECORD_SLOT, task.product);
        ring.release(place);
      }

    if (!closes) {
#pragma unroll
      for (int i = 0; i < 32 * PIECES; ++i) rest[i * 128] = me.sums[i];
    } else {
      const int row = tile * BLOCK + 16 * warp + (lane >> 2);
      const int b = kv / p.kv_heads_count, head = kv % p.kv_heads_count, stride = p.kv_heads_count * (D / 2);
      const i64 at = ((i64)b * p.nk + row) * stride + head * (D / 2);
      if constexpr (SPLIT) {
        me.store((task.product ? p.dk_out : p.dv_out) + at, 0, p.scale, task.product == 1, stride, row, p.nk);
      } else {
        me.store(p.dv_out + at, 0, p.scale, false, stride, row, p.nk);
        me.store(p.dk_out + at, CHUNKS, p.scale, true, stride, row, p.nk);
      }
    }
  }
}
