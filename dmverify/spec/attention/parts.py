"""The steps of a call in parts, so that time and memory stay in bounds; no result changes.

| part | when | what differs from ``run`` |
|---|---|---|
| a stack of heads | small heads, all of whose operands are finite | one operation for all |
| query heads of a group | the same, and small stacks | one operation for all (``group``) |
| blocks of queries | large heads | dK and dV are carried from block to block |
| keys that nobody of a block sees | a large head, all finite | left out |

Rows are independent of each other but for tiles, which blocks do not cut, and for dK and dV. With
windows these go over tiles of queries in ascending order, and so do the blocks. Without, they are
sums whose enclosure is made of sums (``Sums``), and these add up over the blocks. In enclosures
windows keep their unseen keys and padding, since each widens what is rescaled. On codes a tensor
core's dot of known operands has one value and of others a set, so there a head that is not finite
is taken as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.stacked import Stacked
from dmverify.spec.attention.group import one_by_one, query_heads, repeated
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import Head, Prepared, padded, prepare, whole
from dmverify.spec.attention.run import (
    TOKENS,
    call_exponents,
    caller_chooses,
    has_tokens,
    key_sets,
    names_of,
    operands_of,
    require_bits,
    require_lse,
    row_outputs,
    steps_of,
)
from dmverify.spec.attention.stores import stored
from dmverify.spec.attention.tokens import InParts, Tokens, tokens_of
from dmverify.spec.case import F32, F64, Inputs, Outputs
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.problem import Problem

Ints = npt.NDArray[np.int64]
BLOCK = 128  # queries; every tile divides it
AT_ONCE = 2**20  # numbers of a part, which are ten times as many in what judges them
CHANNELS = 8  # a number of an operand takes less room than one of a pair, which many steps hold


@dataclass(frozen=True)
class Limits:
    """Sizes of what is taken together.

    Attributes:
        stack: Pairs of a query and a key of a stack of heads, or its numbers in operands, at most.
        together: The same with several query heads of each key head; beyond, a step's arrays leave
            the cache.
        head: A head with more pairs, or eight times as many numbers in queries, is cut into blocks
            of queries, of so many pairs if there are few keys.
    """

    stack: int = 1 << 18
    together: int = 1 << 17
    head: int = 1 << 18


LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What is computed.

    Attributes:
        contract: The numerics.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D).
        given: o and lse that a kernel returned, for its backward to start from (``returned``).
    """

    contract: Contract
    problem: Problem
    inputs: Inputs
    given: Mapping[str, F32] | None = None


@dataclass(frozen=True, eq=False)
class Interpreter:
    """How it is computed.

    Attributes:
        arithmetic: What numbers are; its operations take axes in front.
        read: From numbers of ``arithmetic`` to float64 arrays of the same shape.
        limits: How much is taken together.
    """

    arithmetic: Any
    read: Callable[[Any], tuple[F64, ...]]
    limits: Limits = LIMITS


@dataclass(frozen=True)
class Part:
    """One output of some heads, before its store.

    Attributes:
        name: Name of the output.
        place: Where it stands: an index of the whole array.
        found: What ``read`` makes of it, in the shape of ``array[place]``.
        exponents: Powers of two that the caller of the kernel chose, by name.
    """

    name: str
    place: tuple[Any, ...]
    found: tuple[F64, ...]
    exponents: Mapping[str, int]


@dataclass(frozen=True)
class Parts:
    """What the steps give.

    Attributes:
        found: What ``read`` makes of each output before its store, in the shapes of ``Outputs``.
        exponents: Powers of two that the caller of the kernel chose, by name.
    """

    found: dict[str, tuple[F64, ...]]
    exponents: Mapping[str, int]


def in_parts(call: AttentionCall, by: Interpreter) -> Parts:
    """Attention forward and backward, every step of the contract, part by part.

    Raises:
        ContractError: If O and LSE are given and the contract's backward takes neither.
        InputError: If the inputs hold what the contract forbids.
    """
    shapes = call.problem.shapes()
    ends = len(by.read(by.arithmetic.array(np.zeros((1, 1), np.float32))))
    names = names_of(call.contract)
    found = {name: tuple(np.zeros(shapes[name]) for _ in range(ends)) for name in names}

    def take(part: Part) -> None:
        for array, values in zip(found[part.name], part.found, strict=True):
            array[part.place] = values

    exponents = each_part(call, by, take)
    return Parts(found, exponents)


