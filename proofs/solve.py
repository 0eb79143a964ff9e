"""Asking the solvers: z3 directly, cvc5 and bitwuzla through SMT-LIB text that they read afresh.

Each call makes a new solver. The second solver sees nothing but text, so a fault of z3's internal
simplifier cannot reach it. "unknown" covers timeouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import bitwuzla
import cvc5
import z3

from dmverify.proofs.registry import Expr, Goal, Number


def refutation(goal: Goal) -> tuple[Expr, ...]:
    """The assertions that are unsatisfiable exactly when the goal is valid."""
    return (*goal.hypotheses, z3.Not(goal.conclusion))


def z3_check(assertions: Sequence[Expr], *, timeout: float) -> tuple[str, dict[str, Number]]:
    """Ask z3.

    Args:
        assertions: Formulas, taken together.
        timeout: Seconds.

    Returns:
        "sat", "unsat" or "unknown", and the model if sat (every variable present; bit-vectors as
        unsigned integers, reals as fractions, irrational values to 20 digits: a replay will fail
        on them rather than accept them).
    """
    solver = z3.Solver()
    solver.set("timeout", int(timeout * 1000))
    solver.add(*assertions)
    status = str(solver.check())
    if status != "sat":
        return status, {}
    model = solver.model()
    return status, {
        str(var): _number(model.eval(var, model_completion=True)) for var in variables(assertions)
    }


def _number(value: Any) -> Number:
    if z3.is_algebraic_value(value):
        value = value.approx(20)
    if z3.is_rational_value(value):
        return Fraction(value.numerator_as_long(), value.denominator_as_long())
    if z3.is_true(value) or z3.is_false(value):
        return int(z3.is_true(value))
    return int(value.as_long())


def subterms(assertions: Sequence[Expr]) -> Iterator[Expr]:
    """Every distinct subterm, each before its children, in the order of the text."""
    seen: set[int] = set()
    stack = list(reversed(assertions))
    while stack:
        node = stack.pop()
        if node.get_id() not in seen:
            seen.add(node.get_id())
            yield node
            stack.extend(reversed(node.children()))


def variables(assertions: Sequence[Expr]) -> list[Expr]:
    """The free constants of some formulas, in the order in which they appear."""
    return [
        node
        for node in subterms(assertions)
        if z3.is_const(node) and node.decl().kind() == z3.Z3_OP_UNINTERPRETED
    ]


def smtlib(assertions: Sequence[Expr]) -> str:
    """The assertions as a self-contained SMT-LIB 2 script."""
    solver = z3.Solver()
    solver.add(*assertions)
    return f"(set-logic ALL)\n{solver.to_smt2()}"


def cvc5_check(text: str, *, timeout: float) -> str:
    """Let cvc5 read an SMT-LIB script and answer it ("sat", "unsat", "unknown")."""
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(int(timeout * 1000)))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "goal")
    manager = parser.getSymbolManager()
    answer = ""
    while not (command := parser.nextCommand()).isNull():
        answer += str(command.invoke(solver, manager))
    return _verdict(answer)


def bitwuzla_check(text: str, *, timeout: float) -> str:
    """Let bitwuzla read an SMT-LIB script and answer it ("sat", "unsat", "unknown")."""
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.TIME_LIMIT_PER, int(timeout * 1000))
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(text, True, False)
    return _verdict(str(parser.bitwuzla().check_sat()))


def _verdict(answer: str) -> str:
    """Read a solver's answer strictly: anything but a lone sat or unsat settles nothing."""
    answer = answer.strip().lower()
    return answer if answer in ("sat", "unsat") else "unknown"


SECOND = {"cvc5": cvc5_check, "bitwuzla": bitwuzla_check}


def second_for(assertions: Sequence[Expr]) -> str:
    """The second solver: cvc5 where integers or reals occur, which bitwuzla does not have."""
    arithmetic = any(z3.is_int(term) or z3.is_real(term) for term in subterms(assertions))
    return "cvc5" if arithmetic else "bitwuzla"
