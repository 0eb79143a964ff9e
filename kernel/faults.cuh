// Seeded faults: FAULT = 0 is the kernel; every other number is one deliberate mistake, compiled in, so that
// a conformance suite can be tried on real wrong kernels.
#pragma once

constexpr bool FAULT_VALUE_SCALE_DROPPED = FAULT == 1;    // F: beta without sV
constexpr bool FAULT_MASK_ONE_FURTHER = FAULT == 2;       // every mask: one key too many
constexpr bool FAULT_MASK_TOP_LEFT = FAULT == 3;          // every mask: Nk - Nq ignored
constexpr bool FAULT_RESCALE_SKIPPED = FAULT == 4;        // F: O keeps its old reference
constexpr bool FAULT_DELTA_SIGN = FAULT == 5;             // B: delta added
constexpr bool FAULT_FRAGMENTS_SWAPPED = FAULT == 6;      // B: dS rows g and g + 8 exchanged for dQ
constexpr bool FAULT_NEIGHBOUR_TILE_SCALE = FAULT == 7;   // B: kP of the tile before, in the weights only
constexpr bool FAULT_PROXY_FENCE_MISSING = FAULT == 8;    // B: records stored before they are written
constexpr bool FAULT_LAST_WINDOW_LOST = FAULT == 9;       // G: the last query window is skipped
constexpr bool FAULT_KEY_MEAN_SKIPPED = FAULT == 10;      // quantiser: K is not centred
