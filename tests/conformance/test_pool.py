"""References made ahead: the same report, few cases in memory, and a worker's end is one case's."""

import json
import sys
from functools import partial

import pytest

import dmverify
from dmverify.conformance import pool as module
from dmverify.conformance import sizes
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.pool import AHEAD, Pool, in_order
from dmverify.conformance.references import make
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError
from dmverify.lab.mutants.cheats import Specification
from dmverify.lab.mutants.numeric import zeros

CASES = (
    "lengths/n2@0",
    "lengths/q17-k129@0",
    "lengths/no-keys@0",
    "gaussian/spread-2,queries=20,keys=70@0",
    "special/v-inf,queries=65,keys=65@0",
)


@pytest.mark.parametrize(
    ("make", "contract"),
    [
        (Simulation, None),
        (lambda: zeros, None),
        (Specification, "bundled"),
    ],
)
def test_the_report_is_the_same_byte_for_byte(make, contract):
    texts = [
        json.dumps(dmverify.verify(make(), contract, cases=CASES, jobs=n).to_json()) for n in (1, 3)
    ]
    assert texts[0] == texts[1]


def test_few_cases_are_taken_ahead_and_none_is_kept():
    taken, seen = [], []

    def cases():
        for n in range(12):
            taken.append(n)
            yield generate(f"lengths/n2@{n}", contract="article")

    with Pool(2) as pool:
        how = How((CHECKS["o"],), ignore, pool=pool)
        for finding in judge_cases(Simulation(), cases(), how):
            assert finding.verdict is Verdict.CONFORMS
            seen.append(finding)
            assert len(taken) - len(seen) <= AHEAD * pool.jobs
    assert len(seen) == 12


def test_no_case_is_taken_while_a_large_one_waits(monkeypatch):
    """And it is judged like the others, in its place, by bands that are made here."""
    monkeypatch.setattr(sizes, "LARGE", 10_000)
    taken, seen = [], []

    def cases():
        for queries in (2, 3, 200, 4, 5, 201, 202, 6):
            taken.append(queries)
            yield generate(f"gaussian/spread-1,queries={queries},keys=3@0", contract="article")

    with Pool(2) as pool:
        how = How((CHECKS["o"],), ignore, pool=pool)
        for finding in judge_cases(Simulation(), cases(), how):
            assert finding.verdict is Verdict.CONFORMS
            seen.append(finding.case)
            waits = [queries for queries in taken[len(seen) - 1 :] if queries >= 200]
            assert not waits or taken[-1] == waits[0]
    assert [int(case.split("queries=")[1].split(",")[0]) for case in seen] == taken
    assert len(taken) == 8


DIES = """
import os, sys
from dmverify.conformance import pool, references
make = references.make
def dies(case, names, *, use_bits):
    if case.problem.queries == 2:
        os._exit(7)
    return make(case, names, use_bits=use_bits)
references.make = dies
pool.serve(sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_worker_that_dies_costs_its_case_and_no_other(jobs, monkeypatch):
    monkeypatch.setattr(module, "WORKER", (sys.executable, "-c", DIES))
    rows = tuple(CHECKS[name] for name in ("o", "format"))
    cases = [generate(text, contract="article") for text in (CASES[1], CASES[0], CASES[1])]
    with Pool(jobs) as pool:
        found = list(judge_cases(Simulation(), cases, How(rows, ignore, pool=pool)))
    said = {(f.case, f.check): f for f in found}
    broken = said[CASES[0], "o"]
    assert broken.verdict is Verdict.ERROR
    assert "[DMV-WORKER] got a worker that ended with code 7 at lengths/n2@0" in broken.reason
    good = [f.verdict for f in found if f is not broken]
    assert good == [Verdict.CONFORMS] * 5


def test_what_a_worker_cannot_make_is_tried_here_and_says_why():
    case = generate("lengths/n2@0", contract="article")
    with Pool(1) as pool:
        assert pool.submit(bands(case, "bits"), what="")() == {}
        assert pool.submit(bands(case), what="")().keys() == {"bands"}
        with pytest.raises(InputError, match="id"):
            pool.submit(partial(generate, "no id"), what="")()


def bands(case, name="bands"):
    return partial(make, case, (name,), use_bits=True)


def test_results_come_in_their_order():
    calls = [(str(n), partial(pow, 2, n)) for n in range(30)]
    with Pool(3) as pool:
        assert list(in_order(calls, pool)) == list(in_order(calls, None))


def test_workers_start_when_there_is_work_and_end_with_the_pool():
    case = generate("lengths/n2@0", contract="article")
    with Pool(2) as pool:
        rows = (CHECKS["format"],)  # which reads no reference
        assert list(judge_cases(Simulation(), [case], How(rows, ignore, pool=pool)))
        assert not pool._workers
        pool.submit(bands(case), what="")()
        workers = tuple(pool._workers)
        assert len(workers) == 1
        pool.submit(bands(case), what="")  # one that nobody waits for
    assert all(worker.poll() is not None for worker in workers)


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_process_is_no_pool(jobs):
    with pytest.raises(InputError, match="at least one process"):
        dmverify.verify("simulation", cases=CASES[:1], jobs=jobs)
