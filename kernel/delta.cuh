// Sweep 1 of B: delta of every row from its own sums, and the largest P of every 64 x 64 tile.
#pragma once

#include "rows.cuh"

struct Delta : Rows {
  // Step 7 for one tile.
  template <bool MASKED>
  INLINE void sweep1(float (&s)[32], const float (&d)[32], int tile, float ct, float sdp) {
    exponentials<MASKED>(s, tile, ct);
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

  INLINE void request(const Stage<STAGES>& at, float (&s)[32], float (&d)[32]) {
    ring.await_filled(at);
    issue_scores(at.slot, s, d);
  }

  template <bool MASKED, int PENDING>
  INLINE void answer(const Stage<STAGES>& at, int tile, float (&s)[32], float (&d)[32]) {
    constexpr bool SOON = STAGES == 2;  // a copy waits for the place: it is given back without a wait for the header
    if constexpr (!SOON) wait_scores<PENDING>(s, d);
    const float4 header = load_shared4(base + AT_HEADERS + at.slot * 16);
    if constexpr (SOON) wait_scores<PENDING>(s, d);
    ring.release(at, bits(header.w));
    sweep1<MASKED>(s, d, tile, mul(sqc, header.x), mul(sg, header.y));
  }

  // Sweep 1. Where registers allow it tiles come in pairs: the products of the second run behind the first's
  // exponentials.
  INLINE void first_sweep(Stage<STAGES>& at, int whole, int tiles) {
    int tile = 0;
    if constexpr (Path<D>::AHEAD) {
      float s2[32], d2[32];
      for (; tile + 1 < whole; tile += 2) {
        const Stage<STAGES> first = at;
        request(first, s, d);
        at.next();
        request(at, s2, d2);
        answer<false, 1>(first, tile, s, d);
        answer<false, 0>(at, tile + 1, s2, d2);
        at.next();
      }
    } else {
      for (; tile < whole; ++tile, at.next()) {
        request(at, s, d);
        answer<false, 0>(at, tile, s, d);
      }
    }
    for (; tile < tiles; ++tile, at.next()) {
      request(at, s, d);
      answer<true, 0>(at, tile, s, d);
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
};
