"""Which tensors of a file make a case, and what is asked of them.

| name | shape | is |
|---|---|---|
| q | (B, Nq, H, D) | queries |
| k, v | (B, Nk, Hkv, D) | keys, values |
| do | (B, Nq, H, D) | gradient of the output; without it the forward pass alone is asked |
| q_scale, k_scale, v_scale, do_scale | see below | what the codes of a tensor are times |
| o, dq, dk, dv | as q, q, k, v | what a kernel answered, if that is to be judged |
| lse | (B, H, Nq) | the same |
| causal | a setting | whether later keys are hidden (bottom right) |
| softmax_scale | a setting | factor of the logits; without it ``D ** -0.5`` |
| layout | a setting | ``bhnd`` if tensors are (B, H, N, D), as in torch; otherwise ``bnhd`` |

Names are read in either case, so ``dO`` is ``do``. A file of several cases puts a prefix and a dot
or a slash before each name: ``layers.3.q``. Numbers are BF16, or those of float16, float32 and
float64 that BF16 has: nothing is rounded. Settings are metadata of a safetensors file, arrays
without extent of an npz file, values of a pt file.

A tensor with a scale holds codes, in any of these formats, or in FP8 or INT8, which have to have
one; of bytes the file says ``q_format`` (and so on), e4m3 or e5m2. A scale is one number (the
float32 next to what a setting says), or has each axis of its tensor, 1 long where it is shared.
Such cases are judged by contracts with ``operand_rule = "given"``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.conformance.sizes import require_room
from dmverify.conformance.tensor_files.npz_file import read_npz
from dmverify.conformance.tensor_files.safetensors_file import read_safetensors
from dmverify.conformance.tensor_files.source import Source
from dmverify.conformance.tensor_files.stored import Entry, Setting, TensorFile
from dmverify.conformance.tensor_files.torch_file import read_torch
from dmverify.errors import InputError
from dmverify.files import open_regular
from dmverify.spec.case import F32, SCALE, Inputs, require_scale_shape
from dmverify.spec.problem import Problem

READERS = MappingProxyType(
    {".safetensors": read_safetensors, ".npz": read_npz, ".pt": read_torch, ".pth": read_torch}
)
REQUIRED, GRADIENT = ("q", "k", "v"), "do"
ANSWERS = ("o", "lse", "dq", "dk", "dv", "delta")
SETTINGS = ("causal", "softmax_scale", "layout")
GRADIENTS = ("dq", "dk", "dv")
SCALES = MappingProxyType({f"{name}{SCALE}": name for name in (*REQUIRED, GRADIENT)})
TENSORS = (*REQUIRED, GRADIENT, *SCALES, *ANSWERS)
WORDS = MappingProxyType({f"{name}_format": name for name in TENSORS})
CODED = ("F8_E4M3", "F8_E5M2", "I8")  # formats that hold codes
ROWS = ("lse", "delta")
LAYOUTS = ("bnhd", "bhnd")
MISNAMED = ("scale", "sm_scale", "scaling", "softmaxscale")  # a softmax scale by another name
TRUTHS = MappingProxyType({"true": True, "false": False, "1": True, "0": False})
SHOWN = 8  # names in a message


@dataclass(frozen=True, eq=False)
class Brought:
    """One case of a file, before anything is asked.

    Attributes:
        source: Where it lies; its prefix is that of this case alone.
        problem: Sizes, mask, scale.
        inputs: The tensors; dO is 0 where the file has none.
        has_gradient: Whether the file has dO.
        outputs: What a kernel answered, by name; empty if the file has no answer.
    """

    source: Source
    problem: Problem
    inputs: Inputs
    has_gradient: bool
    outputs: Mapping[str, F32]


def read_cases(source: Source) -> Iterator[Brought]:
    """The cases of a file, one after the other.

    Args:
        source: The file, and which of its cases.

    Raises:
        InputError: If it is no file of tensors, has no such case, lacks a tensor or setting, or has
            tensors whose shapes or formats do not fit together, that are no BF16 numbers, or that
            are larger than the memory.
    """
    with open_tensors(source.path) as file:
        for prefix, members in _groups(source, file).items():
            yield _case(replace(source, prefix=prefix), file, members)


@contextmanager
def open_tensors(path: Path) -> Iterator[TensorFile]:
    """A file of tensors, whose entries can be read while it is open.

    Raises:
        InputError: If it is of another kind, cannot be read or is broken.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path}, no file of tensors by its name",
            rule=f"files of tensors end in {', '.join(READERS)}",
            fix="save them as safetensors",
        )
    try:
        with open_regular(path) as file:
            yield reader(path, file)
    except OSError as error:
        raise InputError(
            f"{path} ({error.strerror or error})",
            rule="a file of tensors is there and may be read",
            fix="check the path and its permissions",
        ) from error


