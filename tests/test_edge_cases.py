"""The odd ends of the input: every solver that fits is run on each, NumPy's warnings are errors, no X holds a NaN."""

import dataclasses
import math
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from quartic import DistanceCompletion, Problem, SymNMF, minimize
from quartic.datasets import pair_distances
from quartic.datasets.points import unordered_pairs
from quartic.distance.data import keys_of
from quartic.distance.findings import DistanceWarning, MisfitWarning, UndeterminedWarning
from quartic.losses import Anchored, BoundedDistances, Distances, LeastSquares, Rectangular, Sensing
from quartic.losses.pairs.input import check_pairs
from quartic.penalties import Nonnegative
from quartic.solvers import SOLVERS
from quartic.solvers.registry import why_not

RNG = np.random.default_rng(3)


def symmetric(n, seed=0):
    A = np.random.default_rng(seed).random((n, n))
    return A + A.T


def pairs_of(X):
    pairs = np.array(np.triu_indices(len(X), 1)).T
    return pairs, ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)


def fitting(problem):
    return [name for name in SOLVERS if why_not(SOLVERS[name](), problem) is None]


def every_solver(problem, rank, **options):
    """Run every solver that fits, and check what each result must be, whatever the data."""
    results = {}
    names = fitting(problem)
    assert len(names) >= 4
    for name in names:
        result = minimize(
            problem, rank=rank, solver=name, random_state=0, **({"tol": 1e-6, "max_iter": 2000} | options)
        )
        honest(problem, result)
        results[name] = result
    return results


def honest(problem, result):
    """No NaN; the figures are those of X; converged only where stationarity says so."""
    assert np.isfinite(result.X).all(), result.message
    assert result.X.shape == (problem.loss.n_points, result.X.shape[1])
    assert result.success == (result.status == "converged")
    assert len(result.history) == result.n_iter + 1
    if problem.penalty.nonnegative:
        assert (result.X >= 0).all()
    point = problem.loss.at(result.X.astype(np.float64))
    assert result.objective == pytest.approx(problem.objective(point), rel=1e-9, abs=1e-300)
    if not math.isinf(result.history.stationarity[0]) and problem.stationarity(point) > 0:
        size = result.history.stationarity.max()
        assert result.stationarity == pytest.approx(problem.stationarity(point), rel=1e-6, abs=1e-12 * size)


PENALTIES = [None, Nonnegative()]


# -- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES)
def test_all_zero_gives_zero(penalty):
    for result in every_solver(Problem(LeastSquares(np.zeros((5, 5))), penalty), 2).values():
        assert result.success
        assert not result.X.any()
    zero = Distances([[0, 1], [1, 2]], [0.0, 0.0])
    if penalty is None:
        for result in every_solver(Problem(zero), 2).values():
            assert result.success
            assert not result.X.any()


@pytest.mark.parametrize("penalty", PENALTIES)
def test_denormal_data(penalty):
    """Every entry is below the least normal number: what can be said of them is said."""
    M = np.ldexp(np.kron(np.eye(2), np.ones((3, 3))), -1070)
    assert 0 < M.max() < np.finfo(float).tiny
    for result in every_solver(Problem(LeastSquares(M), penalty), 2, tol=1e-3).values():
        X = np.ldexp(result.X, 535)
        assert np.linalg.norm(X @ X.T - np.kron(np.eye(2), np.ones((3, 3)))) < 0.05 or not result.success


def test_denormals_beside_ordinary_numbers():
    M = symmetric(8)
    M[0], M[:, 0] = 5e-324, 5e-324
    for penalty in PENALTIES:
        every_solver(Problem(LeastSquares(M), penalty), 2)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_isolated_nodes_and_pieces(penalty):
    M = np.zeros((11, 11))
    M[:4, :4], M[4:8, 4:8] = 1.0, 2.0
    for form in (M, sp.csr_array(M)):
        for name, result in every_solver(Problem(LeastSquares(form), penalty), 2).items():
            assert result.success, (name, result.message)
            assert np.abs(result.X[8:]).max() < 0.05


def test_duplicate_points():
    X = np.repeat(RNG.standard_normal((4, 2)), 3, axis=0)
    pairs, squared = pairs_of(X)
    assert (squared == 0).any()
    for name, result in every_solver(Problem(Distances(pairs, squared, 12)), 2).items():
        assert result.success, (name, result.message)
    every_solver(Problem(BoundedDistances(pairs, squared, squared, 12)), 2, max_iter=200)
    for penalty in PENALTIES:
        every_solver(Problem(LeastSquares(X @ X.T), penalty), 2)


