"""Attacks: inputs on which a kernel is farthest from attention, found, shrunk and explained.

| part | says |
|---|---|
| stack | many candidate inputs of one problem side by side |
| reference | exact attention of each, on its inputs or on what the kernel makes of them |
| objective | how far an answer is, in units that cannot vanish |
| limits | which inputs are allowed, and how others are brought back |
| engines | ways to find worse ones |
| search | rounds of engines, seeds, checkpoints |
| wide | the float interpretation on a GPU, in large stacks |
| first_order | how much error the roundings could make along a direction: an estimate |
| shrink, explain | the smallest input that keeps the effect, and which rounding carries it |
"""
