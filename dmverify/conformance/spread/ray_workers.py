"""Workers of a Ray cluster.

| kernel | a block is judged | references are made |
|---|---|---|
| on CPUs | by a worker with one CPU | by the same worker |
| on GPUs | by a worker that holds the GPUs it needs, or part of one | by workers with one CPU |

Ray places each worker where these are free, on whatever machine, and shows a worker its own GPUs
only (CUDA_VISIBLE_DEVICES), so that a machine with several has a kernel on each. The cluster is the
one that RAY_ADDRESS names, or else a local one that ends with the run. Machines that join later get
work as well. Ray itself tries nothing again: what is lost comes back as lost, to whoever submitted
it, because only that one can divide a block.

Every machine has this project, the kernel's package and the files of ``--inputs``, at the same
paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from dmverify.conformance.environment import one_thread
from dmverify.conformance.spread.block import (
    Asking,
    Block,
    Done,
    Failed,
    Found,
    Introduced,
    introduce,
    judge_block,
)
from dmverify.errors import HarnessError, InputError, naming_extras

Result = TypeVar("Result")
ADDRESS = "RAY_ADDRESS"
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
MAKERS = 2  # cases whose references are made for a GPU worker ahead of the one that it judges


class RayWorkers:
    """See the table of the module.

    Args:
        ray: The module, started.
        asking: How the kernel is asked.
    """

    def __init__(self, ray: Any, asking: Asking) -> None:
        self._ray, self._asking = ray, asking
        needs: dict[str, Any] = {"num_cpus": 0 if asking.gpus else 1, "num_gpus": asking.gpus}
        # By default a worker with a GPU would end after each block, and load the kernel anew.
        as_task = ray.remote(**needs, max_retries=0, max_calls=0)
        self._judge, self._introduce = as_task(_judge), as_task(introduce)
        self._blocks: dict[Any, Block] = {}
        self._require_room()

    @property
    def count(self) -> int:
        """How many blocks the cluster judges at a time."""
        has = self._ray.cluster_resources()
        gpus = self._asking.gpus
        return max(int(has.get("GPU", 0) / gpus if gpus else has.get("CPU", 0)), 1)

    @property
    def most_large(self) -> int:
        """Any number: Ray itself ends workers where a machine's memory runs out."""
        return self.count

    def introduce(self) -> Introduced:
        """What the kernel says of itself, where it runs.

        Raises:
            DmverifyError: If it cannot be loaded.
        """
        try:
            found = self._ray.get(self._introduce.remote(self._asking))
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            raise HarnessError(
                f"a worker that ended while it loaded {self._asking.kernel}",
                rule="a worker lives while it loads the kernel",
                fix="try the kernel with 'dmverify verify' on one machine",
            ) from error
        if isinstance(found, Failed):
            raise found.again()
        told: Introduced = found
        return told

    def submit(self, block: Block) -> None:
        """Has a block judged."""
        self._blocks[self._judge.remote(self._asking, block)] = block

    def wait(self) -> Iterable[Done]:
        """Blocks that are done, at least one of those that were submitted."""
        ready, rest = self._ray.wait(list(self._blocks), num_returns=1)
        more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=0) if rest else ([], [])
        return [Done(self._blocks.pop(one), self._found(one)) for one in (*ready, *more)]

    def _found(self, reference: Any) -> Found | None:
        """The findings of a block; None if its worker was lost."""
        try:
            found = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise  # the block itself raised: a fault of this project
        except self._ray.exceptions.RayError:
            return None
        if isinstance(found, Failed):
            raise found.again()
        told: Found = found
        return told

    def _require_room(self) -> None:
        gpus, has = self._asking.gpus, self._ray.cluster_resources().get("GPU", 0)
        if gpus > has:
            raise InputError(
                f"gpus={gpus:g} of a cluster with {has:g}",
                rule="the cluster has the GPUs that a kernel asks for",
                fix="start Ray on a machine that has them (ray start --address=... --num-gpus=...)",
            )


class RayMakers:
    """Makes references on the cluster's CPUs, for a worker that holds a GPU."""

    jobs = MAKERS

    def submit(self, call: Callable[[], Result], *, what: str) -> Callable[[], Result]:
        """Has something computed; what is lost, or raises, is computed here.

        Args:
            call: A function of a module with its arguments, which travel.
            what: The id of its case.
        """
        ray = _ray()
        reference = ray.remote(num_cpus=1, max_retries=0)(_call).remote(call)

        def result() -> Result:
            try:
                made: Result = ray.get(reference)
            except ray.exceptions.RayError:
                return call()
            return made

        return result


@contextmanager
def ray_workers(asking: Asking, *, jobs: int) -> Iterator[RayWorkers]:
    """Joins the cluster that the environment names, or starts a local one.

    Args:
        asking: How the kernel is asked.
        jobs: CPUs of a local cluster.

    Raises:
        DependencyError: Without Ray.
        HarnessError: If no cluster answers.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray = _ray()
    address = os.environ.get(ADDRESS)
    local: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
    try:
        ray.init(
            address or "local",
            log_to_driver=False,
            configure_logging=False,
            runtime_env={"env_vars": one_thread()},
            **local,
        )
    except (ConnectionError, RuntimeError, OSError) as error:
        raise HarnessError(
            f"Ray at {address or 'local'} ({error})",
            rule="the Ray cluster answers when a run begins",
            fix=f"start one with 'ray start --head', or leave {ADDRESS} out for a local one",
        ) from error
    try:
        yield RayWorkers(ray, asking)
    finally:
        ray.shutdown()


def with_ray(jobs: int) -> Callable[[Asking], Any]:
    """What ``Spread.workers`` is for a Ray cluster.

    Args:
        jobs: CPUs of a local one.
    """
    return partial(ray_workers, jobs=jobs)


def _ray() -> Any:
    with naming_extras():
        return import_module("ray")


def _judge(asking: Asking, block: Block) -> Found | Failed:
    return judge_block(asking, block, RayMakers() if asking.gpus else None)


def _call(call: Callable[[], Result]) -> Result:
    return call()
