"""What a dump build leaves on the device, decoded. No GPU takes part."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_inside import (
    backward_numbers,
    decode_rows,
    forward_weights,
    rows_positions,
)
from dmverify.kernel.launch import ForwardDump, Images, Options, dump_buffers
from dmverify.kernel.parameters import fields
from dmverify.kernel.stripes import Shape
from dmverify.lab.acceptance.dumped import SHAPES, differing, numbers, rejected
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import E4M3

HALF, ONE, TWO = (int(E4M3.encode(np.float32([x]))[0]) for x in (0.5, 1.0, 2.0))


@pytest.mark.parametrize("d", [64, 128, 256])
def test_every_byte_of_a_rows_image_is_one_code(d):
    positions = rows_positions(d)
    assert np.array_equal(np.sort(positions.ravel()), np.arange(64 * d))
    image = np.zeros((2, 2, 128 * d), dtype=np.uint8)
    image[1, 1, 64 * d + positions[3, 21]] = TWO
    values = decode_rows(image, d)
    assert values.shape == (2, 256, d)
    assert np.argwhere(values).tolist() == [[1, 3 * 64 + 3, 21]]


def test_swizzles_are_those_of_the_layout():
    assert rows_positions(64)[2, 16] == 2 * 64  # chunk 1 of row 2: 1 xor 1
    assert rows_positions(128)[5, 32] == 5 * 128 + 7 * 16  # chunk 2 of row 5: 2 xor 5
    assert rows_positions(256)[0, 128] == 64 * 128  # the second panel


def test_weights_move_to_the_last_reference():
    codes = torch.zeros(1, 2, 128, dtype=torch.uint8)
    codes[0, 0, 0], codes[0, 0, 64] = TWO, HALF
    windows = torch.tensor([[[[0.75, 3.0], [1.5, 40.0]], [[0.0, -torch.inf]] * 2]])
    weights = forward_weights(ForwardDump(codes, windows), np.array([[40.0, -np.inf]]))
    assert weights[0, 0, 0] == 2 * 0.75 * 2.0**-37
    assert weights[0, 0, 64] == 0.75
    assert not weights[0, 1].any()


def test_units_of_the_backward():
    shape = Shape(1, 1, 1, 64, 128, 64)
    dump, made = dump_buffers(shape, Images(None, None), torch.zeros(1))
    names = {field.name for field in fields("query", dump=True)}
    assert made.keys() == {name for name in names if name.startswith("dump_")}
    assert all(made[f"dump_{name}"] is getattr(dump, name) for name in ("p", "dp", "ds", "shifts"))
    for x in (dump.p, dump.dp, dump.ds):
        x.fill_(3.0)
    dump.p_codes.fill_(ONE), dump.ds_codes.fill_(HALF)
    dump.exponents[..., 0], dump.exponents[..., 1] = 4, 1
    factor = np.full((1, 2, 2), 1 / 3)
    found = backward_numbers(dump, factor, shifted=False)
    assert {name: x[0, 0, 0] for name, x in found.items()} == {
        "p": 3 / 16, "dp": 3 * (1 / 3), "ds": 3 / 8, "p_cast": 1 / 16, "ds_cast": 1 / 16,
    }  # fmt: skip
    rounded = backward_numbers(dump, factor * (1 + 2.0**-30), shifted=True)["dp"]
    assert (rounded == rounded.astype(np.float32)).all()


def test_a_number_that_differs_is_counted():
    name, contract = SHAPES[64], "bundled:delta=shifted"
    due, other = numbers(name, contract), numbers(name, contract)
    case = generate(name, contract=contract)
    assert set(differing(case, other, due).values()) == {0}
    for field in ("weights", "norm", "o32", "k", "ds"):
        getattr(other, field).flat[0] += 1.0
    found = differing(case, other, due)
    assert {name for name, count in found.items() if count} == {"weights", "norm", "o32", "k", "ds"}
    other.p[..., 0, 70] = np.nan  # hidden from the first query
    assert not differing(case, other, due)["p"]


def test_the_suite_judges_the_numbers_inside():
    name, contract = SHAPES[64], "bundled:delta=matched,ds_cast=zero-sum"
    case = generate(name, contract=contract)
    ran = interpret(get_contract(contract), case.problem, case.inputs, Bits(), internals=True)
    assert rejected(name, contract, ran.outputs, ran.internals) == []
    for field, check in (("ds", "ledger"), ("delta", "ledger"), ("o32", "dump")):
        wrong = replace(ran.internals, **{field: getattr(ran.internals, field) * 1.01})
        found = rejected(name, contract, ran.outputs, wrong)
        assert any(one.startswith(f"{check}: ") for one in found)


def test_a_dump_build_is_one_of_the_forward_and_one_of_the_backward():
    options = Options(True, "stale", False, 0.1, dump=True)
    dumped = {
        name: options.variant(name, 64).dump for name in ("quantise", "forward", "query", "key")
    }
    assert dumped == {"quantise": False, "forward": True, "query": True, "key": False}
