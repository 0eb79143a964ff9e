"""Orthogonal rows of signs that E4M3 holds without rounding.

1. Sylvester: H_1 = [1], H_2n = [[H_n, H_n], [H_n, -H_n]]; H_n H_n^T = n I.
2. Rows for head dim D: with n the largest power of two that divides D, D / n copies of H_n on the
   diagonal of a D x D matrix, zeros elsewhere. Different rows are orthogonal.
3. Magnitude a = 7 * 2^k: the scale a / 448 = 2^(k - 6) is a power of two, so a quantises to the
   code 448 and back to itself, if a is the largest magnitude of its block.

Source: J. J. Sylvester, Philosophical Magazine 34 (1867). Not covered: Hadamard matrices of orders
that are no powers of two, which would fill the zeros of D = 96.
"""

from __future__ import annotations

import math

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.case import F64

EXACT = 7.0  # 448 / 64: its multiples by powers of two have scales that are powers of two


def walsh(order: int) -> F64:
    """The Sylvester matrix, (order, order) of -1 and +1.

    Raises:
        InputError: If the order is no power of two.

    >>> walsh(2).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    if order < 1 or order & (order - 1):
        raise InputError(
            f"order {order}", rule="Sylvester's orders are powers of two", fix="pass 1, 2, 4, ..."
        )
    matrix = np.ones((1, 1))
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def orthogonal_rows(head_dim: int) -> F64:
    """``head_dim`` orthogonal rows of -1, 0 and +1, (head_dim, head_dim)."""
    side = head_dim & -head_dim
    return np.kron(np.eye(head_dim // side), walsh(side)).astype(np.float64)


def exact_magnitude(size: float) -> float:
    """The 7 * 2^k nearest to a positive size, by ratio.

    >>> exact_magnitude(2.0)
    1.75
    """
    return float(EXACT * 2.0 ** round(math.log2(size / EXACT)))


def exact_ceiling(size: float) -> float:
    """The smallest 7 * 2^k that is not below a positive size."""
    return float(EXACT * 2.0 ** math.ceil(math.log2(size / EXACT)))
