// G: dV = P^T dO and dK = dS^T Q from the code records of B. One CTA takes 128 keys of one kv head, or
// with SPLIT (always at D = 256, at D = 128 where there are few tasks) one of the two products. Warpgroup
// 0 produces records and channel images of 64 queries, warpgroups 1 and 2 consume, 64 keys each. Heads of the group ascending, query windows ascending.
//
// A launch covers one stripe: stripe_heads heads from first_bh on, head_step apart (1, or a group: then it takes
// one head of each of several groups), query blocks [first_block, first_block + stripe_blocks). Sums that a stripe leaves open rest in `open_sums` as fp32.
#define TIED 1  // 128 accumulators and two temporaries
#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"
#include "ring.cuh"
#include "tasks.cuh"
#include "wgmma.cuh"

static_assert(D == 128 || SPLIT == (D == 256), "at least two pieces a window, at most 128 sums a thread");
constexpr int PRODUCTS = SPLIT ? 1 : 2;
constexpr int STAGES = D == 256 ? 6 : (D == 128 ? 6 : 8);
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

extern "C" __global__ void __launch_bounds__(384, 1)
    key(const u8* __restrict__ records, const u8* __restrict__ q_channels, const u8* __restrict__ g_channels,
        u32* __restrict__ dk_out, u32* __restrict__ dv_out, float* __restrict__ open_sums, int heads,
        int kv_heads_count, int first_bh, int head_step, int stripe_heads, int first_block, int stripe_blocks,
        int nq, int nk, int q_blocks, int k_tiles, float scale) {
  extern __shared__ __align__(1024) u8 raw[];
  const u32 base = (shared_address(raw) + 1023) & ~1023u;
  const u32 full = base, empty = full + 8 * STAGES;
  const int repeat = heads / kv_heads_count;
  const int first_kv = first_bh / repeat, end_bh = first_bh + (stripe_heads - 1) * head_step + 1;
  const int kv_in_stripe = (end_bh + repeat - 1) / repeat - first_kv;
  const int product = SPLIT ? blockIdx.x & 1 : 0;
  const int task = SPLIT ? blockIdx.x >> 1 : blockIdx.x;
  const int kv = first_kv + task % kv_in_stripe, key_block = task / kv_in_stripe;
  const int bh0 = head_step > 1 ? kv * repeat + first_bh % repeat : max(first_bh, kv * repeat);
  const int bh1 = head_step > 1 ? bh0 + 1 : min(end_bh, (kv + 1) * repeat);
  const int end_block = first_block + stripe_blocks;
  const int window0 = max(first_query_block(2 * key_block, nq, nk), 2 * first_block);
  const int window1 = min(2 * end_block, (nq + BLOCK - 1) / BLOCK);
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform over the warp

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, 2 * GROUP_WARPS);
    }
    barrier_init_fence();
  }
  __syncthreads();
  follow_launch();

  if (group == 0) {
    registers_shrink<24>();
    if (threadIdx.x == 0) {
      Ring<STAGES> place;
      const RecordPlaces places(first_block, stripe_blocks, nq, nk);
      for (int bh = bh0; bh < bh1; ++bh) {
        const u8* record = records + (places.of((bh - first_bh) / head_step, window0, nq, nk) + 2 * key_block) * RECORD;
        for (int window = window0; window < window1; ++window, place.next()) {
          const u32 slot = place.slot;
          const int seen = visible_tiles(window * BLOCK, nq, nk);
          const int here = max(0, min(2, seen - 2 * key_block));  // of this CTA's two tiles
          const u32 bar = full + 8 * slot, at = base + AT_RING + slot * SLOT;
          const i64 image = ((i64)bh * q_blocks * 2 + window) * CHANNELS_IMAGE;
          barrier_wait(empty + 8 * slot, place.parity ^ 1);
          barrier_expect(bar, here * (SPLIT ? TILE_CODES + 32 : RECORD) + PRODUCTS * CHANNELS_IMAGE);
          for (int i = 0; i < here; ++i) {
            const u32 to = at + i * RECORD_SLOT;
            const u8* from = record + (i64)i * RECORD;
            if constexpr (SPLIT) {
              bulk_load(to + product * TILE_CODES, from + product * TILE_CODES, TILE_CODES, bar);
              bulk_load(to + 2 * TILE_CODES, from + 2 * TILE_CODES, 32, bar);
            } else {
              bulk_load(to, from, RECORD, bar);
            }
          }
          const u32 images = at + 2 * RECORD_SLOT;
          if (!SPLIT || product == 0) bulk_load(images, g_channels + image, CHANNELS_IMAGE, bar);
          if (!SPLIT || product == 1)
            bulk_load(images + (PRODUCTS - 1) * CHANNELS_IMAGE, q_channels + image, CHANNELS_IMAGE, bar);
          record += (i64)seen * RECORD;
        }
      }
    }
  } else {
    registers_grow<240>();
    const int half = group - 1;
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
    const int tile = 2 * key_block + half;
    const bool opens = bh0 == kv * repeat && first_block == 0;
    const bool closes = bh1 == (kv + 1) * repeat && end_block == q_blocks;
    Consumer me;
    // Open sums lie in the order of the registers that hold them.
    float* rest = open_sums + (((i64)kv * k_tiles + tile) * 2 * CHUNKS + product * CHUNKS) * 32 * 128 + (threadIdx.x & 127);
#pragma unroll
    for (int i = 0; i < 32 * PIECES; ++i) me.sums[i] = 0.0f;
    if (!opens) {
#pragma unroll
      for (int i = 0; i < 32 * PIECES; ++i) me.sums[i] = rest[i * 128];
    }

    Ring<STAGES> place;
    for (int bh = bh0; bh < bh1; ++bh)
      for (int window = window0; window < window1; ++window, place.next()) {
        const u32 slot = place.slot, at = base + AT_RING + slot * SLOT;
        barrier_wait(full + 8 * slot, place.parity);
        if (visible_tiles(window * BLOCK, nq, nk) > tile) me.window(at + half * RECORD_SLOT, at + 2 * RECORD_SLOT, product);
        warp_arrive(empty + 8 * slot);
      }

    if (!closes) {
#pragma unroll
      for (int i = 0; i < 32 * PIECES; ++i) rest[i * 128] = me.sums[i];
    } else {
      const int row = tile * BLOCK + 16 * warp + (lane >> 2);
      const int b = kv / kv_heads_count, head = kv % kv_heads_count, stride = kv_heads_count * (D / 2);
      const i64 at = ((i64)b * nk + row) * stride + head * (D / 2);
      if constexpr (SPLIT) {
        me.store((product ? dk_out : dv_out) + at, 0, scale, product == 1, stride, row, nk);
      } else {
        me.store(dv_out + at, 0, scale, false, stride, row, nk);
        me.store(dk_out + at, CHUNKS, scale, true, stride, row, nk);
      }
    }
  }
}