def test_points_without_a_distance_and_pieces_of_distances():
    X = RNG.standard_normal((9, 2))
    pairs, squared = pairs_of(X)
    apart = ((pairs < 4).all(axis=1) | ((pairs >= 4) & (pairs < 8)).all(axis=1)).nonzero()[0]
    for name, result in every_solver(Problem(Distances(pairs[apart], squared[apart], 9)), 2, tol=1e-4).items():
        assert result.success, (name, result.message)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("n", "rank"), [(1, 1), (2, 1), (2, 2), (6, 1), (6, 6)])
def test_least_and_largest_sizes(n, rank, penalty):
    M = symmetric(n) + n * np.eye(n)
    for name, result in every_solver(Problem(LeastSquares(M), penalty), rank).items():
        assert result.success, (name, result.message)
    if penalty is None and n > 1:
        X = RNG.standard_normal((n, rank))
        every_solver(Problem(Distances(*pairs_of(X), n)), rank)


def test_eigenvalues_below_zero():
    """No XXᵀ is near such an M: X = 0 is the answer where M has no positive eigenvalue, and a saddle where it has."""
    Q = np.linalg.qr(RNG.standard_normal((10, 10)))[0]
    below = (Q * -np.linspace(1, 5, 10)) @ Q.T
    for penalty in PENALTIES:
        for name, result in every_solver(Problem(LeastSquares((below + below.T) / 2), penalty), 2).items():
            assert np.linalg.norm(result.X) < 1e-2, (name, result.message)
            assert result.success, (name, result.message)


