// B: dQ, and the P^T and dS^T codes that G contracts. One CTA takes 64 queries of one head for each of its
// consumer warpgroups.
//
// Sweep 1 (matched, renormalized, shifted): delta and the largest P of every 64 x 64 tile. Sweep 2: dS,
// its codes, dQ. The other modes get delta from the quantiser and find the tile maximum inside sweep 2.
// Warpgroup 0 produces tiles of K, V (and K^T in sweep 2), the others consume.
//
// Which path a head dim takes is in rows.cuh.
#include "delta.cuh"

// Sweep 2 over the keys: dS, its codes, dQ, records.
struct Consumer : Delta {
  // In sweep 2 the warpgroups take turns at S and dP, so that the others compute while the tensor core works for
  // one. Barrier 4 + half opens this one's turn.
  INLINE void take_turn() const {
    named_barrier(4 + half, 256);
  }
  INLINE void pass_turn() const {
    named_arrive(half + 1 == groups ? 4 : 5 + half, 256);
  }

#if DUMP
  INLINE i64 dump_address(int row, int tile) const {
    return ((dump.row + row - first_row) * dump.k_tiles + tile) * BLOCK;
  }
#endif

  // What a tile's codes are made with, from its largest P. Thread 0 leaves the record's scales.
  struct Scales {
    float dp, weight;  // of dP, of this tile in dQ: 2^-kP / u * sK
    float rk[2], du[2], lu[2];
  };

  INLINE Scales tile_scales(int tile, float4 header, u32 four, u32 staging) {
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
    Scales x;
    x.dp = sdpu, x.weight = mul(weight, header.x);
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if constexpr (MODE == SHIFTED) {
        x.rk[h] = mul(r[h], pow2(shift_p)), x.du[h] = neg(mul(row_constant(h, 0), u)), x.lu[h] = mul(row_constant(h, 1), u);
      } else {
        x.rk[h] = mul(r[h], pow2(shift_p)), x.du[h] = neg(mul(delta[h], u));
      }
    return x;
  }

