"""Everything the faults need that needs no GPU: the cubins, and what order their code lacks.

Both go to the build cache (``$DMVERIFY_CACHE``), which can be carried to the machine with the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dmverify.lab.mutants.cuda.builds import builds, delayed_builds
from dmverify.lab.mutants.cuda.fault import ORDER, CudaFault
from dmverify.lab.mutants.cuda.ordering import lacks_order


def prepare(faults: Sequence[CudaFault], *, progress: Callable[[str], None]) -> None:
    """Compiles every faulty kernel, and the correct one beside it.

    Args:
        faults: Rows of the table.
        progress: Called with the id of each fault.
    """
    for fault in faults:
        progress(fault.id)
        for _ in (*builds(fault), *delayed_builds(fault)):
            pass
        if fault.check == ORDER:
            lacks_order(fault)
