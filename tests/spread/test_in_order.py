"""Whatever workers do to their blocks, what comes out is what one process finds."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmverify.conformance.spread.block import Failed
from dmverify.conformance.spread.findings_file import FindingsFile
from dmverify.conformance.spread.in_order import MOST, TRIES, InOrder
from dmverify.conformance.spread.lengths import Length
from dmverify.conformance.verdict import HARNESS, Verdict
from dmverify.errors import InputError, KernelError
from tests.spread.workers import EVERY, OF_CASES, Lossy, one_process, plan


def work(the_plan, workers, file=None, **words):
    run = InOrder(the_plan, workers, file, **words)
    return list(run.work()), run.complete


@settings(max_examples=200, deadline=None)
@given(
    count=st.integers(0, 90),
    seed=st.integers(0, 2**32),
    first_declined=st.integers(0, 40),
    losses=st.integers(0, 2),
    workers=st.integers(1, 40),
    works=st.lists(st.tuples(st.floats(0.1, 1e6), st.booleans()), max_size=90),
    in_turn=st.booleans(),
)
def test_blocks_that_are_lost_and_late_change_nothing(
    count, seed, first_declined, losses, workers, works, in_turn
):
    declined = {f"made/up@{n}" for n in range(first_declined)}
    the_plan = plan(count)
    lossy = Lossy(random.Random(seed), declined=declined, losses=losses, count=workers)
    lengths = {place: Length(*one) for place, one in enumerate(works)}
    found, complete = work(the_plan, lossy, lengths=lengths, in_turn=in_turn)
    assert found == one_process(the_plan.asked, declined)
    assert complete


def test_checks_of_the_kernel_are_not_judged_with_every_case():
    the_plan = plan(200)
    lossy = Lossy(random.Random(0))
    blocks = []
    lossy.submit = lambda block, submit=lossy.submit: (blocks.append(block), submit(block))
    work(the_plan, lossy)
    assert [block.checks for block in blocks] == [EVERY] + [OF_CASES] * (len(blocks) - 1)
    assert sum(len(block.places) for block in blocks) == 200
    assert max(len(block.places) for block in blocks) <= MOST
    assert len(blocks[-1].places) == 1  # nobody is at a long block when the others are done


def test_a_case_that_ends_every_worker_is_an_error_and_costs_no_other():
    the_plan = plan(40)
    deadly = {"made/up@7"}
    lossy = Lossy(random.Random(1), deadly=deadly)
    found, complete = work(the_plan, lossy)
    expected = one_process(the_plan.asked)
    (lost,) = found[7][1]
    assert (lost.check, lost.verdict) == (HARNESS, Verdict.ERROR)
    assert f"{TRIES} times" in lost.reason
    assert [one for one in found if one[0] not in deadly] == expected[:7] + expected[8:]
    assert lossy.asked.count(7) == 1 + TRIES
    assert not complete


def test_if_the_first_case_is_lost_the_next_one_is_judged_by_what_belongs_to_the_kernel():
    found, _ = work(plan(40), Lossy(random.Random(2), deadly={"made/up@0"}))
    assert [one.check for one in found[1][1]] == list(EVERY)
    assert [one.check for one in found[2][1]] == list(OF_CASES)


def test_a_later_run_asks_what_is_not_in_the_file_and_finds_the_same(tmp_path):
    the_plan = plan(50)
    with FindingsFile(tmp_path, the_plan, resume=False) as file:
        begun = InOrder(the_plan, Lossy(random.Random(3)), file).work()
        before = [next(begun) for _ in range(20)]
        begun.close()
    with FindingsFile(tmp_path, the_plan, resume=True) as file:
        kept = set(file.judged)
        lossy = Lossy(random.Random(4))
        found, complete = work(the_plan, lossy, file)
    assert len(kept) >= 20
    assert found[:20] == before
    assert found == one_process(the_plan.asked)
    assert sorted(lossy.asked) == sorted(set(range(50)) - kept)
    assert complete


def test_what_is_complete_is_asked_of_nobody(tmp_path):
    the_plan = plan(5)
    with FindingsFile(tmp_path, the_plan, resume=False) as file:
        work(the_plan, Lossy(random.Random(5)), file)
        file.end({}, ())
    with FindingsFile(tmp_path, the_plan, resume=True) as file:
        lossy = Lossy(random.Random(6))
        assert work(the_plan, lossy, file) == (one_process(the_plan.asked), True)
    assert lossy.asked == []


def test_a_shard_has_its_own_places_only():
    the_plan = plan(10, (1, 3))
    lossy = Lossy(random.Random(7))
    found, _ = work(the_plan, lossy)
    assert [case for case, _ in found] == ["made/up@1", "made/up@4", "made/up@7"]
    assert sorted(lossy.asked) == [1, 4, 7]


def test_a_deliberate_error_travels_as_its_words():
    error = InputError("x", rule="r", fix="f")
    again = Failed.of(error).again()
    assert type(again) is InputError
    assert str(again) == str(error)
    assert type(Failed.of(KernelError("x", rule="r", fix="f")).again()) is KernelError
    with pytest.raises(InputError, match="got x; rule: r; fix: f"):
        raise again
