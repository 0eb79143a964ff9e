// B: dQ, and the P^T and dS^T codes that G contracts. One CTA takes 128 queries of one head.
//
// Sweep 1 (matched, renormalized, shifted): delta and the largest P of every 64 x 64 tile. Sweep 2: dS,
// its codes, dQ. The other modes get delta from the quantiser and find the tile maximum inside sweep 2.
// Warpgroup 0 produces tiles of K, V (and K^T in sweep 2), warpgroups 1 and 2 consume, 64 queries each.
#include "arith.cuh"
#include "async.cuh"
#include "faults.cuh"
#include "layout.cuh"
#include "tasks.cuh"
#include "wgmma.cuh"

constexpr bool TWO_SWEEPS = MODE == MATCHED || MODE == RENORMALIZED || MODE == SHIFTED;
constexpr bool SUMS_P = MODE == RENORMALIZED || MODE == SHIFTED;
constexpr int STAGES = D == 256 ? 2 : (D == 128 ? 5 : 8);
constexpr int CHUNKS = D / 64;
constexpr int TABLE_TILES = 2048;  // tile maxima kept on chip: up to 131,072 keys

constexpr int SLOT = 2 * ROWS_IMAGE + CHANNELS_IMAGE;
constexpr int AT_HEADERS = 512;
constexpr int AT_SCRATCH = 768;  // per half: 4 floats, then 4 bytes
constexpr int AT_TABLE = 1024;
constexpr int AT_STAGING = AT_TABLE + 2 * TABLE_TILES * 4;
constexpr int AT_Q = AT_STAGING + 4 * RECORD_SLOT;
constexpr int AT_G = AT_Q + 2 * ROWS_IMAGE;
constexpr int AT_RING = AT_G + 2 * ROWS_IMAGE;
constexpr int AT_ROWS = AT_RING + STAGES * SLOT;  // per row 2 floats that would not fit in registers
static_assert(AT_Q % 1024 == 0 && AT_ROWS + 128 * 8 + 1024 <= SHARED_LIMIT, "shared memory");

// Biased exponent of the smallest 1.75 * 2^n that is >= x: 448 = 1.75 * 2^8.
// 0 is kept for 0.
INLINE u32 ceiling_exponent_448(float x) { return max((bits(x) + 0x1FFFFF) >> 23, min(bits(x), 1u)); }
// The least n with x <= 2^n, clamped to [-100, 120]; 0 for 0.
INLINE int binade(float x) {
  return bits(x) == 0 ? 0 : max(-100, min(120, (int)((bits(x) + 0x7FFFFF) >> 23) - 127));
}
constexpr float HEADROOM = 32.0f, OFFSET = 8.0f;  // as in the forward

struct Arguments {
  u8* records;
  float *dump_p, *dump_dp, *dump_ds;
  int nq, nk, k_tiles;
  i64 dump_row;
};

struct Consumer {
  Arguments to;
  u32 base, full, empty;
  int half, first_row, rows[2];
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

