"""Kernels by name: built-in, of one's own, and every way that can go wrong."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from dmverify.conformance import resolve
from dmverify.conformance.adapter import (
    Dumps,
    Kernel,
    Supported,
    Unsupported,
    contracts_of,
    require_kernel,
)
from dmverify.conformance.families import generate
from dmverify.conformance.kernels import KERNELS
from dmverify.conformance.kernels.bundled import Bundled
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.resolve import load_kernel, resolve_kernel
from dmverify.errors import KernelError, UnknownNameError


class NeedsArguments(Simulation):
    def __init__(self, device):
        self.device = device


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("kernels_of_a_user")
    made.Simulation = Simulation
    made.instance = Simulation()
    made.factory = lambda: Simulation()
    made.number = 3
    made.NeedsArguments = NeedsArguments
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made.__name__


@pytest.mark.parametrize("name", KERNELS)
def test_every_listed_kernel_loads_and_dumps(name):
    kernel = resolve_kernel(name, in_process=True)
    assert isinstance(kernel, Kernel)
    assert isinstance(kernel, Dumps) is (name in ("simulation", "emulator", "bundled"))
    assert kernel.info.kernel == name


@pytest.mark.parametrize("path", ["Simulation", "instance", "factory"])
def test_a_kernel_of_ones_own(module, path):
    assert isinstance(load_kernel(f"{module}:{path}"), Simulation)


def offered(monkeypatch, *pairs):
    points = [EntryPoint(name, value, resolve.GROUP) for name, value in pairs]
    monkeypatch.setattr(resolve, "entry_points", lambda group: points)


def test_what_others_wrote_computes_in_a_process_of_its_own(monkeypatch):
    target = f"{Simulation.__module__}:{Simulation.__name__}"
    assert isinstance(resolve_kernel("torch-math"), ProcessKernel)
    offered(monkeypatch, ("theirs", target))
    for name in ("theirs", target):
        assert isinstance(resolve_kernel(name), ProcessKernel)
    assert not isinstance(resolve_kernel("simulation"), ProcessKernel)
    assert isinstance(resolve_kernel("simulation", timeout=1e6), ProcessKernel)


def test_a_package_offers_a_kernel_by_name(module, monkeypatch):
    offered(monkeypatch, ("theirs", f"{module}:factory"))
    assert isinstance(resolve_kernel("theirs", in_process=True), Simulation)
    with pytest.raises(UnknownNameError, match="did you mean theirs"):
        resolve_kernel("thiers")


@pytest.mark.parametrize("pairs", [[("bundled", "m:x")], [("theirs", "m:x"), ("theirs", "m:y")]])
def test_a_name_that_is_taken_is_refused(monkeypatch, pairs):
    offered(monkeypatch, *pairs)
    with pytest.raises(KernelError, match="not that of another kernel"):
        resolve_kernel("theirs")


def test_an_unknown_name_offers_close_ones():
    with pytest.raises(UnknownNameError, match="did you mean simulation") as caught:
        resolve_kernel("simulaton")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing", "no attribute 'missing'"),
        ("number", "without info, contract, supports, forward"),
        ("NeedsArguments", "raised TypeError"),
        ("", "importable"),
    ],
)
def test_what_is_no_kernel_is_refused(module, path, says):
    with pytest.raises(KernelError, match="fix: ") as caught:
        load_kernel(f"{module}:{path}")
    assert says in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_missing_module_is_refused():
    with pytest.raises(KernelError, match="no_such_module_here"):
        resolve_kernel("no_such_module_here:kernel")


def test_missing_members_are_named():
    class Half:
        info = contract = None

    with pytest.raises(KernelError, match="without supports, forward"):
        require_kernel(Half(), "half")


@pytest.mark.parametrize(
    ("contract", "serves"),
    [
        ("article", True),
        ("upstream:delta=shifted", True),
        ("article:ds_cast=zero-sum", False),
        ("article:delta=associated,normaliser=codes", False),
        ("bundled", False),
    ],
)
def test_the_simulation_says_what_it_serves(contract, serves):
    support = Simulation().supports(generate("lengths/n1@0", contract=contract))
    assert isinstance(support, Supported if serves else Unsupported)
    assert serves or "=" in support.reason


@pytest.mark.parametrize(
    ("contract", "serves"), [("bundled:delta=stale", True), ("article", False)]
)
def test_the_emulator_says_what_it_serves(contract, serves):
    support = resolve_kernel("emulator").supports(generate("lengths/n1@0", contract=contract))
    assert isinstance(support, Supported if serves else Unsupported)


def test_a_kernel_names_one_contract_or_several():
    assert contracts_of(Simulation()) == ("article",)
    for kernel in (Emulator(), Bundled()):
        assert len(set(contracts_of(kernel))) == 12
        assert kernel.contract in contracts_of(kernel)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["article"], "tuple of texts"),
        (("article", 3), "tuple of texts"),
        ("article", "tuple of texts"),
        ((), "among them"),
        (("upstream",), "among them"),
    ],
)
def test_contracts_of_another_kind_are_refused(names, says):
    kernel = Simulation()
    kernel.contracts = names
    with pytest.raises(KernelError, match=says):
        contracts_of(kernel)


def test_contracts_that_raise_are_the_kernels_fault():
    class Raises(Simulation):
        @property
        def contracts(self):
            raise OSError("no such device")

    with pytest.raises(KernelError, match="no such device"):
        contracts_of(Raises())
