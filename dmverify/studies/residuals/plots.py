"""The residual study's pictures, from its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dmverify.studies.plot import Panel, Plot, Series

Row = dict[str, Any]
SPREAD_LABEL = "logit spread (factor of q)"
RATIO_LABEL = "|row sum of dS| / sum of |dS|"
VACUOUS = 10.0  # no ratio exceeds 1: what a bound says above that need not be seen
MODES = ("stale", "consistent", "matched", "renormalized", "shifted", "associated")


def plots(data: dict[str, Any]) -> tuple[Plot, ...]:
    """All pictures in reading order."""
    return (_modes(data), _sharp(data), _casts(data), _columns_and_errors(data), _captures(data))


def _modes(data: dict[str, Any]) -> Plot:
    spreads = _spreads(data["rows"])
    panels = []
    for inputs in ("gaussian", "outlier"):
        rows = [row for row in data["rows"] if row["inputs"] == inputs]
        series = [
            Series(mode, _along(rows, spreads, "residual", delta=mode), mode) for mode in MODES
        ]
        figures = [
            Series(
                "article" if mode == "stale" else "",
                _along(rows, spreads, "article", delta=mode),
                "plain",
                "published",
            )
            for mode in ("stale", "consistent", "matched")
        ]
        bound = _along(data["ledger"], spreads, "bound", delta="matched", base="article")
        drawn = (Series("bound of matched", bound, "matched", "bound"),)
        panels.append(
            Panel(
                f"{inputs} inputs, before the cast",
                f"{RATIO_LABEL}, median",
                (*series, *figures, *(drawn if inputs == "gaussian" else ())),
                top=VACUOUS,
            )
        )
    return Plot(
        "modes",
        "Median residual before the cast of dS, by delta mode. Diamonds: the article's figures. "
        "Dashed: the ledger's bound of the matched residual, median over rows of one seed.",
        SPREAD_LABEL,
        spreads,
        tuple(panels),
    )


def _sharp(data: dict[str, Any]) -> Plot:
    spreads = _spreads(data["ledger"])
    article, bundled = (
        [row for row in data["ledger"] if row["base"] == base] for base in ("article", "bundled")
    )
    panels = []
    for title, key, bound in (
        ("median row", "residual", "bound"),
        ("worst row", "residual_max", "bound_max"),
    ):
        panels.append(
            Panel(
                f"{title}, before the cast",
                RATIO_LABEL,
                (
                    *_per_mode(article, spreads, key, "{}", "measured"),
                    *_per_mode(bundled, spreads, key, "{}, bundled (Hopper bits)", "variant"),
                    *_per_mode(article, spreads, bound, "bound of {}", "bound"),
                ),
                top=VACUOUS,
            )
        )
    return Plot(
        "sharp",
        "Where the deltas that sum over keys leave round-off: one seed, gaussian inputs, contract "
        "article unless said otherwise. In sharp rows sum |dS| collapses and the matched residual "
        "does not follow; the shifted one does. Dashed: median (left) and largest (right) over "
        "rows of the ledger's bound, divided by sum |dS|; above 1 it says nothing.",
        SPREAD_LABEL,
        spreads,
        tuple(panels),
    )


def _per_mode(
    rows: Sequence[Row], spreads: Sequence[float], key: str, label: str, look: str
) -> list[Series]:
    """One line for each mode that sums over keys and was run; renormalized's bound is matched's."""
    return [
        Series(label.format(mode), _along(rows, spreads, key, delta=mode), mode, look)
        for mode in ("matched", "renormalized", "shifted")
        if any(row["delta"] == mode for row in rows) and (mode, look) != ("renormalized", "bound")
    ]


def _casts(data: dict[str, Any]) -> Plot:
    spreads = _spreads(data["rows"])
    gaussian = [row for row in data["rows"] if row["inputs"] == "gaussian"]
    every = gaussian + data["variants"]
    panels = tuple(
        Panel(
            f"contract {base}{note}, after the cast",
            f"{RATIO_LABEL}, median",
            _cast_series([row for row in every if row["base"] == base], spreads),
        )
        for base, note in (("article", ""), ("bundled", " (Hopper bits)"))
    )
    return Plot(
        "casts",
        "Median residual after the cast of dS to E4M3, gaussian inputs; the nearest cast, or "
        "dash-dotted the zero-sum cast, which carries each rounding error on to the next key. A "
        "median of 0 has no mark.",
        SPREAD_LABEL,
        spreads,
        panels,
    )


def _cast_series(rows: Sequence[Row], spreads: Sequence[float]) -> tuple[Series, ...]:
    """Every mode and cast that was run, and the article's figures where there are any."""
    looks = {"nearest": "measured", "zero-sum": "variant"}
    lines = [
        Series(
            mode if cast == "nearest" else f"{mode}, {cast} cast",
            _along(rows, spreads, "residual_cast", delta=mode, ds_cast=cast),
            mode,
            looks[cast],
        )
        for mode in ("stale", "consistent", "matched", "shifted")
        for cast in looks
    ]
    matched = [_find(rows, spread, delta="matched", ds_cast="nearest") for spread in spreads]
    figures = [row["article_figures"].get("residual_cast") if row else None for row in matched]
    every = [*lines, Series("article", figures, "plain", "published")]
    return tuple(series for series in every if any(y is not None for y in series.y))