def _split(name: str) -> tuple[str, str]:
    """Prefix, and the last part in small letters."""
    at = max(name.rfind("."), name.rfind("/"))
    return name[: max(at, 0)], name[at + 1 :].lower()


def _groups(source: Source, file: TensorFile) -> dict[str, dict[str, Entry]]:
    """The tensors of each chosen case by their last name, by prefix."""
    found: dict[str, dict[str, Entry]] = {}
    for name, entry in file.entries.items():
        prefix, last = _split(name)
        group = found.setdefault(prefix, {})
        if last in group:
            raise _unfit(file, f"{name!r:.80} and another in one case", "a tensor has one name")
        group[last] = entry
    if source.prefix:
        chosen = {source.prefix: found.get(source.prefix, {})}
    else:
        chosen = {
            prefix: group for prefix, group in found.items() if not set(group).isdisjoint(TENSORS)
        }
    if not chosen or not all(chosen.values()):
        where = f" of case {source.prefix!r:.80}" if source.prefix else ""
        names = ", ".join(list(file.entries)[:SHOWN]) or "none"
        raise _unfit(
            file,
            f"tensors {names:.300}{where}",
            f"a case has {', '.join(REQUIRED)}, by these names",
        )
    for prefix, group in chosen.items():
        _require_names(file, prefix, group)
    return chosen


def _require_names(file: TensorFile, prefix: str, group: Mapping[str, Entry]) -> None:
    missing = [name for name in REQUIRED if name not in group]
    unknown = [name for name in group if name not in TENSORS]
    said = [f"without {', '.join(missing)}"] if missing else []
    said += [f"with {', '.join(unknown):.200}"] if unknown else []
    if said:
        needed = f"each case needs {', '.join(REQUIRED)}, and FILE:PREFIX asks one case alone"
        rule = f"tensors are {', '.join(TENSORS)}; {needed}"
        raise _unfit(file, f"case {prefix!r:.80} {' and '.join(said)}", rule)
    answers = [name for name in ANSWERS if name in group]
    some = [name for name in GRADIENTS if name in group]
    if answers and ("o" not in group or 0 < len(some) < len(GRADIENTS)):
        rule = f"outputs are o, and all of {', '.join(GRADIENTS)} or none"
        raise _unfit(file, f"case {prefix!r:.80} with outputs {', '.join(answers)}", rule)


def _case(source: Source, file: TensorFile, group: Mapping[str, Entry]) -> Brought:
    settings = _settings(source, file)
    swapped = _layout(file, settings) == "bhnd"
    with _named(source):
        group = _of_stated_formats(group, settings)
        problem = _problem(source, file, group, settings, swapped)
        require_room(problem, "a case")
        moved = {
            name: swapped and name not in ROWS and len(entry.shape) == 4
            for name, entry in group.items()
        }
        arrays = {name: _array(entry, moved[name]) for name, entry in group.items()}
        gradient = arrays.get(GRADIENT, np.zeros(problem.shapes()[GRADIENT], np.float32))
        given = {name: arrays[name] for name in REQUIRED} | {GRADIENT: gradient}
        inputs = Inputs(**given, scales=_scales(file, group, arrays, settings))
    return Brought(
        source,
        problem,
        inputs,
        GRADIENT in arrays,
        {name: arrays[name] for name in ANSWERS if name in arrays},
    )


def _of_stated_formats(
    group: Mapping[str, Entry], settings: Mapping[str, Setting]
) -> dict[str, Entry]:
    """Tensors, those of bytes as codes of the format that the file says."""
    said = {name: settings[word] for word, name in WORDS.items() if word in settings}
    return {n: entry.said_to_be(said[n]) if n in said else entry for n, entry in group.items()}


def _scales(
    file: TensorFile,
    group: Mapping[str, Entry],
    arrays: Mapping[str, F32],
    settings: Mapping[str, Setting],
) -> dict[str, F32]:
    """The scales of tensors that are codes, of four axes."""
    found: dict[str, F32] = {}
    for key, name in SCALES.items():
        if key in arrays or key in settings:
            said = settings.get(key)
            scale = arrays[key] if key in arrays else _as_float32(_number(file, key, said))
            found[name] = scale.reshape(scale.shape if scale.ndim == 4 else (1,) * 4)
        elif name in group and group[name].format in CODED:
            said = f"{name} of format {group[name].format} without {key}"
            raise _unfit(file, said, "codes have a scale; nothing is guessed")
    return found


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """Says of what is refused where it lies."""
    try:
        yield
    except InputError as error:
        where = "" if str(source.path) in str(error.value) else f"{source}: "
        raise InputError(f"{where}{error.value}", rule=error.rule, fix=error.fix) from error


def _array(entry: Entry, swapped: bool) -> F32:
    numbers = entry.numbers()
    return np.ascontiguousarray(numbers.swapaxes(1, 2)) if swapped else numbers


