"""Running lemmas: prove, confirm, check for vacuity, refute the control, replay the refutation.

Verdicts of a lemma: "proved"; "vacuous" (hypotheses that nothing satisfies); "refuted" (a solver or
a sweep found a counterexample); "unconfirmed" (z3 proved it, a second means did not); "unknown".
Verdicts of a control: "refuted"; "holds" (the constant could be tightened, so the lemma says less
than it seems); "replay failed" (the model does not do concretely what the encoding says);
"sweep blind" (the exhaustive run accepts the control); "unknown".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dmverify.errors import InputError, RecordingError
from dmverify.proofs.certificates import (
    CERTIFICATES,
    Certificate,
    Run,
    control_violated,
    recorded,
    rerun,
)
from dmverify.proofs.certificates import DIRECTORY as RECORDS
from dmverify.proofs.registry import Goal, Lemma, Values, all_lemmas, get_lemma
from dmverify.proofs.solve import SECOND, refutation, second_for, smtlib, z3_check
from dmverify.proofs.witness import Witness


@dataclass(frozen=True)
class LemmaResult:
    """What became of one lemma.

    Attributes:
        id: The lemma.
        statement: Its words and formula.
        verdict: See the module.
        solvers: What proved it, z3 first; a sweep is "exhaustive (cases)".
        control: Verdict of the control.
        seconds: Wall-clock time of everything.
        topic: Part of the mathematics.
        used_by: What rests on it.
        detail: Why, where all is not well; else empty.
        witness: The model that refutes the control, or None.
    """

    id: str
    statement: str
    verdict: str
    solvers: tuple[str, ...]
    control: str
    seconds: float
    topic: str = ""
    used_by: tuple[str, ...] = ()
    detail: str = ""
    witness: Witness | None = None

    @property
    def ok(self) -> bool:
        """Proved by two means, and its control refuted."""
        return self.verdict == "proved" and self.control == "refuted"

    def to_json(self) -> dict[str, Any]:
        """Plain data for json.dumps."""
        record = asdict(self) | {"solvers": list(self.solvers), "used_by": list(self.used_by)}
        record["witness"] = self.witness.to_json() if self.witness else None
        return record


def prove(
    lemma_ids: Sequence[str] | None = None, *, timeout: float | None = None
) -> tuple[LemmaResult, ...]:
    """Prove lemmas and refute their controls; certificates count as lemmas.

    Args:
        lemma_ids: Ids to run; None runs all, in the order of registration.
        timeout: Seconds for each solver call, in place of each lemma's own.

    Raises:
        UnknownNameError: No lemma has one of these ids.
        InputError: The timeout is not positive.
    """
    if timeout is not None and not timeout > 0:
        raise InputError(timeout, rule="a timeout is positive", fix="give seconds, or None")
    chosen = known_ids() if lemma_ids is None else tuple(lemma_ids)
    for lemma_id in chosen:
        if lemma_id not in _CERTIFICATES:
            get_lemma(lemma_id)  # refuse unknown ids before the first minute is spent
    return tuple(_run(lemma_id, timeout) for lemma_id in chosen)


_CERTIFICATES = {entry.id: entry for entry in CERTIFICATES}


def known_ids() -> tuple[str, ...]:
    """Ids of all lemmas, then of all certificates."""
    return (*(entry.id for entry in all_lemmas()), *_CERTIFICATES)


def _run(lemma_id: str, timeout: float | None) -> LemmaResult:
    if lemma_id in _CERTIFICATES:
        return run_certificate(_CERTIFICATES[lemma_id])
    return run_lemma(get_lemma(lemma_id), timeout=timeout)


def run_certificate(entry: Certificate, *, directory: Path = RECORDS) -> LemmaResult:
    """Check a certificate's record, repeat a random 1/256 of it and its control.

    A record or recording that cannot be read leaves the verdict "unknown" and says why.
    """
    start = time.perf_counter()
    means: tuple[str, ...] = ()
    try:
        full, (part, seed) = recorded(entry, directory=directory), rerun(entry)
    except RecordingError as error:
        verdict, control, detail, witness = "unknown", "unknown", str(error), None
    else:
        runs = {"record": full, f"rerun with seed {seed}": part}
        detail = "; ".join(_failures(name, run) for name, run in runs.items() if not run.clean)
        verdict = "refuted" if detail else "proved"
        means = (f"exhaustive ({full.inputs}, recorded)", f"rerun ({part.inputs})")
        worst = Witness(entry.id, "worst", entry.constant, entry.control, {"x": full.worst})
        witness = worst if control_violated(entry, full) else None
        control = "refuted" if witness else "holds"
    return LemmaResult(
        entry.id, entry.statement, verdict, means, control,
        time.perf_counter() - start, "measured", entry.used_by, detail, witness,
    )  # fmt: skip


def _failures(name: str, run: Run) -> str:
    return f"{name}: {run.violations} violations, {run.unlike_hardware} blocks unlike the hardware"


def run_lemma(entry: Lemma, *, timeout: float | None = None) -> LemmaResult:
    """Prove one lemma and refute its control; see ``prove``."""
    start = time.perf_counter()
    seconds = entry.timeout if timeout is None else timeout
    verdict, solvers, detail = _proof(entry, seconds)
    control, witness, why = _control(entry, seconds)
    return LemmaResult(
        entry.id, entry.statement, verdict, tuple(solvers), control,
        time.perf_counter() - start, entry.topic, entry.used_by,
        "; ".join(part for part in (detail, why) if part), witness,
    )  # fmt: skip


def _proof(entry: Lemma, seconds: float) -> tuple[str, list[str], str]:
    """Verdict, means and detail of the lemma with its true constant."""
    goals = entry.build(entry.constant)
    if not goals:
        return "vacuous", [], "no goals"
    for goal in goals:
        verdict, detail = _prove_goal(goal, seconds)
        if verdict != "proved":
            return verdict, [], f"goal {goal.name}: {detail}"
    solvers = ["z3"]
    for goal in goals:
        name = second_for(refutation(goal))
        status = SECOND[name](smtlib(refutation(goal)), timeout=seconds)
        if status != "unsat":
            verdict = "refuted" if status == "sat" else "unconfirmed"
            return verdict, solvers, f"goal {goal.name}: {name} answers {status}"
        solvers += [name] if name not in solvers else []
    if entry.sweep is not None:
        sweep = entry.sweep(entry.constant)
        if sweep.failures or not sweep.cases:
            return "refuted", solvers, f"sweep: {sweep.failures} of {sweep.cases} cases fail"
        solvers.append(f"exhaustive ({sweep.cases})")
    return "proved", solvers, ""


def _prove_goal(goal: Goal, seconds: float) -> tuple[str, str]:
    status, _ = z3_check(goal.hypotheses, timeout=seconds)
    if status != "sat":
        verdict = "vacuous" if status == "unsat" else "unknown"
        return verdict, f"z3 answers {status} on the hypotheses alone"
    status, model = z3_check(refutation(goal), timeout=seconds)
    if status == "unsat":
        return "proved", ""
    return ("refuted" if status == "sat" else "unknown"), f"z3 answers {status} {model or ''}"


def _control(entry: Lemma, seconds: float) -> tuple[str, Witness | None, str]:
    """Verdict, witness and detail of the lemma with its control constant."""
    genuine = {goal.name: goal for goal in entry.build(entry.constant)}
    seen = set()
    for goal in entry.build(entry.control):
        if goal.replay is None:
            continue
        status, model = z3_check((*refutation(goal), *goal.guide), timeout=seconds)
        seen.add(status)
        if status == "sat":
            if not replays(genuine[goal.name], goal, model):
                return "replay failed", None, f"control model {model}"
            if entry.sweep is not None and not entry.sweep(entry.control).failures:
                return "sweep blind", None, "the exhaustive run accepts the control"
            witness = Witness(entry.id, goal.name, entry.constant, entry.control, model)
            return _others(entry, genuine, seconds, witness)
    return ("unknown" if "unknown" in seen else "holds"), None, f"control goals answer {seen}"


def _others(
    entry: Lemma, genuine: Mapping[str, Goal], seconds: float, witness: Witness
) -> tuple[str, Witness | None, str]:
    """Verdict of a control that one goal refutes: all others that contain a constant must too."""
    steps = [
        goal
        for goal in entry.build(entry.control)
        if goal.replay is None
        and goal.name not in entry.loose
        and not _alike(goal, genuine[goal.name])
    ]
    for goal in (*steps, *(entry.tightened() if entry.tightened else ())):
        status, _ = z3_check(refutation(goal), timeout=seconds)
        if status != "sat":
            verdict = "holds" if status == "unsat" else "unknown"
            return verdict, None, f"control goal {goal.name}: z3 answers {status}"
    return "refuted", witness, ""


def _alike(one: Goal, other: Goal) -> bool:
    """Whether two goals are the same formulas."""
    first, second = refutation(one), refutation(other)
    return len(first) == len(second) and all(x.eq(y) for x, y in zip(first, second, strict=True))


def replays(genuine: Goal, control: Goal, values: Values) -> bool:
    """Whether concrete numbers satisfy the lemma and violate its control, hypotheses included."""
    if genuine.replay is None or control.replay is None:
        return False
    try:
        under_control, under_lemma = control.replay(values), genuine.replay(values)
    except ValueError:  # values that no concrete input realises
        return False
    violates = under_control.hypotheses and not under_control.conclusion
    return violates and (under_lemma.conclusion or not under_lemma.hypotheses)
