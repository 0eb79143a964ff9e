"""Hypothesis strategies of attention problems, for property tests of a kernel.

    @given(dmverify.strategies.cases())
    def test_nothing_blows_up(case):
        assert dmverify.strategies.target_error(kernel, case, "dq") < 0.5

Cases shrink to fewer tokens and heads; ``target_error`` tells hypothesis in which direction errors
grow (``hypothesis.target``). Needs the package hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import hypothesis
import torch
from hypothesis import strategies as st

from dmverify.attack.objective import ERRORS, distance
from dmverify.attack.reference import exact
from dmverify.attack.stack import Stack
from dmverify.conformance.adapter import Kernel
from dmverify.conformance.families import FAMILIES, generate
from dmverify.errors import unknown_name
from dmverify.spec.case import Case

HEAD_DIMS = (32, 64, 128, 256)
SCALES = ("", "0.05", "-0.1", "0.3")
LARGEST = 96  # tokens
SEEDS = 1 << 20


def case_ids(
    *,
    families: Sequence[str] | None = None,
    head_dims: Sequence[int] = HEAD_DIMS,
    largest: int = LARGEST,
) -> st.SearchStrategy[str]:
    """Ids of drawn cases, in shapes of their own.

    Args:
        families: Names of families; None means all.
        head_dims: Head dims to draw from.
        largest: Most queries and keys.

    Raises:
        UnknownNameError: For a family that does not exist.
    """
    for name in families or ():
        if name not in FAMILIES:
            raise unknown_name("family", name, FAMILIES)
    variants = [f"{n}/{v}" for n in families or FAMILIES for v in FAMILIES[n].variants]
    sizes = st.fixed_dictionaries(
        {
            "batch": st.integers(1, 2),
            "kv_heads": st.integers(1, 2),
            "group": st.integers(1, 3),
            "queries": st.integers(1, largest),
            "keys": st.integers(1, largest),
            "head_dim": st.sampled_from(list(head_dims)),
            "causal": st.integers(0, 1),
            "softmax_scale": st.sampled_from(SCALES),
            "seed": st.integers(0, SEEDS),
        }
    )
    return st.builds(_id, st.sampled_from(variants), sizes)


def _id(variant: str, sizes: dict[str, object]) -> str:
    found = dict(sizes)
    seed, scale, group = found.pop("seed"), found.pop("softmax_scale"), found.pop("group")
    found["heads"] = int(str(found["kv_heads"])) * int(str(group))
    words = [f"{name}={found[name]}" for name in ("batch", "heads", "kv_heads", "queries", "keys")]
    words += [f"{name}={found[name]}" for name in ("head_dim", "causal")]
    words += [f"softmax_scale={scale}"] if scale else []
    return f"{variant},{','.join(words)}@{seed}"


def cases(
    contract: str = "article",
    *,
    families: Sequence[str] | None = None,
    head_dims: Sequence[int] = HEAD_DIMS,
    largest: int = LARGEST,
) -> st.SearchStrategy[Case]:
    """Cases under a contract; the arguments of ``case_ids``.

    Args:
        contract: Name or file of the contract.
        families: Names of families; None means all.
        head_dims: Head dims to draw from.
        largest: Most queries and keys.
    """
    ids = case_ids(families=families, head_dims=head_dims, largest=largest)
    return ids.map(lambda case_id: generate(case_id, contract=contract))


def target_error(kernel: Kernel, case: Case, output: str = "dq") -> float:
    """A kernel's floored error from attention on a case, the largest of its batches.

    Hypothesis is told to look for larger ones, so this belongs into a test that it runs.

    Args:
        kernel: Has ``backward(case)``.
        case: The case.
        output: o, dq, dk or dv.

    Raises:
        UnknownNameError: For another output.
    """
    if output not in ERRORS:
        raise unknown_name("output", output, ERRORS)
    got = torch.from_numpy(getattr(kernel.backward(case), output))
    stack = Stack(*(torch.from_numpy(x.copy()) for _, x in case.inputs.items()))
    due = exact(replace(case.problem, batch=1), stack)
    found = distance(got, due.outputs[output], due.sizes[output]).value
    error = float(found.nan_to_num(0.0, 0.0).max())
    hypothesis.target(error, label=f"error of {output}")
    return error
