"""What cannot be repeated here, and why: figures of arXiv 2609.37852, by its article."""

from __future__ import annotations

CHECKPOINT = "the trained checkpoints are not public"
RUNS = "training runs of billions of tokens on many GPUs"
KERNEL = "the authors' kernel is not available here"
SEED = "the row's seed is not given"

# Section, figure, as published, why it is out of reach.
BEYOND: tuple[tuple[str, str, str, str], ...] = (
    ("table 9", "stale residual, 1.67B, layers 3 to 19", "1.1e-2", CHECKPOINT),
    ("table 9", "consistent", "2.5e-3", CHECKPOINT),
    ("table 9", "matched", "1.4e-7", CHECKPOINT),
    ("table 9", "after the cast: stale, consistent, matched", "1.2e-2, 3.9e-3, 2.7e-3", CHECKPOINT),
    ("table 9", "stale, last layer", "4.7e-2", CHECKPOINT),
    ("training", "1.67B hybrid, 30B tokens: stale", "+0.479", RUNS),
    ("training", "cuDNN / Transformer Engine FP8", "+0.193", RUNS),
    ("training", "consistent", "+0.049", RUNS),
    ("training", "matched", "-0.002", RUNS),
    ("training", "0.569B: stale", "+0.017", RUNS),
    ("training", "5.29B: stale", "about +0.6", RUNS),
    ("training", "head dim 256: stale", "+0.6574", RUNS),
    ("training", "no positional encoding: stale", "+0.2362", RUNS),
    ("training", "dP in BF16 keeps quality, changes dynamics", "yes", RUNS),
    ("figure 4", "entropy of a sharpened row", "1.93 against 2.54", CHECKPOINT),
    ("figure 4", "entropy of a flattened row", "3.16 against 2.58", CHECKPOINT),
    ("figure 4", "favoured channels", "7, 8, 23, 24; key gain to 5.5", CHECKPOINT),
    ("figure 5", "0.569B: gains; loss stale, BF16, matched", "0 to 1.7; 1.57, 1.54, 1.54", RUNS),
    ("figure 5", "5.29B: gain; loss stale, BF16, matched", "about 11; 1.99, 1.35, 1.35", RUNS),
    ("gains", "share of a few channels, 5.29B", "> 99 %", RUNS),
    ("after the cast", "stale / matched, figures 4 and 5", "5.3 to 6.3", CHECKPOINT),
    ("kernel", "speed against cuDNN BF16 and FlashAttention-3", "between the two", KERNEL),
    ("kernel", "outputs are deterministic", "yes", KERNEL),
    ("worked row", "delta 1.5310; row sum -3.18e-2, 3.06 %", "one row", SEED),
)
