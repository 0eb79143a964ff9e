"""Relations: how the answers to two questions are related, whatever the answers are.

A relation asks a second question (``questions``) and compares its answer with the first, number for
number. Where the contract states every order the two agree in every bit; elsewhere a number that
differs lies within what the first question's contract allows.

| relation | asks | and the numbers are |
|---|---|---|
| repeat-whole | the same | the same bits, whatever the contract |
| poison | the same, in memory filled with NaN | the same bits, whatever the contract |
| stream | the same, on another stream of the GPU | the same bits, whatever the contract |
| batch, heads, power-*, signs-*, future | the question of that name | as above |

Relations of a group are asked as one question (``GROUPS``). If its answer is right, so is each of
them; if it is not, each is asked alone, so that the one that fails has a name. Where each holds
alone, the group fails by the name of its first.

Source: ``dmverify.proofs`` lemmas e4m3-equivariance, e4m3-odd, rn-equivariance, rescale-exact.
Not covered: inputs that are not finite; numbers so small or large that a power of two may round;
permutations of keys or queries across blocks, which change every scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.checks.pairs import (
    REPEAT,
    Pairs,
    Relation,
    differ,
    fails,
    in_bands,
    in_bits,
)
from dmverify.conformance.checks.questions import NEAR, QUESTIONS, Moved, within
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import AnswerError, KernelError
from dmverify.spec.attention.stores import WIDE
from dmverify.spec.case import Case, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import BF16


def relation_check(check: str, evidence: Evidence) -> Finding:
    """Judges the relation of the check's own name, in every group that it belongs to."""
    if reason := _bars(check, evidence):
        return _unsupported(check, evidence.case, reason)
    found = [_in_group(check, group, evidence) for group in GROUPS if check in group]
    return next((finding for finding in found if finding.verdict is Verdict.FAILS), found[0])


def _bars(name: str, evidence: Evidence) -> str:
    """Why it is not asked, in words; empty if it is."""
    relation = RELATIONS[name]
    reason: str = _once(evidence, f"bars {name}", lambda: _bars_of_case(relation, evidence))
    if reason:
        return reason
    assert evidence.session is not None
    return evidence.session.lacks(relation.around) if relation.around else ""


def _bars_of_case(relation: Relation, evidence: Evidence) -> str:
    if not _once(evidence, "finite", lambda: _is_finite(evidence.case)):
        return "the relation is one between finite numbers"
    if evidence.case.inputs.scales and relation.question is not _SAME:
        return "codes were brought with scales of their own"
    return relation.question.bars(evidence.case) or relation.holds(evidence.contract)


def _is_finite(case: Case) -> bool:
    return all(bool(np.isfinite(array).all()) for _, array in case.inputs.items())


def _in_group(check: str, group: tuple[str, ...], evidence: Evidence) -> Finding:
    """The group's finding under the check's name if all is right, else what it shows alone."""
    members = [name for name in group if not _bars(name, evidence) and _joins(name, evidence)]
    if check not in members or len(members) == 1:
        return _alone(check, evidence)
    whole = _known(evidence, "+".join(members), lambda: _asked(members, evidence))
    if whole is not None and whole.verdict is Verdict.CONFORMS:
        return replace(whole, check=check)
    found = _alone(check, evidence)
    if check != members[0] or found.verdict is not Verdict.CONFORMS:
        return found
    if whole is None or any(_fails_alone(name, evidence) for name in members[1:]):
        return found
    whole = _asked(members, evidence, lenient=True)
    if whole.verdict is not Verdict.FAILS:
        return found
    said = f"only where {', '.join(members)} come together: {whole.reason}"
    return replace(whole, check=check, reason=said)


def _joins(name: str, evidence: Evidence) -> bool:
    """Whether it may be asked with others: several powers of two need more room than one."""
    near: bool = _once(evidence, "near", lambda: within(evidence.case, NEAR))
    return near or not RELATIONS[name].skip_tiny


def _alone(check: str, evidence: Evidence) -> Finding:
    relation = RELATIONS[check]
    found = _known(evidence, check, lambda: _asked_alone(check, evidence))
    if found is None:  # the kernel broke: its words again
        return _asked_alone(check, evidence)
    if found.verdict is Verdict.FAILS and relation.rests_on:
        if _fails_alone(relation.rests_on, evidence):
            reason = f"it would say the same as {relation.rests_on}"
            return _unsupported(check, evidence.case, reason)
        if check == "poison" and _by_other_algorithms(evidence):
            return _asked([check], evidence, lenient=True, bits=False)
    return found


def _fails_alone(check: str, evidence: Evidence) -> bool:
    """Whether it fails without others; what breaks has no answer, and is a finding of its own."""
    found = _known(evidence, check, lambda: _asked_alone(check, evidence))
    return found is None or found.verdict is Verdict.FAILS


def _asked_alone(check: str, evidence: Evidence) -> Finding:
    found = _asked([check], evidence, lenient=True)
    if check == REPEAT and found.verdict is Verdict.CONFORMS:
        return _asked([check], evidence, lenient=True)  # it may change with every second call
    return found


def _known(evidence: Evidence, key: str, ask: Callable[[], Finding]) -> Finding | None:
    """What was found before, or is found now; None if the kernel broke."""

    def tried() -> Finding | None:
        try:
            return ask()
        except (KernelError, AnswerError):
            return None

    found: Finding | None = _once(evidence, f"asked {key}", tried)
    return found


def _once(evidence: Evidence, key: str, make: Callable[[], Any]) -> Any:
    assert evidence.session is not None
    memory = evidence.session.second
    if key not in memory:
        memory[key] = make()
    return memory[key]


def _asked(
    names: Sequence[str], evidence: Evidence, *, lenient: bool = False, bits: bool = True
) -> Finding:
    """Asks the question of some relations as one.

    Args:
        names: The relations.
        evidence: The first answer.
        lenient: Whether tiny numbers are left out where a relation says so.
        bits: Whether relations that say so are compared by bits whatever the contract.
    """
    check, case, relations = names[0], evidence.case, [RELATIONS[name] for name in names]
    assert evidence.session is not None
    question = case
    for relation in relations:
        question = relation.question.ask(question)
    with evidence.session.under(relation.around for relation in relations if relation.around):
        answer = evidence.session.ask(question)
    if isinstance(answer, Unsupported):
        if question is case:
            return fails(check, case, 0, f"it has served this case, and now says: {answer.reason}")
        return _unsupported(check, case, answer.reason)
    if lost := [name for name in evidence.outputs.names if name not in answer.names]:
        said = f"it returned {', '.join(lost)} before: {evidence.session.lacks_gradients}"
        return fails(check, case, 0, said) if question is case else _unsupported(check, case, said)
    pairs = Pairs(evidence, relations, _moved_back(case, answer, relations), lenient)
    if pairs.other_names:
        return fails(check, case, 0, f"it returns {pairs.other_names} after the change only")
    always = bits and all(relation.always_bits for relation in relations)
    by_bits = always or evidence.contract.bit_exact
    return in_bits(check, pairs, zeros=always) if by_bits else in_bands(check, pairs)


def _moved_back(case: Case, answer: Outputs, relations: Sequence[Relation]) -> Moved:
    moved = dict(answer.items())
    for relation in reversed(relations):
        moved = relation.question.back(case, moved)
    return moved


def _unsupported(check: str, case: Case, reason: str) -> Finding:
    return Finding(check, case.id, Verdict.UNSUPPORTED, reason=reason)


def _no_fixed_scales(contract: Contract) -> str:
    fixed = "call-exponent" in (contract.schedule.ds, contract.store)
    factor = getattr(contract.schedule, "ds_scale", None) or contract.operand_rule == "unit"
    fixed = fixed or bool(factor) or contract.store not in WIDE
    return "the contract's scales do not follow the data" if fixed else ""


def _own_blocks(contract: Contract) -> str:
    own = contract.element("v") is BF16 or contract.operand_rule == "unit" or contract.blocked
    shared = contract.v_block is None and not own
    return "one scale is shared with the future" if shared else ""


def _own_entries(contract: Contract) -> str:
    exponents = "call-exponent" in (contract.schedule.ds, contract.store)
    scales = contract.scale_span == "call" and contract.schedule.operands != "bf16"
    return "one scale is shared by all entries" if scales or exponents else ""


def _by_other_algorithms(evidence: Evidence) -> bool:
    """Whether poison's switch changes bits without poison: torch then uses other algorithms."""
    assert evidence.session is not None
    answers = []
    for condition in ("poison", "other-algorithms"):
        with evidence.session.under((condition,)):
            answers.append(evidence.session.ask(evidence.case))
    if any(isinstance(answer, Unsupported) for answer in answers):
        return False
    first, second = (dict(answer.items()) for answer in answers if isinstance(answer, Outputs))
    return all(not differ(array, second[name]).any() for name, array in first.items())


def _moves(name: str) -> Relation:
    return Relation(QUESTIONS[name])


def _power(name: str) -> Relation:
    return Relation(QUESTIONS[name], holds=_no_fixed_scales, skip_tiny=True)


_SAME = QUESTIONS["same"]

RELATIONS = {
    REPEAT: Relation(_SAME, always_bits=True),
    "batch": Relation(QUESTIONS["batch"], holds=_own_entries),
    "heads": _moves("heads"),
    "power-v": _power("power-v"),
    "power-do": _power("power-do"),
    "power-qk": _power("power-qk"),
    "signs-qk": _moves("signs-qk"),
    "signs-v": _moves("signs-v"),
    "future": Relation(QUESTIONS["future"], holds=_own_blocks),
    "poison": Relation(_SAME, around="poison", always_bits=True, rests_on=REPEAT),
    "stream": Relation(_SAME, around="stream", always_bits=True, rests_on=REPEAT),
}
"""By id of the check."""

GROUPS = (
    (REPEAT, "poison", "stream"),
    ("heads", "power-v", "power-do", "power-qk", "signs-qk", "signs-v"),
    ("poison", "batch"),  # more entries need workspace that is not there yet
    ("future",),
)
"""What is asked as one question. The second group keeps the problem, so that a kernel that answers
from memory where the shapes agree is caught."""
