"""Relations, identities and the making of a kernel: each check rejects a kernel made for it."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from dmverify.conformance.adapter import ShowsBuilds, ShowsCode
from dmverify.conformance.checks import CHECKS, questions
from dmverify.conformance.checks.relations import RELATIONS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels import surroundings_torch
from dmverify.conformance.kernels.bundled import Bundled
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.kernel import sass
from dmverify.kernel.build import BuildVariant, build
from dmverify.lab.mutants import MUTANTS, metamorphic, neighbours
from dmverify.lab.mutants.metamorphic import Touchy
from dmverify.lab.mutants.numeric import zeros
from dmverify.lab.mutants.simulated import asked

CASE = "gaussian/spread-2@0"


def judged(kernel, case=CASE, contract="article", checks=CHECKS):
    rows = [CHECKS[name] for name in checks]
    findings = run(kernel, [generate(case, contract=contract)], checks=rows, emit=ignore)
    return {finding.check: finding for finding in findings}


@pytest.mark.parametrize("name", metamorphic.MUTATIONS)
def test_only_the_relation_tells_a_touchy_kernel(name):
    check, (kernel, (case,)) = MUTANTS[name].check, asked(name)
    found = judged(kernel, case.id, checks=("o", "dk", check))
    assert (found["o"].verdict, found["dk"].verdict) == (Verdict.CONFORMS, Verdict.CONFORMS)
    assert found[check].verdict is Verdict.FAILS
    honest = judged(Touchy(lambda inputs: False), case.id, checks=(check,))
    assert honest[check].verdict is Verdict.CONFORMS


@pytest.mark.parametrize("name", neighbours.MUTATIONS)
def test_only_its_relation_tells_what_is_wrong_beside_others(name):
    check, (kernel, (case,)) = MUTANTS[name].check, asked(name)
    found = judged(kernel, case.id)
    assert {other for other, f in found.items() if f.verdict is Verdict.FAILS} == {check}
    alone = judged(neighbours.MUTATIONS[name](), case.id, checks=(check,))
    assert alone[check].verdict is Verdict.FAILS


class Counted(Simulation):
    def __init__(self):
        self.asked = 0

    def backward(self, case):
        self.asked += 1
        return super().backward(case)


@pytest.mark.parametrize(
    ("case", "questions"),
    [("gaussian/spread-2@0", 5), ("cancelling-delta/offset-4@0", 4), ("special/q-nan@0", 1)],
)
def test_relations_that_hold_are_few_questions(case, questions):
    kernel = Counted()
    found = judged(kernel, case, checks=("o", *RELATIONS))
    assert {f.verdict for f in found.values()} <= {Verdict.CONFORMS, Verdict.UNSUPPORTED}
    assert kernel.asked == questions


def test_a_case_is_asked_among_strangers_unless_it_would_not_fit(monkeypatch):
    case = generate("gaussian/spread-1,batch=2,queries=3,keys=5,head_dim=32@0", contract="article")
    batch = questions.QUESTIONS["batch"]
    asked = max(x.size for _, x in batch.ask(case).inputs.items())
    assert batch.ask(case).problem.batch == case.problem.batch + questions.STRANGERS
    monkeypatch.setattr(questions, "LARGEST", asked)
    assert batch.bars(case) == ""
    monkeypatch.setattr(questions, "LARGEST", asked - 1)
    assert batch.bars(case) == f"a tensor among strangers would have {asked} numbers"


def test_subnormal_numbers_after_a_nan_are_left_out_as_those_before_a_number_are():
    """dK of far keys is NaN or tiny, and powers of two round what is tiny."""
    shape = "batch=1,heads=7,kv_heads=1,queries=7,keys=127,head_dim=32,causal=1"
    case = generate(f"tiny-amax/far-keys-95,{shape}@1", contract="article")
    found = run(Simulation(), [case], checks=[CHECKS["power-v"]], emit=ignore)
    assert [one.verdict for one in found] == [Verdict.CONFORMS]


def test_a_wrong_output_is_reported_once():
    """The relations of an answer that is wrong in the same way every time hold."""
    found = judged(zeros, checks=("o", *RELATIONS))
    assert [name for name, f in found.items() if f.verdict is Verdict.FAILS] == ["o"]


def test_other_algorithms_are_no_poison(monkeypatch):
    """Torch switches algorithms where it fills memory; a bit of theirs is not a fault."""

    class Switches(Simulation):
        def backward(self, case):
            outputs = super().backward(case)
            lse = np.nextafter(outputs.lse, np.float32(np.inf))
            strict = torch.are_deterministic_algorithms_enabled()
            return replace(outputs, lse=lse) if strict else outputs

    assert judged(Switches(), checks=("poison",))["poison"].verdict is Verdict.CONFORMS


@pytest.mark.parametrize("check", ["o", "poison"])
def test_a_last_bit_out_of_memory_that_was_not_written_is_seen(check):
    """It is far inside every interval; memory filled with NaN, compared bit by bit, shows it."""

    class Reads(Simulation):
        def backward(self, case):
            outputs = super().backward(case)
            lse = np.nextafter(outputs.lse, np.float32(np.inf))
            # 40 MB come from the system, as zeros: no other test's memory is in them.
            return replace(outputs, lse=lse) if torch.empty(10_000_000).isnan().any() else outputs

    due = Verdict.FAILS if check == "poison" else Verdict.CONFORMS
    assert judged(Reads(), checks=(check,))[check].verdict is due


@pytest.mark.parametrize("case", ["permutation/base@0", "tiny-amax/v-2^-112@0", "lengths/n65@0"])
def test_relations_hold_in_bits_where_every_order_is_stated(case):
    found = judged(Emulator(), case, "bundled", RELATIONS)
    assert {f.verdict for f in found.values()} <= {Verdict.CONFORMS, Verdict.UNSUPPORTED}
    assert sum(f.verdict is Verdict.CONFORMS for f in found.values()) >= 4


def test_the_sum_of_dv_tells_a_lost_group():
    class Lost(Simulation):
        def backward(self, case):
            outputs = super().backward(case)
            return replace(outputs, dv=outputs.dv * np.float32(0.5))

    case = "constant-v/third@0"
    assert judged(Simulation(), case, checks=("sum-dv",))["sum-dv"].verdict is Verdict.CONFORMS
    wrong = generate(case, contract="article")
    do = np.ones_like(wrong.inputs.do)  # gradients that do not cancel: the bound is relative
    wrong = replace(wrong, inputs=replace(wrong.inputs, do=do))
    for kernel, due in ((Simulation(), Verdict.CONFORMS), (Lost(), Verdict.FAILS)):
        (finding,) = run(kernel, [wrong], checks=[CHECKS["sum-dv"]], emit=ignore)
        assert finding.verdict is due


def test_an_infinite_sum_of_dv_is_outside_its_bound():
    class Infinite(Simulation):
        def backward(self, case):
            outputs = super().backward(case)
            dv = outputs.dv.copy()
            dv[0, 0, 0, 0] = np.inf
            return replace(outputs, dv=dv)

    case = generate("constant-v/third@0", contract="article")
    (finding,) = run(Infinite(), [case], checks=[CHECKS["sum-dv"]], emit=ignore)
    assert finding.verdict is Verdict.FAILS
    assert finding.margin == np.inf


def test_another_stream_is_tried_where_there_is_a_gpu(monkeypatch):
    class Streamed(Simulation):
        other = False

        def backward(self, case):
            outputs = super().backward(case)
            return replace(outputs, dq=-outputs.dq) if self.other else outputs

    kernel = Streamed()

    @contextmanager
    def other_stream():
        kernel.other = True
        yield
        kernel.other = False

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(surroundings_torch, "other_stream", other_stream)
    assert judged(kernel, checks=("stream",))["stream"].verdict is Verdict.FAILS
    assert judged(Simulation(), checks=("stream",))["stream"].verdict is Verdict.CONFORMS


class Shows(Simulation):
    def __init__(self, cubins=None, builds=None):
        self.cubins, self.builds = lambda: cubins, lambda: builds


MMA = """
extern "C" __global__ void multiply(float* c, const unsigned* a) {
  float d[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]));
  c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""