def each_part(
    call: AttentionCall, by: Interpreter, take: Callable[[Part], None]
) -> Mapping[str, int]:
    """Gives what ``in_parts`` computes part by part, keeping none.

    Args:
        call: What is computed.
        by: How.
        take: Called with each part, in an order that depends on contract, problem and inputs alone.

    Returns:
        Powers of two that the caller of the kernel chose, by name.

    Raises:
        ContractError: If O and LSE are given and the contract's backward takes neither.
        InputError: If the inputs hold what the contract forbids.
    """
    contract, problem, inputs = call.contract, call.problem, call.inputs
    if call.given is not None:
        require_lse(contract)
    with np.errstate(all="ignore"):
        prepared = prepare(
            contract,
            problem,
            inputs,
            cast="operands" in by.arithmetic.casts,
            lengths=_lengths(contract, problem, by.arithmetic),
        )
        if caller_chooses(contract, by.arithmetic):
            prepared = replace(prepared, exponents=call_exponents(contract, problem, inputs))
        run = _Run(call, prepared, by, take)
        for batches, kv_heads, finite in _stacks(prepared, by.limits):
            run.stack(batches, kv_heads, finite=finite)
    return prepared.exponents


def _lengths(contract: Contract, problem: Problem, arithmetic: Any) -> tuple[int, int]:
    """Rows that queries and keys are padded to."""
    schedule = contract.schedule
    if isinstance(schedule, Online):
        return padded(problem.queries), padded(problem.keys)
    tile, queries = schedule.tile, whole(problem.queries, [schedule.tile])
    if isinstance(schedule, Rows):
        keys = whole(problem.keys, [tile, schedule.p_group, contract.k_block or 1])
        # The chains of the zero-sum cast are laid out in whole tiles.
        return queries, _up(keys, tile) if contract.ds_cast == "zero-sum" else keys
    if not _are_sets(arithmetic):
        return queries, max(_up(problem.keys, tile), tile)
    # Enclosures count a tensor core's instructions in a tile, and rescales in windows, used or not.
    return _up(queries, tile), padded(problem.keys)


