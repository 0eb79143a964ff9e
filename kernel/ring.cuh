// Places of a ring in shared memory: one for each stage, taken in order.
#pragma once

// A place, and the parity of the turn in which it is filled.
template <int STAGES>
struct Ring {
  u32 slot = 0, parity = 0;

  INLINE void next() {
    if (++slot == STAGES) slot = 0, parity ^= 1;
  }
};
