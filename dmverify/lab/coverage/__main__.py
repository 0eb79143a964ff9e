"""Makes the frozen rows anew: ``python -m dmverify.conformance.coverage > rows.csv``.

For a change of factors, needs or families. Recordings name cases, so a new table makes old
recordings speak of cases that no level has any more.
"""

from __future__ import annotations

import sys
from functools import partial

from dmverify.conformance.coverage.space import spaces
from dmverify.lab.coverage.design import search
from dmverify.lab.coverage.freeze import frozen

SEED = 0

if __name__ == "__main__":
    made = search(SEED, partial(print, file=sys.stderr, flush=True))
    sys.stdout.write(frozen(made, spaces()))
