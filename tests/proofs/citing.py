"""Reads sources: who cites which lemma, and which numbers bound code writes out.

A citation is a string that is exactly an id, in code and not in a docstring: an argument of
``rests_on``, an entry of a ``lemmas`` tuple, or the name of a constant whose row names the lemma.
It belongs to the top-level object (or method) that it stands in, ``module:object``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import dmverify

ROOT = Path(dmverify.__file__).parent
ALLOWED = (0, 1, 2)
CHAINS = ((ast.Add, ast.Sub), (ast.Mult,))
FOLDED = (ast.Pow, ast.LShift, ast.Div)


def module_of(path: Path) -> str:
    """Dotted name of a file of the package, without the package's own."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def objects(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Top-level functions and assignments, and the methods of classes, by name."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                name = node.name
                if isinstance(part, ast.FunctionDef):
                    name = f"{node.name}.{part.name}"
                yield name, part
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _assigned(node)


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.AST]]:
    """``A, B = (read(name) for name in ("a", "b"))`` is two objects, each with its string."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    for part in ast.walk(node) if len(targets) > 1 else ():
        if isinstance(part, ast.Tuple) and part is not target and len(part.elts) == len(targets):
            yield from zip(map(ast.unparse, targets), part.elts, strict=True)
            return
    yield ast.unparse(targets[0]), node


def strings(node: ast.AST) -> set[str]:
    """Strings in an object's code; a docstring is no code, a lemma's own id no citation."""
    quiet = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Expr):
            quiet.add(id(part.value))
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "lemma":
            quiet.add(id(part.args[0]))
    return {
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in quiet
    }


def citations(
    sources: Iterable[tuple[str, str]], ids: Iterable[str], *, rows: Mapping[str, str]
) -> dict[str, set[str]]:
    """Lemma id to the objects that cite it.

    Args:
        sources: Module names and their text.
        ids: What counts as a lemma or certificate.
        rows: Name of a constant to the id that states it.
    """
    found: dict[str, set[str]] = {name: set() for name in ids}
    for module, text in sources:
        for name, node in objects(ast.parse(text)):
            for word in strings(node):
                cited = rows.get(word, word)
                if cited in found:
                    found[cited].add(f"{module}:{name}")
    return found


def package_sources(*folders: str) -> list[tuple[str, str]]:
    """Modules of the package's folders."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [(module_of(path), path.read_text()) for path in paths]


def literals(text: str) -> list[tuple[int, str]]:
    """Numbers in code other than 0, 1 and 2, and what is put together from these alone.

    A sum or product with two written numbers, and a power, shift or quotient of two, is a number
    written out in disguise.
    """
    found = []
    for node in ast.walk(ast.parse(text)):
        if _number(node) and node.value not in ALLOWED:
            found.append((node.lineno, ast.unparse(node)))
        if isinstance(node, ast.BinOp) and _disguised(node):
            found.append((node.lineno, ast.unparse(node)))
    return found


def _disguised(node: ast.BinOp) -> bool:
    if isinstance(node.op, FOLDED) and _number(_bare(node.left)) and _number(_bare(node.right)):
        return True
    return any(
        isinstance(node.op, kinds) and sum(_number(_bare(x)) for x in _chain(node, kinds)) > 1
        for kinds in CHAINS
    )


def _chain(node: ast.AST, kinds: tuple[type, ...]) -> list[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, kinds):
        return [*_chain(node.left, kinds), *_chain(node.right, kinds)]
    return [node]


def _bare(node: ast.AST) -> ast.AST:
    return node.operand if isinstance(node, ast.UnaryOp) else node


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)
