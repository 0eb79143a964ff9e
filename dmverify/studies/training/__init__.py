"""Small language models, several seeds of one side by side, trained with simulated or real FP8.

| module | holds |
|---|---|
| setting | sizes of a model and how it is trained, as data |
| recipe | how attention computes: formats, scales, delta, casts, interventions, as data |
| casts, attention | the arithmetic of a recipe, forward and backward |
| model, optimiser | a transformer and AdamW, with a leading axis for seeds |
| corpus | texts that ship with Python, by a fixed rule, with a digest |
| watch | what is recorded while a model trains |
| runs | one run, its checkpoint, its record; many runs within a time |

This is the only part of the studies that imports torch.
"""