def _settings(source: Source, file: TensorFile) -> dict[str, Setting]:
    """The settings of a case: its own, or those of the whole file."""
    of_file: dict[str, Setting] = {}
    own: dict[str, Setting] = {}
    for name, value in file.settings.items():
        prefix, last = _split(name)
        if last in (*SETTINGS, *SCALES, *WORDS, *MISNAMED) and prefix in ("", source.prefix):
            group = own if prefix else of_file
            if last in group:
                raise _unfit(file, f"{name!r:.80} said twice of one case", "a setting has one name")
            group[last] = value
    return {**of_file, **own}


def _layout(file: TensorFile, settings: Mapping[str, Setting]) -> str:
    layout = settings.get("layout", LAYOUTS[0])
    if layout not in LAYOUTS:
        raise _unfit(file, f"layout {layout!r:.40}", f"a layout is {' or '.join(LAYOUTS)}")
    return str(layout)


def _problem(
    source: Source,
    file: TensorFile,
    group: Mapping[str, Entry],
    settings: Mapping[str, Setting],
    swapped: bool,
) -> Problem:
    shapes = {name: _shape(file, entry, swapped, name) for name, entry in group.items()}
    (batch, queries, heads, head_dim), (_, keys, kv_heads, _) = shapes["q"], shapes["k"]
    problem = Problem(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        head_dim=head_dim,
        causal=_causal(source, file, settings),
        softmax_scale=_scale(source, file, settings),
    )
    due = problem.shapes()
    for name, shape in shapes.items():
        if name in SCALES:
            require_scale_shape(SCALES[name], shape, due[SCALES[name]])
        elif shape != due[name]:
            raise _unfit(
                file,
                f"{name} with shape {shape}",
                f"with q {shapes['q']} and k {shapes['k']} it has {due[name]}, as (batch, length, "
                "heads, head_dim), rows as (batch, heads, length)",
            )
    return problem


def _shape(file: TensorFile, entry: Entry, swapped: bool, name: str) -> tuple[int, ...]:
    """Its extents as (B, N, H, D), or (B, H, N) of rows."""
    if name in SCALES and entry.count == 1:
        return (1, 1, 1, 1)
    due = 3 if name in ROWS else 4
    if len(entry.shape) != due:
        axes = "batch, heads, length" if name in ROWS else "batch, length, heads, head_dim"
        rule = f"{name} has {due} extents: ({axes})"
        raise _unfit(file, f"{name} with shape {entry.shape}", rule)
    if not swapped or name in ROWS:
        return entry.shape
    batch, heads, length, channels = entry.shape
    return batch, length, heads, channels


def _causal(source: Source, file: TensorFile, settings: Mapping[str, Setting]) -> bool:
    said = settings.get("causal")
    stated = TRUTHS.get(str(said).lower())
    if said is not None and stated is None:
        raise _unfit(file, f"causal={said!r:.40}", "causal is true or false")
    found = _one_of(file, "causal", source.causal, stated, "add --causal or --full")
    return bool(found)


def _scale(source: Source, file: TensorFile, settings: Mapping[str, Setting]) -> float | None:
    said = settings.get("softmax_scale")
    stated = None if said is None else _number(file, "softmax_scale", said)
    other = next((name for name in MISNAMED if name in settings), None)
    if other and stated is None and source.softmax_scale is None:
        rule = "the factor of the logits is called softmax_scale, and without it head_dim ** -0.5"
        raise _unfit(file, f"{other}={settings[other]!r:.40}", rule)
    if stated is None and source.softmax_scale is None:
        return None
    return float(_one_of(file, "softmax_scale", source.softmax_scale, stated, ""))


def _number(file: TensorFile, name: str, said: Setting | None) -> float:
    try:
        return float(said)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise _unfit(file, f"{name}={said!r:.40}", "it is a number") from error


def _as_float32(number: float) -> F32:
    with np.errstate(over="ignore"):  # infinity is refused as one
        return np.asarray(number, np.float32)


def _one_of(file: TensorFile, name: str, asked: Any, stated: Any, fix: str) -> Any:
    """What the caller or the file says, which must not differ."""
    if asked is not None and stated is not None and asked != stated:
        raise InputError(
            f"{name}={asked} for {file.path}, which says {stated}",
            rule="what a file says of its own tensors is not overruled",
            fix="leave the option out, or save the file again",
        )
    if asked is None and stated is None:
        raise InputError(
            f"{file.path} without {name}",
            rule=f"a case says its {name}; nothing is guessed",
            fix=fix,
        )
    return stated if asked is None else asked


def _unfit(file: TensorFile, value: str, rule: str) -> InputError:
    return InputError(
        f"{file.path} with {value}", rule=rule, fix="save it so; the tutorial has an example"
    )
