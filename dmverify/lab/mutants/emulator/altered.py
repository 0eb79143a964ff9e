"""An arithmetic with some operations replaced, and replacements that several mutations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from dmverify.errors import unknown_name
from dmverify.lab.mutants.emulator.mutation import Call, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num
from dmverify.spec.formats import E4M3, FloatFormat
from dmverify.spec.namespace import Array

Operation = Callable[..., Any]
"""``operation(base arithmetic, *arguments of the operation)``."""

# wgmma's accumulator keeps 14 significant bits of a float32's 24.
_KEPT = np.uint32(0xFFFFFC00)


class Altered:
    """Every operation of a base but those named.

    Args:
        base: The operations that stay.
        operations: By name, each called with the base first.
    """

    def __init__(self, base: Arithmetic, operations: dict[str, Operation]) -> None:
        self._base, self._operations = base, operations

    def __getattr__(self, name: str) -> Any:
        if name in self._operations:
            return partial(self._operations[name], self._base)
        return getattr(self._base, name)


def altered(base: Arithmetic, **operations: Operation) -> Arithmetic:
    """The base with these operations instead of its own.

    Raises:
        UnknownNameError: The base has no operation of such a name, so that nothing would change.
    """
    for name in operations:
        if not hasattr(base, name):
            raise unknown_name("operation", name, (n for n in dir(base) if n[0] != "_"))
    return cast(Arithmetic, Altered(base, operations))


def with_operations(**operations: Operation) -> Step:
    """A step that does what it did, on other operations."""
    return lambda call: on_operations(call, **operations)


def on_operations(call: Call, **operations: Operation) -> Any:
    """What a step returns whose numbers calculate with other operations meanwhile."""
    base = next(number.a for number in _numbers(call.given))
    other = altered(base, **operations)
    return _under(base, call.result(**_under(other, call.given)))


def _numbers(value: Any) -> Iterator[Num]:
    if isinstance(value, Num):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()))
    elif _is_record(value):
        yield from _numbers([getattr(value, field.name) for field in fields(value)])


def _under(a: Arithmetic, value: Any) -> Any:
    """A value with each of its numbers in another arithmetic."""
    if isinstance(value, Num):
        return Num(value.array, a)
    if isinstance(value, (tuple, list)):
        return type(value)(_under(a, each) for each in value)
    if isinstance(value, dict):
        return {name: _under(a, each) for name, each in value.items()}
    if not _is_record(value) or next(_numbers(value), None) is None:
        return value
    return replace(value, **{f.name: _under(a, getattr(value, f.name)) for f in fields(value)})


def _is_record(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def as_accumulated(x: Array) -> Array:
    """The number that is left of a float32 in the tensor core's accumulator, toward zero."""
    return (np.ascontiguousarray(x).view(np.uint32) & _KEPT).view(np.float32)


def cast_toward_zero(
    base: Arithmetic, x: Array, fmt: FloatFormat, *, site: str, saturate: bool
) -> Array:
    """The E4M3 number nearest to x that is not larger in magnitude."""
    nearest = base.cast(x, fmt, site=site, saturate=saturate)
    codes = E4M3.encode(nearest) - (np.abs(nearest) > np.abs(x)).astype(np.uint8)
    return E4M3.decode(codes)


def multiply_then_add(base: Arithmetic, x: Array, y: Array, z: Array) -> Array:
    """An fma with two roundings."""
    return base.add(base.mul(x, y), z)
