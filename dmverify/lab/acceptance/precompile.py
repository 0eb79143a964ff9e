"""``dmverify lab precompile [ROUNDS ...]``: fills the build cache.

All that the acceptance builds, on a machine without a GPU, into ``$DMVERIFY_CACHE``: the folder can
be carried to the GPU. Rounds: ``default``, ``dump``, ``flags``, ``faults``, ``ways``; without any,
all. ``default`` under another NVRTC makes the builds of ``nvrtc-other``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dmverify.conformance.kernels.certify import FLAG_SETS, all_variants
from dmverify.kernel.build import build, cache_directory
from dmverify.lab.acceptance.flag_sets import FAULT_SUBJECTS, Job, variants_in_use
from dmverify.lab.acceptance.sanitizer import jobs_of_ways
from dmverify.lab.acceptance.seeded import SEEDED

ROUNDS = ("default", "dump", "flags", "faults", "ways")


def jobs(name: str) -> list[Job]:
    """What one round builds: variant, compiler, flags, edits."""
    if name == "default":
        return [(v, "nvrtc", (), ()) for v in all_variants()]
    if name == "dump":
        inside = [v for v in all_variants() if v.kernel in ("forward", "query")]
        return [(replace(v, dump=True), "nvrtc", (), ()) for v in inside]
    if name == "flags":
        sets = [s for s in FLAG_SETS.values() if s.compiler != "nvrtc-other"]
        return [(v, s.compiler, s.flags, ()) for s in sets for v in variants_in_use()]
    if name == "faults":
        used = variants_in_use(FAULT_SUBJECTS)
        return [(v, "nvrtc", (), edits) for edits in SEEDED.values() for v in used]
    return jobs_of_ways()


def precompile(rounds: Sequence[str] = ()) -> Iterator[str]:
    """Builds one round after the other; what is in the cache is not built again."""
    for name in rounds or ROUNDS:
        todo = jobs(name)
        for variant, compiler, flags, edits in todo:
            build(variant, compiler=compiler, flags=flags, edits=edits)
        yield f"{name}: {len(todo)} builds in {cache_directory()}"
