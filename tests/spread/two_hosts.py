"""A program: verify over two hosts on this machine, with GPUs that are counted and not there."""

import os
import sys
from pathlib import Path

from ray.cluster_utils import Cluster

from dmverify import verify
from dmverify.conformance.spread import Spread
from dmverify.conformance.spread.ray_workers import ADDRESS, with_ray

if __name__ == "__main__":
    kernel, out, *cases = sys.argv[1:]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 2})
    cluster.add_node(num_cpus=1, num_gpus=2)
    os.environ[ADDRESS] = cluster.address
    try:
        spread = Spread(workers=with_ray(1), gpus=1)
        verify(kernel, cases=cases, spread=spread).write(Path(out))
    finally:
        cluster.shutdown()
