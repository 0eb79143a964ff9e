// Steps 2 to 4 of F for one window of 64 rows by 64 keys: largest scores, references, codes of P.
#pragma once

constexpr float OFFSET = 8.0f;      // the window maximum codes as 2^8
constexpr float HEADROOM = 32.0f;   // how far a window may exceed the row's reference

struct RowState {
  float reference, sum, codes_sum, top;  // R, l, lh (lane t = 0 only), largest b
};

// A window's two rows of this thread.
struct Window {
  float b[2], weight[2];  // b of step 2; beta
  bool any[2], moves[2];  // a key is visible; the reference has to move
};

// The largest visible score of both rows; -inf if none is.
template <bool MASKED>
INLINE void largest_scores(const float (&s)[32], const int (&limit)[2], float (&m)[2]) {
  const u32 lane_column = 2 * (threadIdx.x & 3);
  const float lowest = from_bits(0xFF800000u);
  constexpr int CHAINS = D <= 128 || MODE == SHIFTED ? 4 : 1;  // a maximum has no order
  float chain[2][CHAINS];
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) chain[h][i] = MASKED || i == 0 ? lowest : s[4 * (i >> 1) + 2 * h + (i & 1)];
#pragma unroll
  for (int i = 0; i < 16; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (MASKED ? (int)(8 * (i >> 1) + lane_column + (i & 1)) <= limit[h] : i == 0 || i >= CHAINS)
        chain[h][i % CHAINS] = maximum(chain[h][i % CHAINS], s[4 * (i >> 1) + 2 * h + (i & 1)]);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    m[h] = chain[h][0];
#pragma unroll
    for (int i = 1; i < CHAINS; ++i) m[h] = maximum(m[h], chain[h][i]);
  }
#pragma unroll
  for (int lanes = 1; lanes < 4; lanes *= 2) {
    const float other[2] = {shuffle_xor(m[0], lanes), shuffle_xor(m[1], lanes)};
    m[0] = maximum(m[0], other[0]), m[1] = maximum(m[1], other[1]);
  }
}

// Step 2 up to the references: what the window's codes are made with.
template <bool MASKED>
INLINE Window open_window(const float (&s)[32], RowState (&row)[2], float ct, const int (&limit)[2], int tile,
                          u32 top_keys) {
  Window window;
  float m[2];
  largest_scores<MASKED>(s, limit, m);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool any = bits(m[h]) != 0xFF800000u;
    float b = any ? multiply_add(m[h], ct, neg(OFFSET)) : 0.0f;
    window.any[h] = any, window.b[h] = b;
    window.moves[h] = any && b > add(row[h].reference, HEADROOM);
    if constexpr (MODE == SHIFTED) {
      const u32 lane_column = 2 * (threadIdx.x & 3);
      int key = BLOCK;
#pragma unroll
      for (int i = 15; i >= 0; --i) {
        const int column = 8 * (i >> 1) + lane_column + (i & 1);
        if (s[4 * (i >> 1) + 2 * h + (i & 1)] == m[h] && (!MASKED || column <= limit[h])) key = column;
      }
      key = min(key, __shfl_xor_sync(~0u, key, 1));
      key = min(key, __shfl_xor_sync(~0u, key, 2));
      if (any && b > row[h].top) store_shared(top_keys + 32 * h, tile * BLOCK + key);
    }
    if (any) row[h].top = maximum(row[h].top, b);
  }
  return window;
}

// Moves the references that a window exceeds, and what is summed under them.
// Up to D = 128 in one branch for both rows: a factor of 1 keeps every bit of a row that does not move.
INLINE void move_references(const Window& window, RowState (&row)[2], float (&o)[D / 2]) {
  constexpr bool ONE_BRANCH = D <= 128;
  if (ONE_BRANCH && !window.moves[0] && !window.moves[1]) return;
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (ONE_BRANCH || window.moves[h]) {
      const float next = window.moves[h] ? ceiling(window.b[h]) : row[h].reference;
      const float factor = window.moves[h] ? pow2(to_int(sub(row[h].reference, next))) : 1.0f;
      row[h].reference = next;
      row[h].sum = mul(row[h].sum, factor);
      row[h].codes_sum = mul(row[h].codes_sum, factor);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        o[4 * j + 2 * h] = mul(o[4 * j + 2 * h], factor);
        o[4 * j + 2 * h + 1] = mul(o[4 * j + 2 * h + 1], factor);
      }
    }
}

// Steps 3 and 4: scores become codes; l grows; beta goes to the window.
template <bool MASKED>
INLINE void close_window(Window& window, float (&s)[32], u32 (&codes)[8], RowState (&row)[2], float ct,
                         const int (&limit)[2]) {
  const u32 lane_column = 2 * (threadIdx.x & 3);
#pragma unroll
  for (int h = 0; h < 2; ++h)
    window.weight[h] = window.any[h] ? ex2(sub(window.b[h], row[h].reference)) : 0.0f;
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bool hidden = MASKED && (int)(8 * j + lane_column + (i & 1)) > limit[i >> 1];
      s[4 * j + i] = hidden ? 0.0f : ex2(multiply_add(s[4 * j + i], ct, neg(window.b[i >> 1])));
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float even = s[2 * h], odd = s[2 * h + 1];
#pragma unroll
    for (int j = 1; j < 8; ++j) even = add(even, s[4 * j + 2 * h]), odd = add(odd, s[4 * j + 2 * h + 1]);
    row[h].sum = multiply_add(add(even, odd), window.weight[h], row[h].sum);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      float* x = &s[8 * g + 2 * h];
      codes[4 * (g >> 1) + 2 * (g & 1) + h] = pack16(to_e4m3x2(x[0], x[1]), to_e4m3x2(x[4], x[5]));
    }
  }
}