def _columns_and_errors(data: dict[str, Any]) -> Plot:
    spreads = _spreads(data["rows"])
    rows = [row for row in data["rows"] if row["inputs"] == "gaussian"]
    sums = [Series(mode, _along(rows, spreads, "colsum", delta=mode), mode) for mode in MODES]
    errors = [
        Series(mode, _along(rows, spreads, "dq_error", delta=mode), mode)
        for mode in ("stale", "consistent", "matched")
    ]
    output = Series("O (right)", _along(rows, spreads, "o_error", delta="matched"), "plain")
    return Plot(
        "columns",
        "Left: key column sums of dK before the cast. Right: error of dQ by mode, and of O, "
        "against float64 attention on the same BF16 inputs. Gaussian inputs, contract article.",
        SPREAD_LABEL,
        spreads,
        (
            Panel("column sums of dK", "|column sum| / sum of |dK|, all channels", tuple(sums)),
            Panel("distance from float64 attention", "relative Frobenius error", (*errors, output)),
        ),
    )


def _captures(data: dict[str, Any]) -> Plot:
    names = list(dict.fromkeys(row["inputs"] for row in data["captures"]))
    rows = [row for row in data["captures"] if row["base"] == "article"]
    before = [
        Series(
            mode, _per_capture(rows, names, "residual", delta=mode, ds_cast="nearest"), mode, "dots"
        )
        for mode in MODES
    ]
    after = [
        Series(
            mode if cast == "nearest" else f"{mode}, {cast} cast",
            _per_capture(rows, names, "residual_cast", delta=mode, ds_cast=cast),
            mode,
            look,
        )
        for mode, cast, look in (
            ("stale", "nearest", "dots"),
            ("consistent", "nearest", "dots"),
            ("matched", "nearest", "dots"),
            ("matched", "zero-sum", "hollow"),
        )
    ]
    return Plot(
        "captures",
        "Attention of trained models, contract article: a sentence encoder (minilm) and a "
        "character model during training (chars). Median over rows and heads of each capture.",
        "capture",
        names,
        (
            Panel("before the cast", f"{RATIO_LABEL}, median", tuple(before)),
            Panel("after the cast", f"{RATIO_LABEL}, median", tuple(after)),
        ),
    )


def _spreads(rows: Iterable[Row]) -> list[float]:
    return sorted({row["spread"] for row in rows})


def _along(
    rows: Sequence[Row], spreads: Sequence[float], key: str, **where: str
) -> list[float | None]:
    found = (_find(rows, spread, **where) for spread in spreads)
    return [row[key] if row else None for row in found]


def _find(rows: Sequence[Row], spread: float, **where: str) -> Row | None:
    matching = (
        row
        for row in rows
        if row["spread"] == spread and all(row[name] == word for name, word in where.items())
    )
    return next(matching, None)


def _per_capture(
    rows: Sequence[Row], names: Sequence[str], key: str, **where: str
) -> list[float | None]:
    return [
        _along([row for row in rows if row["inputs"] == name], [1.0], key, **where)[0]
        for name in names
    ]
