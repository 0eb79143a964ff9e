"""The cases that hunt the seeded faults: the families' own, cut to the sizes that show the fault.

A head of up to 128 queries and keys is the smallest piece of work (operands are padded to it), so
most cases are one such head.
"""

from __future__ import annotations

ONE = ",heads=1,queries=120,keys=120@0"
PAIR = ",heads=2,kv_heads=1,queries=60,keys=60@0"
FOUR = ",batch=1,heads=4,kv_heads=2,queries=60,keys=60@0"

GAUSSIAN = f"gaussian/spread-2{ONE}"
GAUSSIAN_FULL = "gaussian/spread-2,heads=1,queries=120,keys=100,causal=0@0"
WIDE = f"gaussian/spread-8{ONE}"
GROUPED = f"gaussian/spread-2{PAIR}"
FOUR_HEADS = f"gaussian/spread-2{FOUR}"
TWO_BATCHES = "gaussian/spread-2,batch=2,heads=1,queries=60,keys=60@0"
ONE_WINDOW = "gaussian/spread-1,heads=1,queries=60,keys=60@0"
V_OFFSET = f"offset/v-4{ONE}"
V_OFFSET_FAR = f"offset/v-64{ONE}"
K_OFFSET = f"offset/k-16{ONE}"
CONSTANT_V = f"constant-v/third{ONE}"
POSITIVE = "positive-v/short,heads=1,queries=60,keys=320@0"
# Codes of V in one binade and P nearly uniform: nothing is lost within a window, whatever the order
# of the keys, so that bounds see what is lost between windows.
FLAT_OFFSET = "offset/v-16,heads=1,queries=60,keys=1088,softmax_scale=0.0125@0"
RISING = f"rows/rising{ONE}"
RISING_SLOWLY = f"rows/rising-slowly{ONE}"
ZIGZAG = f"rows/zigzag{ONE}"
GAP = f"rows/gap-8{ONE}"
LARGE_LOGITS = f"logit-size/logits-1e3{ONE}"
# Only a row whose visible logits are all very low shows a finite sentinel: the first rows of
# several heads, since one head has such a row for some seeds only.
HUGE_LOGITS = "logit-size/logits-1e5,heads=8,kv_heads=8,queries=60,keys=60@0"
NEGATIVE_SCALE = f"logit-size/negative-scale{ONE}"
DISTINCT = f"distinct-scales/thirds{ONE}"
DISTINCT_HEADS = "distinct-scales/thirds,heads=2,kv_heads=2,queries=120,keys=120@0"
DISTINCT_QUERIES = "distinct-scales/thirds,heads=1,queries=200,keys=64,causal=0@0"
ZERO_V = f"zero-blocks/v-first{ONE}"
# With sharp rows delta is large where dP is 0: delta alone decides the range of dS there.
ZERO_V_SHARP = f"{ZERO_V[:-2]},softmax_scale=0.3@0"
MORE_KEYS = "lengths/q17-k129,heads=1,queries=17,keys=100@0"
MORE_QUERIES = "lengths/q129-k17,heads=1,queries=100,keys=17@0"
NAN_V = f"special/v-nan{ONE}"
INF_V = f"special/v-inf{ONE}"
NEGATIVE_ZEROS = f"{MORE_QUERIES[:-2]},softmax_scale=-0.125@0"
TINY_DO = f"tiny-amax/do-2^-120{ONE}"
STRIDED = "layout/heads-first,heads=2,kv_heads=2,queries=60,keys=60@0"
NEAR_TIES = "rounding/quotient-near-ties@0"
OFF_TIES = "rounding/quotient-ties@0"
TIES_DS = "cast-ties/ds@0"
TIES_P = "cast-ties/p@0"
LAST_ROW = "deciding/spikes,heads=2,kv_heads=1@0"
LAST_LEVEL = "deciding/shift-level,heads=2@0"
LAST_DELTA = "deciding/delta-level,heads=2@0"