  // Issues S and dP of the tile in a slot, into the given accumulators.
  INLINE void issue_scores(u32 slot, float (&s)[32], float (&d)[32]) {
    const u32 at = base + AT_RING + slot * SLOT;
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
    const int column = 2 * (threadIdx.x & 3);
    const int limit[2] = {visible_limit(rows[0], tile, to.nq, to.nk), visible_limit(rows[1], tile, to.nq, to.nk)};
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      bool hidden = MASKED && 8 * (i >> 2) + column + (i & 1) > limit[(i >> 1) & 1];
      s[i] = hidden ? 0.0f : ex2(multiply_add(s[i], ct, neg(m[(i >> 1) & 1])));
    }
  }

  // Associated: steps 2 and 3 again; s becomes the forward's rounded, normalised P.
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
        if (((i >> 1) & 1) == h && 8 * (i >> 2) + column + (i & 1) <= limit[h]) top = maximum(top, s[i]);
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
          e[h] = 8 * j + column + b > limit[h] ? 0.0f : ex2(multiply_add(s[4 * j + 2 * h + b], ct, shift[h]));
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

  INLINE void exponentials(float (&s)[32], int tile, float ct) {
    if constexpr (MODE == ASSOCIATED) return rounded_probabilities(s, tile, ct);
    if (visible_limit(first_row, tile, to.nq, to.nk) >= BLOCK - 1)
      exponentials<false>(s, tile, ct);
    else
      exponentials<true>(s, tile, ct);
  }

  // Largest P of this warp's 16 rows of the tile, as the exponent byte of step 8.
  INLINE void store_maximum(const float (&s)[32], u32 address) {
    float top[4] = {s[0], s[1], s[2], s[3]};  // a maximum has no order: four chains at once
#pragma unroll
    for (int i = 4; i < 32; ++i) top[i & 3] = maximum(top[i & 3], s[i]);
    float p = warp_max(maximum(mul(maximum(top[0], top[1]), r[0]), mul(maximum(top[2], top[3]), r[1])));
    if ((threadIdx.x & 31) == 0) store_shared_byte(address + ((threadIdx.x >> 5) & 3), ceiling_exponent_448(p));
  }

  // Step 7 for one tile.
  INLINE void sweep1(float (&s)[32], const float (&d)[32], int tile, float ct, float sdp) {
    exponentials(s, tile, ct);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum[2] = {0.0f, 0.0f}, count[2] = {0.0f, 0.0f};
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          const int i = 4 * j + 2 * h + b;
          // The product is rounded first, as d0 was, so that the reference key leaves exactly 0.
          const float x = MODE == SHIFTED ? sub(mul(d[i], sdp), delta[h]) : d[i];
          sum[b] = j == 0 ? mul(s[i], x) : multiply_add(s[i], x, sum[b]);
          if constexpr (SUMS_P) count[b] = j == 0 ? s[i] : add(count[b], s[i]);
        }
      float total = add(sum[0], sum[1]);
      acc[h] = MODE == SHIFTED ? add(acc[h], total) : multiply_add(total, sdp, acc[h]);
      if constexpr (SUMS_P) mass[h] = add(mass[h], add(count[0], count[1]));
    }
    store_maximum(s, base + AT_TABLE + (half * TABLE_TILES + tile) * 4);
  }

  INLINE void request(int tile, float (&s)[32], float (&d)[32]) {
    barrier_wait(full + 8 * (tile % STAGES), (tile / STAGES) & 1);
    issue_scores(tile % STAGES, s, d);
  }

  template <int PENDING>
  INLINE void answer(int tile, float (&s)[32], float (&d)[32]) {
    wait_scores<PENDING>(s, d);
    const float4 header = load_shared4(base + AT_HEADERS + (tile % STAGES) * 16);
    warp_arrive(empty + 8 * (tile % STAGES));
    sweep1(s, d, tile, mul(sqc, header.x), mul(sg, header.y));
  }

  // Sweep 1. Up to D = 128 tiles come in pairs: the products of the second run behind the first's
  // exponentials.
  INLINE void first_sweep(int tiles) {
    int tile = 0;
    if constexpr (D <= 128) {
      float s2[32], d2[32];
      for (; tile + 1 < tiles; tile += 2) {
        request(tile, s, d);
        request(tile + 1, s2, d2);
        answer<1>(tile, s, d);
        answer<0>(tile + 1, s2, d2);
      }
    }
    for (; tile < tiles; ++tile) {
      request(tile, s, d);
      answer<0>(tile, s, d);
    }
  }

  // End of sweep 1: delta of both rows, and the largest |delta| of the 64 rows.
  INLINE void finish_delta() {
    float size[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      low[h] = 0.0f;
      if constexpr (TWO_SWEEPS) {
        acc[h] = add(acc[h], shuffle_xor(acc[h], 1));
        acc[h] = add(acc[h], shuffle_xor(acc[h], 2));
        if constexpr (SUMS_P) {
          mass[h] = add(mass[h], shuffle_xor(mass[h], 1));
          mass[h] = add(mass[h], shuffle_xor(mass[h], 2));
          acc[h] = bits(mass[h]) == 0 ? 0.0f : divide(acc[h], mass[h]);
        }
        if constexpr (MODE == MATCHED) delta[h] = mul(acc[h], r[h]);
        if constexpr (MODE == RENORMALIZED) delta[h] = acc[h];
        if constexpr (MODE == SHIFTED) {
          low[h] = acc[h];
          rest_row(h, delta[h], low[h]);
        }
      }
      size[h] = MODE == SHIFTED ? add(absolute(delta[h]), absolute(low[h])) : absolute(delta[h]);
    }
    const u32 scratch = base + AT_SCRATCH + half * 32;
    float top = warp_max(maximum(size[0], size[1]));
    if ((threadIdx.x & 31) == 0) store_shared(scratch + ((threadIdx.x >> 5) & 3) * 4, bits(top));
    named_barrier(1 + half, 128);
    float4 four = load_shared4(scratch);
    largest = maximum(maximum(four.x, four.y), maximum(four.z, four.w));
  }

  // Steps 8 and 9: codes of P and dS as pairs (row g, row g + 8), and dS as A fragments. Returns the
  // weight of this tile in dQ, 2^-kP / u * sK.
  INLINE float sweep2(int tile, float ct, float4 header, u32 staging) {
    exponentials(s, tile, ct);
    u32 four_at = base + AT_TABLE + (half * TABLE_TILES + tile) * 4;
    if constexpr (!TWO_SWEEPS) {
      four_at = base + AT_SCRATCH + half * 32 + 16;
      store_maximum(s, four_at);
      named_barrier(1 + half, 128);
    }
    const u32 four = load_shared(four_at);
    const u32 top = max(max(four & 255, (four >> 8) & 255), max((four >> 16) & 255, four >> 24));
    const int shift_p = top == 0 ? 0 : min(100, 135 - (int)top);  // kP
    const float y = add(mul(ng, header.z), largest);
    const int shift_u = binade(y);  // u = 2^-shift_u
    const float u = pow2(-shift_u);
    const float sdp = mul(sg, header.y), sdpu = mul(sdp, u);
    const float weight = pow2(shift_u - shift_p - (FAULT_NEIGHBOUR_TILE_SCALE ? tile & 1 : 0));
    if ((threadIdx.x & 127) == 0) {
      store_shared4(staging + 2 * TILE_CODES,
                    make_float4(mul(pow2(-shift_p), sg), mul(weight, sq), from_bits(shift_p), from_bits(shift_u)));
      store_shared4(staging + 2 * TILE_CODES + 16, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    }
    float rk[2], du[2], lu[2], carry[2] = {0.0f, 0.0f};
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if constexpr (MODE == SHIFTED) {
        rk[h] = mul(r[h], pow2(shift_p)), du[h] = neg(mul(row_constant(h, 0), u)), lu[h] = mul(row_constant(h, 1), u);
      } else {
        rk[h] = mul(r[h], pow2(shift_p)), du[h] = neg(mul(delta[h], u));
      }
    const int column = 2 * (threadIdx.x & 3);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      u16 p_code[2], x_code[2];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        float p[2], x[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int i = 4 * j + 2 * h + b;
          p[h] = mul(s[i], rk[h]);
          float centred;
          if constexpr (MODE == SHIFTED)
            centred = sub(add(mul(d[i], sdpu), du[h]), lu[h]);
          else
            centred = multiply_add(d[i], sdpu, FAULT_DELTA_SIGN ? neg(du[h]) : du[h]);
          x[h] = mul(p[h], centred);
#if DUMP
          const i64 at = (to.dump_row + rows[h] - first_row) * to.k_tiles * BLOCK + tile * BLOCK + 8 * j + column + b;
          to.dump_p[at] = mul(s[i], r[h]);
          to.dump_dp[at] = mul(d[i], sdp);
          to.dump_ds[at] = x[h];
#endif
        }
        p_code[b] = to_e4m3x2(p[0], p[1]);
        if constexpr (ZERO_SUM) {
          // t = x + c, q = RNE(t), c = t - q; a masked key gives code 0 and passes c on.
          float t[2] = {add(x[0], carry[0]), add(x[1], carry[1])}, value[2];
          const int limit[2] = {visible_limit(rows[0], tile, to.nq, to.nk),
                                visible_limit(rows[1], tile, to.nq, to.nk)};
          bool hidden[2] = {8 * j + column + b > limit[0], 8 * j + column + b > limit[1]};
          x_code[b] = to_e4m3x2(hidden[0] ? 0.0f : t[0], hidden[1] ? 0.0f : t[1]);
          from_e4m3x2(x_code[b], value[0], value[1]);
          carry[0] = hidden[0] ? carry[0] : sub(t[0], value[0]);
          carry[1] = hidden[1] ? carry[1] : sub(t[1], value[1]);
        } else {
          x_code[b] = to_e4m3x2(x[0], x[1]);
        }
      }
      p_pairs[j] = pack16(p_code[0], p_code[1]);
      x_pairs[j] = pack16(x_code[0], x_code[1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[4 * (i >> 1) + 2 * (i & 1)] = permute(x_pairs[2 * i], x_pairs[2 * i + 1], FAULT_FRAGMENTS_SWAPPED ? 0x7531 : 0x6420);
      a[4 * (i >> 1) + 2 * (i & 1) + 1] = permute(x_pairs[2 * i], x_pairs[2 * i + 1], FAULT_FRAGMENTS_SWAPPED ? 0x6420 : 0x7531);
    }
    return mul(weight, header.x);
  }

  INLINE void stage(u32 staging, int tile) {
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
#pragma unroll
    for (int q4 = 0; q4 < 2; ++q4) {
      const u32 at = staging + swizzle64(32 * q4 + lane, warp);
      store_matrix_x4_transposed(at, p_pairs[4 * q4], p_pairs[4 * q4 + 1], p_pairs[4 * q4 + 2], p_pairs[4 * q4 + 3]);
      store_matrix_x4_transposed(at + TILE_CODES, x_pairs[4 * q4], x_pairs[4 * q4 + 1], x_pairs[4 * q4 + 2],
                                 x_pairs[4 * q4 + 3]);
    }
    if constexpr (!FAULT_PROXY_FENCE_MISSING) proxy_fence();
    if ((threadIdx.x & 127) == 0) bulk_wait_read();  // the other staging slot is free after the barrier
    named_barrier(1 + half, 128);
    if ((threadIdx.x & 127) == 0) bulk_store(record + (i64)tile * RECORD, staging, RECORD);
  }

  INLINE void promote(const float (&t)[32], int chunk, float w) {
#pragma unroll
    for (int i = 0; i < 32; ++i) dq[32 * chunk + i] = multiply_add(t[i], w, dq[32 * chunk + i]);
  }

  // Step 10 for dQ, with the record's way out in between.
  INLINE void contract(int tile, u32 keys, u32 staging, float w) {
    pin(a);
    wgmma_fence();
    issue_channels<64>(t0, a, keys, 0);
    wgmma_commit();
    if constexpr (CHUNKS > 1) {
      wgmma_fence();
      issue_channels<64>(t1, a, keys, 64);
      wgmma_commit();
    }
    stage(staging, tile);
    if constexpr (CHUNKS == 4) {
      wgmma_wait<1>();
      pin(t0);
      promote(t0, 0, w);
      wgmma_fence();
      issue_channels<64>(t0, a, keys, 128);
      wgmma_commit();
      wgmma_wait<1>();
      pin(t1);
      promote(t1, 1, w);
      wgmma_fence();
      issue_channels<64>(t1, a, keys, 192);
      wgmma_commit();
    }
    if constexpr (CHUNKS > 1) {
      wgmma_wait<1>();
      pin(t0);
      promote(t0, CHUNKS - 2, w);
    }
    wgmma_wait<0>();
    pin(a);
    if constexpr (CHUNKS > 1) {
      pin(t1);
      promote(t1, CHUNKS - 1, w);
    } else {
      pin(t0);
      promote(t0, 0, w);
    }
  }
};

