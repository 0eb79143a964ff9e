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

// Which head and which blocks of 64 queries each CTA of F and B takes: of `heads` heads, head_step apart from first_bh
// on, the blocks of 128 queries [first_block, first_block + blocks). Heads first, and of blocks the latest ones, which
// see most. A CTA asks by its index: unsigned where it is blockIdx.x.
struct QuerySchedule {
  int first_bh, head_step, heads, first_block, blocks;
  int groups;  // consumer warpgroups of a CTA, a block of 64 each

  template <class INDEX>
  INLINE int local_head(INDEX index) const { return index % heads; }
  INLINE int head(int local) const { return first_bh + local * head_step; }
  // The first of a CTA's blocks of 64, of the schedule's.
  INLINE int local_block(int index) const {
    return ((2 * blocks + groups - 1) / groups - 1 - index / heads) * groups;
  }
  // The last CTA of a head may have fewer blocks than warpgroups.
  INLINE int count(int local_block) const { return Path<D>::GROUPS == 2 ? 2 : min(groups, 2 * blocks - local_block); }
};

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

// What a CTA of F or B takes: `blocks` blocks of 64 queries of a head from `block` on, and the tiles that the last sees.
struct QueryTask {
  int bh, block, blocks, kv, tiles;
};

// Which kv head and which 128 keys each task of G takes, of all that a stripe's heads read; `repeat` of them read one.
struct KeySchedule {
  int repeat, first_bh, head_step, end_bh;
  int first_kv, kv_in_stripe;

  INLINE int kv(int task) const { return first_kv + task % kv_in_stripe; }
  INLINE int key_block(int task) const { return task / kv_in_stripe; }
  // The stripe's heads that read a kv head: with a step of a group it has one of each.
  INLINE int begin(int kv) const { return head_step > 1 ? kv * repeat + first_bh % repeat : max(first_bh, kv * repeat); }
  INLINE int end(int kv, int begin) const { return head_step > 1 ? begin + 1 : min(end_bh, (kv + 1) * repeat); }
};

// What a CTA of G takes: 128 keys of a kv head, of the stripe's heads that read it and of its windows of 64 queries
// those that see one of the keys; with SPLIT one of the two products.
struct KeyTask {
  int product, kv, key_block, bh0, bh1, window0, window1;
};

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
