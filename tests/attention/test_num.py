"""Numbers with operators: each is one operation of their arithmetic, and rounding order is kept."""

import ast
from pathlib import Path

import numpy as np
import pytest

import dmverify
from dmverify.spec.arithmetic import Bits, Double, Enclosure, Exact, Single
from dmverify.spec.arithmetic.stacked import Stack, Stacked
from dmverify.spec.attention import num
from dmverify.spec.attention.num import Num, any_of, broadcast, cast, dot, fma, inner, total, where
from dmverify.spec.attention.pages import PAGES
from dmverify.spec.contracts import ARTICLE, SCHEDULES
from dmverify.spec.formats import E4M3

STEPS = Path(dmverify.__file__).parent / "spec" / "attention"
LARGEST_PAGE = 230
ASKING = (
    "encloses",
    "exact_schedule",
    "Enclosure",
    "OpenEnclosure",
    "Bits",
    "Exact",
    "Single",
    "Double",
)
MACHINERY = ("parts.py", "run.py")  # they choose how a call is taken apart, not what a step does
SAID = ("contract", "_contract")
READ_LIKE_EQUATIONS = (
    *("rows", "windows", "online", "delta", "casts", "shared_steps", "sums"),
    *("window_products", "unspecified_order", "state", "num", "returned", "internals"),
)

X = np.array([[1.5, -2.25, 3.0]], np.float32)
Y = np.array([[0.1, 0.7, -5.0]], np.float32)


class Written:
    """An arithmetic that writes down what it is asked."""

    def __init__(self):
        self.said = []

    def __getattr__(self, name):
        def operation(*args, **named):
            self.said.append(name)
            return args[0]

        return operation


@pytest.mark.parametrize(
    ("expression", "operation"),
    [
        (lambda x, y: x + y, "add"),
        (lambda x, y: x - y, "sub"),
        (lambda x, y: x * y, "mul"),
        (lambda x, y: x / y, "div"),
        (lambda x, y: -x, "negate"),
        (lambda x, y: abs(x), "absolute"),
        (lambda x, y: x > y, "greater"),
        (lambda x, y: fma(x, y, x), "fma"),
        (lambda x, y: dot(x, y, over="channels"), "dot"),
        (lambda x, y: total(x, 1, over="tokens"), "sum"),
        (lambda x, y: inner(x, y, 1, over="tokens"), "inner"),
        (lambda x, y: num.largest(x, 1), "max"),
        (lambda x, y: num.exp2(x), "exp2"),
        (lambda x, y: num.ceil_log2(x), "ceil_log2"),
        (lambda x, y: cast(x, E4M3, site="p", saturate=True), "cast"),
    ],
)
def test_an_expression_is_one_operation(expression, operation):
    a = Written()
    expression(Num(X, a), Num(Y, a))
    assert a.said == [operation]


def test_an_fma_rounds_once_and_a_product_and_a_sum_twice():
    a = Bits()
    x, y, z = (Num(np.array([[v]], np.float32), a) for v in (1 + 2**-12, 1 + 2**-12, -1 - 2**-11))
    assert fma(x, y, z).float64().item() == 2**-24
    assert (x * y + z).float64().item() == 0


@pytest.mark.parametrize("a", [Single(), Double(), Bits(), Exact()], ids=lambda a: a.name)
def test_a_float_is_that_float32_number_on_either_side(a):
    x = Num(a.array(X), a)
    tenth = float(np.float32(0.1))
    for found, due in (
        (x * 0.1, X.astype(np.float64) * tenth),
        (1.0 / x, 1 / X.astype(np.float64)),
        (where(X > 0, x, 0.1), np.where(X > 0, X, tenth)),
        (x.of(0.1), np.full((1, 1), tenth)),
    ):
        np.testing.assert_allclose(found.float64(), due, rtol=1e-7)


def test_heads_in_front_are_not_seen():
    a = Stacked(Bits(), 2)
    both = Num(Stack(np.stack([X, 2 * X])), a)
    single = Num(X, Bits())
    found = (broadcast(both, (4, 3)) - 1.5).T.array.numbers
    for i, factor in enumerate((1, 2)):
        due = (broadcast(single * float(factor), (4, 3)) - 1.5).T.array
        assert np.array_equal(found[i], due)
    assert np.array_equal(where(both > 2.0, both, 0.0).array.numbers[1], [[3.0, 0.0, 6.0]])


def test_what_is_open_is_one_choice_or_all():
    choice = Num(X, Single())
    assert any_of(choice, lambda: pytest.fail("a single number has one choice")) is choice
    a = Enclosure(ARTICLE)
    known, wide = Num(a.array(X), a), Num(a.between(X, X + 1), a)
    assert any_of(known, lambda: wide) is wide


def asked(text):
    """What in a text says what interprets a step: attributes, classes, a choice of constants."""
    found = []
    for node in ast.walk(ast.parse(text)):
        name = getattr(node, "attr", getattr(node, "id", getattr(node, "value", "")))
        if isinstance(name, str) and name in ASKING:
            found.append(name)
        constant = isinstance(node, ast.Call) and isinstance(next(iter(node.args), 0), ast.Constant)
        if constant and getattr(node.func, "attr", getattr(node.func, "id", "")) == "any_of":
            found.append("any_of")
    return found


def test_no_step_asks_what_interprets_it():
    pages = [path for path in sorted(STEPS.glob("*.py")) if path.name not in MACHINERY]
    assert len(pages) > 10
    assert {path.name: asked(path.read_text()) for path in pages} == {p.name: [] for p in pages}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("if p.a.encloses:\n    p = p + 1", "encloses"),
        ("getattr(p.a, 'encloses', False)", "encloses"),
        ("if isinstance(p.a, Enclosure): pass", "Enclosure"),
        ("from dmverify.spec import arithmetic\nisinstance(a, arithmetic.Bits)", "Bits"),
        ("sets = p.a.any_of(False, lambda: True)", "any_of"),
    ],
)
def test_a_step_that_asks_is_found(text, said):
    assert asked(text) == [said]


def read_of_contracts(text):
    """Fields that a text reads of a contract."""
    nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute))
    return [n.attr for n in nodes if getattr(n.value, "id", getattr(n.value, "attr", "")) in SAID]


def test_steps_read_no_contract():
    """What a contract chooses reaches them as ``Choices``, as operands, and as its schedule."""
    pages = [STEPS / f"{name}.py" for name in READ_LIKE_EQUATIONS]
    assert {path.name: read_of_contracts(path.read_text()) for path in pages} == {
        path.name: [] for path in pages
    }
    assert read_of_contracts("if contract.saturate and self.contract.delta: pass") == [
        "saturate",
        "delta",
    ]


def test_every_schedule_has_a_page_that_can_be_read_in_one_sitting():
    assert PAGES.keys() == SCHEDULES.keys()
    for page in PAGES.values():
        assert callable(page.forward)
        assert callable(page.backward)
        assert len(Path(page.__file__).read_text().splitlines()) <= LARGEST_PAGE
