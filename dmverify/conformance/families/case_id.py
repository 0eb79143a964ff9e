"""Case ids: ``family/variant[,field=value ...]@seed``.

A field is one of the problem's (``batch``, ``heads``, ``kv_heads``, ``queries``, ``keys``,
``head_dim``, ``causal``, ``softmax_scale``) and replaces what the variant would use. Everything
that the inputs depend on is in the id. ``@seed`` may be left out and is then 0.

    constant-v/third@7
    positive-v/long,keys=65536,heads=1,kv_heads=1@0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dmverify.errors import InputError

_SHAPE = re.compile(
    r"(?P<family>[a-z0-9-]+)/(?P<variant>[^,@\s]+)(?:,(?P<fields>[^@\s]+))?"
    r"(?:@(?P<seed>[0-9]+))?"
)
_GRAMMAR = "a case id reads family/variant[,field=value ...]@seed, in 200 letters at most"
_LONGEST = 200  # letters
_WHOLE = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim")


@dataclass(frozen=True)
class CaseId:
    """The parts of a case id; ``str`` gives the id back in its canonical form.

    Attributes:
        family: Name of the family.
        variant: Name of the variant.
        fields: Problem fields that the id sets.
        seed: Seed of the draws.
    """

    family: str
    variant: str
    fields: Mapping[str, int | bool | float] = field(default_factory=dict)
    seed: int = 0

    def __str__(self) -> str:
        words = [f",{name}={_shown(value)}" for name, value in self.fields.items()]
        return f"{self.family}/{self.variant}{''.join(words)}@{self.seed}"


def parse_case_id(text: str) -> CaseId:
    """Return the parts of a case id.

    Raises:
        InputError: The text does not follow the grammar, or a field is unknown, repeated or not a
            number.

    >>> parse_case_id("lengths/q17-k129,causal=0@3")
    CaseId(family='lengths', variant='q17-k129', fields={'causal': False}, seed=3)
    """
    match = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise InputError(
            repr(text[:_LONGEST]), rule=_GRAMMAR, fix="write for example constant-v/third@0"
        )
    words = (match["fields"] or "").split(",") if match["fields"] else []
    fields = dict(_field(word, text) for word in words)
    if len(fields) != len(words):
        raise InputError(repr(text), rule="each field is set once", fix="remove the repetition")
    return CaseId(match["family"], match["variant"], fields, int(match["seed"] or 0))


def _field(word: str, text: str) -> tuple[str, int | bool | float]:
    name, _, value = word.partition("=")
    try:
        if name in _WHOLE:
            return name, int(value)
        if name == "causal":
            return name, {"0": False, "1": True}[value]
        if name == "softmax_scale":
            return name, float(value)
    except (ValueError, KeyError):
        pass
    raise InputError(
        f"{word!r} in {text!r}",
        rule=f"fields are {', '.join(_WHOLE)} (whole), causal (0 or 1), softmax_scale (a number)",
        fix="write for example keys=4096",
    )


def _shown(value: int | bool | float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)
