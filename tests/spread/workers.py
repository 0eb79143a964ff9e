"""Workers of this process that lose blocks, answer in any order, and know what they were asked."""

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.spread.block import Asking, Done, Introduced
from dmverify.conformance.spread.plan import ONCE, Plan
from dmverify.conformance.verdict import SUPPORT, Finding, Verdict
from dmverify.spec.recording import Provenance

OF_CASES = ("o", "dq", "format")
OF_KERNEL = tuple(sorted(ONCE))[:2]
EVERY = tuple(name for name in CHECKS if name in OF_CASES + OF_KERNEL)


def plan(count, shard=(0, 1), **changes):
    """A plan of so many cases."""
    fields = {
        "made_with": "0",
        "asking": Asking("pkg:kernel"),
        "producer": Provenance(kernel="made-up"),
        "contracts": ("article",),
        "texts": {"article": "{}"},
        "asked": tuple((f"made/up@{n}", "article") for n in range(count)),
        "checks": EVERY,
        "level": "smoke",
        "seed": 0,
        "expect": "",
        "expected": (),
        "min_served": 0.0,
        "max_error": {},
        "shard": shard,
    }
    return Plan(**(fields | changes))


def finding(check, case):
    """What a made-up check finds, which says which case it is of."""
    number = int(case.partition("@")[2])
    return Finding(check, case, Verdict.CONFORMS, number / 7, judged=number)


def judged(case, checks, declined):
    """The findings of a case by some checks."""
    if case in declined:
        return (Finding(SUPPORT, case, Verdict.UNSUPPORTED, reason="declined"),)
    return tuple(finding(check, case) for check in checks)


def one_process(asked, declined=frozenset()):
    """What one process finds: checks of the kernel on the first case that is served, and no other.

    Written apart from what is tested: case after case, with what is still to be done.
    """
    found, done = [], set()
    for case, _ in asked:
        checks = [name for name in EVERY if not (name in OF_KERNEL and name in done)]
        of_case = judged(case, checks, declined)
        done |= {one.check for one in of_case}
        found.append((case, of_case))
    return found


class Lossy:
    """Workers that lose blocks and finish them in an order that a generator of chance chooses.

    Args:
        random: The generator.
        declined: Ids of cases that the kernel declines.
        deadly: Ids of cases that end whoever judges them.
        losses: How many other blocks are lost.
        count: How many blocks are judged at a time.
        most_large: How many large cases at a time.
    """

    def __init__(
        self, random, *, declined=frozenset(), deadly=frozenset(), losses=0, count=3, most_large=1
    ):
        self.random, self.declined, self.deadly = random, declined, deadly
        self.losses, self.count, self.most_large = losses, count, most_large
        self.waiting, self.asked = [], []

    def introduce(self):
        return Introduced(Provenance(kernel="made-up"), ("article",))

    def submit(self, block):
        self.waiting.append(block)
        self.asked += block.places

    def wait(self):
        assert self.waiting
        self.random.shuffle(self.waiting)
        for _ in range(self.random.randint(1, len(self.waiting))):
            yield self._done(self.waiting.pop())

    def _done(self, block):
        cases = [case for case, _ in block.asked]
        if self.deadly & set(cases):
            return Done(block, None)
        if self.losses and self.random.random() < 0.5:
            self.losses -= 1
            return Done(block, None)
        return Done(block, tuple(judged(case, block.checks, self.declined) for case in cases))
