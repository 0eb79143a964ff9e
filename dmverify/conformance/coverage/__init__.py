"""Which combinations of shape, values and contract a list of cases meets, and the frozen design.

| module | |
|---|---|
| factors | what a case is counted by, each factor with its levels |
| count | which pairs and triples of levels a list of cases covers, computed from the ids |
| rows | the frozen rows that give the variants of the families their shapes |
| needs | what a variant asks of a shape, for its point to remain |
| summary | what a level covers and what not, for ``dmverify list coverage`` |
| kinds | kinds of values that smoke has under every level of a few factors |
| levels, space, tally | rows as arrays, for the program that made them (``lab.coverage``) |
"""
