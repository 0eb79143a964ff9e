"""``capture``: what the attention calls of a model see, written to a file that ``--inputs`` takes.

    with dmverify.capture(model, "calls.safetensors"):
        model(x).sum().backward()

| captured | is |
|---|---|
| a module | calls of torch's ``scaled_dot_product_attention`` in its forward pass |
| a function of the caller's | its own calls, where modules refer to it by name, or by the capture |

Tensors are rounded to BF16 as they come, and heads padded with channels of zeros to a multiple of
32 (the softmax scale stays that of the call). dO is the gradient of the call's result, so the
backward pass has to run inside; without one the forward pass alone is asked later. With
``outputs=True`` O and, from this call alone, dQ, dK and dV are kept beside them, in float32, to be
judged without a kernel: those of calls whose tensors, or dO, are BF16 numbers, since those of
others are of other inputs than the file's.

Left out, each with its reason in ``left_out``: masks that are neither none nor causal from the
bottom right, dropout, values of another width than keys, what is beyond ``LARGEST``, calls with an
argument that a case does not have (a window, a softcap; wrap the function to hide one that changes
no number), and results that are no tensor of (B, N, H, D), nor begin with one. Not covered:
fused paths of torch that do not call this function (of layers in ``eval`` without gradients),
compiled or exported graphs, and gradients of what a re-entrant checkpoint computes again outside of
a module's forward pass: its first pass has none, and is written without.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from dmverify.conformance.tensors import encode
from dmverify.errors import InputError, NothingRanError
from dmverify.files import prepare_file, write_durably
from dmverify.spec.case import F32
from dmverify.spec.problem import HEAD_DIM_STEP

LARGEST = 1 << 31  # bytes of float32 numbers in one file
HIDDEN = -1e4  # what a mask adds at the most where it hides
TORCHS = (functional.scaled_dot_product_attention,)  # within, as the name itself is replaced
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("q", "query"), "q"),
        **dict.fromkeys(("k", "key"), "k"),
        **dict.fromkeys(("v", "value"), "v"),
        **dict.fromkeys(("attn_mask", "mask", "attention_mask", "attn_bias"), "mask"),
        **dict.fromkeys(("dropout_p", "dropout"), "dropout"),
        **dict.fromkeys(("is_causal", "causal"), "causal"),
        **dict.fromkeys(("scale", "softmax_scale", "sm_scale", "scaling"), "scale"),
    }
)
"""What arguments of attention functions are called, and what they are."""
HARMLESS = ("enable_gqa", "deterministic", "return_attn_probs")
"""Arguments that say nothing of a case: heads say the groups, and O is the same either way."""
PLAIN = (bool, int, float, str, tuple)

GRADIENTS = MappingProxyType({"q": "dq", "k": "dk", "v": "dv"})
Arguments = dict[str, Any]


@dataclass(eq=False)
class _Call:
    """One call: its tensors as (B, N, H, D), filled as gradients come."""

    prefix: str
    causal: bool
    scale: float
    tensors: dict[str, F32] = field(default_factory=dict)
    rounded: set[str] = field(default_factory=set)  # tensors that were no BF16 numbers


class Capture:
    """See the module; a context manager, and of a function a function too.

    Args:
        what: A ``torch.nn.Module``, or an attention function of the caller's whose arguments have
            names of ``ALIASES``.
        path: The file; it ends in ``.safetensors``.
        layout: Layout of the function's tensors: ``bnhd``, or ``bhnd`` as torch's own.
        outputs: Whether results and gradients are kept too.

    Attributes:
        written: Prefixes of the calls in the file, after it was written.
        left_out: Why other calls, or outputs of a call, are not in it.

    Raises:
        InputError: If it is neither, or the path or the layout cannot be.
    """

    def __init__(
        self,
        what: torch.nn.Module | Callable[..., Any],
        path: str | os.PathLike[str],
        *,
        layout: str = "bnhd",
        outputs: bool = False,
    ) -> None:
        self._module = what if isinstance(what, torch.nn.Module) else None
        if self._module is None and not callable(what):
            raise InputError(
                f"capture of {what!r:.60}",
                rule="what is captured is a torch module or a function",
                fix="pass the model, or the function that computes its attention",
            )
        self._function: Callable[..., Any] = TORCHS[0] if self._module is not None else what
        self._torchs = self._function is TORCHS[0]
        try:
            self._signature = inspect.signature(_torchs if self._torchs else self._function)
        except ValueError as error:
            raise InputError(
                f"capture of {what!r:.60}",
                rule="a function says the names of its arguments",
                fix="wrap it in a function of Python with arguments q, k, v",
            ) from error
        self._path = Path(path).absolute()
        if self._path.suffix != ".safetensors" or layout not in ("bnhd", "bhnd"):
            raise InputError(
                f"{path}, layout {layout!r:.40}",
                rule="captures are written to FILE.safetensors, and a layout is bnhd or bhnd",
                fix="name such a file, and layout='bhnd' of tensors (batch, heads, length, dim)",
            )
        prepare_file(self._path)
        self._by_heads = self._torchs or layout == "bhnd"
        self._outputs = outputs
        self._calls: list[_Call] = []
        self._seen, self._bytes = 0, 0
        self._names: list[str] = []  # of the modules whose forward pass is under way
        self._restore: list[Callable[[], object]] = []
        self.written: tuple[str, ...] = ()
        self.left_out: list[str] = []

    def __enter__(self) -> Capture:
        if self._module is not None:
            for name, module in self._module.named_modules():
                self._restore.append(
                    module.register_forward_pre_hook(partial(self._enter, name)).remove
                )
                self._restore.append(
                    module.register_forward_hook(self._leave, always_call=True).remove
                )
        for module_dict, name in list(_places(self._function)):
            self._restore.append(partial(module_dict.__setitem__, name, self._function))
            module_dict[name] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._restore:
            self._restore.pop()()
        if kind is None:
            self._write()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, and keeps what it was given."""
        if self._module is not None and not self._names:
            return self._function(*args, **kwargs)
        number, self._seen = self._seen, self._seen + 1
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()  # causal=True, say, of a caller's function
        reason = self._unfit(_canonical(bound)) or _beyond_a_case(bound)
        if reason:
            self.left_out.append(f"call {number}: {reason}")
            return self._function(*args, **kwargs)
        prefix = ".".join([*self._names[-1:], str(number)]).lstrip(".")
        return self._kept(number, prefix, bound)

    def _enter(self, name: str, *_: object) -> None:
        self._names.append(name)

    def _leave(self, *_: object) -> None:
        self._names.pop()

    def _unfit(self, given: Arguments) -> str:
        """Why a call cannot be a case, in words; empty if it can."""
        operands = [x for name in "qkv" if isinstance(x := given.get(name), torch.Tensor)]
        if len(operands) < 3 or any(x.ndim != 4 for x in operands):
            return "q, k and v are not tensors of four extents"
        q, k, v = map(self._by_tokens, operands)
        if v.shape != k.shape or q.shape[-1] != k.shape[-1] or q.shape[0] != k.shape[0]:
            return f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        if not k.shape[2] or q.shape[2] % k.shape[2]:
            return f"{q.shape[2]} query heads on {k.shape[2]} key heads"
        if given.get("dropout"):
            return "dropout"
        needed = 8 * (q.numel() + k.numel() + v.numel())
        if self._bytes + needed > LARGEST:
            return f"the file has {LARGEST} bytes at most"
        reason = _mask_of(given, q.shape[1], k.shape[1], top_left=self._torchs)[1]
        self._bytes += 0 if reason else needed
        return reason

    def _kept(self, number: int, prefix: str, bound: inspect.BoundArguments) -> Any:
        given = _canonical(bound)
        queries, keys = (self._by_tokens(given[name]).shape[1] for name in "qk")
        causal, _ = _mask_of(given, queries, keys, top_left=self._torchs)
        scale = given.get("scale")
        width = given["q"].shape[-1]
        call = _Call(prefix, causal, width**-0.5 if scale is None else float(scale))
        call.tensors.update({name: self._numbers(given[name]) for name in "qkv"})
        for place, name in _named_arguments(bound) if self._outputs else ():
            if ALIASES.get(name) in GRADIENTS:  # views have gradients that are of this call alone
                place[name] = self._view(call, ALIASES[name], place[name])
        found = self._function(*bound.args, **bound.kwargs)
        result = found[0] if isinstance(found, (tuple, list)) and found else found
        if not isinstance(result, torch.Tensor) or result.shape != given["q"].shape:
            self.left_out.append(f"call {number}: {_unfit_result(result)}")
            return found
        if self._outputs:
            call.tensors["o"] = self._numbers(result, exact=True)
            call.rounded.update(name for name in "qkv" if not _is_bf16(given[name]))
        if result.requires_grad:
            result.register_hook(partial(self._take_gradient, call))  # type: ignore[no-untyped-call]
        self._calls.append(call)
        return found

    def _take_gradient(self, call: _Call, grad: torch.Tensor) -> None:
        call.tensors["do"] = self._numbers(grad)
        if self._outputs and not _is_bf16(grad):
            call.rounded.add("do")

    def _view(self, call: _Call, name: str, x: torch.Tensor) -> torch.Tensor:
        if not x.requires_grad:
            return x
        view = x.view_as(x)

        def keep(grad: torch.Tensor) -> None:
            call.tensors[GRADIENTS[name]] = self._numbers(grad, exact=True)

        view.register_hook(keep)  # type: ignore[no-untyped-call]
        return view

    def _by_tokens(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2) if self._by_heads else x

    def _numbers(self, x: torch.Tensor, *, exact: bool = False) -> F32:
        """A tensor as (B, N, H, D) with D a multiple of 32, rounded to BF16 unless ``exact``."""
        plain = self._by_tokens(x.detach())
        rounded = plain if exact else plain.to(torch.bfloat16)
        missing = -x.shape[-1] % HEAD_DIM_STEP
        numbers: F32 = rounded.float().cpu().numpy()
        return np.pad(numbers, [(0, 0)] * 3 + [(0, missing)])

    def _write(self) -> None:
        if not self._calls:
            raise NothingRanError(
                f"no attention call to write ({'; '.join(self.left_out[:4]) or 'none was seen'})",
                rule="a capture holds at least one attention call",
                fix="run the model inside 'with', with gradients on; or capture the function that "
                "computes its attention",
            )
        metadata: dict[str, str] = {}
        tensors: list[tuple[str, F32]] = []
        for call in self._calls:
            metadata[f"{call.prefix}.causal"] = str(int(call.causal))
            metadata[f"{call.prefix}.softmax_scale"] = repr(call.scale)
            kept = self._of_these_inputs(call) if call.rounded else call.tensors
            tensors += [(f"{call.prefix}.{name}", x) for name, x in _whole(kept)]
        write_durably(self._path, encode(tensors, metadata))
        self.written = tuple(call.prefix for call in self._calls)

    def _of_these_inputs(self, call: _Call) -> dict[str, F32]:
        """The tensors of a call without those outputs whose inputs BF16 cannot hold."""
        names = {*GRADIENTS.values()} if call.rounded == {"do"} else {"o", *GRADIENTS.values()}
        dropped = [name for name in call.tensors if name in names]
        which = ", ".join(sorted(call.rounded))
        self.left_out.append(
            f"{', '.join(dropped)} of {call.prefix}: {which} holds numbers that BF16 has not"
        )
        return {name: x for name, x in call.tensors.items() if name not in dropped}


