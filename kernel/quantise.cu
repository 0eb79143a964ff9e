// Quantiser: BF16 tokens to E4M3 codes and block scales, written as ready operand images.
//
// One CTA takes 128 tokens of one head. ROLE says which operand: the scale covers 128 tokens (Q, dO) or
// 64 (K, V); K is centred by its mean over tokens, unless CENTRED is 0; the channels image is permuted for the contraction
// that reads it (V, K: keys; Q, dO: queries). Tokens past the end become zero codes.
// Heads (16 bytes per 64 tokens): Q x = sQ | dO y = sdO, z = norm bound | K x = sK | V y = sV, z = norm bound.
// Bulk copies take all 16 bytes, so Q and K also write w, which nothing reads.
#include "arith.cuh"
#include "async.cuh"
#include "layout.cuh"

constexpr int THREADS = D == 256 ? 512 : 256;
constexpr int UNIT = 128;                     // tokens of a CTA
constexpr int LANES = D / 8;                  // threads that share a token, 8 channels each
constexpr int TOKENS_AT_ONCE = THREADS / LANES;
constexpr int ROUNDS = UNIT / TOKENS_AT_ONCE;
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

// Heads lie in two dimensions of the grid, since one ends at 65,535.
INLINE int head_index() { return blockIdx.z * gridDim.y + blockIdx.y; }

// Mean of K, first half: in 128 tokens eight runs (run g: tokens g, g + 8, ...), then the runs in order.
constexpr int SUM_THREADS = 8 * (D / 2);  // a thread adds two channels of one run
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    key_sums(const u32* __restrict__ x, float* __restrict__ sums, i64 batch, i64 token, i64 head, int heads, int n,
             int batch_heads) {
  __shared__ float runs[8][D];
  const int pair = threadIdx.x % (D / 2), run = threadIdx.x / (D / 2);
  const int bh = head_index(), unit = blockIdx.x;
  if (bh >= batch_heads) return;
  const u32* from = x + (bh / heads) * batch + (bh % heads) * head + pair;
  u32 packed[UNIT / 8];
#pragma unroll
  for (int i = 0; i < UNIT / 8; ++i) {
    const int at = unit * UNIT + 8 * i + run;
    packed[i] = at < n ? from[at * token] : 0;
  }
  float low = 0.0f, high = 0.0f;
#pragma unroll
  for (int i = 0; i < UNIT / 8; ++i) low = add(low, bf16_low(packed[i])), high = add(high, bf16_high(packed[i]));
  runs[run][2 * pair] = low, runs[run][2 * pair + 1] = high;
  __syncthreads();
  for (int channel = threadIdx.x; channel < D; channel += SUM_THREADS) {
    float sum = runs[0][channel];
    for (int i = 1; i < 8; ++i) sum = add(sum, runs[i][channel]);
    sums[((i64)bh * gridDim.x + unit) * D + channel] = sum;
  }
}

