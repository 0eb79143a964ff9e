"""The torch side of the kernel: operators, gradients, tracing, refusals. No GPU takes part."""

import ctypes
import itertools
from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.optests import OpCheckError

from dmverify.kernel import api, launch, ops
from dmverify.kernel.api import dm_attn_func
from dmverify.kernel.build import MODES
from dmverify.kernel.errors import UnsupportedError
from dmverify.kernel.launch import Options
from dmverify.kernel.stripes import Shape, units_in

SIZES = {  # B, Nq, Nk, H, Hkv, D
    "tails": (2, 5, 131, 6, 2, 64),
    "more queries": (1, 130, 3, 3, 1, 128),
    "no batch": (0, 5, 7, 2, 1, 64),
    "no queries": (2, 0, 7, 2, 1, 64),
    "no keys": (2, 5, 0, 2, 1, 64),
}
CHOICES = ("nearest", "zero-sum")


def drawn(size, seed=0):
    """Q, K and V of small natural numbers, and dO."""
    batch, nq, nk, heads, kv_heads, d = SIZES[size]
    draw = torch.Generator().manual_seed(seed)
    shapes = [(batch, nq, heads, d), *[(batch, nk, kv_heads, d)] * 2, (batch, nq, heads, d)]
    return [torch.randint(0, 5, s, generator=draw).to(torch.bfloat16) for s in shapes]


def leaves(tensors):
    return [x.detach().clone().requires_grad_() for x in tensors]


def due(attention, q, k, v, do, *, causal=True, scale=None):
    """O, LSE and gradients by autograd through plain attention."""
    scale = ctypes.c_float(q.shape[-1] ** -0.5 if scale is None else scale).value
    inputs = [x.double().requires_grad_() for x in (q, k, v)]
    if not (q.numel() and k.numel()):
        lse = torch.full((q.shape[0], q.shape[2], q.shape[1]), -torch.inf)
        return torch.zeros_like(q), lse, [torch.zeros_like(x) for x in (q, k, v)]
    out, lse = attention(*inputs, causal, scale)
    grads = torch.autograd.grad(out, inputs, do.double())
    return out.bfloat16(), lse.float(), [g.bfloat16() for g in grads]


def same(got, wanted):
    return len(got) == len(wanted) and all(map(torch.equal, got, wanted))


def close(got, wanted):
    """Up to a rounding: two forms of the same sums."""
    return all(
        torch.allclose(a, b, rtol=2**-7, atol=2**-10) for a, b in zip(got, wanted, strict=True)
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("causal", [True, False])
def test_outputs_and_gradients_reach_their_tensors(plain_attention, size, mode, causal):
    q, k, v, do = drawn(size)
    inputs = leaves((q, k, v))
    out, lse = dm_attn_func(*inputs, causal=causal, mode=mode, return_lse=True)
    assert out.requires_grad
    assert not lse.requires_grad
    grads = torch.autograd.grad(out, inputs, do)
    o, due_lse, due_grads = due(plain_attention, q, k, v, do, causal=causal)
    assert torch.equal(out, o)
    assert torch.equal(lse, due_lse)
    assert close(grads, due_grads)
    if q.numel() and k.numel():
        assert not close((grads[0], grads[2], grads[1]), due_grads)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("causal", "ds_cast"), [(True, "zero-sum"), (False, "nearest")])
@pytest.mark.parametrize(
    "numerics", [{}, {"centre_k": "none"}, {"centre_k": "none", "normaliser": "unrounded"}], ids=str
)
def test_choices_reach_both_passes(plain_attention, monkeypatch, mode, causal, ds_cast, numerics):
    if mode == "associated":
        numerics = numerics | {"normaliser": "codes"}
    met = []

    def spied(name):
        real = getattr(ops, name)

        def spy(*args, **more):
            met.append((name, args[-1]))
            return real(*args, **more)

        monkeypatch.setattr(ops, name, spy)

    for name in ("prepare", "forward", "backward"):
        spied(name)
    q, k, v, do = drawn("tails")
    inputs = leaves((q, k, v))
    choices = {"causal": causal, "mode": mode, "ds_cast": ds_cast, "softmax_scale": 0.1} | numerics
    torch.autograd.grad(dm_attn_func(*inputs, **choices), inputs, do)
    scale = ctypes.c_float(0.1).value
    options = Options(causal, mode, ds_cast == "zero-sum", scale)
    own = replace(options, **numerics)
    assert met == [("prepare", own), ("forward", own), ("backward", options)]
    with torch.no_grad():
        dm_attn_func(*inputs, **choices)
    inference = Options(causal, "matched", False, scale, **numerics)
    assert met[3:] == [("prepare", inference), ("forward", inference)]


