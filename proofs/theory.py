"""Writes docs/theory: the derivation step by step, and which theorem stands behind which bound.

    dmverify lab theory

Words are ``derivation``'s; formulas are the theorems' and the code's own, so a page that says
another is noticed by a test that writes both again. ``statements.json`` is written with them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

import dmverify
from dmverify.proofs.assumed import ASSUMED, BY_HAND, NOT_PROVED
from dmverify.proofs.certificates import BLOCK, CERTIFICATES
from dmverify.proofs.derivation import PARTS
from dmverify.proofs.every_tie import all_ties
from dmverify.proofs.gallina import parse, pretty
from dmverify.proofs.met import Met
from dmverify.proofs.obligations import EVERYWHERE, OBLIGATIONS
from dmverify.proofs.registry import all_lemmas
from dmverify.proofs.second_means import THEOREM, second_means
from dmverify.proofs.statements import STATEMENTS, Claim, exported, get_statement
from dmverify.proofs.steps import Step
from dmverify.spec.ledger.bounds import BOUNDS

PACKAGE = Path(dmverify.__file__).parent
PAGES = PACKAGE.parent / "docs" / "theory"
_MADE = "<!-- Written by `dmverify lab theory`: change proofs, not this page. -->"


Shares: TypeAlias = Sequence[tuple[str, float, float]]
"""Contract, and what a constructed input attains of its closed form and of its row's terms."""


def pages(shares: Shares) -> Mapping[str, str]:
    """Name and text of every page."""
    return {"derivation.md": _derivation(), "table.md": _table(shares)}


def write(shares: Shares) -> tuple[Path, ...]:
    """Writes the pages and the statements; returns the files."""
    PAGES.mkdir(parents=True, exist_ok=True)
    texts = {PAGES / name: text for name, text in pages(shares).items()}
    texts[STATEMENTS] = exported()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return tuple(texts)


def steps() -> Iterator[tuple[int, Step]]:
    """Every step with its number."""
    yield from enumerate((step for part in PARTS for step in part.steps), start=1)


def _derivation() -> str:
    numbers = {step.title: number for number, step in steps()}
    lines = [
        "# The derivation, step by step", "", _MADE, "",
        "Each step names its theorems (in `proofs/rocq`, any length, any order, with underflow), "
        "their premises, its lemmas (by solvers) and the lines of code that are its formula. "
        "`u` = 2^-24, `eta` = 2^-150, `path k` = (1 + u)^k - 1, `compound a b` = a + b + a b, "
        "`inverse r` = r / (1 - r). [Which theorem stands behind which bound](table.md).", "",
    ]  # fmt: skip
    for part in PARTS:
        lines += [f"## {part.title}", ""]
        for step in part.steps:
            lines += [f"### {numbers[step.title]}. {step.title}", "", step.words, ""]
            lines += [*_theorems(step), *_lemmas(step), *_code(step), ""]
    return "\n".join(lines).rstrip() + "\n"


def _theorems(step: Step) -> Iterator[str]:
    for name in step.theorems:
        one = get_statement(name)
        yield f"- theorem `{name}` ({one.file})"
        for claim in one.claims:
            yield f"    - `{_claimed(claim)}`"
        for premise in one.premises:
            yield f"    - needs `{pretty(parse(premise))}`"


def _claimed(claim: Claim) -> str:
    right = " + ".join(pretty(term, 6) for term in claim.right)
    left = pretty(claim.left)
    return f"{left} {claim.relation} {right}" if right else left


def _lemmas(step: Step) -> Iterator[str]:
    said = {entry.id: entry.statement for entry in all_lemmas()}
    said |= {entry.id: entry.statement for entry in CERTIFICATES}
    for name in step.lemmas:
        yield f"- lemma `{name}`: {said[name]}"


