"""Semidefinite programmes: data, methods, bounds, statuses; against published optima and brute force."""

import contextlib
import gzip
import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from quartic.sdp import SDP, LowRank, maxcut, read_sdpa, solve_sdp
from quartic.sdp.bound import Bounds, Part, Slack, _chebyshev_bound, _proven

DATA = Path(os.environ.get("QUARTIC_DATA", "")) / "sdplib"
needs_sdplib = pytest.mark.skipif(not DATA.is_dir(), reason="QUARTIC_DATA has no folder sdplib")

# published optima: B. Borchers, SDPLIB 1.2
PUBLISHED = {
    "truss1": "-8.999996e+00", "truss4": "-9.009996e+00", "theta1": "2.300000e+01", "theta2": "3.287917e+01",
    "mcp100": "2.261574e+02", "mcp124-1": "1.419905e+02", "gpp100": "-4.49435e+01", "gpp124-1": "-7.3431e+00",
    "arch0": "5.66517e-01",
}  # fmt: skip


def last_digit(printed):
    """One unit of the last digit of a printed number."""
    mantissa, exponent = printed.split("e")
    return 10.0 ** (int(exponent) - len(mantissa.split(".")[1]))


def cycle(n):
    """The adjacency matrix of a cycle."""
    A = np.zeros((n, n))
    A[np.arange(n), (np.arange(n) + 1) % n] = 1
    return A + A.T


def theta_programme(A, ones):
    """Lovász' theta of a graph: maximise ⟨eeᵀ, Y⟩ with tr Y = 1 and Y_ij = 0 on edges."""
    n = len(A)
    edges = [[(i, j, 1.0)] for i, j in zip(*np.nonzero(np.triu(A)), strict=True)]
    return SDP(ones, [np.eye(n), *edges], np.r_[1.0, np.zeros(len(edges))], maximize=True)


def random_programme(n, m, seed, maximize=False):
    """A feasible bounded programme with dense matrices, one of them the identity."""
    rng = np.random.default_rng(seed)
    A = [np.eye(n)] + [B + B.T for B in rng.standard_normal((m - 1, n, n))]
    C = rng.standard_normal((n, n))
    Y = rng.standard_normal((n, n))
    Y = Y @ Y.T
    return SDP(C + C.T, A, [np.vdot(B, Y) for B in A], maximize=maximize), Y


@needs_sdplib
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_optima(name):
    result = solve_sdp(read_sdpa(DATA / f"{name}.dat-s.gz"))
    assert result.status == "converged"
    assert abs(result.primal - float(PUBLISHED[name])) <= last_digit(PUBLISHED[name])
    assert len(result.errors) == 6
    assert max(result.errors.values()) <= 1e-6
    assert result.gap <= 1e-6
    assert result.dual >= result.primal - 1e-6 * (1 + abs(result.primal))


@needs_sdplib
@pytest.mark.parametrize(("name", "status"), [("infd1", "infeasible"), ("infp1", "unbounded")])
def test_programmes_without_a_solution(name, status):
    result = solve_sdp(read_sdpa(DATA / f"{name}.dat-s.gz"))
    assert result.status == status
    assert not result.success


def test_theta_of_the_pentagon_in_every_form_of_the_data():
    n = 5
    forms = [
        np.ones((n, n)),
        sparse.csr_array(np.ones((n, n))),
        LowRank(np.ones(n)),
        aslinearoperator(np.ones((n, n))),
        [(i, j, 1.0) for i in range(n) for j in range(i + 1)],
    ]
    for ones in forms:
        result = solve_sdp(theta_programme(cycle(n), ones))
        assert result.success
        assert result.primal == pytest.approx(math.sqrt(5), abs=1e-6)
        assert math.sqrt(5) - 1e-12 <= result.dual <= math.sqrt(5) + 1e-5