def test_the_workspace_decides_on_the_units_of_a_stripe_alone(plain_attention, monkeypatch):
    met = []
    real = ops.backward
    monkeypatch.setattr(ops, "backward", lambda *a, units: met.append(units) or real(*a))
    q, k, v, do = drawn("tails")
    for workspace in (None, 10**6):
        inputs = leaves((q, k, v))
        torch.autograd.grad(dm_attn_func(*inputs, workspace_bytes=workspace), inputs, do)
    shape = Shape(*q.shape[:1], q.shape[2], k.shape[2], q.shape[1], k.shape[1], q.shape[3])
    assert met == [units_in(given, shape, causal=True) for given in (None, 10**6)]
    assert met[0] != met[1]


@pytest.mark.parametrize("size", SIZES)
def test_without_gradients_nothing_is_kept_and_the_numbers_are_the_same(plain_attention, size):
    q, k, v, _ = drawn(size)
    with torch.no_grad():
        out, lse = dm_attn_func(*leaves((q, k, v)), return_lse=True)
    kept_out, kept_lse = dm_attn_func(*leaves((q, k, v)), return_lse=True)
    assert not out.requires_grad
    assert torch.equal(out, kept_out)
    assert torch.equal(lse, kept_lse)


def test_a_second_backward_meets_the_same_tensors(plain_attention):
    q, k, v, do = drawn("tails")
    _, _, kept = ops.attention_forward(q, k, v, True, "associated", False, 0.125)
    before = [x.clone() for x in kept]
    out = torch.zeros_like(q)
    ops.attention_backward(do, out, kept, k.shape[1], k.shape[2], True, "associated", False, 0.125)
    assert same(kept, before)
    inputs = leaves((q, k, v))
    out = dm_attn_func(*inputs)
    first, second = (torch.autograd.grad(out, inputs, do, retain_graph=True) for _ in range(2))
    assert same(first, second)


def test_only_what_needs_a_gradient_gets_one(plain_attention):
    q, k, v, do = drawn("tails")
    (dv,) = torch.autograd.grad(dm_attn_func(q, k, v.requires_grad_()), v, do)
    assert close([dv], due(plain_attention, q, k, v.detach(), do)[2][2:])


@pytest.mark.parametrize("size", ["tails", "no queries", "no keys"])
@pytest.mark.parametrize("mode", ["matched", "shifted", "associated"])
def test_operators_keep_to_their_schemas_and_fakes(plain_attention, size, mode):
    q, k, v, do = drawn(size)
    choices = (True, mode, True, 0.125)
    torch.library.opcheck(ops.attention, (q, k, v, True, 0.125))
    torch.library.opcheck(ops.attention_forward, (*leaves((q, k, v)), *choices))
    out, _, kept = ops.attention_forward(q, k, v, *choices)
    sizes = k.shape[1], k.shape[2]
    torch.library.opcheck(ops.attention_backward, (do, out, kept, *sizes, *choices))


def test_opcheck_sees_a_wrong_fake(plain_attention, monkeypatch):
    real = ops.kept_sizes
    monkeypatch.setattr(ops, "kept_sizes", lambda *args: real(*args)[::-1])
    q, k, v, _ = drawn("tails")
    with pytest.raises(OpCheckError):
        torch.library.opcheck(ops.attention_forward, (q, k, v, True, "shifted", False, 0.125))


@pytest.mark.parametrize("mode", MODES)
def test_fake_gpu_tensors_get_the_shapes_that_the_launches_allocate(plain_attention, mode):
    q, k, v, do = drawn("tails")
    choices = (True, mode, False, 0.125)
    real = ops.attention_forward(q, k, v, *choices)
    sizes = k.shape[1], k.shape[2]
    grads = ops.attention_backward(do, real[0], real[2], *sizes, *choices)
    with FakeTensorMode():
        f = [torch.empty(x.shape, dtype=x.dtype, device="cuda") for x in (q, k, v, do)]
        fake = ops.attention_forward(*f[:3], *choices)
        fake_grads = ops.attention_backward(f[3], fake[0], fake[2], *sizes, *choices)
        assert all(x.device.type == "cuda" for x in (*fake[:2], *fake[2], *fake_grads))
    for a, b in zip((*real[:2], *real[2], *grads), (*fake[:2], *fake[2], *fake_grads), strict=True):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_traced_whole(plain_attention, dynamic):
    torch.compiler.reset()

    def layer(q, k, v, scale):
        return dm_attn_func(q * 1, k, v, softmax_scale=scale, mode="shifted", return_lse=True)

    traced = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for size, scale in itertools.product(("tails", "no keys"), (0.125, -0.25)):
        q, k, v, do = drawn(size)
        inputs = leaves((q, k, v))
        out, lse = traced(*inputs, scale)
        o, due_lse, grads = due(plain_attention, q, k, v, do, scale=scale)
        assert torch.equal(out, o)
        assert torch.equal(lse, due_lse)
        assert close(torch.autograd.grad(out, inputs, do), grads)
        with torch.no_grad():
            assert torch.equal(traced(*inputs, scale)[0], o)