  // Steps 8 and 9: codes of P and dS as pairs (row g, row g + 8), and dS as A fragments.
  template <bool MASKED>
  INLINE void sweep2(int tile, const Scales& scales) {
    const float (&rk)[2] = scales.rk, (&du)[2] = scales.du, (&lu)[2] = scales.lu;
    const float sdpu = scales.dp;
    float carry[2] = {0.0f, 0.0f};
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
          bool hidden[2] = {MASKED && 8 * j + column + b > limit[0], MASKED && 8 * j + column + b > limit[1]};
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

  // One chunk of 64 channels of dS K.
  INLINE void issue_chunk(float (&t)[32], u32 keys, int chunk) {
    wgmma_fence();
    issue_channels<64>(t, a, keys, 64 * chunk);
    wgmma_commit();
  }

  template <int PENDING>
  INLINE void promote_chunk(float (&t)[32], int chunk, float w) {
    wgmma_wait<PENDING>();
    pin(t);
    promote(t, chunk, w);
  }

  // Step 10 for dQ, with the record's way out in between. Where registers are short one chunk is in hand.
  INLINE void contract(int tile, u32 keys, u32 staging, float w) {
    constexpr bool TWO = Path<D>::TWO_CHUNKS;
    pin(a);
    issue_chunk(t0, keys, 0);
    if constexpr (TWO) issue_chunk(t1, keys, 1);
    stage(staging, tile);
    if constexpr (CHUNKS == 4) {
      promote_chunk<1>(t0, 0, w);
      issue_chunk(t0, keys, 2);
      promote_chunk<1>(t1, 1, w);
      issue_chunk(t1, keys, 3);
    }
    if constexpr (TWO) {
      promote_chunk<1>(t0, CHUNKS - 2, w);
      promote_chunk<0>(t1, CHUNKS - 1, w);
    } else {
      promote_chunk<0>(t0, 0, w);
      if constexpr (CHUNKS == 2) {
        issue_chunk(t0, keys, 1);
        promote_chunk<0>(t0, 1, w);
      }
    }
    pin(a);
  }

  // Sweep 2 for one tile.
  template <bool MASKED>
  INLINE void second(const Stage<STAGES>& at, int tile) {
    const u32 staging = base + AT_STAGING + (2 * half + (tile & 1)) * RECORD_SLOT;
    ring.await_filled(at);
    take_turn();
    issue_scores(at.slot, s, d);
    const float4 header = load_shared4(base + AT_HEADERS + at.slot * 16);
    const float ct = mul(sqc, header.x);
    wait_scores<0>(s, d);
    pass_turn();
    exponentials<MASKED>(s, tile, ct);
    u32 four_at = base + AT_TABLE + (half * TABLE_TILES + tile) * 4;
    if constexpr (!TWO_SWEEPS) {
      four_at = base + AT_SCRATCH + half * 32 + 16;
      store_maximum(s, four_at);
      named_barrier(1 + half, 128);
    }
    const Scales scales = tile_scales(tile, header, load_shared(four_at), staging);
    sweep2<MASKED>(tile, scales);
    contract(tile, slot_address(at.slot) + 2 * ROWS_IMAGE, staging, scales.weight);
    ring.release(at);
  }
};

struct QueryParameters STRUCT(QUERY_FIELDS);

// One thread copies Q and dO, then the tiles of each sweep in order: K and V, in sweep 2 K^T too.
INLINE void produce(const QueryParameters& p, const QueryTask& task, const Ring<STAGES>& ring, u32 base,
                    u32 full_q) {
  const i64 rows = ((i64)task.bh * p.q_blocks * 2 + task.block) * ROWS_IMAGE;
  barrier_expect(full_q, 2 * task.blocks * ROWS_IMAGE);
  bulk_load(base + AT_Q, p.q_rows + rows, task.blocks * ROWS_IMAGE, full_q);
  bulk_load(base + AT_G, p.g_rows + rows, task.blocks * ROWS_IMAGE, full_q);
  Stage<STAGES> place;
  for (int step = TWO_SWEEPS ? 0 : task.tiles; step < 2 * task.tiles; ++step, place.next()) {
    const bool second = step >= task.tiles;
    const i64 tile = (i64)task.kv * p.k_tiles + (second ? step - task.tiles : step);
    const u32 bar = ring.filled(place), at = base + AT_RING + place.slot * SLOT;
    ring.await_free(place);
    ring.expect(place, (second ? SLOT : 2 * ROWS_IMAGE) + 16);
    bulk_load(at, p.k_rows + tile * ROWS_IMAGE, ROWS_IMAGE, bar);
    bulk_load(at + ROWS_IMAGE, p.v_rows + tile * ROWS_IMAGE, ROWS_IMAGE, bar);
    bulk_load(base + AT_HEADERS + place.slot * 16, p.kv_heads + tile, 16, bar);
    if (second) bulk_load(at + 2 * ROWS_IMAGE, p.k_channels + tile * CHANNELS_IMAGE, CHANNELS_IMAGE, bar);
  }
}

extern "C" __global__ void __launch_bounds__(128 + 128 * MOST_GROUPS, 1)
    query SIGNATURE(QUERY_FIELDS) {
  const QueryParameters p = GATHERED(QUERY_FIELDS);
  const u32 base = shared_base();
  const Ring<STAGES> ring = {base, base + Ring<STAGES>::BYTES};
  const u32 full_q = base + 2 * Ring<STAGES>::BYTES;
  const int groups = MOST_GROUPS == 2 ? 2 : (blockDim.x >> 7) - 1;
  const QuerySchedule schedule = {p.first_bh, p.head_step, p.stripe_heads, p.first_block, p.stripe_blocks, groups};
  const int local_head = schedule.local_head(blockIdx.x), bh = schedule.head(local_head);
  const int local_block = schedule.local_block(blockIdx.x);
  const int blocks = schedule.count(local_block), block = 2 * p.first_block + local_block;
  const int kv = bh / (p.heads / p.kv_heads_count);
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform over the warp
  const QueryTask task = {bh, block, blocks, kv, visible_tiles((block + blocks - 1) * BLOCK, p.nq, p.nk)};

  if (threadIdx.x == 0) {
    init_rings<STAGES>(GROUP_WARPS * groups, ring);
    barrier_init(full_q, 1);
    barrier_init_fence();
  }
  __syncthreads();
  follow_launch();

  if (group == 0) {
    registers_shrink<24>();
    if (threadIdx.x == 0) produce(p, task, ring, base, full_q);
  } else {
    registers_grow<Path<D>::REGISTERS>();
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
    Consumer me;
    me.base = base, me.ring = ring, me.groups = groups, me.half = group - 1;
    const bool there = MOST_GROUPS == 2 || me.half < task.blocks;
    me.first_row = (block + (there ? me.half : 0)) * BLOCK;  // one that is not there idles on the first's numbers
    me.rows[0] = me.first_row + 16 * warp + (lane >> 2), me.rows[1] = me.rows[0] + 8;
    const RecordPlaces places(p.first_block, p.stripe_blocks, p.nq, p.nk);
    me.record = p.records + places.of(local_head, block + me.half, p.nq, p.nk) * RECORD;
    const i64 padded = (i64)task.bh * p.q_blocks * 128;
    me.to = {p.nq, p.nk};
#if DUMP
    me.dump = {p.dump_p, p.dump_dp, p.dump_ds, p.dump_p_codes, p.dump_ds_codes, p.dump_exponents, p.k_tiles, padded + me.first_row};
#endif
    const int own_tiles = there ? visible_tiles(me.first_row, p.nq, p.nk) : 0;
    const float4 head = p.q_heads[(i64)task.bh * p.q_blocks * 2 + me.first_row / BLOCK];
    me.sq = head.x, me.sqc = mul(head.x, p.c), me.sg = head.y, me.ng = head.z;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float2 stat = p.statistics[padded + me.rows[h]];
      me.m[h] = stat.x;
      me.r[h] = me.rows[h] < p.nq && bits(stat.y) != 0 ? rcp(stat.y) : 0.0f;
      if constexpr (MODE == ASSOCIATED) {
        const float2 last = p.rescales[padded + me.rows[h]];
        me.r[h] = 1.0f, me.reference[h] = from_bits(0xFF800000u);
        me.rest_row(h, last.x, last.y);
      }
      me.acc[h] = 0.0f, me.mass[h] = 0.0f;
      me.delta[h] = TWO_SWEEPS || me.rows[h] >= p.nq ? 0.0f : p.delta[padded + me.rows[h]];
    }
    barrier_wait(full_q, 0);
    me.q.load(base + AT_Q + me.half * ROWS_IMAGE);
    me.g.load(base + AT_G + me.half * ROWS_IMAGE);

    if constexpr (MODE == SHIFTED)
      me.find_shift(p.top_keys + padded + me.first_row, p.v_rows + (i64)task.kv * p.k_tiles * ROWS_IMAGE,
                    p.kv_heads + (i64)task.kv * p.k_tiles,
                    base + AT_STAGING + 2 * me.half * RECORD_SLOT);
    Stage<STAGES> at;
    const int whole = min(own_tiles, whole_tiles(me.first_row, p.nq, p.nk));
    if constexpr (TWO_SWEEPS) {
      me.first_sweep(at, whole, own_tiles);
      for (int tile = own_tiles; tile < task.tiles; ++tile, at.next()) {
        ring.await_filled(at);
        ring.release(at);
      }
    }
    me.finish_delta();
    if (me.half == groups - 1) me.pass_turn();  // the first one starts
    const bool stores = (lane & 3) == 0 && there;
    if ((MODE == MATCHED || MODE == RENORMALIZED) && stores)
      p.delta[padded + me.rows[0]] = add(me.delta[0], 0.0f), p.delta[padded + me.rows[1]] = add(me.delta[1], 0.0f);  // never -0
    if (MODE == SHIFTED && stores)
      p.delta[padded + me.rows[0]] = add(me.delta[0], me.low[0]), p.delta[padded + me.rows[1]] = add(me.delta[1], me.low[1]);
#if DUMP
    if ((lane & 3) == 0)
      for (int h = 0; h < 2; ++h)
        p.dump_shifts[padded + me.rows[h]] =  // what dS subtracts from dP, first and then
            MODE == SHIFTED ? make_float2(me.delta[h], me.low[h]) : make_float2(0.0f, me.delta[h]);
#endif

#pragma unroll
    for (int i = 0; i < D / 2; ++i) me.dq[i] = 0.0f;
    int tile = 0;
    for (; tile < whole; ++tile, at.next()) me.second<false>(at, tile);
    for (; tile < own_tiles; ++tile, at.next()) me.second<true>(at, tile);
    for (; tile < task.tiles; ++tile, at.next()) {  // the lower half may see one tile more: take part in its hand-over
      ring.await_filled(at);
      me.take_turn();
      me.pass_turn();
      ring.release(at);
    }
    if ((threadIdx.x & 127) == 0) bulk_wait();

    const int index = block_index();
    const int end_bh = schedule.head(schedule.local_head(index)), b = end_bh / p.heads, q_head = end_bh % p.heads;
    const int end_local = schedule.local_block(index) + me.half;
    const int end_row = (2 * p.first_block + end_local) * BLOCK + 16 * warp + (lane >> 2);
    if (MOST_GROUPS > 2 && end_local >= 2 * p.stripe_blocks) return;
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (end_row + 8 * h < p.nq) {
        u32* to = p.dq_out + (((i64)b * p.nq + end_row + 8 * h) * p.heads + q_head) * (D / 2) + (lane & 3);
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
          to[4 * j] = to_bf16x2(mul(me.dq[4 * j + 2 * h], p.scale), mul(me.dq[4 * j + 2 * h + 1], p.scale));
      }
  }
}
