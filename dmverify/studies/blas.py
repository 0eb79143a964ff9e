"""One BLAS thread while a study runs.

The order in which a matrix product is summed must not depend on how many cores the machine has, or
the round-off figures would; and the studies keep the cores busy with runs side by side instead.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


def one_blas_thread() -> AbstractContextManager[object]:
    """Limits BLAS to one thread inside the block."""
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits
