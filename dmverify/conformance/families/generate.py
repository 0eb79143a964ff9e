"""From a case id to the case, and the lists of ids there are."""

from __future__ import annotations

from dataclasses import replace

from dmverify.conformance import tensor_files
from dmverify.conformance.families import trained
from dmverify.conformance.families.case_id import CaseId, parse_case_id
from dmverify.conformance.families.chance import RANDOM
from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.family import Family, Variant
from dmverify.conformance.families.table import FAMILIES
from dmverify.conformance.families.tomography import designs
from dmverify.conformance.sizes import require_room
from dmverify.errors import UnknownNameError, unknown_name
from dmverify.spec.case import Case
from dmverify.spec.problem import Problem

DEFAULT_CONTRACT = "bundled"


def list_families(*, on_demand: bool = True) -> tuple[Family, ...]:
    """Every family whose inputs are drawn, in the table's order.

    Args:
        on_demand: Whether families that have large variants only are included.
    """
    found = tuple(FAMILIES.values())
    return found if on_demand else tuple(family for family in found if list_cases(family.name))


def list_cases(
    family: str | None = None, *, seed: int = 0, on_demand: bool = False
) -> tuple[str, ...]:
    """Case ids: every variant of a family (None: of all families), and every capture.

    Args:
        family: Name of a family, ``capture``, or None.
        seed: Seed of the ids; captures have seed 0.
        on_demand: Whether large variants are included.

    Raises:
        UnknownNameError: There is no such family.
    """
    names = (*FAMILIES, trained.FAMILY) if family is None else (family,)
    return tuple(text for name in names for text in _ids(name, seed, on_demand))


def generate(case_id: str, *, contract: str = DEFAULT_CONTRACT) -> Case:
    """Return the case of an id; the same id gives the same bits on every machine.

    Args:
        case_id: ``family/variant[,field=value ...]@seed`` (see ``case_id``).
        contract: Name of the contract that the answer will be judged by.

    Raises:
        UnknownNameError: No such family, variant or capture.
        InputError: The id does not follow the grammar, or its sizes do not fit the family.
    """
    parts = parse_case_id(case_id)
    if parts.family == tensor_files.FAMILY:
        return tensor_files.brought_case(str(parts), contract)
    if parts.family == trained.FAMILY:
        return _capture(parts, contract)
    problem = problem_of(case_id)
    require_room(problem, str(parts))
    if parts.family == designs.FAMILY:
        return designs.call_of(parts, contract)
    family, variant = _variant(parts)
    draws = Draws(family.name, parts.seed)
    inputs = family.build(draws, problem, **variant.parameters)
    return Case(str(parts), contract, problem, inputs, targets=family.targets)


def problem_of(case_id: str) -> Problem:
    """The problem of an id, without drawing its inputs.

    Raises:
        UnknownNameError, InputError: As for ``generate``, except for sizes that do not fit the
            family.
    """
    parts = parse_case_id(case_id)
    if parts.family == tensor_files.FAMILY:
        return tensor_files.find(str(parts)).problem
    if parts.family == trained.FAMILY:
        return _capture(parts, DEFAULT_CONTRACT).problem
    if parts.family == designs.FAMILY:
        return designs.problem_of_call(parts)
    return _problem(parts)


def _problem(parts: CaseId) -> Problem:
    family, variant = _variant(parts)
    drawn = family.sizes(Draws(family.name, parts.seed)) if family.sizes else {}
    return replace(family.problem, **{**drawn, **variant.problem, **parts.fields})


def _variant(parts: CaseId) -> tuple[Family, Variant]:
    family = _family(parts.family)
    if parts.variant not in family.variants:
        raise _unknown("variant", parts.variant, tuple(family.variants), f" of {family.name}")
    return family, family.variants[parts.variant]


def _capture(parts: CaseId, contract: str) -> Case:
    others = sorted(parts.fields.keys() - {"head_dim"})
    if others:
        raise _unknown("field", others[0], ("head_dim",), " of a capture")
    head_dim = parts.fields.get("head_dim")
    return trained.capture_case(
        parts.variant,
        contract=contract,
        seed=parts.seed,
        head_dim=None if head_dim is None else int(head_dim),
    )


def _ids(name: str, seed: int, on_demand: bool) -> tuple[str, ...]:
    if name == trained.FAMILY:
        return trained.capture_ids()
    family = _family(name)
    return tuple(
        f"{name}/{variant}@{seed}"
        for variant in family.variants
        if on_demand or "on-demand" not in family.flags_of(variant)
    )


def _family(name: str) -> Family:
    if name == RANDOM.name:
        return RANDOM
    if name not in FAMILIES:
        raise _unknown("family", name, (*FAMILIES, trained.FAMILY, RANDOM.name, designs.FAMILY), "")
    return FAMILIES[name]


def _unknown(kind: str, name: str, known: tuple[str, ...], where: str) -> UnknownNameError:
    rule = f"case ids name an existing {kind}{where}"
    return unknown_name(kind, name, known, rule=rule, shown_by="dmverify list families")
