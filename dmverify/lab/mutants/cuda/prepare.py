"""Everything the mutants need that needs no GPU: the cubins, and what order their code lacks.

Both go to the build cache (``$DMVERIFY_CACHE``), which can be carried to the machine with the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dmverify.lab.mutants.catalogue import Mutant
from dmverify.lab.mutants.cuda.builds import builds, delayed_builds
from dmverify.lab.mutants.cuda.mutation import ORDER
from dmverify.lab.mutants.cuda.ordering import lacks_order


def prepare(mutants: Sequence[Mutant], *, progress: Callable[[str], None]) -> None:
    """Compiles every wrong kernel, and the correct one beside it.

    Args:
        mutants: Rows of the catalogue.
        progress: Called with the id of each mutant.
    """
    for mutant in mutants:
        progress(mutant.id)
        for _ in (*builds(mutant), *delayed_builds(mutant)):
            pass
        if mutant.check == ORDER:
            lacks_order(mutant)
