"""How a kernel is asked: guards keep layouts and tell every stray byte, questions have no names."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance import session
from dmverify.conformance.adapter import Stored
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate, list_cases
from dmverify.conformance.guards import ALIGNMENT, ZONE, guard
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.session import Session
from dmverify.conformance.verdict import Verdict

LAYOUTS = [case for case in list_cases("layout") if "offset" not in case]


OTHERS = ["layout/far-rows@0", "special/q-nan@0", "lengths/no-queries@0"]


@pytest.mark.parametrize("case_id", [*LAYOUTS, *OTHERS])
def test_a_fence_keeps_values_strides_and_alignment(case_id):
    for name, array in generate(case_id).inputs.items():
        one = guard(name, array)
        assert np.array_equal(one.view, array, equal_nan=True)
        assert one.corruption() == ""
        assert not np.may_share_memory(one.view, array)
        if array.size:
            assert one.view.strides == array.strides
            assert (one.view.ctypes.data - array.ctypes.data) % ALIGNMENT == 0


def strided():
    return np.arange(24, dtype=np.float32).reshape(4, 6)[::-1, ::2]


@pytest.mark.parametrize("array", [strided(), np.array(strided())], ids=["strided", "dense"])
def test_every_byte_around_a_tensor_is_watched(array):
    for at in (0, ZONE - 1, -1, -ZONE):
        one = guard("k", array)
        one.memory[at] ^= 1
        assert one.corruption() == "1 bytes around input k"
    one = guard("k", array)
    one.view[2, 1] += 1
    assert one.corruption().endswith("bytes of input k")
    assert np.isnan(one.memory[:8].view(np.float32)).all()


def test_every_byte_between_the_elements_is_watched():
    one = guard("k", strided())
    gap = one.view[1, 1:].ctypes.data - one.memory.ctypes.data + one.view.itemsize
    one.memory[gap] ^= 1
    assert one.corruption() == "1 bytes around input k"


def test_of_a_large_tensor_the_elements_are_watched():
    one = guard("k", generate("layout/far-rows@0").inputs.k)
    assert one.memory.size == one.view.nbytes
    one.view[0, -1, 0, 0] += 1
    assert one.corruption().endswith("bytes of input k")


class Wraps(Simulation):
    """Forms offsets of one tensor in 32 bits: beyond 2^31 elements it reads where zeros are."""

    def __init__(self, tensor):
        self._tensor = tensor

    def backward(self, case):
        return super().backward(self._wrapped(case))

    def forward(self, case):
        return super().forward(self._wrapped(case))

    def _wrapped(self, case):
        x = getattr(case.inputs, self._tensor)
        offsets = [np.arange(n) * (step // 4) for n, step in zip(x.shape, x.strides, strict=True)]
        far = sum(np.ix_(*offsets)) >= 2**31
        wrong = {self._tensor: np.where(far, np.float32(0), x)}
        return replace(case, inputs=replace(case.inputs, **wrong))


@pytest.mark.parametrize("far", ["far-rows", "far-heads", "far-batches"])
@pytest.mark.parametrize(("tensor", "seen"), [("q", "dq"), ("k", "dk"), ("v", "o"), ("do", "dv")])
def test_an_offset_of_32_bits_shows_in_every_tensor(far, tensor, seen):
    found = {
        case: {f.check for f in judged(Wraps(tensor), case) if f.verdict is Verdict.FAILS}
        for case in ("layout/sparse-rows@0", f"layout/{far}@0")
    }
    assert found["layout/sparse-rows@0"] == set()
    assert seen in found[f"layout/{far}@0"]


def judged(kernel, case_id):
    checks = [CHECKS[name] for name in ("o", "lse", "dq", "dk", "dv")]
    return run(kernel, [generate(case_id, contract="article")], checks=checks, emit=ignore)


def test_questions_have_no_names():
    seen = []

    class Reads(Simulation):
        def backward(self, case):
            seen.append(case)
            return super().backward(case)

    for seed in (0, 1):
        case = generate(f"lengths/n2@{seed}", contract="article")
        Session(Reads(), case).backward()
    assert all(case.id.startswith("question/") and not case.targets for case in seen)
    assert seen[0].id != seen[1].id


def test_a_kernel_that_answers_by_id_gets_it():
    class Reads(Simulation, Stored):
        def supports(self, case):
            assert case.id == "lengths/n2@0"
            return super().supports(case)

    case = generate("lengths/n2@0", contract="article")
    assert Session(Reads(), case).supports() is None
    checks = [CHECKS[name] for name in ("repeat", "repeat-whole", "inputs-kept", "o")]
    findings = run(Reads(), [case], checks=checks, emit=ignore)
    assert [f.verdict for f in findings] == [
        Verdict.UNSUPPORTED,  # to be asked again proves nothing of what looks its answers up
        Verdict.UNSUPPORTED,
        Verdict.UNSUPPORTED,
        Verdict.CONFORMS,
    ]


class Reuses(Simulation):
    """Its second answer lies where the first one was."""

    kept = None

    def backward(self, case):
        answer = super().backward(case)
        if self.kept is None:
            self.kept = answer.dv
        self.kept[...] = answer.dv
        return replace(answer, dv=self.kept)


@pytest.mark.parametrize("watched", [0, session.WATCHED])
def test_an_answer_that_the_next_call_changes_is_noted_however_large(watched, monkeypatch):
    monkeypatch.setattr(session, "WATCHED", watched)
    case = generate("gaussian/spread-1,queries=5,keys=7,head_dim=32@0", contract="article")
    other = replace(case, inputs=replace(case.inputs, do=-case.inputs.do))
    for kernel, changed in ((Reuses(), ("dv of backward",)), (Simulation(), ())):
        asked = Session(kernel, case)
        for question in (case, other, case, case):
            asked.backward(question)
        assert asked.side_effects().changed == changed


@pytest.mark.parametrize("watched", [0, session.WATCHED])
def test_what_is_held_of_past_calls_has_an_end(watched, monkeypatch):
    monkeypatch.setattr(session, "WATCHED", watched)
    case = generate("gaussian/spread-1,queries=5,keys=7,head_dim=32@0", contract="article")
    asked = Session(Simulation(), case)
    for _ in range(4):
        asked.backward()
    assert len(asked._guards) == (0 if watched == 0 else 16)
    assert len(asked._returned) == (6 if watched == 0 else 24)
