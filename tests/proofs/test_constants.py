"""Each constant is what its lemma or certificate states."""

from fractions import Fraction

import pytest

from dmverify.errors import UnknownNameError
from dmverify.proofs import CERTIFICATES, all_lemmas
from dmverify.spec.constants import CONSTANTS, DEFINITION, EVALUATION, STEPS, constant

STATED = {entry.id: entry.constant for entry in (*all_lemmas(), *CERTIFICATES)}
CITING = [row for row in CONSTANTS.values() if row.source not in (DEFINITION, STEPS, EVALUATION)]


def drifted(row):
    """Whether a row's value is not its unit times what its source proves."""
    return row.source not in STATED or row.value != row.unit * STATED[row.source]


@pytest.mark.parametrize("row", CITING, ids=lambda row: row.name)
def test_value_is_the_proved_one(row):
    assert not drifted(row)


def test_a_drifted_constant_would_be_noticed():
    import dataclasses

    row = CONSTANTS["E4M3_RELATIVE"]
    assert drifted(dataclasses.replace(row, value=Fraction(1, 18)))
    assert drifted(dataclasses.replace(row, source="no-such-lemma"))


def test_unknown_constants_are_refused():
    assert constant("U") == Fraction(1, 2**24)
    with pytest.raises(UnknownNameError):
        constant("NO_SUCH_CONSTANT")
