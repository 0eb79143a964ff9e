"""What a kernel declares is asked of the kernel itself, wherever it runs."""

import pytest

from dmverify import verify

CASE = "gaussian/spread-1,heads=1,kv_heads=1,queries=9,keys=17,head_dim=32@0"


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize(("kernel", "ok"), [("EveryContract", False), ("Wrong", True)])
def test_a_contract_that_nobody_has_reaches_the_kernel(kernel, ok, in_process):
    """An error of the judge, who does not know it either, is no refusal of the kernel."""
    where = "wrong" if kernel == "Wrong" else "cheats"
    report = verify(
        f"dmverify.lab.mutants.{where}:{kernel}",
        cases=[CASE],
        checks=["refusal"],
        in_process=in_process,
    )
    assert report.ok == ok
