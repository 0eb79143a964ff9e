"""One row a figure: as published, ours beside it, and whether it is reproduced.

A verdict is computed from a recorded study, never written down: ``reproduced`` within the stated
tolerance, else ``contradicted``; figures that nothing here can give are ``out of reach``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from dmverify.studies.paper import prototype
from dmverify.studies.paper.beyond import BEYOND

Data = dict[str, Any]
Read = Callable[[str], Data]
FACTOR = 1.5  # another text and other seeds than the article's tiny training run


@dataclass(frozen=True)
class Claim:
    """One published figure: where it stands, what it is, and as printed."""

    section: str
    figure: str
    published: str


@dataclass(frozen=True)
class Row:
    """One published figure, and what became of it.

    Attributes:
        section: Where it stands.
        figure: What it is.
        published: As printed.
        ours: Ours beside it; empty if there is none.
        verdict: reproduced, contradicted or out of reach.
        why: The command that gives ours, or why there is none.
    """

    section: str
    figure: str
    published: str
    ours: str
    verdict: str
    why: str

    def to_json(self) -> dict[str, str]:
        """Every field, for scripts."""
        return asdict(self)


def every_row(read: Read) -> Iterator[Row]:
    """All figures, in the order of the article.

    Args:
        read: Gives the recorded data of a study by name.
    """
    yield from _toy_heads(read("residuals"))
    yield from _identities(read("residuals"), read("mechanism"))
    yield from _tiny_training(read("train"))
    yield from _prototype(read("separate"))
    yield from _sizes()
    yield from (
        Row(section, figure, published, "", "out of reach", why)
        for section, figure, published, why in BEYOND
    )


def _judged(claim: Claim, ours: str, holds: bool, how: str) -> Row:
    verdict = "reproduced" if holds else "contradicted"
    return Row(claim.section, claim.figure, claim.published, ours, verdict, how)


def _toy_heads(data: Data) -> Iterator[Row]:
    """The residual table and the sentences around it."""
    for one in data["published"]:
        how = f"study residuals, within {100 * one['tolerance']:g} %"
        published, ours = (f"{one[key]:.3g}" for key in ("published", "ours"))
        yield _judged(Claim("toy heads", one["figure"], published), ours, one["within"], how)
    errors = {
        row["spread"]: row
        for row in data["rows"]
        if row["inputs"] == "gaussian" and row["delta"] == "matched"
    }
    yield _judged(
        Claim("README", "error of O and dQ, Gaussian inputs", "about 0.04 and 0.06"),
        f"{errors[1.0]['o_error']:.3f} and {errors[1.0]['dq_error']:.3f}",
        abs(errors[1.0]["o_error"] - 0.04) < 0.01 and abs(errors[1.0]["dq_error"] - 0.06) < 0.01,
        "study residuals, spread 1",
    )  # fmt: skip
    growth = [errors[s]["dq_error"] for s in (1.0, 2.0, 4.0)]
    yield _judged(
        Claim("README", "the error grows with the logit range", "yes"),
        ", ".join(f"{x:.3f}" for x in growth), growth == sorted(growth),
        "study residuals, dQ at spread 1, 2, 4",
    )  # fmt: skip


def _identities(residuals: Data, mechanism: Data) -> Iterator[Row]:
    """Statements of the mechanism that hold or do not."""
    ledger = residuals["ledger"]
    closed = sum(row["closes"] for row in ledger)
    yield _judged(
        Claim("eq. 2", "the terms sum to the row sum", "identity"),
        f"exact in {closed} of {len(ledger)} runs of all rows", closed == len(ledger),
        "study residuals, ledger in exact rationals",
    )  # fmt: skip
    stale = next(row for row in mechanism["summary"] if row["delta"] == "stale")
    yield _judged(
        Claim("mechanism", "eps < 0 sharpens a row, eps > 0 flattens it", "yes"),
        f"{100 * stale['agree']:.2f} % of rows", stale["agree"] > 0.99, "study mechanism",
    )  # fmt: skip
    chance = next(row for row in mechanism["summary"] if row["delta"] == "matched")
    low, high = (stale["push"] + sign * stale["push_half"] for sign in (-1, 1))
    yield _judged(
        Claim(
            "mechanism", "channels get a consistent push: more one-sided than round-off's", "yes",
        ),
        f"{low:.3f} to {high:.3f} against {chance['push']:.3f}", low > chance["push"],
        "study mechanism; the paper's models are larger by 1,000 times and more",
    )  # fmt: skip


# Variant, published residual before and after the cast, and share of the top channel.
TRAINED = (
    ("stale", 1.0e-2, 1.3e-2, 4.8e-2),
    ("consistent", 5.2e-3, 8.5e-3, 4.7e-2),
    ("matched", 3.5e-8, 6.1e-3, 4.6e-2),
)


def _tiny_training(data: Data) -> Iterator[Row]:
    """The character model."""
    rows = {row["name"]: row for row in data["rows"]}
    apart = [n for n, *_ in TRAINED if abs(rows[n]["gap"]) > rows[n]["gap_half"]]
    gaps = ", ".join(f"{rows[n]['gap']:+.4f} ± {rows[n]['gap_half']:.4f}" for n, *_ in TRAINED)
    yield _judged(
        Claim(
            "tiny training", "stale, consistent, matched end where exact does",
            "-0.0000, -0.0001, +0.0015",
        ),
        gaps, not apart, "study train: the 95 % interval holds 0",
    )  # fmt: skip
    how = f"study train, within a factor of {FACTOR:g} (another text)"
    for name, *figures in TRAINED:
        for key, figure in zip(("residual", "residual_cast", "share"), figures, strict=True):
            ours = rows[name][key]
            close = 1 / FACTOR <= ours / figure <= FACTOR
            claim = Claim("tiny training", f"{key}, {name}", f"{figure:.2g}")
            yield _judged(claim, f"{ours:.2g}", close, how)


def _prototype(data: Data) -> Iterator[Row]:
    """What a first trial of this project had seen on a model of 3 million parameters."""
    for figure, published, ours, holds, how in prototype.beside(data):
        if holds is None:
            yield Row("prototype", figure, published, ours, "out of reach", how)
        else:
            yield _judged(Claim("prototype", figure, published), ours, holds, how)


def _sizes() -> Iterator[Row]:
    """The bytes of a stored dS."""
    for length, published in ((8192, 1), (65536, 64)):
        gib = 16 * length**2 / 2**30
        yield _judged(
            Claim("kernel", f"dS in E4M3, 16 heads of {length} tokens", f"{published} GiB"),
            f"{gib:g} GiB", gib == published, "heads x length^2 bytes",
        )  # fmt: skip