def test_several_blocks_and_a_diagonal_one():
    # min x + tr Y2 over Y1 ⪰ 0 (2×2), Y2 (2×2), x ≥ 0: Y1_12 = 1 forces Y1_11 + Y1_22 ≥ 2; x ≥ 3 by a slack
    problem = SDP(
        [np.eye(2), None, [1.0, 0.0]],
        [[[(0, 1, 1.0)], None, None], [None, np.eye(2), None], [None, None, [1.0, -1.0]]],
        [2.0, 5.0, 3.0],
        blocks=[2, 2, -2],
    )
    result = solve_sdp(problem)
    assert result.success
    assert result.primal == pytest.approx(5.0, abs=1e-5)
    assert [part.shape[0] for part in result.X] == [2, 2, 2]
    assert result.X[2].ndim == 1
    assert result.X[2] == pytest.approx([3.0, 0.0], abs=1e-5)
    assert (result.X[0] @ result.X[0].T)[0, 1] == pytest.approx(1.0, abs=1e-6)


def test_inequalities_by_slacks():
    # largest eigenvalue of C over trace ≤ 1, smallest over trace ≥ 1
    C = np.diag([3.0, 1.0, 2.0])
    high = solve_sdp(SDP(C, [np.eye(3)], [1.0], senses=["<="], maximize=True))
    low = solve_sdp(SDP(C, [np.eye(3)], [1.0], senses=[">="]))
    assert high.primal == pytest.approx(3.0, abs=1e-6)
    assert low.primal == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("of_c", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("of_b", [1e-8, 1.0, 1e8])
def test_any_scale_of_the_data(of_c, of_b):
    """The optimum is right relatively, not to 1e-6 of 1: a small one is no excuse."""
    sides = np.r_[3.0, 4.0, 5.0]
    problem = SDP(of_c * np.diag([3.0, 1.0, 2.0, 5.0]), [np.eye(4), np.diag(np.r_[0.0, sides])], of_b * np.r_[1.0, 2.0])
    optimum = of_c * of_b * (3 * (1 - 2 / 3) + 1 * 2 / 3)
    for result in (solve_sdp(problem), solve_sdp(problem, method="interior")):
        assert result.success, result.message
        assert result.primal == pytest.approx(optimum, rel=1e-5)
        assert result.dual == pytest.approx(optimum, rel=1e-5)
        assert result.dual <= optimum * (1 + 1e-9)
    ring = np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)
    found = maxcut(of_c * ring).result
    assert [found.primal, found.dual] == pytest.approx([of_c * 7 * (1 - np.cos(6 * np.pi / 7)) / 2] * 2, rel=1e-6)


@pytest.mark.parametrize("maximize", [False, True])
def test_bound_is_on_the_right_side_of_every_feasible_value(maximize):
    for seed in range(5):
        problem, Y = random_programme(6, 4, seed, maximize)
        result = solve_sdp(problem)
        assert result.success
        value = float(np.vdot(problem_matrix(problem), Y))
        assert (result.dual >= value) if maximize else (result.dual <= value)
        assert result.gap <= 1e-6


def problem_matrix(problem):
    """C as a dense matrix."""
    n = problem.n_rows
    C = np.zeros((n, n))
    v = problem.sign * problem.c[: problem.n_pairs]
    C[problem.i, problem.j] = C[problem.j, problem.i] = np.where(problem.i == problem.j, v, v / 2)
    return C


def test_bound_from_any_multipliers():
    """Whatever y is, the bound is below the minimum: here with the trace that follows from the constraints."""
    problem, _ = random_programme(8, 5, 1)
    best = solve_sdp(problem).primal
    rng = np.random.default_rng(0)
    bounds = Bounds(problem, rng)
    assert bounds.trace == pytest.approx(problem.b[0])
    for scale in (0.0, 1e-3, 1.0):
        y = solve_sdp(problem).y + scale * rng.standard_normal(problem.m)
        found = bounds.at(y, 1e-6, 1.0)
        assert math.isfinite(found.value)
        assert found.value <= best + 1e-6


