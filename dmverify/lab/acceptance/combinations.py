"""Stage ``combinations``: every combination of the plan, bit for bit.

Each case runs twice, once with poisoned buffers and its own stripe size, once as a user would run
it; both must give the same bits, and those of the specification. A case that an earlier run passed
with the same source is not repeated.
"""

from __future__ import annotations

import json
import shutil
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled import Bundled
from dmverify.conformance.kernels.bundled_launch import Choices, launch, options_of, place
from dmverify.conformance.kernels.certify import source_hash
from dmverify.lab.acceptance.judge import Judged, judge
from dmverify.lab.acceptance.plan import TAILS, Combination, combinations
from dmverify.lab.acceptance.poison import poisoned
from dmverify.lab.acceptance.session import Session
from dmverify.lab.recordings.digests import Digests, digest_of, save_digests
from dmverify.lab.recordings.make import record_tails, save_answers, small_ones
from dmverify.lab.recordings.shipped import ANSWERS, DIGESTS
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Key, Provenance

LOG = "combinations.jsonl"


def run(session: Session) -> dict[str, Any]:
    """Runs what is not done yet and sums up all that is."""
    kernel = Bundled()
    known = _known(session)
    pending: list[tuple[Combination, bool, Future[Judged]]] = []
    answers: dict[Key, Outputs] = {}
    for item in combinations():
        if session.over:
            break
        if (item.case, item.contract) in known:
            continue
        case = generate(item.case, contract=item.contract)
        kernel.count(case.contract, case.problem)
        outputs, same = twice(case, item.units)
        answers[item.case, item.contract] = outputs
        future = session.pool.submit(judge, item.case, item.contract, outputs)
        pending.append((item, same, future))
    with (session.folder / LOG).open("a") as log:
        for item, same, future in pending:
            judged = future.result()
            row = asdict(judged) | {"same": same, "units": item.units, "source": source_hash()}
            log.write(json.dumps(row) + "\n")
            known[item.case, item.contract] = row
    return _sum_up(session, kernel.info, known, answers)


def twice(case: Case, units: int) -> tuple[Outputs, bool]:
    """Outputs of a poisoned run, and whether a plain run gives the same bits."""
    tensors, options = place(case), options_of(case, Choices())
    with poisoned():
        first = launch(tensors, options, units=units).outputs()
    second = launch(tensors, options).outputs()
    return first, digest_of(first) == digest_of(second)


def record_long(session: Session) -> dict[str, Any]:
    """Stage ``tails``: runs the long cases and saves their last queries."""
    record_tails(Bundled(), session.folder, long=TAILS)
    return {"ok": True, "cases": len(TAILS)}


def _known(session: Session) -> dict[tuple[str, str], dict[str, Any]]:
    path = session.folder / LOG
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    rows = [row for row in rows if row["source"] == source_hash() and not row["wrong"]]
    return {(row["case"], row["contract"]): row for row in rows}


def _sum_up(
    session: Session,
    producer: Provenance,
    known: dict[tuple[str, str], dict[str, Any]],
    answers: dict[Key, Outputs],
) -> dict[str, Any]:
    rows = list(known.values())
    wrong = [row for row in rows if row["wrong"]]
    unequal = [row for row in rows if not row["same"]]
    refused = [row for row in rows if row["refused"]]
    clean = {key: row["digests"] for key, row in known.items() if not row["refused"]}
    inputs = {key: row["inputs"] for key, row in known.items() if key in clean}
    shutil.rmtree(session.folder / DIGESTS, ignore_errors=True)  # of an earlier run of the stage
    save_digests(Digests(producer, clean, inputs), session.folder / DIGESTS)
    if answers and not (session.folder / ANSWERS).exists():
        save_answers(producer, small_ones(answers), session.folder / ANSWERS)
    return {
        "ok": not wrong and not unequal and len(rows) == len(combinations()),
        "planned": len(combinations()),
        "run": len(rows),
        "equal": len(rows) - len(wrong) - len(refused),
        "refused": [(row["case"], row["refused"]) for row in refused],
        "values": sum(row["values"] for row in rows),
        "wrong": [{k: row[k] for k in ("case", "contract", "wrong", "first")} for row in wrong],
        "not repeated": [(row["case"], row["contract"]) for row in unequal],
        "producer": asdict(producer),
    }
