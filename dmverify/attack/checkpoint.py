"""The state of an attempt after a round, in one file that replaces the one before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import safetensors
import safetensors.torch

from dmverify.attack.corpus import digest
from dmverify.attack.engines import Best
from dmverify.attack.search import Attempt
from dmverify.attack.stack import Stack
from dmverify.errors import InputError
from dmverify.files import read_regular, write_durably

if TYPE_CHECKING:
    from dmverify.attack.run import Settings

LARGEST = 1 << 28  # bytes
FORMAT = "dmverify-attempt"


class State(msgspec.Struct, forbid_unknown_fields=True):
    """What stands beside the tensors."""

    format: str
    settings: str
    seed: int
    rounds: int
    evaluations: int
    gains: dict[str, float]


def save(settings: Settings, attempt: Attempt) -> None:
    """Writes the state, if the settings say where."""
    if settings.state is None or attempt.best.stack is None:
        return
    settings.state.mkdir(parents=True, exist_ok=True)
    state = State(
        FORMAT,
        _words(settings),
        attempt.seed,
        attempt.rounds,
        attempt.evaluations,
        attempt.gains,
    )
    tensors = {name: x.contiguous() for name, x in attempt.best.stack.items()}
    tensors["values"] = attempt.best.values
    about = {"state": msgspec.json.encode(state).decode()}
    write_durably(_path(settings.state, attempt.seed), safetensors.torch.save(tensors, about))


def load(settings: Settings, seed: int) -> Attempt | None:
    """The attempt that stopped, if there is one.

    Raises:
        InputError: If the file is of another attack, or broken.
    """
    if settings.state is None or not (path := _path(settings.state, seed)).exists():
        return None
    content = read_regular(path, largest=LARGEST)
    try:
        tensors = safetensors.torch.load(content)
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        state = msgspec.json.decode(head["__metadata__"]["state"], type=State)
        stack = Stack(*(tensors[name] for name in ("q", "k", "v", "do")))
        best = Best(stack, tensors["values"])
    except (safetensors.SafetensorError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise InputError(
            f"{path}: {error}",
            rule="it holds the state of an attack",
            fix="remove it, and the attack begins anew",
        ) from error
    if state.settings != _words(settings) or state.seed != seed:
        raise InputError(
            f"{path} of another attack",
            rule="an attack goes on with its own settings",
            fix="name another --state, or repeat the options",
        )
    return Attempt(seed, best, state.rounds, state.evaluations, state.gains)


def _path(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}.safetensors"


def _words(settings: Settings) -> str:
    """What has to be the same: all but how long it takes."""
    centre = "" if settings.centre is None else digest(settings.centre)
    return repr(
        (
            settings.kernel,
            settings.contract,
            settings.problem,
            settings.objective,
            settings.limits,
            settings.within,
            settings.evaluations,
            centre,
            settings.device,
            settings.device_evaluations,
            settings.engine,
        )
    )
