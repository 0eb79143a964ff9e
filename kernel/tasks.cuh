// Which tiles a block of rows sees, and in which order the blocks are taken.
//
// The causal mask is bottom-right: key <= row + (Nk - Nq). Work stops at the diagonal in steps of 64.
#pragma once

// The block's index, read afresh: what an epilogue derives from it need not rest in a register until then.
INLINE int block_index() {
  int i;
  asm volatile("mov.u32 %0, %ctaid.x;" : "=r"(i));
  return i;
}

// The first block of 64 queries that a CTA takes, of 2 * blocks in each of `heads`: the latest ones first.
INLINE int first_block_of(int index, int heads, int blocks, int groups) {
  return ((2 * blocks + groups - 1) / groups - 1 - index / heads) * groups;
}

// Number of leading 64-key tiles that hold a key visible to one of the 64 rows from `row`.
INLINE int visible_tiles(int row, int nq, int nk) {
  int last = nk;
  if constexpr (CAUSAL) last = min(nk, row + BLOCK + nk - nq);
  return last <= 0 ? 0 : (last + BLOCK - 1) / BLOCK;
}

// Largest key of tile `tile` that `row` may see, relative to the tile's first key (>= 63: all of them).
INLINE int visible_limit(int row, int tile, int nq, int nk) {
  int last = nk - 1;
  if constexpr (CAUSAL) last = min(last, row + (nk - nq));
  return last - tile * BLOCK;
}

// Number of leading tiles that every row from `row` sees whole: no mask is needed there.
INLINE int whole_tiles(int row, int nq, int nk) {
  int keys = nk;
  if constexpr (CAUSAL) keys = min(nk, row + 1 + nk - nq);
  return keys <= 0 ? 0 : keys / BLOCK;
}

// First 64-row query block in which a row sees a key of 64-key block `tile`.
INLINE int first_query_block(int tile, int nq, int nk) {
  if constexpr (!CAUSAL) return 0;
  int row = tile * BLOCK - (nk - nq);
  return row <= 0 ? 0 : row / BLOCK;
}