capture = Capture
"""The name that users see."""


def _torchs(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """The arguments of torch's function, which does not say them itself."""


def _is_bf16(x: torch.Tensor) -> bool:
    """Whether its numbers are BF16 numbers, NaN among them."""
    plain = x.detach()
    return bool(torch.equal(plain.nan_to_num(), plain.to(torch.bfloat16).to(x.dtype).nan_to_num()))


def _named_arguments(bound: inspect.BoundArguments) -> list[tuple[Arguments, str]]:
    """Every argument: the dictionary that holds it, and its name; those of ``**kwargs`` too."""
    kinds = {name: one.kind for name, one in bound.signature.parameters.items()}
    found: list[tuple[Arguments, str]] = []
    for name, value in bound.arguments.items():
        if kinds[name] is inspect.Parameter.VAR_KEYWORD:
            found += [(value, inner) for inner in value]
        else:
            found.append((bound.arguments, name))
    return found


def _canonical(bound: inspect.BoundArguments) -> Arguments:
    """Arguments by what they are, whatever the function calls them."""
    named = _named_arguments(bound)
    return {ALIASES[name]: place[name] for place, name in named if name in ALIASES}


def _beyond_a_case(bound: inspect.BoundArguments) -> str:
    """Which argument says something that a case cannot, in words; empty if none does.

    One that is None, or as it is by default, says nothing.
    """
    usual = {name: one.default for name, one in bound.signature.parameters.items()}
    for place, name in _named_arguments(bound):
        value, default = place[name], usual.get(name)
        same = isinstance(value, PLAIN) and type(value) is type(default) and value == default
        nothing = value is None or (isinstance(value, tuple) and not value)  # *args
        if not (same or nothing or name in ALIASES or name in HARMLESS):
            return f"{name}={value!r:.40}, an argument that a case does not have"
    return ""


def _unfit_result(result: object) -> str:
    shape = f" {tuple(result.shape)}" if isinstance(result, torch.Tensor) else ""
    return f"a result that is no tensor of q's shape, but a {type(result).__name__}{shape}"


def _whole(tensors: Mapping[str, F32]) -> list[tuple[str, F32]]:
    """The tensors, without dQ, dK and dV unless all three are there."""
    some = set(GRADIENTS.values()) - set(tensors)
    return [(name, x) for name, x in tensors.items() if not (some and name in GRADIENTS.values())]


def _places(function: object) -> Iterator[tuple[dict[str, Any], str]]:
    """Where modules refer to a function: their dictionary, and its name there."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):
            yield from ((names, name) for name, value in list(names.items()) if value is function)


def _mask_of(given: Arguments, queries: int, keys: int, *, top_left: bool) -> tuple[bool, str]:
    """Whether it hides later keys, and why it is no mask of a case; empty if it is one."""
    mask, causal = given.get("mask"), bool(given.get("causal"))
    if causal and top_left and queries != keys:
        return causal, "a causal mask from the top left"
    if not isinstance(mask, torch.Tensor):
        return causal, "" if mask is None else "a mask that is no tensor"
    seen = mask if mask.dtype == torch.bool else mask > HIDDEN
    if mask.dtype != torch.bool and bool((mask[seen] != 0).any()):
        return causal, "a mask that adds to logits"
    whole = seen.expand(*seen.shape[:-2], queries, keys)
    later = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries).to(whole.device)
    if bool((whole == later).all()):
        return True, ""
    return causal, "" if bool(whole.all()) else "a mask that is neither none nor causal"