extern "C" __global__ void __launch_bounds__(384, 1)
    query(const u8* __restrict__ q_rows, const u8* __restrict__ g_rows, const u8* __restrict__ k_rows,
          const u8* __restrict__ v_rows, const u8* __restrict__ k_channels, const float4* __restrict__ q_heads,
          const float4* __restrict__ kv_heads, const float2* __restrict__ statistics, float* __restrict__ delta,
          const int* __restrict__ top_keys, const float2* __restrict__ rescales,
          u32* __restrict__ dq_out, u8* __restrict__ records, float* __restrict__ dump_p, float* __restrict__ dump_dp,
          float* __restrict__ dump_ds, int heads, int kv_heads_count, int first_bh, int stripe_heads, int first_block,
          int stripe_blocks, int nq, int nk, int q_blocks, int k_tiles, float c, float scale) {
  extern __shared__ __align__(1024) u8 raw[];
  const u32 base = (shared_address(raw) + 1023) & ~1023u;
  const u32 full = base, empty = full + 8 * STAGES, full_q = empty + 8 * STAGES;
  const int local_head = blockIdx.x % stripe_heads;
  const int local_block = stripe_blocks - 1 - blockIdx.x / stripe_heads;
  const int bh = first_bh + local_head, q_block = first_block + local_block;
  const int kv = bh / (heads / kv_heads_count);
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform over the warp
  const int tiles = visible_tiles(q_block * 128 + BLOCK, nq, nk);

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, CONSUMER_WARPS);
    }
    barrier_init(full_q, 1);
    barrier_init_fence();
  }
  __syncthreads();

  if (group == 0) {
    registers_shrink<24>();
    if (threadIdx.x == 0) {
      const i64 rows = ((i64)bh * q_blocks + q_block) * 2 * ROWS_IMAGE;
      barrier_expect(full_q, 4 * ROWS_IMAGE);
      bulk_load(base + AT_Q, q_rows + rows, 2 * ROWS_IMAGE, full_q);
      bulk_load(base + AT_G, g_rows + rows, 2 * ROWS_IMAGE, full_q);
      for (int step = TWO_SWEEPS ? 0 : tiles; step < 2 * tiles; ++step) {
        const bool second = step >= tiles;
        const int n = TWO_SWEEPS ? step : step - tiles, slot = n % STAGES;
        const i64 tile = (i64)kv * k_tiles + (second ? step - tiles : step);
        const u32 bar = full + 8 * slot, at = base + AT_RING + slot * SLOT;
        barrier_wait(empty + 8 * slot, ((n / STAGES) & 1) ^ 1);
        barrier_expect(bar, (second ? SLOT : 2 * ROWS_IMAGE) + 16);
        bulk_load(at, k_rows + tile * ROWS_IMAGE, ROWS_IMAGE, bar);
        bulk_load(at + ROWS_IMAGE, v_rows + tile * ROWS_IMAGE, ROWS_IMAGE, bar);
        bulk_load(base + AT_HEADERS + slot * 16, kv_heads + tile, 16, bar);
        if (second) bulk_load(at + 2 * ROWS_IMAGE, k_channels + tile * CHANNELS_IMAGE, CHANNELS_IMAGE, bar);
      }
    }
  } else {
    registers_grow<240>();
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
    Consumer me;
    me.base = base, me.full = full, me.empty = empty, me.half = group - 1;
    me.first_row = q_block * 128 + me.half * BLOCK;
    me.rows[0] = me.first_row + 16 * warp + (lane >> 2), me.rows[1] = me.rows[0] + 8;
    const i64 unit = ((i64)local_head * stripe_blocks + local_block) * 2 + me.half;
    me.record = records + unit * k_tiles * RECORD;
    const i64 padded = (i64)bh * q_blocks * 128;
    me.to = {records, dump_p, dump_dp, dump_ds, nq, nk, k_tiles, padded + me.first_row};
    const int own_tiles = visible_tiles(me.first_row, nq, nk);
    const float4 head = q_heads[(i64)bh * q_blocks * 2 + q_block * 2 + me.half];
    me.sq = head.x, me.sqc = mul(head.x, c), me.sg = head.y, me.ng = head.z;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float2 stat = statistics[padded + me.rows[h]];
      me.m[h] = stat.x;
      me.r[h] = me.rows[h] < nq && bits(stat.y) != 0 ? rcp(stat.y) : 0.0f;
      if constexpr (MODE == ASSOCIATED) {
        const float2 last = rescales[padded + me.rows[h]];
        me.r[h] = 1.0f, me.reference[h] = from_bits(0xFF800000u);
        me.rest_row(h, last.x, last.y);
      }
      me.acc[h] = 0.0f, me.mass[h] = 0.0f;
      me.delta[h] = TWO_SWEEPS || me.rows[h] >= nq ? 0.0f : delta[padded + me.rows[h]];
    }
    barrier_wait(full_q, 0);
    me.q.load(base + AT_Q + me.half * ROWS_IMAGE);
    me.g.load(base + AT_G + me.half * ROWS_IMAGE);

    if constexpr (MODE == SHIFTED)
      me.find_shift(top_keys + padded + me.first_row, v_rows + (i64)kv * k_tiles * ROWS_IMAGE, kv_heads + (i64)kv * k_tiles,
                    base + AT_STAGING + 2 * me.half * RECORD_SLOT);
    int n = 0;
    if constexpr (TWO_SWEEPS) {
      me.first_sweep(own_tiles);
      for (n = own_tiles; n < tiles; ++n) {
        barrier_wait(full + 8 * (n % STAGES), (n / STAGES) & 1);
        warp_arrive(empty + 8 * (n % STAGES));
      }
    }
    me.finish_delta();
    if ((MODE == MATCHED || MODE == RENORMALIZED) && (lane & 3) == 0)
      delta[padded + me.rows[0]] = add(me.delta[0], 0.0f), delta[padded + me.rows[1]] = add(me.delta[1], 0.0f);  // never -0
    if (MODE == SHIFTED && (lane & 3) == 0)
      delta[padded + me.rows[0]] = add(me.delta[0], me.low[0]), delta[padded + me.rows[1]] = add(me.delta[1], me.low[1]);

