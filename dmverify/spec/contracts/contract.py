"""A contract: the numerics of one attention kernel, as data.

Each field names one decision; the attention steps look the decision up in a table. What goes
together with the pieces in which a row is taken is one field, the ``schedule``. A contract is a
printable, hashable value and travels with every result. Whether the bits are known is a property of
the contract (``bit_exact``): it needs a stated order for every sum.

| form | example | read by |
|---|---|---|
| a name | ``article:delta=stale,p_group=32`` | ``get_contract`` |
| a file | ``format = 1``, ``base = "article"``, ``p_group = 32`` | ``read_contract`` |

Both say a named contract and every field that differs, so that whoever has the name has it all. The
fields of the schedule stand there beside the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from dmverify.errors import ContractError
from dmverify.spec.contracts.deltas import DELTA_MODES, DeltaMode
from dmverify.spec.contracts.exclusions import exclusions
from dmverify.spec.contracts.schedule import Rows, Schedule, Windows
from dmverify.spec.contracts.vocabulary import FACTORS, require_values, word_of
from dmverify.spec.formats import BF16, ELEMENTS, Element

MODIFIERS = ("delta", "ds_cast", "normaliser")  # which a name says first
ABOUT = ("base", "summary")  # about the contract, and no part of its numerics
Word = str | int | bool
"""A field's value as files and names say it."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a kernel promises about its arithmetic.

    Attributes:
        base: Name of the contract that this one is told from; of a named one its own.
        summary: One line for people.
        operand_rule: Name of the scale rule of q, k, v and do (``dmverify.spec.scaling``).
        schedule: In which pieces a row is taken (``dmverify.spec.contracts.schedule``).
        q_format: What q's codes are numbers of (and likewise below).
        q_block: Rows that share one scale in q (and likewise below); None is the whole tensor.
        saturate: Whether casts saturate at the format's largest number; if not, E4M3 codes above
            464 are NaN.
        gradients: Whether there is a backward pass.
        other fields: see ``VOCABULARY``.

    Raises:
        ContractError: For a value that a field cannot have, or fields that exclude each other; the
            message names the fields.
        UnknownNameError: For a scale rule that does not exist.
    """

    base: str
    summary: str
    operand_rule: str
    schedule: Schedule = field(default_factory=Rows)
    q_format: str = "e4m3"
    k_format: str = "e4m3"
    v_format: str = "e4m3"
    do_format: str = "e4m3"
    q_block: int | None = 128
    k_block: int | None = 64
    v_block: int | None = 64
    do_block: int | None = 128
    v_scales: str = "rows"
    centre_k: str = "mean"
    normaliser: str = "unrounded"
    saturate: bool = False
    scale_span: str = "head"
    store: str = "bf16"
    delta: str = "matched"
    ds_cast: str = "nearest"
    ds_format: str = "e4m3"
    gradients: bool = True

    def __post_init__(self) -> None:
        require_values(self)
        if not isinstance(self.schedule, Schedule):
            raise ContractError(
                f"schedule={self.schedule!r:.80}",
                rule="a schedule is Rows, Windows or Online, with its own fields",
                fix="pass schedule=Rows(p_group=64, tile=64)",
            )
        words = words_of(self)
        for one in exclusions(self):
            if one.wrong:
                met = ", ".join(f"{name}={words[name]}" for name in one.fields if name in words)
                raise ContractError(met, rule=one.rule, fix=one.fix)

    @property
    def name(self) -> str:
        """A named contract, or one with every field that differs: ``base:key=value,...``.

        Of a contract whose base is no named one, the base is the nearest that is.
        """
        plain = _REGISTERED.get(self.base) or nearest(self)
        if plain is None:
            return self.base
        changed = differences(self, plain)
        ordered = (*MODIFIERS, *(key for key in changed if key not in MODIFIERS))
        words = [f"{key}={shown(changed[key])}" for key in ordered if key in changed]
        return plain.base + (":" + ",".join(words) if words else "")

    @property
    def bit_exact(self) -> bool:
        """Whether every order is stated, so that the outputs are known bit for bit."""
        return isinstance(self.schedule, Windows) and self.schedule.row_sum != "unspecified"

    @property
    def delta_mode(self) -> DeltaMode:
        """What the softmax correction reads."""
        return DELTA_MODES[self.delta]

    def element(self, operand: str) -> Element:
        """The format of an operand's codes: of q, k, v or do."""
        if self.schedule.operands == "bf16":
            return BF16
        return ELEMENTS[getattr(self, f"{operand}_format")]

    @property
    def in_e4m3(self) -> bool:
        """Whether operands, P and dS are E4M3 with scales of their own rows and tiles."""
        factors = (getattr(self.schedule, name, None) for name in ("p_scale", "ds_scale"))
        static = isinstance(self.schedule, Rows) and any(factors)
        others = self.operand_rule in ("unit", "given") or self.v_scales != "rows" or static
        formats = (self.q_format, self.k_format, self.v_format, self.do_format, self.ds_format)
        return not others and set(formats) == {"e4m3"}

    @property
    def blocked(self) -> bool:
        """Whether what a dot takes is cast in blocks along what the dot sums over."""
        return isinstance(self.schedule, Rows) and self.schedule.cast == "blocks"

    def to_json(self) -> dict[str, object]:
        """All fields, ready for json, with the canonical name."""
        about = {"name": self.name, "base": self.base, "summary": self.summary}
        return {**about, **words_of(self)}


_REGISTERED: dict[str, Contract] = {}


def words_of(contract: Contract) -> dict[str, Word]:
    """Every field that decides what comes out, as files say it; the schedule's own come last."""
    words: dict[str, Word] = {}
    schedule = contract.schedule
    for record in (contract, schedule):
        for each in fields(record):
            if each.name == "schedule":
                words["schedule"] = schedule.kind
            elif each.name not in ABOUT:
                words[each.name] = word_of(each.name, getattr(record, each.name))
    return words


def differences(contract: Contract, other: Contract) -> dict[str, Word]:
    """The fields of a contract that another one has otherwise or has not, as files say them.

    Of another schedule's own fields a factor that is the default is left out: contracts had their
    names before there were factors.
    """
    theirs = words_of(other)
    mine = words_of(contract)
    kind = mine["schedule"] != theirs["schedule"]
    schedule = contract.schedule
    own = {each.name: each.default for each in fields(schedule)} if kind else {}
    unsaid = {name for name in FACTORS if name in own and getattr(schedule, name) == own[name]}
    return {
        name: word
        for name, word in mine.items()
        if name not in unsaid and (name in own or theirs[name] != word)
    }


def nearest(contract: Contract) -> Contract | None:
    """The named contract that differs in the fewest fields, the first of several; None without."""
    found = _REGISTERED.values()
    return min(found, key=lambda named: len(differences(contract, named)), default=None)


def register(contract: Contract) -> Contract:
    """Makes a contract the one that its base names."""
    _REGISTERED[contract.base] = contract
    return contract


def shown(word: Word) -> str:
    """A word in a contract's name."""
    return str(word).lower() if isinstance(word, bool) else str(word)