def _code(step: Step) -> Iterator[str]:
    for place in step.code:
        file, line = line_of(place)
        yield f"- code `{file}`, `{place.partition(':')[2]}`: `{line}`"


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def line_of(place: str) -> tuple[str, str]:
    """File of a ``module:object``, and what it returns or is set to.

    A function's line is its last return; what a name is set to is shown by its first line.
    """
    module, _, name = place.partition(":")
    path = PACKAGE / Path(*module.split(".")).with_suffix(".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    node: ast.AST = _parsed(path)
    for part in name.split("."):
        node = _named(node, part)
    returns = [x for x in ast.walk(node) if isinstance(x, ast.Return)]
    last = max(returns, key=lambda x: x.lineno) if returns else node
    return f"dmverify/{path.relative_to(PACKAGE)}", ast.unparse(last).splitlines()[0]


def _named(node: ast.AST, name: str) -> ast.AST:
    for part in ast.iter_child_nodes(node):
        targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
        names = {getattr(part, "name", None), *(getattr(x, "id", None) for x in targets)}
        if name in names:
            return part
    raise LookupError(name)


def _table(shares: Shares) -> str:
    lines = [
        "# Which theorem stands behind which bound", "", _MADE, "",
        "A tie compares what the code computes with the theorem's right side, summand by summand, "
        "on numbers of many magnitudes (`dmverify prove --ties`). How a premise is met: a row that "
        "is evaluated on every case, a step of the code, another theorem, or what a name means.",
        "", "## Bounds that are a theorem's right side", "",
        "| bound | theorem | code | line |", "|---|---|---|---|",
    ]  # fmt: skip
    for tie in all_ties():
        file, line = line_of(tie.code)
        cells = (tie.bound, f"`{tie.theorem}`", f"`{file}`", f"`{line}`")
        lines.append(_row(cells))
    lines += ["", "## Their premises, and what meets each", "", *_premises()]
    lines += ["", "## Terms of the ledger", "", *_terms()]
    lines += ["", "## Second means of the lemmas", "", *_means()]
    lines += ["", "## What all of it rests on", "", *_pairs(ASSUMED)]
    lines += ["", "## What a verdict uses and no theorem states", "", *_pairs(NOT_PROVED)]
    lines += ["", "## How much of a bound is attained", "", *_attained(shares)]
    lines += ["", *_commands()]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _premises() -> Iterator[str]:
    yield from ("| premise | met by | why |", "|---|---|---|")
    for met in EVERYWHERE:
        yield _row(("nothing overflows", _met(met), met.words))
    for premise, met in OBLIGATIONS.items():
        yield _row((f"`{pretty(parse(premise))}`", _met(met), met.words))


def _met(met: Met) -> str:
    return f"{met.how} `{met.where}`" if met.where else "by its meaning"


def _terms() -> Iterator[str]:
    tied: dict[str, list[str]] = {}
    for tie in all_ties():
        tied.setdefault(tie.bound.partition(",")[0], []).append(tie.theorem)
    yield from ("| term | theorems | lemmas | by hand |", "|---|---|---|---|")
    for name, bound in BOUNDS.items():
        theorems = ", ".join(f"`{x}`" for x in dict.fromkeys(tied.get(name, ()))) or "none"
        by_hand = BY_HAND.get(name, "")
        yield _row((f"`{name}`", theorems, ", ".join(f"`{x}`" for x in bound.lemmas), by_hand))


def _means() -> Iterator[str]:
    yield "z3 proves each; a second solver reads the same text. What else confirms it:"
    yield from ("", "| lemma | confirmed by |", "|---|---|")
    for entry in all_lemmas():
        yield _row((f"`{entry.id}`", ", ".join(second_means(entry))))
    for each in CERTIFICATES:
        worst = f"; its worst input: theorem `{THEOREM[each.id]}`" if each.id in THEOREM else ""
        yield _row((f"`{each.id}`", f"all {len(each.blocks) * BLOCK} inputs{worst}"))


def _pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for what, words in pairs:
        yield f"- **{what}.** {words}"


def _attained(shares: Shares) -> Iterator[str]:
    yield "Inputs of 512 keys, constructed; the rest is what a closed form cannot know of a row."
    yield from ("", "| contract | of the closed form | of the sum of the row's own terms |")
    yield "|---|---|---|"
    for contract, closed, terms in shares:
        yield _row((contract, f"{closed:.1%}", f"{terms:.1%}"))


def _commands() -> Iterator[str]:
    yield from (
        "## Asked again", "",
        "| command | what it does |", "|---|---|",
        "| `dmverify prove` | lemmas by solvers, ties, the trusted base in lines |",
        "| `make theorems` | theorems by Rocq, and the axioms that each rests on |",
        "| `dmverify lab sabotage` | planted edits, each to be noticed |",
        "| `dmverify study bounds` | how much of a bound constructed inputs attain |",
        "| `dmverify lab proof-objects` | finds the proofs that need no solver to be checked |",
        "| `dmverify lab theory` | writes these pages |",
    )  # fmt: skip
