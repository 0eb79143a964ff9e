"""What a process says of itself when it greets, checked before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from dmverify.spec.recording import Provenance

PROTOCOL, VERSION = "dmverify-kernel", 2
FIRST = ("forward", "backward", "delta")
CAPABILITIES = {1: FIRST, 2: (*FIRST, "internals", "conduct", "code", "builds")}  # by version
ELSEWHERE = "the kernel computes in another process"
PRODUCER = tuple(field.name for field in fields(Provenance))


@dataclass(frozen=True)
class Greeting:
    """A greeting of the form that PROTOCOL.md states.

    Attributes:
        version: Version of the protocol, as the process speaks it.
        contract: The contract that it promises.
        contracts: All that it serves.
        producer: What it is.
        capabilities: What it can be asked.
        conditions: Under which it can answer, each with the reason why not, or an empty text.
        specification: Whether it says that it is the specification.
    """

    version: int
    contract: str
    contracts: tuple[str, ...]
    producer: Provenance
    capabilities: tuple[str, ...]
    conditions: dict[str, str]
    specification: bool

    def lacks(self, condition: str) -> str:
        """Why it cannot answer under a condition, in words; empty if it can."""
        return self.conditions.get(condition, ELSEWHERE)


def wrong_greeting(said: dict[str, Any]) -> str:
    """What is wrong with a greeting, in words; empty if nothing."""
    version = said.get("version")
    if said.get("protocol") != PROTOCOL or type(version) is not int or version not in CAPABILITIES:
        known = " or ".join(map(str, CAPABILITIES))
        return f"the protocol is {PROTOCOL} version {known}"
    producer = said.get("producer")
    if not isinstance(producer, dict) or not isinstance(producer.get("kernel"), str):
        return "producer has the kernel's name"
    texts = [producer.get(name, "") for name in PRODUCER if name != "flags"]
    if not _are_texts(producer.get("flags", [])) or not _are_texts(texts):
        return "producer is made of texts, and its flags are a list of texts"
    known_ones, capabilities = CAPABILITIES[version], said.get("capabilities")
    if not isinstance(capabilities, list) or any(c not in known_ones for c in capabilities):
        return f"capabilities are among {', '.join(known_ones)}"
    conditions = said.get("conditions", {})
    if not isinstance(conditions, dict) or not _are_texts(list(conditions.values())):
        return "conditions are names, each with a text"
    if not isinstance(said.get("contract"), str):
        return "contract is a name"
    contracts = said.get("contracts", [said["contract"]])
    if not _are_texts(contracts) or said["contract"] not in contracts:
        return "contracts are a list of names, the contract among them"
    return ""


def greeting_of(said: dict[str, Any]) -> Greeting:
    """The greeting that has nothing wrong with it."""
    producer = {key: x for key, x in said["producer"].items() if key in PRODUCER}
    producer["flags"] = tuple(producer.get("flags", ()))
    return Greeting(
        version=said["version"],
        contract=said["contract"],
        contracts=tuple(said.get("contracts", (said["contract"],))),
        producer=Provenance(**producer),
        capabilities=tuple(said["capabilities"]),
        conditions=said.get("conditions", {}),
        specification=said.get("specification") is True,
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)
