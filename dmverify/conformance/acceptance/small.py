"""Small cases of every head dim and kind of mode, for compute-sanitizer to watch."""

from __future__ import annotations

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import Choices, launch, options_of, place

CONTRACTS = (
    "bundled",
    "bundled:delta=shifted,ds_cast=zero-sum",
    "bundled:delta=stale",
    "bundled:delta=associated",
)
SIZES = ("queries=129,keys=193,causal=1", "queries=65,keys=129,causal=0")


def main() -> None:
    """Runs them; whoever watches says what is wrong."""
    for d in (64, 128, 256):
        for contract in CONTRACTS:
            for size in SIZES:
                name = f"gaussian/spread-2,heads=2,kv_heads=1,{size},head_dim={d}@0"
                case = generate(name, contract=contract)
                launch(place(case), options_of(case, Choices()), units=1).outputs()


if __name__ == "__main__":
    main()