def test_one_trace_serves_every_length(plain_attention):
    traces = []

    def backend(graph, _):
        traces.append(graph)
        return graph

    traced = torch.compile(dm_attn_func, fullgraph=True, backend=backend, dynamic=True)
    for nq, nk in ((5, 7), (130, 300), (1000, 64)):
        q, k = (torch.ones(2, n, 2, 64, dtype=torch.bfloat16) for n in (nq, nk))
        assert traced(q, k, k).shape == q.shape
    assert len(traces) == 1
    assert [n.target for n in traces[0].graph.nodes if "dmverify" in str(n.target)] == [
        torch.ops.dmverify.attention.default
    ]


def test_a_trace_asks_for_the_type_of_the_device_alone(monkeypatch):
    def asked(device):
        raise NotImplementedError("what a GPU can do is no part of a graph")

    def checked(x, device):
        api.check_device(torch.device(device))
        return x + 1

    monkeypatch.setattr(torch.cuda, "get_device_capability", asked)
    traced = torch.compile(checked, fullgraph=True, backend="eager")
    assert traced(torch.zeros(2), "cuda").tolist() == [1, 1]
    with pytest.raises(Exception, match=r"UnsupportedError|Observed exception"):
        traced(torch.zeros(2), "cpu")
    with pytest.raises(NotImplementedError):
        checked(torch.zeros(2), "cuda")


@pytest.mark.parametrize(("capability", "served"), [((9, 0), True), ((10, 0), False)])
def test_operators_ask_what_the_gpu_can_do_when_they_run(monkeypatch, capability, served):
    class OnGpu:
        is_cuda, device = True, torch.device("cuda", 0)

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "device_of", lambda x: "current")
    if served:
        assert ops.on_device_of(OnGpu()) == "current"
        api.check_device(OnGpu.device)
    else:
        for refusal in (lambda: ops.on_device_of(OnGpu()), lambda: api.check_device(OnGpu.device)):
            with pytest.raises(UnsupportedError, match=r"compute capability 9\.0"):
                refusal()


def test_vector_loads_copy_what_they_cannot_read():
    base = torch.arange(2 * 8 * 2 * 64 + 1, dtype=torch.float32).bfloat16()
    fits = base[:-1].view(2, 8, 2, 64)
    off = base[1:].view(2, 8, 2, 64)
    swapped = torch.zeros(2, 8, 64, 2, dtype=torch.bfloat16).transpose(2, 3)
    assert ops.aligned(fits) is fits
    for x in (off, swapped):
        copy = ops.aligned(x)
        assert torch.equal(copy, x)
        assert copy.data_ptr() % 16 == 0
        assert copy.is_contiguous()


def resized(**sizes):
    full = {"nq": 4, "nk": 4, "batch": 1, "k_batch": 1, "heads": 4, "kv": 2, "d": 64, "kd": 64}
    s = full | sizes
    q = torch.zeros(s["batch"], s["nq"], s["heads"], s["d"], dtype=torch.bfloat16)
    k = torch.zeros(s["k_batch"], s["nk"], s["kv"], s["kd"], dtype=torch.bfloat16)
    return q, k, k


@pytest.mark.parametrize(
    ("tensors", "choices", "rule"),
    [
        (resized(k_batch=2), {}, "q's batch"),
        (resized(kd=128), {}, "q's head dim"),
        (resized(d=96, kd=96), {}, "D is one of"),
        (resized(kv=3), {}, "Hkv divides H"),
        (resized(kv=0), {}, "Hkv divides H"),
        (resized(nk=131_073), {}, "Nk <= 131072"),
        ((*resized()[:2], resized(nk=5)[1]), {}, "one shape"),
        (resized(), {"mode": "exact"}, "mode is one of"),
        (resized(), {"ds_cast": "stochastic"}, "ds_cast is one of"),
        (resized(), {"centre_k": "mean"}, "centre_k is one of"),
        (resized(), {"normaliser": "rounded"}, "normaliser is one of"),
        (resized(), {"normaliser": "unrounded", "mode": "associated"}, "sum of the codes"),
        (resized(), {"softmax_scale": float("nan")}, "finite"),
        (resized(), {"workspace_bytes": 32_895}, "from 32896, the records of 128 queries"),
        (resized(), {"softmax_scale": 3.4028235677973366e38}, "finite"),
    ],
)
def test_refusals_come_before_any_launch(plain_attention, monkeypatch, tensors, choices, rule):
    def started(*args, **more):
        pytest.fail("launched")

    monkeypatch.setattr(launch, "start", started)
    with pytest.raises(UnsupportedError, match=rule):
        dm_attn_func(*tensors, **choices)


def test_the_largest_scale_is_served(plain_attention):
    q, k, v, _ = drawn("no keys")
    assert dm_attn_func(q, k, v, softmax_scale=3.4028235e38).shape == q.shape


@pytest.mark.parametrize("ds_cast", CHOICES)
def test_no_gradient_of_a_gradient(plain_attention, ds_cast):
    q, k, v, do = drawn("tails")
    inputs = leaves((q, k, v))
    out = dm_attn_func(*inputs, ds_cast=ds_cast)
    (dq, *_) = torch.autograd.grad(out, inputs, do.requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        dq.sum().backward()
