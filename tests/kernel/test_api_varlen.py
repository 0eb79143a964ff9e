"""Packed sequences: each one as if it were alone. No GPU takes part."""

import pytest
import torch

from dmverify.kernel.api import dm_attn_func
from dmverify.kernel.errors import UnsupportedError
from dmverify.kernel.varlen import dm_attn_varlen_func

PACKS = {
    "mixed": ((5, 0, 130, 1, 7), (9, 4, 131, 0, 7)),
    "one": ((6,), (6,)),
    "none": ((), ()),
    "empty": ((0, 0), (0, 3)),
}


def starts(lengths):
    return [sum(lengths[:i]) for i in range(len(lengths) + 1)]


def packed(q_lengths, k_lengths):
    draw = torch.Generator().manual_seed(len(q_lengths))
    shapes = [(sum(q_lengths), 4, 64), *[(sum(k_lengths), 2, 64)] * 2, (sum(q_lengths), 4, 64)]
    tensors = [torch.randint(0, 5, s, generator=draw).to(torch.bfloat16) for s in shapes]
    return [x.requires_grad_() for x in tensors[:3]], tensors[3]


def alone(inputs, do, q_lengths, k_lengths, **choices):
    """O, LSE and gradients of the sequences, one call each on tensors of its own."""
    qs, ks = starts(q_lengths), starts(k_lengths)
    rows = []
    for i in range(len(q_lengths)):
        a, b = slice(qs[i], qs[i + 1]), slice(ks[i], ks[i + 1])
        own = [x.detach()[s][None].clone() for x, s in zip(inputs, (a, b, b), strict=True)]
        own = [x.requires_grad_() for x in own]
        out, lse = dm_attn_func(*own, return_lse=True, **choices)
        grads = torch.autograd.grad(out, own, do[a][None])
        rows.append((out[0], lse[0].T, *(g[0] for g in grads)))
    return [torch.cat(parts) for parts in zip(*rows, strict=True)]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("form", [list, torch.tensor])
@pytest.mark.parametrize("causal", [True, False])
def test_each_sequence_is_computed_alone(plain_attention, pack, form, causal):
    lengths = PACKS[pack]
    inputs, do = packed(*lengths)
    cu = [form(starts(n)) for n in lengths]
    out, lse = dm_attn_varlen_func(*inputs, *cu, causal=causal, mode="shifted", return_lse=True)
    assert out.shape == do.shape
    assert lse.shape == (4, sum(lengths[0]))
    grads = torch.autograd.grad(out, inputs, do)
    if lengths[0]:
        due = alone(inputs, do, *lengths, causal=causal, mode="shifted")
        assert all(map(torch.equal, (out, lse.T, *grads), due))
    else:
        assert [g.shape for g in grads] == [x.shape for x in inputs]


def test_neighbours_would_show(plain_attention):
    inputs, do = packed((5, 7), (5, 7))
    due = alone(inputs, do, (5, 7), (5, 7))[0]
    assert torch.equal(dm_attn_varlen_func(*inputs, [0, 5, 12], [0, 5, 12]), due)
    assert not torch.equal(dm_attn_varlen_func(*inputs, [0, 6, 12], [0, 6, 12]), due)


def test_it_is_traced_whole(plain_attention):
    inputs, do = packed(*PACKS["mixed"])
    cu = [starts(n) for n in PACKS["mixed"]]
    traced = torch.compile(dm_attn_varlen_func, fullgraph=True, backend="aot_eager")
    got, due = (
        (out, *torch.autograd.grad(out, inputs, do))
        for out in (traced(*inputs, *cu), dm_attn_varlen_func(*inputs, *cu))
    )
    assert all(map(torch.equal, got, due))


@pytest.mark.parametrize(
    ("cu_q", "rule"),
    [
        ([0, 3, 12], "count the same sequences"),
        ([1, 12], "starts at 0"),
        ([], "starts at 0"),
        ([0, 11], "ends at the number of tokens, 12"),
        ([0, 13, 12], "ascends"),
        ([0, 12.0], "holds integers"),
        ([False, 12], "holds integers"),
        (torch.tensor([0.0, 12.0]), "vector of integers"),
        (torch.tensor([[0, 12]]), "vector of integers"),
        (torch.tensor([0, 12], device="meta"), r"wait for the GPU; fix: pass cu_seqlens_q.cpu\(\)"),
    ],
)
def test_wrong_lengths_are_refused(plain_attention, cu_q, rule):
    inputs, _ = packed((12,), (12,))
    with pytest.raises(UnsupportedError, match=rule):
        dm_attn_varlen_func(*inputs, cu_q, [0, 12])


def test_tensors_are_packed(plain_attention):
    (q, k, v), _ = packed((12,), (12,))
    with pytest.raises(UnsupportedError, match=r"q is \(T, heads, D\)"):
        dm_attn_varlen_func(q[None], k, v, [0, 12], [0, 12])
    with pytest.raises(UnsupportedError, match="k and v have one length"):
        dm_attn_varlen_func(q, k, v[:5], [0, 12], [0, 12])
