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

// First 64-row query block in which a row sees a key of 64-key block `tile`.
INLINE int first_query_block(int tile, int nq, int nk) {
  if constexpr (!CAUSAL) return 0;
  int row = tile * BLOCK - (nk - nq);
  return row <= 0 ? 0 : row / BLOCK;
}
