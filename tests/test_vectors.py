"""Rows in vectors of the machine, as the compiled passes use them, beside NumPy."""

import numpy as np
import pytest
from numba import njit

from quartic.compiled.vectors import add_square, dot, lanes_for, load, nothing, prefetch, store, where_squared


@njit
def _combine(lanes, A, i, j, number):
    prefetch(A, j, 0)
    a, b = load(lanes, A, i, 1), load(lanes, A, j, 1)
    store(A, j, 1, nothing(lanes) + number * (a - b))
    return dot(a, b)


@njit
def _square(lanes, A, u, number):
    add_square(A, 1, 2, number, load(lanes, u, 0, 0))


@pytest.mark.parametrize(("width", "dtype"), [(1, np.float64), (2, np.float64), (4, np.float32), (32, np.float64)])
def test_vectors_do_what_numpy_does_and_touch_nothing_else(width, dtype):
    A = np.random.default_rng(0).standard_normal((3, width + 3)).astype(dtype)
    a, b, wanted = A[0, 1 : width + 1].copy(), A[2, 1 : width + 1].copy(), A.copy()
    found = _combine((0.0,) * width, A, 0, 2, 0.5)
    wanted[2, 1 : width + 1] = 0.5 * (a.astype(np.float64) - b)
    np.testing.assert_array_equal(A, wanted)
    assert found == pytest.approx(np.dot(a.astype(np.float64), b), rel=1e-13)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_turned_blocks_hold_every_product(width):
    rng = np.random.default_rng(width)
    height, u = width // 2 + 1, rng.standard_normal((1, width))
    A = rng.standard_normal((2, 3 + width * height))
    before = A.copy()
    _square((0.0,) * width, A, u, 3.0)
    added = (A - before)[1, 2:-1]
    np.testing.assert_allclose(added[where_squared(width)], 3 * np.outer(u, u), rtol=1e-12, atol=1e-14)
    A[1, 2:-1] = before[1, 2:-1]
    np.testing.assert_array_equal(A, before)


def test_widths_are_powers_of_two_up_to_the_most():
    assert [len(lanes_for(rank)) for rank in (1, 2, 3, 4, 5, 17, 32, 33, 100)] == [1, 2, 4, 4, 8, 32, 32, 32, 32]