// Writes the channels image: a thread turns 4 channels of 16 tokens into four 16-byte chunks.
template <class ORDER>
INLINE void transpose(u32 rows, u32 channels, int image) {
  for (int unit = threadIdx.x; unit < 8 * (D / 4); unit += THREADS) {
    const int quad = unit % (D / 4), tokens = unit / (D / 4);  // channels 4 quad.., tokens 16 tokens..
    const u32 half = tokens >> 2, chunk = tokens & 3;
    u32 w[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
      w[i] = load_shared(rows + half * ROWS_IMAGE + rows_chunk(16 * chunk + i, quad >> 2) + (quad & 3) * 4);
    u32 out[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const u32 a = w[ORDER::token(4 * s)], b = w[ORDER::token(4 * s + 1)], c = w[ORDER::token(4 * s + 2)],
                d = w[ORDER::token(4 * s + 3)];
      const u32 ab = permute(a, b, 0x5140), cd = permute(c, d, 0x5140);
      const u32 ab2 = permute(a, b, 0x7362), cd2 = permute(c, d, 0x7362);
      out[0][s] = permute(ab, cd, 0x5410), out[1][s] = permute(ab, cd, 0x7632);
      out[2][s] = permute(ab2, cd2, 0x5410), out[3][s] = permute(ab2, cd2, 0x7632);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      store_shared4(channels + half * image + swizzle64(4 * quad + i, chunk),
                    make_float4(from_bits(out[i][0]), from_bits(out[i][1]), from_bits(out[i][2]), from_bits(out[i][3])));
  }
}

struct Outputs {
  u8 *rows, *channels;  // either may be null
  float* scales;        // heads of this operand, 4 floats per 64 tokens
  float* delta;         // per padded token: <O, dO> (dO; or null), <q, mean of k> (Q)
};

// What delta = <O, dO> takes: dO as given or its codes (times sdO at the end), O in BF16 or fp32.
constexpr int GIVEN = 1, CODES = 2, CODES_FP32 = 3;

INLINE void load_output(float (&o)[8], const Tokens& from, int b, int h, int token, int n, int lane, int shortcut) {
  uint4 v = make_uint4(0, 0, 0, 0);
  if (shortcut != CODES_FP32) {
    if (token < n) v = from.load(b, h, token, lane);
    unpack(v, o);
    return;
  }
  uint4 w = v;  // fp32: eight channels are two elements
  if (token < n) {
    const uint4* at = from.data + 2 * (b * from.batch + h * from.head + token * from.token + lane);
    v = at[0], w = at[1];
  }
  const u32 all[8] = {v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) o[i] = from_bits(all[i]);
}

template <Role ROLE>
INLINE void quantise(Tokens from, Outputs to, int heads, int n, int units, bool flip, const float* sums,
                     float* means, Tokens output, int shortcut, int repeat) {
  extern __shared__ __align__(1024) u8 raw[];
  __shared__ float mean[D];
  __shared__ float warp_top[2][THREADS / 32];
  constexpr bool HALVES = ROLE == KEY || ROLE == VALUE;  // one scale per 64 tokens
  constexpr bool CENTRES = ROLE == KEY && CENTRED;    // K takes its mean off
  constexpr bool SHIFTS = ROLE == QUERY && CENTRED;   // Q says what that took off the logits
  constexpr int IMAGE = ROLE == VALUE ? VALUES_IMAGE : CHANNELS_IMAGE;
  const u32 rows = (shared_address(raw) + 1023) & ~1023u, channels = rows + 2 * ROWS_IMAGE;
  const int bh = head_index(), b = bh / heads, h = bh % heads, unit = blockIdx.x;
  const int lane = threadIdx.x % LANES, first = threadIdx.x / LANES, warp = threadIdx.x >> 5;

  if constexpr (CENTRES) {
    for (int channel = threadIdx.x; channel < D; channel += THREADS) {
      float sum = 0.0f;
      for (int i = 0; i < units; ++i) sum = add(sum, sums[((i64)bh * units + i) * D + channel]);
      mean[channel] = divide(sum, to_float(n));
      if (unit == 0) means[(i64)bh * D + channel] = mean[channel];
    }
    __syncthreads();
  }

  if constexpr (SHIFTS) {
    for (int channel = threadIdx.x; channel < D; channel += THREADS) mean[channel] = means[(i64)(bh / repeat) * D + channel];
    __syncthreads();
  }

  uint4 packed[ROUNDS];
  float top[2] = {0.0f, 0.0f}, x[8];
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    const int token = unit * UNIT + i * TOKENS_AT_ONCE + first;
    packed[i] = token < n ? from.load(b, h, token, lane) : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    const int token = unit * UNIT + i * TOKENS_AT_ONCE + first;
    unpack(packed[i], x);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (CENTRES) x[j] = token < n ? sub(x[j], mean[8 * lane + j]) : 0.0f;
      top[i >= ROUNDS / 2] = maximum_or_nan(top[i >= ROUNDS / 2], absolute(x[j]));
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    top[i] = warp_max(top[i]);
    if ((threadIdx.x & 31) == 0) warp_top[i][warp] = top[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < THREADS / 32; ++j) top[i] = maximum_or_nan(top[i], warp_top[i][j]);
  if (!HALVES) top[0] = top[1] = maximum_or_nan(top[0], top[1]);
  float scale[2], inverse[2], norm[2] = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool zero = bits(top[i]) == 0;
    const float clamped = maximum_or_nan(top[i], pow2(-100));
    scale[i] = zero ? 1.0f : divide(clamped, 448.0f);
    inverse[i] = zero ? 1.0f : divide(448.0f, clamped);
  }

#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    constexpr int H = ROUNDS / 2;
    const int local = i * TOKENS_AT_ONCE + first, token = unit * UNIT + local;
    unpack(packed[i], x);
    u16 pair[4];
    ChannelDot square, dot;
    float o[8];
    if (ROLE == GRADIENT && to.delta) load_output(o, output, b, h, token, n, lane, shortcut);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float y[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        y[k] = x[2 * j + k];
        if (CENTRES) y[k] = token < n ? sub(y[k], mean[8 * lane + 2 * j + k]) : 0.0f;
        if (ROLE == QUERY && flip && token < n) y[k] = neg(y[k]);
        if constexpr (SHIFTS) dot.step(2 * j + k, y[k], mean[8 * lane + 2 * j + k]);
      }
      pair[j] = to_e4m3x2(mul(y[0], inverse[i >= H]), mul(y[1], inverse[i >= H]));
      if constexpr (ROLE == VALUE || ROLE == GRADIENT) {
        float code[2];
        from_e4m3x2(pair[j], code[0], code[1]);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          square.step(2 * j + k, code[k], code[k]);
          if (ROLE == GRADIENT && to.delta) dot.step(2 * j + k, shortcut == GIVEN ? y[k] : code[k], o[2 * j + k]);
        }
      }
    }
    const u32 at = rows + (local >> 6) * ROWS_IMAGE + rows_chunk(local & 63, lane >> 1) + (lane & 1) * 8;
    store_shared(at, pack16(pair[0], pair[1]));
    store_shared(at + 4, pack16(pair[2], pair[3]));
    if constexpr (ROLE == VALUE || ROLE == GRADIENT) norm[i >= H] = maximum(norm[i >= H], square.total());
    if constexpr (ROLE == QUERY) {
      const float total = SHIFTS ? dot.total() : 0.0f;
      if (lane == 0) to.delta[((i64)bh * units + unit) * UNIT + local] = total;
    }
    if (ROLE == GRADIENT && to.delta) {
      const float total = dot.total();
      if (lane == 0)
        to.delta[((i64)bh * units + unit) * UNIT + local] = 
            add(shortcut == GIVEN ? total : mul(total, scale[0]), 0.0f);  // never -0
    }
  }
  if constexpr (ROLE == VALUE || ROLE == GRADIENT) {
    __syncthreads();  // warp_top has been read
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      norm[i] = warp_max(norm[i]);
      if ((threadIdx.x & 31) == 0) warp_top[i][warp] = norm[i];
    }
  }
  __syncthreads();
  if (threadIdx.x < 2) {
    const int i = threadIdx.x;
    float* head = to.scales + (((i64)bh * units + unit) * 2 + i) * 4;
    head[ROLE == QUERY || ROLE == KEY ? 0 : 1] = i ? scale[1] : scale[0];
    if constexpr (ROLE == QUERY || ROLE == KEY) head[3] = 0.0f;
    if constexpr (ROLE == VALUE || ROLE == GRADIENT) {
      float largest = 0.0f;
      for (int j = 0; j < THREADS / 32; ++j) largest = maximum(largest, warp_top[i][j]);
      // Every rounding so far is covered by the factor 1 + 2^-16.
      head[2] = mul(root(largest), mul(i ? scale[1] : scale[0], from_bits(0x3F800080u)));
    }
  }

  if (to.channels) {
    if constexpr (HALVES)
      transpose<KeyOrder>(rows, channels, IMAGE);
    else
      transpose<QueryOrder>(rows, channels, IMAGE);
    if constexpr (ROLE == VALUE) {
      const int half = threadIdx.x >> 7, word = threadIdx.x & 127;  // 8 rows of 64 bytes, 4 bytes a thread
      if (half < 2) store_shared(channels + half * IMAGE + D * 64 + word * 4, word < 16 ? ONE : 0);
    }
  }
  proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const i64 at = (i64)bh * units + unit;
    if (to.rows) bulk_store(to.rows + at * 2 * ROWS_IMAGE, rows, 2 * ROWS_IMAGE);
    if (to.channels) bulk_store(to.channels + at * 2 * IMAGE, channels, 2 * IMAGE);
    bulk_wait();
  }
}

#define ENTRY(NAME, ROLE)                                                                                       \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                         \
      NAME(const uint4* x, u8* rows, u8* channels, float* scales, float* delta, const float* sums, float* means, \
           const uint4* output, i64 batch, i64 token, i64 head, int heads, int n, int units, int repeat,        \
           int flag, int batch_heads) {                                                                                          \
    if (head_index() >= batch_heads) return;                                                                    \
    const i64 o_token = (i64)heads * LANES;                                                                     \
    quantise<ROLE>({x, batch, token, head}, {rows, channels, scales, delta}, heads, n, units, flag != 0, sums, means, \
                   {output, n * o_token, o_token, LANES}, flag, repeat);                                           \
  }
ENTRY(quantise_query, QUERY)
ENTRY(quantise_key, KEY)
ENTRY(quantise_value, VALUE)
ENTRY(quantise_gradient, GRADIENT)
