// The quantiser's tokens: how threads share 128 of them, reading, dot products over channels.
#pragma once

#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"

constexpr int THREADS = D == 256 ? 512 : 256;
constexpr int UNIT = 128;                     // tokens of a CTA
constexpr int LANES = D / 8;                  // threads that share a token, 8 channels each
constexpr int TOKENS_AT_ONCE = THREADS / LANES;
constexpr int ROUNDS = UNIT / TOKENS_AT_ONCE;
constexpr int RESIDENT = D == 256 ? 2 : 4;    // CTAs that share the registers of a multiprocessor
constexpr u32 ONE = 0x38383838u;              // four E4M3 codes of 1.0

enum Role { QUERY, KEY, VALUE, GRADIENT };

struct Tokens {
  const uint4* data;  // 8 BF16 channels per element
  i64 batch, token, head;  // strides in elements of 8 channels

  INLINE uint4 load(int b, int h, int n, int lane) const { return data[b * batch + h * head + n * token + lane]; }
};

INLINE void unpack(uint4 v, float (&x)[8]) {
  const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) x[2 * i] = bf16_low(w[i]), x[2 * i + 1] = bf16_high(w[i]);
}

// Dot products over channels: 32 chains of D / 32 consecutive channels, folded in halves (chain n with
// n + 16, then 8, 4, 2, 1). A thread owns CHAINS of them.
constexpr int CHAIN = D / 32, CHAINS = 8 / CHAIN;
struct ChannelDot {
  float chain[CHAINS];

  INLINE void step(int channel, float x, float y) {
    float& c = chain[channel / CHAIN];
    c = channel % CHAIN == 0 ? mul(x, y) : multiply_add(x, y, c);
  }

  INLINE float total() {
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) chain[i] = add(chain[i], shuffle_xor(chain[i], lanes));
#pragma unroll
    for (int half = CHAINS / 2; half > 0; half /= 2)
#pragma unroll
      for (int i = 0; i < half; ++i) chain[i] = add(chain[i], chain[i + half]);
    return chain[0];
  }
};

// Where a CTA works: 128 tokens of one head.
struct Place {
  int bh, unit, units, heads, n;  // n: tokens of a head

  INLINE Place(int block, int units, int heads, int n)
      : bh(block / units), unit(block % units), units(units), heads(heads), n(n) {}
  INLINE int batch() const { return bh / heads; }
  INLINE int head() const { return bh % heads; }
  INLINE i64 block() const { return (i64)bh * units + unit; }
};
