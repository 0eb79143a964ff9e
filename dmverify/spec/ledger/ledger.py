"""``ledger``: every term of every row's residual, exact, with the bound that judges it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.case import F64, Inputs, Internals, Outputs, Trace
from dmverify.spec.contracts import Contract
from dmverify.spec.ledger.bounds import BOUNDS
from dmverify.spec.ledger.bounds.derived import require_derived
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes
from dmverify.spec.ledger.row_block import RowBlock, row_blocks
from dmverify.spec.ledger.rows import Rows
from dmverify.spec.ledger.terms import TERMS, ExactSums, term_names
from dmverify.spec.lemmas import rests_on
from dmverify.spec.margin import margin_of
from dmverify.spec.problem import Problem

CAST = "cast"  # stands beside the terms that sum to R: it leads from R to the sum after the cast


@dataclass(frozen=True)
class WorstRow:
    """The row whose term comes closest to its bound, or passes it farthest.

    Attributes:
        at: (batch, head, query).
        term: The term's name.
        value: The term, rounded to float64.
        bound: Its bound.
        margin: |value| / bound.
    """

    at: tuple[int, int, int]
    term: str
    value: float
    bound: float
    margin: float


@dataclass(frozen=True, eq=False)
class Ledger:
    """The residual's terms per row; L rows in all, by batch, head and query.

    Attributes:
        contract: The numerics that the bounds belong to.
        terms: The names whose sum is the residual, without ``cast``.
        at: (batch, head, query) of each row, (L, 3).
        exact: The terms and ``cast`` as exact rationals, stretch by stretch; empty if not kept.
        residual: R as float64, (L,).
        size: sum_j |dS|, (L,), what residuals are usually divided by.
        values: Terms and ``cast`` rounded to float64, (L,) each.
        bounds: Upper bounds, (L,) each; infinite where a premise fails.
        unbounded: Which premise, in words, '' where the bound is finite, (L,) each.
        closes: Whether R equals the sum of its terms, exactly, (L,).
        defined: False for rows that hold a NaN or infinity: all their entries are 0, (L,).
    """

    contract: Contract
    terms: tuple[str, ...]
    at: npt.NDArray[np.int64]
    exact: tuple[dict[str, Rows], ...]
    residual: F64
    size: F64
    values: dict[str, F64]
    bounds: dict[str, F64]
    unbounded: dict[str, npt.NDArray[np.object_]]
    closes: npt.NDArray[np.bool_]
    defined: npt.NDArray[np.bool_]

    @property
    def names(self) -> tuple[str, ...]:
        """The terms, then ``cast``."""
        return (*self.terms, CAST)

    @property
    def ok(self) -> bool:
        """Whether every row closes and every term is within its bound.

        Rows with a NaN or infinity say nothing here: look at ``defined`` too.
        """
        return bool(self.closes.all()) and all((self.margin(n) <= 1).all() for n in self.names)

    def margin(self, term: str) -> F64:
        """The margin of each row, (L,).

        Raises:
            UnknownNameError: If the mode has no such term.
        """
        self._require(term)
        return margin_of(self.values[term], self.bounds[term])

    def reasons(self, term: str) -> npt.NDArray[np.object_]:
        """Why a term's bound is infinite, '' in rows where it is not, (L,).

        Raises:
            UnknownNameError: If the mode has no such term.
        """
        self._require(term)
        return self.unbounded[term]

    def worst(self, term: str) -> WorstRow:
        """The row with the largest margin of a term.

        Raises:
            UnknownNameError: If the mode has no such term.
            InputError: If the ledger has no rows.
        """
        margin = self.margin(term)
        if not margin.size:
            raise InputError(
                "no rows", rule="a ledger without rows has no worst row", fix="pass queries >= 1"
            )
        i = int(margin.argmax())
        return WorstRow(
            at=self._index(i),
            term=term,
            value=float(self.values[term][i]),
            bound=float(self.bounds[term][i]),
            margin=float(margin[i]),
        )

    def fractions(self, term: str) -> list[Fraction]:
        """A term as exact rationals in lowest terms, one a row.

        Raises:
            UnknownNameError: If the mode has no such term.
            InputError: If there are rows, whose rationals were not kept.
        """
        self._require(term)
        if len(self.at) and not self.exact:
            raise InputError(
                f"the rationals of {term!r}",
                rule="only a ledger that keeps exact sums has the rationals of its terms",
                fix="ask for a ledger with keep_exact=True",
            )
        return [value for part in self.exact for value in part[term].fractions()]

    def _index(self, i: int) -> tuple[int, int, int]:
        batch, head, query = (int(x) for x in self.at[i])
        return batch, head, query

    def _require(self, term: str) -> None:
        if term not in self.names:
            raise UnknownNameError(
                f"term {term!r}",
                rule=f"the ledger of mode {self.contract.delta} has {', '.join(self.names)}",
                fix="ask for one of these",
            )


@rests_on("ledger-stale", "ledger-consistent", "ledger-associated", "ledger-matched", "eq2")
def ledger(
    contract: Contract,
    problem: Problem,
    *,
    inputs: Inputs,
    internals: Internals,
    outputs: Outputs,
    v_forward: F64 | None = None,
    presented: tuple[F64, F64] | None = None,
    keep_exact: bool = True,
) -> Ledger:
    """The exact ledger of every row's residual, with each term's bound under the contract.

    Args:
        contract: What the numbers are judged by; its delta mode decides which terms there are.
        problem: Sizes, mask, scale.
        inputs: The tensors that came in; the stale delta reads ``do`` itself.
        internals: What happened inside, from the specification or from a kernel's dump.
        outputs: What was returned; ``o`` is read.
        v_forward: The forward's dequantised V, (B, Hkv, Nk, D), if not the backward's.
        presented: P' and dP' of the delta pass, (B, H, Nq, Nk) each, if they are not those of the
            dS step; then match is split into match and rec.
        keep_exact: Whether the rationals stay: of many rows they take more room than all else.

    Raises:
        InputError: If a tensor has another shape or dtype than the problem gives it, or numbers are
            presented in a mode whose delta does not come from P and dP.
        ContractError: If the terms' bounds are not derived for the contract's operands.
    """
    require_derived(contract)
    mode = contract.delta
    _require_matched(mode, presented)
    names = term_names(mode, presented=presented is not None)
    trace = Trace(problem, inputs, internals, outputs)
    stretches = row_blocks(contract, trace, v_forward=v_forward, presented=presented)
    parts = [_Part(block, names, keep_exact=keep_exact) for block in stretches]
    return _assembled(contract, names, parts)


def _require_matched(mode: str, presented: tuple[F64, F64] | None) -> None:
    if presented is not None and mode != "matched":
        raise InputError(
            f"presented numbers in mode {mode}",
            rule="only the matched delta is a sum of P dP whose operands may differ",
            fix="leave presented out",
        )


def _assembled(contract: Contract, names: tuple[str, ...], parts: list[_Part]) -> Ledger:
    """The stretches of a call, one after the other."""
    every = (*names, CAST)
    return Ledger(
        contract=contract,
        terms=names,
        at=np.concatenate([np.zeros((0, 3), np.int64), *(p.at for p in parts)]),
        exact=tuple(p.exact for p in parts if p.exact),
        residual=_joined([p.residual for p in parts]),
        size=_joined([p.size for p in parts]),
        values={n: _joined([p.values[n] for p in parts]) for n in every},
        bounds={n: _joined([p.bounds[n] for p in parts]) for n in every},
        unbounded={n: _joined([p.unbounded[n] for p in parts]).astype(object) for n in every},
        closes=_joined([p.closes for p in parts]).astype(bool),
        defined=_joined([p.defined for p in parts]).astype(bool),
    )


class _Part:
    """The ledger of one stretch of rows."""

    def __init__(self, block: RowBlock, names: tuple[str, ...], *, keep_exact: bool) -> None:
        sums = ExactSums(block)
        sizes = Magnitudes(block, sums)
        self.at = _places(block)
        exact = {name: TERMS[name](sums) for name in (*names, CAST)}
        self.exact = exact if keep_exact else {}
        total = sums.residual - sums.residual
        for name in names:
            total = total + exact[name]
        self.closes = sums.residual.equals(total)
        self.residual = sums.residual.to_float()
        self.size = np.abs(block.ds).sum(axis=1)
        self.values = {name: rows.to_float() for name, rows in exact.items()}
        self.bounds = {name: BOUNDS[name](sizes) for name in exact}
        self.unbounded = {
            name: BOUNDS[name].reasons(sizes, bound) for name, bound in self.bounds.items()
        }
        self.defined = block.defined


def _places(block: RowBlock) -> npt.NDArray[np.int64]:
    """(batch, head, query) of each row, (M, 3)."""
    first_batch, first_head, start = block.at
    flat, row = divmod(np.arange(block.rows), block.rows // block.heads or 1)
    first = first_batch * block.problem.heads + first_head
    batch, head = divmod(flat + first, block.problem.heads)
    return np.stack([batch, head, start + row], axis=1).astype(np.int64)


def _joined(parts: list[npt.NDArray[np.generic]]) -> F64:
    return np.concatenate(parts) if parts else np.zeros(0)
