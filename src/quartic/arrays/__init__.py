"""The few hot primitives that solvers, kernels and losses share, for NumPy arrays and torch tensors alike."""

from quartic.arrays.checks import (
    Array,
    RandomState,
    as_array,
    as_floats,
    check_count,
    check_finite,
    check_number,
    finite_matrix,
    first_not_finite,
    is_torch,
    kind_of,
    random_generator,
    working_dtype,
)
from quartic.arrays.space import (
    HOST,
    Space,
    astype,
    bare,
    copy,
    eps,
    first_entry,
    float_type,
    gram,
    inner,
    is_zero,
    matmul,
    namespace,
    norm,
    positive_part,
    space_of,
    squared_norm,
    squares_are_safe,
    times,
    to_host,
    total,
    trace_inner,
)
from quartic.arrays.subspace import most_different_rows, orthonormal, spread_rows
from quartic.arrays.waiting import on_host
