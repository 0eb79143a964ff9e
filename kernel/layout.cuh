// Where every byte lies: operand images, swizzles, the two token permutations, code records.
//
// Images are written by the quantiser exactly as the tensor core reads them, so that one-dimensional
// bulk copies suffice. All images are cut into blocks of 64 tokens.
//   rows image      [64 tokens][D]: rows of min(D, 128) bytes; D = 256 has two panels of 128 channels
//   channels image  [D (+ 8)][64 tokens]: rows of 64 bytes, tokens permuted inside groups of 16
// Rows of 128 bytes use the 128-byte swizzle, rows of 64 bytes the 64-byte swizzle.
// A code record holds one 64 x 64 tile that some query sees: P^T [64 keys][64 queries], dS^T likewise, then 32 bytes of scales.
#pragma once

constexpr int D = HEAD_DIM;
constexpr int SHARED_LIMIT = 232448;  // dynamic shared memory of one CTA
constexpr int GROUP_WARPS = 4;  // of a consumer warpgroup: each arrives once on what it frees
constexpr int BLOCK = 64;
constexpr int ROWS_IMAGE = BLOCK * D;
constexpr int CHANNELS_IMAGE = BLOCK * D;
// Delta modes, in the order of build.py.
constexpr int STALE = 0, CONSISTENT = 1, MATCHED = 2, RENORMALIZED = 3, SHIFTED = 4, ASSOCIATED = 5;

constexpr bool KEEPS_EXACT = MODE == ASSOCIATED || DUMP;  // F also stores (R, rcp(lh)) and O as fp32

constexpr int ONES_ROWS = 8;  // under V^T: one row of ones, seven of zeros
constexpr int VALUES_IMAGE = BLOCK * (D + ONES_ROWS);
constexpr int TILE_CODES = BLOCK * BLOCK;
constexpr int RECORD = 2 * TILE_CODES + 32;
constexpr int RECORD_SLOT = 2 * TILE_CODES + 512;  // keeps the next slot on a swizzle boundary

// Byte of 16-byte chunk `chunk` of row `row`, inside an image with 128- or 64-byte rows.
INLINE u32 swizzle128(u32 row, u32 chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }
INLINE u32 swizzle64(u32 row, u32 chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

// Byte of the 16-byte chunk `chunk` of a token's D codes, inside a rows image.
INLINE u32 rows_chunk(u32 token, u32 chunk) {
  if constexpr (D == 64) return swizzle64(token, chunk);
  return (chunk >> 3) * (BLOCK * 128) + swizzle128(token, chunk & 7);
}

// Byte offset of contraction step `k` (32 channels) in a rows image.
constexpr INLINE u32 rows_step(int k) { return D == 256 ? (k >> 2) * (BLOCK * 128) + (k & 3) * 32 : k * 32; }

// Tokens in slot order inside a group of 16. KEYS: what an accumulator row holds when it becomes an A
// fragment. QUERIES: what stmatrix.trans of (row g, row g + 8) pairs writes.
struct KeyOrder {
  static constexpr INLINE int token(int slot) { return 2 * (slot >> 2) + (slot & 1) + 8 * ((slot >> 1) & 1); }
};
struct QueryOrder {
  static constexpr INLINE int token(int slot) { return (slot >> 1) + 8 * (slot & 1); }
};
