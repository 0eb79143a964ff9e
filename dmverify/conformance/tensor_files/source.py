"""Where tensors come from, in the words of a command line: ``FILE[:PREFIX]`` and two settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dmverify.errors import InputError


@dataclass(frozen=True)
class Source:
    """Tensors of a file, and what the file may not say of them.

    Attributes:
        path: The file.
        prefix: Which of its cases; empty for all.
        causal: Whether later keys are hidden; None where the file says it.
        softmax_scale: Factor of the logits; None for the file's, or else ``head_dim ** -0.5``.

    >>> Source.parse("calls.npz:layers.3").prefix
    'layers.3'
    """

    path: Path
    prefix: str = ""
    causal: bool | None = None
    softmax_scale: float | None = None

    @classmethod
    def parse(
        cls, text: str, *, causal: bool | None = None, softmax_scale: float | None = None
    ) -> Source:
        """The source of ``FILE[:PREFIX]``; a file whose name has a colon is named alone, whole.

        Raises:
            InputError: For an empty text.
        """
        name, _, prefix = text.rpartition(":")
        if not name or Path(text).exists():
            name, prefix = text, ""
        if not name:
            raise InputError(
                f"inputs {text!r}",
                rule="inputs are FILE or FILE:PREFIX",
                fix="write --inputs FILE, or FILE:PREFIX for the tensors whose names begin so",
            )
        return cls(Path(name), prefix, causal, softmax_scale)

    def __str__(self) -> str:
        return f"{self.path}:{self.prefix}" if self.prefix else str(self.path)

    def to_json(self) -> dict[str, Any]:
        """The source as plain values, for another process."""
        return {**asdict(self), "path": str(self.path)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Source:
        """The source from the values of ``to_json``."""
        return cls(**{**found, "path": Path(found["path"])})

    def words(self) -> list[str]:
        """The options that name it again."""
        found = ["--inputs", str(self)]
        if self.causal is not None:
            found.append("--causal" if self.causal else "--full")
        if self.softmax_scale is not None:
            found += ["--softmax-scale", repr(self.softmax_scale)]
        return found


def as_source(one: str | os.PathLike[str] | Source) -> Source:
    """The source of a text or path; a source is itself.

    Raises:
        InputError: For anything else, and an empty text.
    """
    if isinstance(one, Source):
        return one
    if not isinstance(one, (str, os.PathLike)):
        raise InputError(
            f"inputs of type {type(one).__name__}",
            rule="inputs are names of files, FILE or FILE:PREFIX",
            fix="pass cases=[Case(...)] for arrays, or save them",
        )
    return Source.parse(os.fspath(one))


def sources(
    files: Sequence[str], causal: bool | None, softmax_scale: float | None
) -> tuple[Source, ...]:
    """Sources of texts; paths are absolute, since a kernel may change the directory.

    Args:
        files: Each ``FILE`` or ``FILE:PREFIX``.
        causal: As for ``Source``, of all of them.
        softmax_scale: As for ``Source``, of all of them.

    Raises:
        InputError: For an empty text, and for a mask or a scale of no file.
    """
    if not files and not (causal is None and softmax_scale is None):
        raise InputError(
            f"causal={causal}, softmax_scale={softmax_scale}, and no file of tensors",
            rule="a mask and a softmax scale are said of files; other cases have their own",
            fix="add --inputs FILE, or leave them out; of drawn cases the id says them "
            "(family/variant,causal=1,softmax_scale=0.5@0)",
        )
    found = (Source.parse(one, causal=causal, softmax_scale=softmax_scale) for one in files)
    return tuple(replace(one, path=one.path.absolute()) for one in found)