def compiled(text):
    from cuda.core import Program, ProgramOptions

    made = Program(text, "c++", ProgramOptions(arch="sm_90a")).compile("cubin").code
    return bytes(made)


@pytest.mark.skipif(sass.disassembler() is None, reason="needs cuobjdump")
def test_instructions():
    good = build(BuildVariant("forward", 128)).cubin
    found = judged(Shows({"forward": good}), checks=("instructions",))["instructions"]
    assert found.verdict is Verdict.CONFORMS
    assert found.judged > 1000
    for cubins, says in (
        (
            {"quantise": build(BuildVariant("quantise", 128, causal=False)).cubin},
            "no QGMMA anywhere",
        ),
        ({"forward": good, "other": compiled(MMA)}, "other: HMMA"),
    ):
        found = judged(Shows(cubins), checks=("instructions",))["instructions"]
        assert found.verdict is Verdict.FAILS
        assert says in found.reason
    found = judged(Simulation(), checks=("instructions",))["instructions"]
    assert (found.verdict, found.reason) == (
        Verdict.UNSUPPORTED,
        "the kernel shows no machine code",
    )


def test_the_bundled_kernel_shows_its_code_and_other_builds():
    kernel = Bundled()
    assert isinstance(kernel, ShowsCode)
    assert isinstance(kernel, ShowsBuilds)
    assert kernel.cubins() == {}
    kernel.count("bundled", generate("gaussian/spread-1,head_dim=128@0").problem)
    assert any(name.startswith("forward-128") for name in kernel.cubins())
    assert [one.info.flags for one in kernel.builds().values()] == [
        ("--use_fast_math",),
        ("-fmad=false",),
    ]


def test_builds_agree_or_not():
    same = Shows(builds={"O1": Simulation()})
    assert judged(same, checks=("flags",))["flags"].verdict is Verdict.CONFORMS
    other = Shows(builds={"O1": Simulation(), "fast-math": Touchy(lambda inputs: True)})
    found = judged(other, checks=("flags",))["flags"]
    assert found.verdict is Verdict.FAILS
    assert "build fast-math gives other bits of o" in found.reason
    none = judged(Shows(builds={}), checks=("flags",))["flags"]
    assert none.verdict is Verdict.UNSUPPORTED


def test_every_check_rejects_some_kernel():
    """Those of the catalogue; the rest need a GPU's streams or machine code, or several builds."""
    named = {check for m in MUTANTS.values() for check in (m.check, m.check_outside)}
    assert CHECKS.keys() - named == {"stream", "instructions", "flags"}


def test_every_lemma_of_the_table_exists():
    proofs = pytest.importorskip("dmverify.proofs")
    known = {lemma.id for lemma in proofs.all_lemmas()} | {c.id for c in proofs.CERTIFICATES}
    assert {lemma for check in CHECKS.values() for lemma in check.lemmas} <= known