#pragma unroll
    for (int i = 0; i < D / 2; ++i) me.dq[i] = 0.0f;
    for (int tile = 0; tile < tiles; ++tile, ++n) {
      const u32 slot = n % STAGES, staging = base + AT_STAGING + (2 * me.half + (tile & 1)) * RECORD_SLOT;
      barrier_wait(full + 8 * slot, (n / STAGES) & 1);
      if (tile < own_tiles) {
        me.issue_scores(slot, me.s, me.d);
        me.wait_scores<0>(me.s, me.d);
        const float4 header = load_shared4(base + AT_HEADERS + slot * 16);
        const float w = me.sweep2(tile, mul(me.sqc, header.x), header, staging);
        me.contract(tile, base + AT_RING + slot * SLOT + 2 * ROWS_IMAGE, staging, w);
      }
      warp_arrive(empty + 8 * slot);
    }
    if ((threadIdx.x & 127) == 0) bulk_wait();

    const int index = block_index();
    const int end_bh = first_bh + index % stripe_heads, b = end_bh / heads, q_head = end_bh % heads;
    const int end_row = (first_block + stripe_blocks - 1 - index / stripe_heads) * 128 + me.half * BLOCK + 16 * warp + (lane >> 2);
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (end_row + 8 * h < nq) {
        u32* to = dq_out + (((i64)b * nq + end_row + 8 * h) * heads + q_head) * (D / 2) + (lane & 3);
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
          to[4 * j] = to_bf16x2(mul(me.dq[4 * j + 2 * h], scale), mul(me.dq[4 * j + 2 * h + 1], scale));
      }
  }
}