def _up(length: int, side: int) -> int:
    """The next multiple of a side."""
    return -(-length // side) * side


def _are_sets(arithmetic: Any) -> bool:
    return bool(arithmetic.any_of(False, lambda: True))


def _stacks(prepared: Prepared, limits: Limits) -> Iterator[tuple[Ints, Ints, bool]]:
    """Batches and key heads that are taken together, and whether they are finite."""
    problem = prepared.problem
    batch, kv_head = (x.ravel() for x in np.indices((problem.batch, problem.kv_heads)))
    finite = _finite(prepared)[batch, kv_head] if batch.size else np.zeros(0, bool)
    rows, keys = prepared.seen.shape
    count = max(limits.stack // max(rows * keys, (rows + keys) * problem.head_dim), 1)
    together = np.flatnonzero(finite)
    for start in range(0, len(together), count):
        at = together[start : start + count]
        yield batch[at], kv_head[at], True
    for one in np.flatnonzero(~finite).tolist():
        yield batch[one : one + 1], kv_head[one : one + 1], False


def _finite(prepared: Prepared) -> npt.NDArray[np.bool_]:
    """Whether all that a key head's steps read is finite, (B, Hkv)."""
    problem = prepared.problem
    finite = np.ones((problem.batch, problem.kv_heads), bool)
    arrays = [x for pair in prepared.tensors.values() for x in pair]
    for x in (*arrays, prepared.do_input, prepared.q_input, prepared.k_input):
        whole = np.isfinite(x).all((-2, -1)).reshape(problem.batch, problem.kv_heads, -1)
        finite &= whole.all(-1)
    return finite


@dataclass(frozen=True, eq=False)
class _Block:
    """Some queries of query heads that are taken together.

    Attributes:
        head: Their operands, the heads one below the other.
        at: Batch entry and query head of each.
        start: The first query.
        query_heads: How many of each key head are here.
    """

    head: Head
    at: tuple[Ints, Ints]
    start: int
    query_heads: int


class _Run:
    """One call, stack by stack."""

    def __init__(
        self, call: AttentionCall, prepared: Prepared, by: Interpreter, take: Callable[[Part], None]
    ) -> None:
        self._inner, self._read, self._limits = by.arithmetic, by.read, by.limits
        self._contract, self._given = call.contract, call.given
        self._prepared, self._take = prepared, take
        self._dead = np.logical_not(prepared.problem.mask().any(axis=1))

    def stack(self, batches: Ints, kv_heads: Ints, *, finite: bool) -> None:
        """The steps of some key heads of one shape, with their query heads."""
        problem = self._prepared.problem
        a: Any = Stacked(self._inner, len(batches))
        blocks = self._blocks(finite=finite)
        contract, prepared = self._contract, self._prepared
        parts = InParts(len(batches), added=len(blocks) > 1 and _are_sets(self._inner))
        tokens = tokens_of(a, contract, prepared, parts=parts)
        keys = key_sets(a, contract, prepared, (batches, kv_heads))
        for some in self._query_heads(len(batches), alone=len(blocks) > 1 or not finite):
            at = (
                np.tile(batches, len(some)),
                np.concatenate([kv_heads * problem.group + i for i in some]),
            )
            together: Any = Stacked(self._inner, len(at[0]))
            for start, stop, seen in blocks:  # a long head's numbers are never there at once
                rows = prepared.rows(start, stop)
                head = operands_of(together, contract, rows, at, repeated(keys, len(some)))
                self._block(_Block(first_keys(head, seen), at, start, len(some)), tokens)
        totals = zip(TOKENS, tokens.totals(), strict=True) if has_tokens(contract) else ()
        for name, total in totals:
            self._put(name, lambda here: (batches, here, kv_heads), total, slice(0, problem.keys))
            del total

    def _query_heads(self, heads: int, *, alone: bool) -> Iterator[range]:
        """Query heads of a group that are taken together, for so many key heads of a stack."""
        problem = self._prepared.problem
        rows, keys = self._prepared.seen.shape
        pairs = heads * max(rows * keys, (rows + keys) * problem.head_dim)
        count = 1 if alone else self._limits.together // max(pairs, 1)
        return query_heads(problem.group, count)

    def _block(self, block: _Block, tokens: Tokens) -> None:
        head, at, start = block.head, block.at, block.start
        given = self._given
        if given is not None:
            rows = slice(start, start + len(head.seen))
            given = {"o": given["o"][:, rows], "lse": given["lse"][..., rows]}
        fwd, bwd = steps_of(self._contract, head, given, at)
        for one, cast in one_by_one(head, bwd.cast, block.query_heads) if bwd is not None else ():
            if start == 0:
                tokens.next_head()
            tokens.take(one, cast)
        rows_here = slice(start, min(start + len(head.seen), self._prepared.problem.queries))
        for name, x in row_outputs(self._prepared, fwd, bwd).items():
            by_channel = name in ("o", "dq")
            place = (
                (lambda here: (at[0], here, at[1])) if by_channel else (lambda here: (*at, here))
            )
            self._put(name, place, x, rows_here)

    def _put(
        self, name: str, place: Callable[[slice], tuple[Any, ...]], x: Num, tokens: slice
    ) -> None:
        """Hands on some tokens of an output, ``AT_ONCE`` numbers at a time or one token."""
        numbers = self._read(x.array.numbers)
        step = max(AT_ONCE // max(numbers[0][:, :1].size, 1), 1)
        for start in range(tokens.start, max(tokens.stop, tokens.start + 1), step):
            here = slice(start, min(start + step, tokens.stop))
            inside = slice(start - tokens.start, here.stop - tokens.start)
            found = tuple(x[:, inside] for x in numbers)
            if name in ("lse", "delta"):
                found = tuple(values[..., 0] for values in found)
            if name == "lse":
                found = tuple(np.where(self._dead[here], -np.inf, values) for values in found)
            self._take(Part(name, place(here), found, self._prepared.exponents))

    def _blocks(self, *, finite: bool) -> list[tuple[int, int, int]]:
        """First query, last query, and the keys that the block may see, of each block."""
        rows, keys = self._prepared.seen.shape
        schedule = self._contract.schedule
        on_codes = isinstance(schedule, Windows)
        channels, limit = self._prepared.problem.head_dim, self._limits.head
        short = rows * keys <= limit and rows * channels <= CHANNELS * limit
        if short or (on_codes and not finite):
            return [(0, rows, keys)]
        # What is gathered until the end needs all keys of every block.
        added = _are_sets(self._inner) and isinstance(schedule, Rows)
        skip = finite and (self._inner.exact_schedule or added)
        sides = () if isinstance(schedule, Online) else (schedule.tile, schedule.p_group)
        side = math.lcm(*sides, self._contract.k_block or 1)
        step = max(limit // max(keys, channels) // BLOCK, 1) * BLOCK
        blocks = []
        for start in range(0, rows, step):
            seen = np.flatnonzero(self._prepared.seen[start : start + step].any(0))
            last = int(seen[-1]) + 1 if seen.size else 1
            reach = min(_up(last, side), keys) if skip else keys
            blocks.append((start, min(start + step, rows), reach))
        return blocks


def first_keys(head: Head, keys: int) -> Head:
    """A head with its first keys only."""
    if keys == head.seen.shape[1]:
        return head
    return replace(head, k=head.k.rows(0, keys), v=head.v.rows(0, keys), seen=head.seen[:, :keys])


def bits_in_parts(
    contract: Contract, problem: Problem, inputs: Inputs, *, limits: Limits = LIMITS
) -> Outputs:
    """The outputs bit for bit, as ``interpret`` gives them.

    Args:
        contract: The numerics, which state every order.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D).
        limits: What is taken together.

    Raises:
        ContractError: If the contract leaves an order open.
        InputError: If the inputs hold what the contract forbids.
    """
    require_bits(contract)
    a = Bits()
    call = AttentionCall(contract, problem, inputs)
    run = in_parts(call, Interpreter(a, lambda x: (a.float64(x),), limits))
    found = {n: stored(a, contract, n, x, run.exponents) for n, (x,) in run.found.items()}
    return Outputs(**found)
