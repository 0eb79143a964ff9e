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

// Sum of max(0, min(y, most)) over y < x.
INLINE i64 staircase(i64 x, i64 most) {
  const i64 rise = x < 0 ? 0 : (x < most ? x : most);
  return rise * (rise - 1) / 2 + (x > most ? most * (x - most) : 0);
}

// Records of a head that come before those of its block of 64 queries `block`: one for each tile that a block
// sees (`records_before` of stripes.py).
INLINE i64 records_before(int block, int nq, int nk) {
  const i64 most = (nk + BLOCK - 1) / BLOCK;
  if constexpr (!CAUSAL) return block * most;
  const int first = 1 + ((nk - nq + BLOCK - 1) >> 6);  // tiles that block 0 sees, or would below 0
  return staircase((i64)block + first, most) - staircase(first, most);
}

// Where the records of a stripe's blocks lie: heads of the stripe in order, then blocks.
struct RecordPlaces {
  i64 before, head;  // records of a whole head before the stripe's first block; of a head in the stripe

  INLINE RecordPlaces(int first_block, int blocks, int nq, int nk)
      : before(records_before(2 * first_block, nq, nk)),
        head(records_before(2 * (first_block + blocks), nq, nk) - before) {}
  INLINE i64 of(int local_head, int block, int nq, int nk) const {
    return local_head * head + records_before(block, nq, nk) - before;
  }
};
