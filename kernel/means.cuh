// The mean of K over tokens: sums of 128 tokens, then the mean of a channel from them.
#pragma once

#include "tokens.cuh"

__shared__ __align__(16) float key_mean[D];

// The mean of a thread's channels: read again for each half, since registers are short.
INLINE void load_mean(float (&m)[8], int lane) {
  const u32 at = shared_address(key_mean) + 32 * lane;
  const float4 a = load_shared4(at), b = load_shared4(at + 16);
  m[0] = a.x, m[1] = a.y, m[2] = a.z, m[3] = a.w, m[4] = b.x, m[5] = b.y, m[6] = b.z, m[7] = b.w;
}

// Sums of K, first half of its mean: in 128 tokens eight runs (run g: tokens g, g + 8, ...), then the runs
// in order. A thread adds two channels of PASSES runs, all of whose loads are under way at once.
constexpr int RUNS_AT_ONCE = THREADS / (D / 2), PASSES = 8 / RUNS_AT_ONCE;
INLINE void sum_keys(const Tokens& from, float* sums, Place at) {
  extern __shared__ __align__(1024) u8 raw[];
  float(*runs)[D] = reinterpret_cast<float(*)[D]>(raw);
  const int pair = threadIdx.x % (D / 2), first = threadIdx.x / (D / 2);
  const u32* x = reinterpret_cast<const u32*>(from.data + at.batch() * from.batch + at.head() * from.head) + pair;
  u32 packed[PASSES][UNIT / 8];
#pragma unroll
  for (int p = 0; p < PASSES; ++p)
#pragma unroll
    for (int i = 0; i < UNIT / 8; ++i) {
      const int token = at.unit * UNIT + 8 * i + p * RUNS_AT_ONCE + first;
      packed[p][i] = token < at.n ? x[4 * token * from.token] : 0;
    }
#pragma unroll
  for (int p = 0; p < PASSES; ++p) {
    float low = 0.0f, high = 0.0f;
#pragma unroll
    for (int i = 0; i < UNIT / 8; ++i) low = add(low, bf16_low(packed[p][i])), high = add(high, bf16_high(packed[p][i]));
    const int run = p * RUNS_AT_ONCE + first;
    runs[run][2 * pair] = low, runs[run][2 * pair + 1] = high;
  }
  __syncthreads();
  for (int channel = threadIdx.x; channel < D; channel += THREADS) {
    float sum = runs[0][channel];
    for (int i = 1; i < 8; ++i) sum = add(sum, runs[i][channel]);
    sums[at.block() * D + channel] = sum;
  }
}

// The second half: the mean of one channel from its sums, D apart, in order; 8 loads under way at once.
INLINE float mean_of(const float* sums, int units, int n) {
  constexpr int AHEAD = 8;
  float sum = 0.0f;
  for (int i = 0; i < units; i += AHEAD) {
    float part[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) part[j] = i + j < units ? sums[(i + j) * D] : 0.0f;
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) sum = i + j < units ? add(sum, part[j]) : sum;
  }
  return divide(sum, to_float(n));
}

// The mean of K: its sums, one a unit, where these are few; else the means themselves.
struct Mean {
  const float *sums, *means;
  int units, n;  // of the keys
  int repeat;    // query heads of a key head

  INLINE float of(int kv, int channel) const {
    return sums ? mean_of(sums + (i64)kv * units * D + channel, units, n) : means[(i64)kv * D + channel];
  }
};
