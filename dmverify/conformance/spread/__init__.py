"""One run of ``verify`` in parts: cases over the workers of a cluster, shards of a CI matrix.

| module | says |
|---|---|
| ``plan`` | what a run asks of a kernel, as plain data: the same for every part |
| ``findings_file`` | what was found, case after case, in a file that a later run goes on with |
| ``block`` | some cases, judged by a worker: the only code that runs there |
| ``in_order`` | blocks to workers, findings back in the order of the cases; lost blocks again |
| ``lengths`` | which cases are given out first, since they take longest |
| ``process_workers`` | workers that are processes of this machine |
| ``ray_workers`` | workers of a Ray cluster, placed by CPU and GPU |
| ``run``, ``merge`` | the part of ``verify`` that this is, and the report of all shards |

Why the report is that of one process: a case's findings depend on the case and the kernel, and on
nothing that was judged before it, with one exception: checks about the kernel (``Check.once``)
belong to the first case that is served, which ``in_order`` and ``merge`` see to. A kernel that
remembers what it was asked is another kernel in every part, here as under ``pytest -n``.
"""

from dmverify.conformance.spread.plan import Spread

__all__ = ["Spread"]