def test_no_bound_is_claimed_without_a_reason():
    # min Y_11 − Y_22 … with only Y_11 fixed: the dual is infeasible
    problem = SDP(np.diag([1.0, -1.0]), [[(0, 0, 1.0)]], [1.0])
    assert Bounds(problem, np.random.default_rng(0)).at(np.zeros(1), 1e-6, 1.0).value == -math.inf
    for method in ("interior", "low-rank"):
        result = solve_sdp(problem, method=method)
        assert result.status == "unbounded"
        assert result.dual == -math.inf


@pytest.mark.parametrize("b", [[1.0, 3.0], [1.0, 2.0 + 1e-3]])
def test_contradictory_constraints(b):
    problem = SDP(np.eye(3), [np.eye(3), 2 * np.eye(3)], b)
    result = solve_sdp(problem)
    assert result.status == "infeasible"
    assert not result.success


def test_constraints_given_twice_do_no_harm():
    problem = SDP(np.diag([1.0, 2.0, 3.0]), [np.eye(3), 2 * np.eye(3)], [1.0, 2.0])
    result = solve_sdp(problem)
    assert result.success
    assert result.primal == pytest.approx(1.0, abs=1e-6)


def test_negative_trace_is_infeasible():
    assert solve_sdp(SDP(np.eye(3), [np.eye(3)], [-1.0])).status == "infeasible"


@pytest.mark.parametrize("method", ["interior", "low-rank"])
def test_an_entry_too_large_for_its_diagonal_is_infeasible(method):
    corners = [[(0, 0, 1.0)], [(1, 1, 1.0)], [(0, 1, 0.5)]]
    for size in (2, 3):
        C = np.eye(size)
        assert solve_sdp(SDP(C, corners, [1.0, 1.0, 4.0]), method=method).status == "infeasible"
        assert solve_sdp(SDP(C, corners, [1.0, 1.0, 0.5]), method=method).success


