// B: dQ, and the P^T and dS^T codes that G contracts. One CTA takes 128 queries of one head.
//
// Sweep 1 (matched, renormalized, shifted): delta and the largest P of every 64 x 64 tile. Sweep 2: dS,
// its codes, dQ. The other modes get delta from the quantiser and find the tile maximum inside sweep 2.
// Warpgroup 0 produces tiles of K, V (and K^T in sweep 2), warpgroups 1 and 2 consume, 64 queries each.
#include "rows.cuh"

// The two sweeps over the keys.
struct Consumer : Rows {
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

#if DUMP
  INLINE i64 dump_address(int row, int tile) const {
    return ((dump.row + row - first_row) * dump.k_tiles + tile) * BLOCK;
  }
#endif

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
    const float weight = pow2(shift_u - shift_p);
    if ((threadIdx.x & 127) == 0) {
      store_shared4(staging + 2 * TILE_CODES,
                    make_float4(mul(pow2(-shift_p), sg), mul(weight, sq), from_bits(shift_p), from_bits(shift_u)));
      store_shared4(staging + 2 * TILE_CODES + 16, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    }
#if DUMP
    for (int h = 0; h < 2; ++h) dump.exponents[dump_address(rows[h], tile) / BLOCK] = make_int2(shift_p, shift_u);
#endif
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
            centred = multiply_add(d[i], sdpu, du[h]);
          x[h] = mul(p[h], centred);
#if DUMP
          const i64 at = dump_address(rows[h], tile) + 8 * j + column + b;
          dump.p[at] = p[h], dump.dp[at] = d[i], dump.ds[at] = x[h];
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
#if DUMP
      for (int h = 0; h < 2; ++h) {
        const i64 at = dump_address(rows[h], tile) + 8 * j + column;
        dump.p_codes[at] = (u8)(p_code[0] >> (8 * h)), dump.p_codes[at + 1] = (u8)(p_code[1] >> (8 * h));
        dump.ds_codes[at] = (u8)(x_code[0] >> (8 * h)), dump.ds_codes[at + 1] = (u8)(x_code[1] >> (8 * h));
      }
#endif
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[4 * (i >> 1) + 2 * (i & 1)] = permute(x_pairs[2 * i], x_pairs[2 * i + 1], 0x6420);
      a[4 * (i >> 1) + 2 * (i & 1) + 1] = permute(x_pairs[2 * i], x_pairs[2 * i + 1], 0x7531);
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
    proxy_fence();
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
          u32* __restrict__ dq_out, u8* __restrict__ records, int heads, int kv_heads_count, int first_bh, int stripe_heads, int first_block,
          int stripe_blocks, int nq, int nk, int q_blocks, int k_tiles, float c, float scale DUMP_PARAMETERS) {
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
    me.to = {nq, nk};
#if DUMP
    me.dump = {dump_p, dump_dp, dump_ds, dump_p_codes, dump_ds_codes, dump_exponents, k_tiles, padded + me.first_row};
#endif
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
#if DUMP
    if ((lane & 3) == 0)
      for (int h = 0; h < 2; ++h)
        dump_shifts[padded + me.rows[h]] =  // what dS subtracts from dP, first and then
            MODE == SHIFTED ? make_float2(me.delta[h], me.low[h]) : make_float2(0.0f, me.delta[h]);
#endif

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
