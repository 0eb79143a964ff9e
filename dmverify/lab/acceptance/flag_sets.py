"""Stage ``flags``: builds by other compilers and flags give the same bits, seeded faults do not.

The faults are those of ``seeded``; the stage fails if the bits of one are those of the kernel on
every subject. The certificate is written from what ran.
"""

from __future__ import annotations

import json
from typing import Any

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled import machine
from dmverify.conformance.kernels.bundled_launch import Choices, launch, options_of, place
from dmverify.conformance.kernels.certify import (
    FLAG_SETS,
    Certificate,
    FlagSet,
    all_variants,
    build_codes,
    label,
    load_certificate,
    machine_code,
    save_certificate,
    source_hash,
    variants_of,
)
from dmverify.errors import KernelError
from dmverify.kernel.build import VERSIONS, BuildVariant, Edits, build
from dmverify.kernel.errors import BuildError
from dmverify.lab.acceptance.seeded import RACES, SEEDED
from dmverify.lab.acceptance.session import Session
from dmverify.lab.recordings.digests import Digests, digest_of
from dmverify.spec.recording import Provenance

SUBJECTS: tuple[tuple[str, str], ...] = tuple(
    (f"gaussian/spread-4,heads=2,kv_heads=1,queries=200,keys=333,head_dim={d},causal={c}@0", name)
    for d, c, name in (
        (128, 1, "bundled"),
        (128, 0, "bundled:delta=associated,ds_cast=zero-sum"),
        (64, 1, "bundled:delta=shifted,ds_cast=zero-sum"),
        (64, 0, "bundled:delta=stale"),
        (256, 1, "bundled"),
        (256, 0, "bundled:delta=renormalized,ds_cast=zero-sum"),
    )
)
ENOUGH = 8  # flag sets, without which the stage shows too little
RISING = ("rows/rising,head_dim=128@0", "bundled")  # row maxima that rise: rescaling happens
FAULT_SUBJECTS = (*SUBJECTS[:2], RISING)


def run(session: Session) -> dict[str, Any]:
    """Every flag set on every subject, against the default build's hashes."""
    sets = {name: one for name, one in FLAG_SETS.items() if _at_hand(one)}
    compile_all(session, sets, variants_in_use())
    compile_faults(session)
    due = _digests(FLAG_SETS["default"], subjects=(*SUBJECTS, RISING))
    rows: list[dict[str, Any]] = []
    codes: dict[str, dict[str, str]] = {}
    for name, flag_set in sets.items():
        if session.over:
            break
        got = _digests(flag_set)
        differ = sum(got[key] != due[key] for key in got)
        rows.append({"flags": name, "cases": len(got), "differ": differ})
        if not differ:
            codes[name] = build_codes(flag_set, variants_in_use())
        session.log("flags", {"ok": False, "rows": rows})
    faults = _faults(session, due)
    certificate = _certificate(codes, due).after(load_certificate())
    save_certificate(certificate, session.folder / "certificate.json")
    good = len(rows) == len(sets) >= ENOUGH and not any(row["differ"] for row in rows)
    killed = all(row["differ"] or row["fault"] in RACES for row in faults)
    missing = sorted(FLAG_SETS.keys() - sets.keys())
    return {
        "ok": good and killed,
        "rows": rows,
        "not at hand": missing,
        "faults": faults,
        "bits": certificate.bits,
    }


def _at_hand(flag_set: FlagSet) -> bool:
    """Whether the compiler is on this machine, or has left its builds in the cache."""
    return not _compile((variants_in_use()[0], flag_set.compiler, flag_set.flags, ()))


def _faults(session: Session, due: dict[tuple[str, str], dict[str, str]]) -> list[dict[str, Any]]:
    """Every seeded fault: on how many subjects its bits differ."""
    rows = []
    for name, edits in SEEDED.items():
        if session.over:
            break
        got = _digests(FLAG_SETS["default"], subjects=FAULT_SUBJECTS, edits=edits)
        differ = sum(got[key] != due[key] for key in got)
        rows.append({"fault": name, "cases": len(got), "differ": differ})
    return rows


def variants_in_use(subjects: tuple[tuple[str, str], ...] = SUBJECTS) -> tuple[BuildVariant, ...]:
    """The variants that the subjects run."""
    found: dict[BuildVariant, None] = {}
    for case_id, contract in subjects:
        case = generate(case_id, contract=contract)
        found |= dict.fromkeys(variants_of(options_of(case, Choices()), case.problem.head_dim))
    return tuple(found)


def compile_default(session: Session) -> dict[str, Any]:
    """Stage ``build``: every variant of the default build, and what the assembler said."""
    variants = all_variants()
    compile_all(session, {"default": FLAG_SETS["default"]}, variants)
    made = {label(variant): build(variant) for variant in variants}
    spills = [name for name, one in made.items() if _spills(one.report)]
    codes = {name: machine_code(one.cubin) for name, one in made.items()}
    (session.folder / "codes.json").write_text(json.dumps(codes, indent=0))
    return {"ok": not spills, "variants": len(made), "spills": spills, "source": source_hash()}


def compile_all(session: Session, sets: Any, variants: tuple[BuildVariant, ...]) -> None:
    """Fills the cache, in all processes of the pool."""
    compile_jobs(session, [(v, s.compiler, s.flags, ()) for s in sets.values() for v in variants])


def compile_faults(session: Session) -> None:
    """Fills the cache with the faulty builds."""
    used = variants_in_use(FAULT_SUBJECTS)
    compile_jobs(session, [(v, "nvrtc", (), edits) for edits in SEEDED.values() for v in used])


Job = tuple[BuildVariant, str, tuple[str, ...], Edits]


def compile_jobs(session: Session, jobs: list[Job]) -> None:
    """Fills the cache with variants by compiler, flags and edits, in all processes of the pool.

    Raises:
        KernelError: If one does not compile.
    """
    for job, failure in zip(jobs, session.pool.map(_compile, jobs, chunksize=2), strict=True):
        if failure:
            raise KernelError(
                job, rule="every variant compiles with every set of flags", fix=failure
            )


def _compile(job: Job) -> str:
    """What went wrong, as text: the compiler's errors do not travel between processes."""
    variant, compiler, flags, edits = job
    try:
        build(variant, compiler=compiler, flags=flags, edits=edits)
    except BuildError as error:
        return str(error)
    return ""


def _spills(report: str) -> bool:
    return any(
        "spill" in line and "0 bytes spill stores, 0 bytes spill loads" not in line
        for line in report.splitlines()
    )


def _digests(
    flag_set: FlagSet, *, subjects: tuple[tuple[str, str], ...] = SUBJECTS, edits: Edits = ()
) -> dict[tuple[str, str], dict[str, str]]:
    found = {}
    for case_id, contract in subjects:
        case = generate(case_id, contract=contract)
        choices = Choices(compiler=flag_set.compiler, flags=flag_set.flags, edits=edits)
        found[case_id, contract] = digest_of(
            launch(place(case), options_of(case, choices)).outputs()
        )
    return found


def _certificate(
    codes: dict[str, dict[str, str]], due: dict[tuple[str, str], dict[str, str]]
) -> Certificate:
    default = build_codes(FLAG_SETS["default"], all_variants())
    return Certificate(
        source=source_hash(),
        device=machine()["device"],
        driver=machine()["driver"],
        compilers={name: VERSIONS[FLAG_SETS[name].compiler]() for name in codes},
        codes=codes | {"default": default},
        bits=Digests(Provenance("bundled"), due).sha256,
    )