def test_the_smallest_programmes():
    assert solve_sdp(SDP(np.eye(3), [], [])).primal == pytest.approx(0.0, abs=1e-6)
    assert solve_sdp(SDP(-np.eye(3), [], [])).status == "unbounded"
    assert solve_sdp(SDP(np.zeros((3, 3)), [np.eye(3)], [1.0])).primal == 0.0
    assert solve_sdp(SDP(np.eye(3), [np.eye(3)], [0.0])).primal == pytest.approx(0.0, abs=1e-6)
    assert solve_sdp(SDP(np.eye(3), [np.zeros((3, 3))], [1.0])).status == "infeasible"
    assert solve_sdp(SDP([[1.0, 2.0]], [[[1.0, 1.0]]], [1.0], blocks=[-2])).primal == pytest.approx(1.0)
    for scale in (1e-8, 1e8):
        found = solve_sdp(SDP(scale * np.diag([3.0, 1.0, 2.0]), [np.eye(3) / scale], [1 / scale]))
        assert found.success
        assert found.primal == pytest.approx(scale, rel=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_random_programmes_without_a_solution(seed):
    """ΣA_k = −I and Σb_k = 1 need a trace of −1; D ⪰ 0 with ⟨A_k, D⟩ = 0 > ⟨C, D⟩ may be added without end."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 22)), int(rng.integers(2, 12))
    A = [M + M.T for M in rng.standard_normal((m - 1, n, n))]
    b = rng.standard_normal(m - 1)
    infeasible = SDP(np.eye(n), [*A, -np.eye(n) - sum(A)], [*b, 1 - b.sum()])
    assert solve_sdp(infeasible).status == "infeasible"
    u = rng.standard_normal(n)
    D = np.outer(u, u) / (u @ u)
    A = [M + M.T - np.vdot(M + M.T, D) * D for M in rng.standard_normal((m, n, n))]
    C = rng.standard_normal((n, n))
    C = C + C.T
    unbounded = SDP(C - (np.vdot(C, D) + 1) * D, A, [np.trace(M) for M in A])  # Y = I is feasible
    assert solve_sdp(unbounded).status == "unbounded"


def test_a_face_of_the_cone_is_found():
    """⟨eeᵀ, Y⟩ = 0 leaves no interior and no dual solution: Y lies in a face, where there are both."""
    n = 12
    rng = np.random.default_rng(3)
    C = rng.standard_normal((n, n))
    C = C + C.T
    rows = [[(i, i, 1.0)] for i in range(n)]
    problem = SDP(C, [*rows, LowRank(np.ones(n))], np.r_[np.ones(n), 0.0])
    result = solve_sdp(problem)
    assert list(problem.explicit().facing) == [n]
    assert result.success
    assert result.gap <= 1e-7
    assert np.abs(result.X[0].sum(axis=0)).max() < 1e-6
    V = np.linalg.qr(np.c_[np.ones(n), rng.standard_normal((n, n - 1))])[0][:, 1:]
    small = SDP(V.T @ C @ V, [np.outer(v, v) for v in V], np.ones(n))  # the same on the face, by hand
    assert result.primal == pytest.approx(solve_sdp(small).primal, abs=1e-6)


# -- eigenvalues ------------------------------------------------------------------------------------------------------


def test_proof_by_cholesky_is_honest():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    for lowest in (-1e-3, -1e-9, 1e-9, 1e-3):
        values = np.r_[lowest, rng.uniform(0.5, 2.0, 49)]
        Z = (Q * values) @ Q.T
        Z = (Z + Z.T) / 2
        for shift in (1e-10, 1e-8, 1e-2):
            proven = _proven(Z, shift)
            assert (proven is not None) == (lowest >= -shift)
            assert proven is None or shift < proven < 1.001 * shift + 1e-11


def test_chebyshev_bound_of_a_clustered_spectrum():
    rng = np.random.default_rng(0)
    n = 3000
    values = np.sort(np.r_[np.linspace(0, 1e-4, n // 2), rng.uniform(0.1, 3.0, n - n // 2)])
    for lowest in (0.0, -1e-3, -0.1):
        values[0] = lowest
        matrix = sparse.csr_array(sparse.diags_array(values))
        plain, other = SDP(matrix, [], []), SDP(aslinearoperator(matrix), [], [])
        parts = [Part(Slack(problem, problem.c), np.arange(n), None) for problem in (plain, other)]
        assert parts[0].highest == pytest.approx(values[-1])
        assert values[-1] < parts[1].highest < 1.2 * values[-1]
        bound, again = (_chebyshev_bound(part, 1e-3, rng, 8)[0] for part in parts)
        assert again == pytest.approx(bound, rel=0.1, abs=1e-3)
        assert bound <= lowest
        assert bound >= 1.1 * lowest - 2e-3


# -- files ------------------------------------------------------------------------------------------------------------

GOOD = (
    '"a remark\n* another\n2 = mDIM\n2 = nBLOCK\n{2, -2}\n{1.0, 2.0}\n'
    "0 1 1 2 1.0\n1 1 1 1 1.0\n1 2 1 1 1.0\n2 1 2 2 1\n"
)


def test_sdpa_file(tmp_path):
    path = tmp_path / "a.dat-s"
    path.write_text(GOOD)
    problem = read_sdpa(path)
    assert problem.blocks == (2, -2)
    assert problem.maximize
    with gzip.open(tmp_path / "a.dat-s.gz", "wt") as file:
        file.write(GOOD)
    assert (read_sdpa(tmp_path / "a.dat-s.gz").S != problem.S).nnz == 0
    # max 2·Y_12 with Y_11 + s = 1, Y_22 = 2
    result = solve_sdp(problem)
    assert result.primal == pytest.approx(2 * math.sqrt(2), abs=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "line", "word"),
    [
        ("2 = mDIM", "two", 3, "constraints"),
        ("2 = nBLOCK", "0", 4, "blocks"),
        ("{2, -2}", "{2, x}", 5, "block sizes"),
        ("{2, -2}", "{2, 0}", 5, "block sizes"),
        ("{1.0, 2.0}", "{1.0, nan}", 6, "finite"),
        ("0 1 1 2 1.0", "0 1 1 3 1.0", 7, "outside"),
        ("0 1 1 2 1.0", "0 3 1 2 1.0", 7, "block"),
        ("0 1 1 2 1.0", "5 1 1 2 1.0", 7, "matrix"),
        ("0 1 1 2 1.0", "0 1 1 2", 7, "words"),
        ("0 1 1 2 1.0", "0 1 1 2 abc", 7, "abc"),
        ("0 1 1 2 1.0", "0 1 1.5 2 1", 7, "whole"),
        ("0 1 1 2 1.0", "0 2 1 2 1.0", 7, "diagonal"),
        ("0 1 1 2 1.0", "0 1 1 2 inf", 7, "finite"),
        ("1 2 1 1 1.0", "1 1 1 1 2.0", 9, "before"),
    ],
)
def test_spoiled_files_end_in_one_line(tmp_path, old, new, line, word):
    path = tmp_path / "a.dat-s"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=word) as caught:
        read_sdpa(path)
    assert f"a.dat-s:{line}: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated_files(tmp_path):
    path = tmp_path / "a.dat-s"
    whole = GOOD.encode()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with contextlib.suppress(ValueError):  # and nothing else
            read_sdpa(path)
    packed = tmp_path / "b.dat-s.gz"
    packed.write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(ValueError, match="gzip"):
        read_sdpa(packed)


def test_data_are_checked():
    with pytest.raises(ValueError, match="symmetric"):
        SDP(np.triu(np.ones((3, 3))), [np.eye(3)], [1.0])
    with pytest.raises(ValueError, match="twice"):
        SDP(np.eye(3), [[(0, 1, 1.0), (1, 0, 1.0)]], [1.0])
    with pytest.raises(ValueError, match="outside"):
        SDP(np.eye(3), [[(0, 3, 1.0)]], [1.0])
    with pytest.raises(ValueError, match="right-hand sides"):
        SDP(np.eye(3), [np.eye(3)], [1.0, 2.0])
    with pytest.raises(ValueError, match="shape"):
        SDP(np.eye(3), [np.eye(4)], [1.0])
    with pytest.raises(ValueError, match="NumPy array"):
        SDP(np.eye(2), [[[1.0, 0.0], [0.0, 1.0]]], [1.0])
    with pytest.raises(ValueError, match="NumPy array"):
        SDP([[2.0]], [[[4.0]]], [2.0])
    with pytest.raises(ValueError, match="finite"):
        SDP(np.full((3, 3), np.nan), [np.eye(3)], [1.0])
    with pytest.raises(ValueError, match="senses"):
        SDP(np.eye(3), [np.eye(3)], [1.0], senses=["<"])


# -- runs -------------------------------------------------------------------------------------------------------------


def small():
    return random_programme(10, 6, 2)[0]


def test_callback_and_limits():
    seen = []
    assert solve_sdp(small(), callback=lambda progress: seen.append(progress.n_iter)).success
    assert seen == list(range(len(seen)))

    def stop(progress):
        if progress.n_iter == 3:
            raise StopIteration

    assert solve_sdp(small(), callback=stop).status == "callback"
    assert solve_sdp(small(), max_iter=2).status == "max_iter"
    assert solve_sdp(small(), max_time=1e-9).status == "max_time"
    with pytest.raises(TypeError, match="callback must be a function"):
        solve_sdp(small(), callback=3)

    def interrupt(progress):
        raise KeyboardInterrupt

    assert solve_sdp(small(), callback=interrupt).status == "interrupted"


def test_checkpoint_is_taken_up(tmp_path):
    path = tmp_path / "run.npz"
    whole = solve_sdp(small())
    first = solve_sdp(small(), max_iter=4, checkpoint=path)
    assert first.status == "max_iter"
    second = solve_sdp(small(), checkpoint=path)
    assert second.success
    assert second.primal == pytest.approx(whole.primal, rel=1e-8)
    assert len(second.history) <= len(whole.history) + 2
    with pytest.raises(ValueError, match="another run"):
        solve_sdp(random_programme(10, 6, 3)[0], checkpoint=path)


def test_a_checkpoint_that_cannot_be_written_does_not_cost_the_result(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("quartic.core.checkpoint.write_whole", full)
    with pytest.warns(RuntimeWarning, match="could not be written"):
        assert solve_sdp(small(), checkpoint=tmp_path / "run.npz").success


def test_maxcut_bound_against_brute_force():
    rng = np.random.default_rng(1)
    for _ in range(3):
        W = np.triu(rng.integers(0, 3, (7, 7)), 1).astype(float)
        W = W + W.T
        L = np.diag(W.sum(axis=1)) - W
        best = max(float(np.array(s) @ L @ np.array(s)) / 4 for s in itertools.product([-1, 1], repeat=7))
        result = solve_sdp(SDP(L / 4, [[(i, i, 1.0)] for i in range(7)], np.ones(7), maximize=True))
        assert result.success
        assert best <= result.dual + 1e-9
        assert result.dual <= best / 0.878 + 1e-6


def test_largest_cuts_that_are_known():
    """A torus with even sides is bipartite; Petersen's graph has a largest cut of 12, its relaxation 12½."""
    networkx = pytest.importorskip("networkx")
    from quartic.sdp import maxcut

    grid = maxcut(networkx.to_scipy_sparse_array(networkx.grid_2d_graph(8, 8, periodic=True)), random_state=0)
    assert grid.value == 128
    assert grid.bound == pytest.approx(128, rel=1e-4)
    small = maxcut(networkx.to_scipy_sparse_array(networkx.petersen_graph()), random_state=0)
    assert small.value == 12
    assert 12.5 - 1e-9 <= small.bound == pytest.approx(12.5, rel=1e-4)


def _repeated(error):
    """Return an SDP whose last constraint, the trace, says what the others say, up to a relative error."""
    C = np.random.default_rng(0).standard_normal((4, 4))
    units = [np.diag(row) for row in np.eye(4)]
    return SDP(C + C.T, [*units, np.eye(4)], np.r_[np.ones(4), 4 * (1 + error)])


@pytest.mark.parametrize("error", [0.0, 1e-10, 3e-9, 1e-8])
def test_constraints_that_repeat_others_may_be_rounded(error):
    result = solve_sdp(_repeated(error))
    assert result.success
    assert result.primal == pytest.approx(solve_sdp(_repeated(0.0)).primal, rel=1e-6)


@pytest.mark.parametrize("large", [1.0, 1e6, 1e8])
def test_contradictions_are_told_beside_large_numbers(large):
    rows = [[(0, 0, 1.0)], [(0, 0, 1.0)], [(1, 1, 1.0)]]
    assert solve_sdp(SDP(np.eye(2), rows, [1.0, 1.001, large])).status == "infeasible"
    assert solve_sdp(_repeated(1e-6)).status == "infeasible"


def test_a_face_of_few_rows_is_found_among_many():
    e = np.zeros((1500, 1))
    e[0], e[5] = 1.0, -1.0
    rows = [[(i, i, 1.0)] for i in range(1500)]
    problem = SDP(sparse.diags_array(np.ones(1499), offsets=1, shape=(1500, 1500)).tocsr() * 0.5
                  + sparse.diags_array(np.ones(1499), offsets=-1, shape=(1500, 1500)).tocsr() * 0.5,
                  [*rows, [(0, 0, 1.0), (5, 5, 1.0), (0, 5, -1.0)]], np.r_[np.ones(1500), 0.0])  # fmt: skip
    (face,) = problem.faces.values()
    np.testing.assert_allclose(np.abs(face.T @ e), [[np.sqrt(2)]], rtol=1e-12)
    assert np.count_nonzero(face) == 2