@pytest.mark.parametrize("seed", range(3))
def test_strongly_negative_eigenvalues_hold_no_solver_up(seed):
    """SymHALS, SymANLS and ADMM draw two factors together; too weakly, and they settle apart from each other."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    M = (Q * np.concatenate([rng.random(5), -10 * rng.random(35)])) @ Q.T
    results = every_solver(Problem(LeastSquares((M + M.T) / 2), Nonnegative()), 4)
    lowest = min(result.objective for result in results.values())
    for name, result in results.items():
        assert result.success, (name, result.message)
        assert result.objective == pytest.approx(lowest, rel=1e-6), name


# -- zero is a saddle -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", fitting(Problem(LeastSquares(np.eye(3)), Nonnegative())))
def test_no_run_from_a_large_start_converges_at_zero(name):
    for seed in range(3):
        problem = Problem(LeastSquares(symmetric(20, seed)), Nonnegative())
        for factor in (10.0, 100.0, 1e4):
            start = factor * np.random.default_rng(seed).random((20, 3))
            result = minimize(problem, start, solver=name, tol=1e-10, max_iter=300)
            assert not (result.success and not result.X.any()), result.message


def test_zero_is_believed_where_it_is_the_answer():
    """X ≥ 0 cannot come near negative entries, whatever the eigenvalues of M are."""
    M = np.array([[0.0, -1.0], [-1.0, 0.0]])
    result = minimize(Problem(LeastSquares(M), Nonnegative()), np.array([[1.0], [1.0]]), solver="beta", tol=1e-10)
    assert result.success
    assert np.abs(result.X).max() < 1e-4


def test_a_solver_stuck_at_zero_is_stalled():
    from quartic.solvers.base import NoProgress, Solver, State

    class ToZero(Solver):
        name = "to zero"

        def init(self, problem, X0):
            return State(problem.loss.at(X0))

        def step(self, problem, state):
            if not state.point.X.any():
                raise NoProgress("nowhere to go")
            return State(problem.loss.at(0 * state.point.X))

    for penalty in PENALTIES:
        result = minimize(Problem(LeastSquares(symmetric(6)), penalty), rank=2, solver=ToZero(), random_state=0)
        assert result.status == "stalled"
        assert "X = 0, a saddle" in result.message
    for M in (-np.eye(6), -symmetric(6)):
        result = minimize(Problem(LeastSquares(M), Nonnegative()), rank=2, solver=ToZero(), random_state=0)
        assert result.success


# -- kinds of arrays --------------------------------------------------------------------------------------------------


def read_only(M):
    M = M.copy()
    M.setflags(write=False)
    return M


def as_memmap(M, folder):
    stored = np.memmap(folder / "M.dat", dtype=M.dtype, mode="w+", shape=M.shape)
    stored[:] = M
    stored.flush()
    return np.memmap(folder / "M.dat", dtype=M.dtype, mode="r", shape=M.shape)


WHOLE = np.rint(4 * symmetric(10)) / 4  # quarters: no type here rounds them
FORMS = {
    "Fortran order": lambda M, folder: np.asfortranarray(M),
    "a view with steps": lambda M, folder: np.kron(M, np.ones((2, 2)))[::2, ::2],
    "backwards": lambda M, folder: M[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda M, folder: read_only(M),
    "memory-mapped": as_memmap,
    "big-endian": lambda M, folder: M.astype(">f8"),
    "long double": lambda M, folder: M.astype(np.longdouble),
    "half precision": lambda M, folder: M.astype(np.float16),
    "not aligned": lambda M, folder: np.frombuffer(b"x" + M.tobytes(), dtype=np.uint8)[1:].view("f8").reshape(M.shape),
    "lists": lambda M, folder: M.tolist(),
    "CSR": lambda M, folder: sp.csr_array(M),
    "CSC": lambda M, folder: sp.csc_array(M),
    "COO": lambda M, folder: sp.coo_array(M),
    "DOK": lambda M, folder: sp.dok_array(M),
    "int64 indices": lambda M, folder: wide(sp.csr_array(M)),
    "duplicates": lambda M, folder: doubled(M),
    "unsorted": lambda M, folder: unsorted(M),
    "big-endian sparse": lambda M, folder: swapped(sp.csr_array(M)),
    "read-only sparse": lambda M, folder: frozen(sp.csr_array(M)),
}


def wide(A):
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


def swapped(A):
    A.data = A.data.astype(">f8")
    return A


def doubled(M):
    """Every entry in two halves."""
    i, j = M.nonzero()
    return sp.coo_array((np.tile(M[i, j] / 2, 2), (np.tile(i, 2), np.tile(j, 2))), shape=M.shape)


def unsorted(M):
    A = sp.csr_array(M)
    for row in range(len(M)):
        part = slice(A.indptr[row], A.indptr[row + 1])
        A.indices[part], A.data[part] = A.indices[part][::-1].copy(), A.data[part][::-1].copy()
    A.has_sorted_indices = False
    return A


def frozen(A):
    for part in (A.data, A.indices, A.indptr):
        part.setflags(write=False)
    return A


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_matrix_does_not_matter(form, tmp_path):
    """The same run as for a plain array of float64; bit for bit where it is dense too."""
    dense = Problem(LeastSquares(WHOLE), Nonnegative())
    other = Problem(LeastSquares(FORMS[form](WHOLE, tmp_path)), Nonnegative())
    for name in fitting(other):
        options = {"rank": 3, "solver": name, "tol": 1e-6, "random_state": 0, "max_iter": 25}
        one, two = minimize(dense, **options), minimize(other, **options)
        if hasattr(other.loss.matrix.M, "indptr"):
            np.testing.assert_allclose(two.X, one.X, atol=1e-6)
        else:
            np.testing.assert_array_equal(two.X, one.X)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.float16, np.longdouble])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_whole_numbers_and_odd_floats(dtype, form):
    A = (symmetric(9) > 1).astype(np.float64)
    if form is sp.csr_array and dtype is np.float16:
        pytest.skip("SciPy has no sparse matrices of this type")
    for penalty in PENALTIES:
        one = minimize(Problem(LeastSquares(form(A)), penalty), rank=2, random_state=0)
        two = minimize(Problem(LeastSquares(form(A.astype(dtype))), penalty), rank=2, random_state=0)
        np.testing.assert_array_equal(one.X, two.X)


def test_starts_and_pairs_in_any_form(tmp_path):
    pairs, squared = pairs_of(RNG.standard_normal((8, 2)))
    start = RNG.standard_normal((8, 2))
    plain = minimize(Problem(Distances(pairs, squared, 8)), start, tol=1e-6).X
    for given in (pairs.astype(np.int32), pairs.astype(np.uint64), pairs.astype(">i8"), np.asfortranarray(pairs),
                  read_only(pairs), pairs.astype(float), pairs.tolist()):  # fmt: skip
        np.testing.assert_array_equal(minimize(Problem(Distances(given, squared, 8)), start, tol=1e-6).X, plain)
    for given in (squared.astype(">f8"), squared.astype(np.longdouble), read_only(squared), squared.tolist()):
        np.testing.assert_array_equal(minimize(Problem(Distances(pairs, given, 8)), start, tol=1e-6).X, plain)
    for given in (np.asfortranarray(start), start.astype(">f8"), read_only(start), as_memmap(start, tmp_path),
                  start.tolist(), start.astype(np.longdouble)):  # fmt: skip
        np.testing.assert_array_equal(minimize(Problem(Distances(pairs, squared, 8)), given, tol=1e-6).X, plain)


# -- estimators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-140, 1e-40, 1.0, 1e40, 1e140])
def test_estimators_follow_the_scale_of_the_data(factor):
    M = np.kron(np.eye(2), np.ones((4, 4))) + 0.1
    plain, moved = (SymNMF(2, random_state=0, tol=1e-8).fit(A) for A in (M, M * factor))
    np.testing.assert_array_equal(plain.labels_, moved.labels_)
    np.testing.assert_allclose(moved.embedding_ / math.sqrt(factor), plain.embedding_, atol=1e-5)

    X = np.random.default_rng(0).standard_normal((15, 2))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    D[RNG.random(D.shape) < 0.1] = np.nan
    D = np.fmax(D, D.T)
    options = {"n_components": 2, "random_state": 0, "align_to": X * factor, "noise": 0.1 * factor}
    found = DistanceCompletion(**options).fit(D * factor)
    np.testing.assert_allclose(found.embedding_ / factor, X, atol=1e-7)
    assert found.rmse_ / factor < 1e-7
    assert found.determined_.all()
    assert np.isfinite(found.result_.X).all()
    expected = DistanceCompletion(**(options | {"align_to": X, "noise": 0.1})).fit(D).standard_errors_
    np.testing.assert_allclose(found.standard_errors_ / factor, expected, rtol=1e-5)
    assert found.score(D * factor) / factor > -1e-7

    anchors = {k: X[k] * factor for k in range(3)}
    held = DistanceCompletion(2, random_state=0, refine="stress").fit(D * factor, anchors=anchors)
    np.testing.assert_allclose(held.embedding_ / factor, X, atol=1e-7)
    np.testing.assert_array_equal(held.embedding_[0], anchors[0])
    pairs, squared = pairs_of(X)
    weighted = DistanceCompletion(2, random_state=0, init=X * factor).fit_pairs(
        pairs, np.sqrt(squared) * factor, weights="noise"
    )
    assert weighted.rmse_ / factor < 1e-7


def test_a_large_complete_matrix_far_from_one():
    X = np.random.default_rng(0).standard_normal((300, 2))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    for factor in (1e-140, 1e140):
        found = DistanceCompletion(2, align_to=X * factor, random_state=0).fit(D * factor)
        np.testing.assert_allclose(found.embedding_ / factor, X, atol=1e-6)


@pytest.mark.parametrize("factor", [2.0**-400, 1.0, 2.0**400])
def test_what_is_said_of_lengths_is_in_the_users_units(factor):
    """And every warning points to the line that called ``fit``, however deep the fit went."""
    X = np.random.default_rng(1).standard_normal((30, 2))
    pairs, squared = pairs_of(X)
    distances = np.sqrt(squared)
    distances[[3, 40]] *= 5.0
    signs = np.array([[0, 1, 2, 1], [3, 4, 5, 1], [6, 7, 8, 1], [9, 10, 11, 1], [12, 13, 14, 1], [15, 16, 17, 1]])
    model = DistanceCompletion(2, random_state=0, init="random", signs=signs)
    with pytest.warns(DistanceWarning) as caught:
        model.fit_pairs(pairs, distances * factor)
    assert {warning.filename for warning in caught} == {__file__}
    assert len({warning.lineno for warning in caught}) == 1
    (missed,) = (str(warning.message) for warning in caught if warning.category is MisfitWarning)
    worst = np.abs(pair_distances(model.embedding_, pairs) - distances * factor).max()
    assert float(re.search(r"the most \(by (.+?)\)", missed)[1]) == pytest.approx(worst, rel=1e-2)
    assert float(re.search(r"rmse ([^,)]+)", model.start_)[1]) == pytest.approx(model.rmse_, rel=0.1)
    reached = re.search(r"stationarity is (\S+) of the reference \(tol = 1e-08\)", model.result_.message)
    assert 0 <= float(reached[1]) <= 1.001e-8


def test_a_warning_of_distances_survives_pickling():
    warning = pickle.loads(pickle.dumps(MisfitWarning("{1} and {0}")))
    assert (str(warning), warning.told(["a", "b"])) == ("1 and 0", "b and a")


def test_what_is_not_determined_is_said():
    X = np.random.default_rng(0).standard_normal((12, 2))
    pairs, squared = pairs_of(X)
    kept = (pairs[:, 1] < 11) | (pairs[:, 0] == 0)  # one distance to the last point
    with pytest.warns(UndeterminedWarning):
        found = DistanceCompletion(2, random_state=0).fit_pairs(pairs[kept], np.sqrt(squared[kept]))
    assert found.determined_[:11].all()
    assert not found.determined_[11]


# -- more than 2³¹ entries --------------------------------------------------------------------------------------------

FAR = 2**31 + 5


def test_keys_and_pair_numbers_beyond_32_bits():
    n = 2**31 - 1
    generator = np.random.default_rng(0)
    i = generator.integers(n - 1, size=1000)
    j = i + 1 + (generator.random(1000) * (n - 1 - i)).astype(np.int64)
    pairs = np.column_stack([i, j])
    keys = keys_of(pairs, n)
    assert keys.dtype == np.int64
    assert keys.tolist() == [a * n + b for a, b in pairs.tolist()]  # Python's integers know no bound
    place = [a * n - a * (a + 1) // 2 + b - a - 1 for a, b in pairs.tolist()]
    np.testing.assert_array_equal(unordered_pairs(np.array(place), n), pairs)
    ends = np.array([0, 1, n - 2, n - 1, n * (n - 1) // 2 - 1])
    expected = [[0, 1], [0, 2], [0, n - 1], [1, 2], [n - 2, n - 1]]
    assert unordered_pairs(ends, n).tolist() == expected


def test_indices_at_the_end_of_32_bits():
    pairs, _, _, n = check_pairs([[0, 2**31 - 2]], [1.0], None, None, "squared")
    assert n == 2**31 - 1
    assert pairs.tolist() == [[0, 2**31 - 2]]
    with pytest.raises(ValueError, match=r"n_points must be below 2³¹, got 2147483648"):
        check_pairs([[0, 2**31 - 1]], [1.0], None, None, "squared")
    with pytest.raises(ValueError, match="below 2³¹"):
        check_pairs([[0, 2**40]], [1.0], None, None, "squared")


def holes(folder, name, dtype, values):
    """Return an array with ``values`` from FAR on, and nothing before: a file of holes takes no room."""
    array = np.memmap(folder / name, dtype=dtype, mode="w+", shape=(FAR + len(values),))
    array[FAR:] = values
    return np.asarray(array)


@pytest.mark.parametrize("bounded", [False, True])
def test_pairs_that_stand_beyond_the_reach_of_32_bits(bounded, tmp_path):
    """The compiled passes count pairs in 64 bits: a list whose first rows would be 2³¹ pairs long, kept in holes."""
    X = RNG.standard_normal((6, 2))
    pairs, squared = pairs_of(X)
    squared = squared * 1.3
    weights = RNG.random(len(pairs)) + 0.5
    make = (lambda: BoundedDistances(pairs, squared, squared, 6, weights)) if bounded else (
        lambda: Distances(pairs, squared, 6, weights)
    )  # fmt: skip
    near = make()
    try:
        names = ["cols", "target", "weight", *(["upper"] if bounded else [])]
        given = {name: getattr(near.pairs, name) for name in names}
        far_off = {name: holes(tmp_path, name, A.dtype, A) for name, A in given.items()}
    except OSError as error:
        pytest.skip(f"no files with holes here: {error}")
    far = near.with_pairs(dataclasses.replace(near.pairs, start=near.pairs.start + FAR, **far_off))
    D = RNG.standard_normal(X.shape)
    one, two = near.at(X), far.at(X)
    assert one.value == two.value
    np.testing.assert_array_equal(one.gradient, two.gradient)
    for a, b in zip(near.linearize(X), far.linearize(X), strict=True):
        np.testing.assert_array_equal(getattr(a, "gradient", a), getattr(b, "gradient", b))
    out = np.empty_like(X), np.empty_like(X)
    near.gauss_newton_product(one, D, out[0])
    far.gauss_newton_product(two, D, out[1])
    np.testing.assert_array_equal(*out)
    assert near.move(one, X + D).remainder == far.move(two, X + D).remainder
    if not bounded:
        assert near.along(one, D).coefficients == far.along(two, D).coefficients
        np.testing.assert_array_equal(near.hessian_product(one, D), far.hessian_product(two, D))
        assert near.quartic(one, D) == far.quartic(two, D)


# -- what is refused, and how -----------------------------------------------------------------------------------------


def operator(M, squared_norm=None):
    loss = LeastSquares(aslinearoperator(M), squared_norm=squared_norm or float(np.sum(np.abs(M) ** 2)))
    return minimize(Problem(loss, Nonnegative()), rank=2, random_state=0)


SQUARE = symmetric(6)
MASKED = np.ma.masked_array(SQUARE, mask=np.median(SQUARE) < SQUARE)
PLAIN = Distances([[0, 1], [1, 2], [0, 2]], [1.0, 1.0, 1.0])
REFUSED = {
    "masked M": (lambda: LeastSquares(MASKED), "M hides entries behind a mask"),
    "masked M that counts": (lambda: LeastSquares(MASKED, weights=np.ones((6, 6))), "M hides entries behind a mask"),
    "masked X0": (lambda: minimize(Problem(LeastSquares(SQUARE)), MASKED), "X0 hides entries behind a mask"),
    "masked distances": (lambda: Distances([[0, 1]], np.ma.masked_array([1.0], mask=[True])), "squared hides entries"),
    "objects": (lambda: LeastSquares(SQUARE.astype(object)), r"dtype object; .* M\.astype\(float\)"),
    "sparse X0": (lambda: minimize(Problem(LeastSquares(SQUARE)), sp.eye_array(6)), r"pass X0\.toarray\(\)"),
    "complex entries with weights": (lambda: LeastSquares(SQUARE + 1j, weights=np.ones((6, 6))), "M must be real"),
    "complex operator": (lambda: operator(SQUARE + 1j), "M must be real numbers, got dtype complex128"),
    "operator that is not symmetric": (lambda: operator(np.triu(SQUARE)), "M must be symmetric"),
    "operator that gives NaN": (lambda: operator(SQUARE * np.nan, squared_norm=1.0), "must be finite"),
    "norm below that of products": (lambda: operator(SQUARE, squared_norm=1e-3), "squared_norm = 0.001 is too small"),
    "anchors of another loss": (lambda: Anchored(LeastSquares(SQUARE), [0], [[0.0]]), "Anchored takes Distances"),
    "rank beside anchors": (
        lambda: minimize(Problem(Anchored(PLAIN, [0], [[0.0, 0.0]])), rank=1),
        "X of 1 columns does not go with anchors of 2 coordinates",
    ),
    "X0 beside anchors": (
        lambda: minimize(Problem(Anchored(PLAIN, [0], [[0.0, 0.0]])), np.ones((2, 3))),
        "X of 3 columns does not go with anchors of 2 coordinates",
    ),
    "turning anchors": (
        lambda: minimize(Problem(Anchored(PLAIN, [0], [[0.0, 0.0]])), rank=2, solver="tr"),
        r"when X is rotated, but some points are held \(Anchored\); solvers that fit",
    ),
    "negative weights": (lambda: Rectangular(np.ones((2, 3)), -2 * np.ones((2, 3))), r"the least is -2\.0"),
    "callback": (lambda: minimize(Problem(LeastSquares(SQUARE)), rank=2, callback=3), "callback must be a function"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_its_cure(case):
    make, words = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_single_precision_may_round_the_two_sides_apart_with_weights_too():
    M = np.array(SQUARE, dtype=np.float32)
    M[0, 1] *= 1 + 2e-7
    assert LeastSquares(M, weights=np.ones((6, 6))).value(np.ones((6, 1))) == pytest.approx(
        LeastSquares(M).value(np.ones((6, 1))), rel=1e-5
    )


def test_matrices_of_measurements_may_be_dense_and_sparse():
    dense = [np.eye(3), np.ones((3, 3))]
    mixed = [sp.csr_array(dense[0]), dense[1]]
    X = np.arange(6.0).reshape(3, 2)
    assert Sensing(mixed, [1.0, 2.0]).value(X) == pytest.approx(Sensing(np.array(dense), [1.0, 2.0]).value(X))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e60, 1e100])
@pytest.mark.parametrize("loss", [LeastSquares(SQUARE), PLAIN])
def test_a_start_out_of_reach_is_refused(loss, size):
    """Its squares are zero or infinite: solvers divided by them."""
    with pytest.raises(ValueError, match="X0 is so far from the size that the data ask for"):
        minimize(Problem(loss), size * np.ones((loss.n_points, 2)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_rectangles_far_from_one_cause_no_warning(scale):
    A = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, 1.0]])
    assert minimize(Problem(Rectangular(scale * A)), rank=2, random_state=0).success
