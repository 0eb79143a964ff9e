// Quantiser: BF16 tokens to E4M3 codes and block scales, written as ready operand images.
//
// One CTA takes 128 tokens of one head. ROLE says which operand: the scale covers 128 tokens (Q, dO) or
// 64 (K, V); K is centred by its mean over tokens, unless CENTRED is 0; the channels image is permuted
// for the contraction that reads it (V, K: keys; Q, dO: queries). Tokens past the end become zero codes.
// One launch takes what does not wait for another: V beside the sums of K, then K and Q.
// Heads (16 bytes per 64 tokens): Q x = sQ | dO y = sdO, z = norm bound | K x = sK | V y = sV, z = norm bound.
// Bulk copies take all 16 bytes, so Q and K also write w, which nothing reads.
#include "means.cuh"
#include "params.cuh"
#include "tokens.cuh"

// Writes the channels image: a thread turns 4 channels of 16 tokens into four 16-byte chunks.
// Lane r stores chunk n ^ r at step n, or 16 lanes of a warp would store to the same banks.
template <class ORDER>
INLINE void transpose(u32 rows, u32 channels, int image) {
  for (int unit = threadIdx.x; unit < 8 * (D / 4); unit += THREADS) {
    const int quad = unit % (D / 4), tokens = unit / (D / 4);  // channels 4 quad.., tokens 16 tokens..
    const u32 half = tokens >> 2, chunk = tokens & 3, turn = (quad >> 1) & 3;
    const u32 pairs[2] = {turn & 2 ? 0x7362u : 0x5140u, turn & 2 ? 0x5140u : 0x7362u};  // channels 0, 1 or 2, 3
    const u32 one[2] = {turn & 1 ? 0x7632u : 0x5410u, turn & 1 ? 0x5410u : 0x7632u};
    u32 w[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
      w[i] = load_shared(rows + half * ROWS_IMAGE + rows_chunk(16 * chunk + i, quad >> 2) + (quad & 3) * 4);
    u32 out[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const u32 a = w[ORDER::token(4 * s)], b = w[ORDER::token(4 * s + 1)], c = w[ORDER::token(4 * s + 2)],
                d = w[ORDER::token(4 * s + 3)];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const u32 ab = permute(a, b, pairs[i]), cd = permute(c, d, pairs[i]);
        out[2 * i][s] = permute(ab, cd, one[0]), out[2 * i + 1][s] = permute(ab, cd, one[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      store_shared4(channels + half * image + swizzle64(4 * quad + (i ^ turn), chunk),
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

// How a role goes about it.
template <Role ROLE>
struct Ways {
  static constexpr bool HALVES = ROLE == KEY || ROLE == VALUE;  // one scale per 64 tokens
  static constexpr bool CENTRES = ROLE == KEY && CENTRED;       // K takes its mean off
  static constexpr bool SHIFTS = ROLE == QUERY && CENTRED;      // Q says what that took off the logits
  static constexpr bool NORMS = ROLE == VALUE || ROLE == GRADIENT;  // whose bound B's scale of dS takes
  static constexpr int IMAGE = ROLE == VALUE ? VALUES_IMAGE : CHANNELS_IMAGE;
};

// Scales and their inverses from the largest magnitudes: of each half, or one for both.
template <bool HALVES>
INLINE void set_scales(const float (&top)[2], float (&scale)[2], float (&inverse)[2]) {
#pragma unroll
  for (int i = 0; i < (HALVES ? 2 : 1); ++i) {
    const bool zero = bits(top[i]) == 0;
    const float clamped = maximum_or_nan(top[i], pow2(-100));
    scale[i] = zero ? 1.0f : divide(clamped, 448.0f);
    inverse[i] = zero ? 1.0f : divide(448.0f, clamped);
  }
  if (!HALVES) scale[1] = scale[0], inverse[1] = inverse[0];
}

// The header of 64 tokens, half i of the CTA's.
template <Role ROLE>
INLINE void store_scales(const Outputs& to, Place at, int i, const float (&scale)[2], const float (&warp_top)[2][THREADS / 32]) {
  float* head = to.scales + (at.block() * 2 + i) * 4;
  head[ROLE == QUERY || ROLE == KEY ? 0 : 1] = i ? scale[1] : scale[0];
  if constexpr (ROLE == QUERY || ROLE == KEY) head[3] = 0.0f;
  if constexpr (Ways<ROLE>::NORMS) {
    float largest = 0.0f;
    for (int j = 0; j < THREADS / 32; ++j) largest = maximum(largest, warp_top[i][j]);
    // Every rounding so far is covered by the factor 1 + 2^-16.
    head[2] = mul(root(largest), mul(i ? scale[1] : scale[0], from_bits(0x3F800080u)));
  }
}

// The channels image from the rows image, and both on their way out.
template <Role ROLE>
INLINE void store_images(const Outputs& to, Place at, u32 rows, u32 channels) {
  constexpr int IMAGE = Ways<ROLE>::IMAGE;
  if (to.channels) {
    if constexpr (Ways<ROLE>::HALVES)
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
    if (to.rows) bulk_store(to.rows + at.block() * 2 * ROWS_IMAGE, rows, 2 * ROWS_IMAGE);
    if (to.channels) bulk_store(to.channels + at.block() * 2 * IMAGE, channels, 2 * IMAGE);
    bulk_wait();
  }
}

template <Role ROLE>
INLINE void quantise(const Tokens& from, const Outputs& to, Place at, const Mean& keys, bool flip, const Tokens& output,
                     int shortcut) {
  extern __shared__ __align__(1024) u8 raw[];
  __shared__ float warp_top[2][THREADS / 32];
  constexpr bool HALVES = Ways<ROLE>::HALVES, CENTRES = Ways<ROLE>::CENTRES, SHIFTS = Ways<ROLE>::SHIFTS;
  constexpr bool NORMS = Ways<ROLE>::NORMS;
  const u32 rows = (shared_address(raw) + 1023) & ~1023u, channels = rows + 2 * ROWS_IMAGE;
  const int b = at.batch(), h = at.head(), unit = at.unit, n = at.n;
  const int lane = threadIdx.x % LANES, first = threadIdx.x / LANES, warp = threadIdx.x >> 5;

  uint4 packed[ROUNDS];
  float top[2] = {0.0f, 0.0f}, x[8];
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    const int token = unit * UNIT + i * TOKENS_AT_ONCE + first;
    packed[i] = token < n ? from.load(b, h, token, lane) : make_uint4(0, 0, 0, 0);
  }
  if constexpr (CENTRES || SHIFTS) {
    wait_for_launch();  // which made the sums
    const int kv = ROLE == KEY ? at.bh : at.bh / keys.repeat;
    for (int channel = threadIdx.x; channel < D; channel += THREADS) key_mean[channel] = keys.of(kv, channel);
    __syncthreads();
  }
  float mine[8];
  if constexpr (CENTRES) load_mean(mine, lane);
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    const int token = unit * UNIT + i * TOKENS_AT_ONCE + first;
    unpack(packed[i], x);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (CENTRES) x[j] = token < n ? sub(x[j], mine[j]) : 0.0f;
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
  float scale[2], inverse[2];
  set_scales<HALVES>(top, scale, inverse);

  if constexpr (NORMS) __syncthreads();  // warp_top has been read
#pragma unroll 1  // one half at a time: registers and code stay few
  for (int half = 0; half < 2; ++half) {
    const float by = half ? inverse[1] : inverse[0];
    float norm = 0.0f;
    if constexpr (CENTRES || SHIFTS) load_mean(mine, lane);
#pragma unroll
    for (int i = 0; i < ROUNDS / 2; ++i) {
      const int in_half = i * TOKENS_AT_ONCE + first, local = half * BLOCK + in_half, token = unit * UNIT + local;
      unpack(packed[i], x);
      packed[i] = packed[i + ROUNDS / 2];
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
          if (CENTRES) y[k] = token < n ? sub(y[k], mine[2 * j + k]) : 0.0f;
          if (ROLE == QUERY && flip && token < n) y[k] = neg(y[k]);
          if constexpr (SHIFTS) dot.step(2 * j + k, y[k], mine[2 * j + k]);
        }
        pair[j] = to_e4m3x2(mul(y[0], by), mul(y[1], by));
        if constexpr (NORMS) {
          float code[2];
          from_e4m3x2(pair[j], code[0], code[1]);
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            square.step(2 * j + k, code[k], code[k]);
            if (ROLE == GRADIENT && to.delta) dot.step(2 * j + k, shortcut == GIVEN ? y[k] : code[k], o[2 * j + k]);
          }
        }
      }
      store_shared2(rows + half * ROWS_IMAGE + rows_chunk(in_half, lane >> 1) + (lane & 1) * 8, pack16(pair[0], pair[1]),
                    pack16(pair[2], pair[3]));
      if constexpr (NORMS) norm = maximum(norm, square.total());
      if constexpr (ROLE == QUERY) {
        const float total = SHIFTS ? dot.total() : 0.0f;
        if (lane == 0) to.delta[at.block() * UNIT + local] = total;
      }
      if (ROLE == GRADIENT && to.delta) {
        const float total = dot.total();
        if (lane == 0)
          to.delta[at.block() * UNIT + local] =
              add(shortcut == GIVEN ? total : mul(total, scale[0]), 0.0f);  // never -0
      }
    }
    if constexpr (NORMS) {
      norm = warp_max(norm);
      if ((threadIdx.x & 31) == 0) warp_top[half][warp] = norm;
    }
  }
  __syncthreads();
  if (threadIdx.x < 2) store_scales<ROLE>(to, at, threadIdx.x, scale, warp_top);

  store_images<ROLE>(to, at, rows, channels);
}

// Parts of operand P in the parameters p of an entry.
#define TOKENS(P) {p.P##_x, p.P##_batch, p.P##_token, p.P##_head}
#define PLACE(P, BLOCK) Place(BLOCK, p.P##_units, p.P##_heads, p.P##_n)
#define OUTPUTS(P, DELTA) {p.P##_rows, p.P##_channels, p.P##_scales, DELTA}

struct FirstParameters STRUCT(QUANTISE_FIRST_FIELDS);
struct RestParameters STRUCT(QUANTISE_REST_FIELDS);
struct MeansParameters STRUCT(KEY_MEANS_FIELDS);
struct GradientParameters STRUCT(QUANTISE_GRADIENT_FIELDS);

#if CENTRED
// What does not wait for the mean of K: its sums, which the next launch waits for, and V.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    quantise_first SIGNATURE(QUANTISE_FIRST_FIELDS) {
  const FirstParameters p = GATHERED(QUANTISE_FIRST_FIELDS);
  const int block = blockIdx.x;
  release_next_launch();
  if (block < p.k_blocks)
    sum_keys(TOKENS(k), p.sums, PLACE(k, block));
  else
    quantise<VALUE>(TOKENS(v), OUTPUTS(v, nullptr), PLACE(v, block - p.k_blocks), {}, false, {}, 0);
}
#endif

// K and Q, and V where no mean is taken.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    quantise_rest SIGNATURE(QUANTISE_REST_FIELDS) {
  const RestParameters p = GATHERED(QUANTISE_REST_FIELDS);
  release_next_launch();
  const Mean mean = {p.sums, p.means, p.k_units, p.k_n, p.q_heads / p.k_heads};
  const int block = blockIdx.x;
  if (block < p.k_blocks)
    quantise<KEY>(TOKENS(k), OUTPUTS(k, nullptr), PLACE(k, block), mean, false, {}, 0);
  else if (CENTRED || block < p.k_blocks + p.q_blocks)
    quantise<QUERY>(TOKENS(q), OUTPUTS(q, p.q_shift), PLACE(q, block - p.k_blocks), mean, p.flip != 0, {}, 0);
  else
    quantise<VALUE>(TOKENS(v), OUTPUTS(v, nullptr), PLACE(v, block - p.k_blocks - p.q_blocks), {}, false, {}, 0);
}

// The means of K where its sums are many: one CTA a head.
extern "C" __global__ void __launch_bounds__(D) key_means SIGNATURE(KEY_MEANS_FIELDS) {
  const MeansParameters p = GATHERED(KEY_MEANS_FIELDS);
  const Mean mean = {p.sums, nullptr, p.units, p.n, 1};
  p.means[(i64)blockIdx.x * D + threadIdx.x] = mean.of(blockIdx.x, threadIdx.x);
}

// dO, with delta = <O, dO> where the mode takes it from there.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    quantise_gradient SIGNATURE(QUANTISE_GRADIENT_FIELDS) {
  const GradientParameters p = GATHERED(QUANTISE_GRADIENT_FIELDS);
  follow_launch();
  const i64 o_token = (i64)p.g_heads * LANES;
  const Tokens o = {p.output, p.g_n * o_token, o_token, LANES};
  quantise<GRADIENT>(TOKENS(g), OUTPUTS(g, p.delta), PLACE(g, (int)blockIdx.x), {}, false, o, p.shortcut);
}
