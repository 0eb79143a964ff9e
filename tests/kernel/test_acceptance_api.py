"""Stage ``api`` of the acceptance, as far as a plain attention on the CPU can serve it."""

from dataclasses import replace

import pytest
import torch

from dmverify.conformance.families import generate
from dmverify.kernel import ops
from dmverify.lab.acceptance import api
from dmverify.spec.case import Outputs

CASES = [generate(f"{name}@0", contract=contract) for name, contract in api.SUBJECTS]


@pytest.fixture(autouse=True)
def on_the_host(plain_attention, monkeypatch):
    monkeypatch.setattr(api, "DEVICE", "cpu")


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case.id)
@pytest.mark.parametrize("way", ["_packed", "_expanded", "_empty"])
def test_calls_agree_with_calls(way, case):
    compared, differ = getattr(api, way)(case)
    assert compared > 0
    assert differ == 0


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case.id)
def test_operators_pass_torchs_own_checks(case):
    compared, failed, note = api._operators(case)
    assert compared >= 9
    assert (failed, note) == (0, "")


def test_every_way_of_calling_runs():
    tensors, choices = api.place(CASES[0], device="cpu"), api._choices(CASES[0])
    due = api._call(api.dm_attn_func, tensors, choices)
    strided = api.Tensors(*(api._apart(x) for x in api._four(tensors)))
    assert strided.q.stride(3) == 2
    assert api._unequal(api._call(api.dm_attn_func, strided, choices), due)[1] == 0
    for way, call in api._ways():
        if way != "inductor":  # it wants a compiler of C++ here
            assert api._unequal(api._call(call, tensors, choices), due)[1] == 0


def test_a_wrong_answer_is_counted(monkeypatch):
    real = api.dm_attn_func
    monkeypatch.setattr(
        api,
        "dm_attn_func",
        lambda q, *rest, **named: real(q * (1 + (q.shape[1] == 129)), *rest, **named),
    )
    assert api._packed(CASES[0])[1] > 0
    monkeypatch.setattr(ops, "nothing_seen", lambda q: (torch.ones_like(q), None))
    with pytest.raises((AttributeError, RuntimeError)):
        api._empty(CASES[0])


def test_a_way_that_fails_is_a_row(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no compiler")

    monkeypatch.setitem(api.CALLS, "packed", broken)
    row = api._guarded("packed", CASES[0], lambda: api.CALLS["packed"](CASES[0]))
    assert (row["compared"], row["differ"], row["note"]) == (0, 1, "RuntimeError: no compiler")


def test_rows_against_the_specification(monkeypatch):
    case = CASES[0]
    tensors, choices = api.place(case, device="cpu"), api._choices(case)
    o, lse, *grads = map(api.on_host, api._call(api.dm_attn_func, tensors, choices))
    due = Outputs(o=o, lse=lse, dq=grads[0], dk=grads[1], dv=grads[2])
    monkeypatch.setattr(api, "BACKENDS", ("aot_eager",))
    rows = list(api._against_specification(case, due))
    assert [row["way"] for row in rows] == ["plain", "aot_eager", "strided", "no gradient"]
    assert all(row["compared"] and not row["differ"] for row in rows)
    wrong = replace(due, dq=due.dq + 1)
    assert [bool(r["differ"]) for r in api._against_specification(case, wrong)] == [True] * 3 + [
        False
    ]
