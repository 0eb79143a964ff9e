"""The worked row's tables and picture, from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.study import Table

Row = dict[str, Any]
KEY_COLUMNS = ("S", "e", "code", "hex", "P", "P forward", "dP")
TERM_ORDER = (
    "prob", "grad", "out", "acc", "dot", "norm", "accdP", "vmis",
    "match", "balance", "elem", "cast",
)  # fmt: skip


def tables(rows: Sequence[Row]) -> tuple[Table, ...]:
    """All tables, row by row."""
    return tuple(table for row in rows for table in _tables(row))


def _tables(row: Row) -> Iterator[Table]:
    yield _operands(row)
    yield _keys(row)
    yield _modes(row)
    yield _gradients(row)
    yield _terms(row)


def _operands(row: Row) -> Table:
    operands = row["operands"]
    lines = [(name, operands[name]) for name in ("q", "dO", "dO^")]
    lines += [(f"{name}, key {j}", x) for name in "kv" for j, x in enumerate(operands[name])]
    return Table(
        f"Seed {row['seed']}: operands",
        ("tensor", *(f"channel {c}" for c in range(len(operands["q"])))),
        tuple((name, *(_full(x) for x in values)) for name, values in lines),
        "q, k (centred), v and dO^ are dequantised, code x scale; dO is the BF16 input.",
    )


def _keys(row: Row) -> Table:
    forward = row["forward"]
    columns = [row["keys"][name] for name in KEY_COLUMNS]
    return Table(
        f"Seed {row['seed']}: forward, and what the backward recomputes",
        ("key", *KEY_COLUMNS),
        tuple(
            (str(j), *(x if isinstance(x, str) else _full(x) for x in cells))
            for j, cells in enumerate(zip(*columns, strict=True))
        ),
        f"Basis {_full(forward['basis'])}, l {_full(forward['l'])}, LSE {_full(forward['lse'])} "
        f"(float64 attention: {_full(row['exact']['lse'])}; centring K moves a row's logits "
        f"together). O before the store: {_list(forward['O before store'])}; stored in BF16: "
        f"{_list(forward['O'])}.",
    )


def _modes(row: Row) -> Table:
    modes = row["modes"]
    return Table(
        f"Seed {row['seed']}: delta and row sum",
        ("delta mode", "shift", "delta", "row sum", "of sum |dS|", "after cast"),
        tuple(
            (
                mode,
                _full(m["shift"]),
                _full(m["delta"]),
                _full(m["row_sum"]),
                f"{100 * m['relative']:.3g} %",
                _full(m["row_sum_cast"]),
            )
            for mode, m in modes.items()
        ),
        f"dS = P ((dP - shift) - delta). Float64 attention on the BF16 inputs has delta "
        f"{_full(row['exact']['delta'])}.",
    )


def _gradients(row: Row) -> Table:
    modes = row["modes"]
    return Table(
        f"Seed {row['seed']}: dS before and after the cast",
        ("delta mode", *(f"key {j}" for j in range(len(row["keys"]["S"])))),
        tuple(
            (f"{mode}, {name}", *(_full(x) for x in m[name]))
            for mode, m in modes.items()
            for name in ("dS", "dS^")
        ),
    )


def _terms(row: Row) -> Table:
    modes = row["modes"]
    return Table(
        f"Seed {row['seed']}: the row sum, term by term",
        ("term", *modes),
        (
            *(
                (name, *(_full(_term(m, name)) for m in modes.values()))
                for name in TERM_ORDER[:-1]
                if any(name in m["terms"] for m in modes.values())
            ),
            ("sum = row sum", *(_full(m["row_sum"]) for m in modes.values())),
            ("exact", *("yes" if m["closes"] else "NO" for m in modes.values())),
            ("cast", *(_full(m["cast"]) for m in modes.values())),
        ),
        "exact: the terms as rationals sum to the row sum without any difference.",
    )


def _term(mode: Row, name: str) -> float | None:
    value: float | None = mode["cast"] if name == "cast" else mode["terms"].get(name)
    return value


def plots(rows: Sequence[Row]) -> tuple[Plot, ...]:
    """One picture a row: the size of each term in each mode."""
    return tuple(_plot(row) for row in rows)


def _plot(row: Row) -> Plot:
    modes = row["modes"]
    series = [
        Series(mode, [_relative(m, name) for name in TERM_ORDER], mode, "dots")
        for mode, m in modes.items()
    ]
    bound = [
        max(
            (m["bounds"][name] / m["size"] for m in modes.values() if name in m["bounds"]),
            default=None,
        )
        for name in TERM_ORDER
    ]
    return Plot(
        f"terms-seed{row['seed']}",
        "Size of every term of the row sum, relative to sum |dS| of its mode. Terms that are 0 "
        "have no dot. Squares: the term's own bound, the widest of the modes that have it.",
        "term of the ledger",
        TERM_ORDER,
        (
            Panel(
                f"last query of the toy head, seed {row['seed']}",
                "|term| / sum of |dS|",
                (*series, Series("bound", bound, "grey", "hollow")),
            ),
        ),
    )


def _relative(mode: Row, name: str) -> float | None:
    value = _term(mode, name)
    return None if value is None else abs(value) / float(mode["size"])


def _full(x: float | None) -> str:
    """Seven digits: a float32 needs nine to be told from its neighbours, a reader fewer."""
    return "" if x is None else f"{x:.7g}"


def _list(values: Sequence[float]) -> str:
    return ", ".join(_full(x) for x in values)
