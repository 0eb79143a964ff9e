"""The part of the study that needs a Hopper GPU: the bundled kernel along the length.

Run it as ``python -m dmverify.studies.scale.card > scale-card.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from dmverify.kernel.api import dm_attn_func
from dmverify.studies.rounding import significant
from dmverify.studies.scale.grid import AXES
from dmverify.studies.training.watch import column_shares

COMMAND = "python -m dmverify.studies.scale.card > scale-card.json"
HEAD_DIM, ROWS = 128, 64
DELTAS = ("stale", "matched")
VALUES: dict[str, Callable[[Tensor], Tensor]] = {"gaussian": lambda x: x, "positive": torch.abs}


def main() -> None:
    """Prints the record."""
    device = torch.cuda.get_device_name()
    made = {"study": "scale-card", "command": COMMAND, "device": device}
    record = made | {"rows": list(rows())}
    print(json.dumps(record, allow_nan=False))  # noqa: T201 - the program's answer


def rows() -> Iterator[dict[str, Any]]:
    """A row a length, kind of values and delta."""
    for keys in map(int, AXES["keys"]):
        for kind, change in VALUES.items():
            draw = torch.Generator("cuda").manual_seed(keys)
            q, k, v, do = (
                torch.randn(1, keys, 1, HEAD_DIM, device="cuda", generator=draw).bfloat16()
                for _ in range(4)
            )
            v = change(v)
            exact = reference(q, k, v, do)
            for delta in DELTAS:
                found = _row(delta, (q, k, v, do), exact)
                yield {"keys": keys, "values": kind, "delta": delta} | found


def chosen(keys: int) -> Tensor:
    """The rows that are compared, spread over the last three quarters."""
    return torch.linspace(keys // 4, keys - 1, ROWS, device="cuda").long()


def reference(q: Tensor, k: Tensor, v: Tensor, do: Tensor) -> tuple[Tensor, Tensor]:
    """O and dQ of the chosen rows in float64."""
    at = chosen(q.shape[1])
    q, do = (x[0, at, 0].double() for x in (q, do))
    k, v = (x[0, :, 0].double() for x in (k, v))
    scale = HEAD_DIM**-0.5
    hidden = torch.arange(len(k), device="cuda") > at[:, None]
    p = (q @ k.T * scale).masked_fill(hidden, -torch.inf).softmax(-1)
    o, dp = p @ v, do @ v.T
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))
    return o, ds @ k * scale


def _row(
    delta: str, tensors: tuple[Tensor, ...], exact: tuple[Tensor, Tensor]
) -> dict[str, float | None]:
    leaves = [x.clone().requires_grad_() for x in tensors[:3]]
    o = dm_attn_func(*leaves, mode=delta)
    dq, dk, _ = torch.autograd.grad(o, leaves, tensors[3])
    at = chosen(o.shape[1])
    got_o, got_dq = (x[0, at, 0].double() for x in (o.detach(), dq))
    return {
        "o_error": _distance(got_o, exact[0]),
        "o_bias": significant((got_o - exact[0]).mean() / exact[0].abs().mean()),
        "dq_error": _distance(got_dq, exact[1]),
        "column": significant(column_shares(dk[0].float().transpose(0, 1)).median()),
    }


def _distance(got: Tensor, want: Tensor) -> float | None:
    return significant((got - want).norm() / want.norm())


if __name__ == "__main__":
    main()
