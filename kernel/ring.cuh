// Rings of places in shared memory: one for each stage, filled and freed in order.
#pragma once

// A place, and the parity of the turn in which it is filled.
template <int STAGES>
struct Stage {
  u32 slot = 0, parity = 0;

  INLINE void next() {
    if (++slot == STAGES) slot = 0, parity ^= 1;
  }
};

// The mbarriers of a ring, 8 bytes a place: what was asked for has arrived, all readers are done.
template <int STAGES>
struct Ring {
  static constexpr u32 BYTES = 8 * STAGES;  // of one row of barriers
  using At = Stage<STAGES>;
  u32 full, empty;

  // The producer's side: waits until a place is free, says what will arrive, and has it arrive on `filled`.
  INLINE void await_free(const At& at) const { barrier_wait(empty + 8 * at.slot, at.parity ^ 1); }
  INLINE void expect(const At& at, u32 bytes) const { barrier_expect(full + 8 * at.slot, bytes); }
  INLINE u32 filled(const At& at) const { return full + 8 * at.slot; }

  // A reader's side: waits for the bytes, and after use gives the place back, once a warp. `after` is a 0 that was
  // loaded from the place: it is kept until the load is done.
  INLINE void await_filled(const At& at) const { barrier_wait(full + 8 * at.slot, at.parity); }
  INLINE void release(const At& at, u32 after = 0) const { warp_arrive(empty + 8 * at.slot + after); }
};

// One thread, before all others: rings whose places `readers` warps give back.
template <int STAGES, class... RINGS>
INLINE void init_rings(int readers, const RINGS&... rings) {
  for (int i = 0; i < STAGES; ++i) {
    (barrier_init(rings.full + 8 * i, 1), ...);
    (barrier_init(rings.empty + 8 * i, readers), ...);
  }
}
