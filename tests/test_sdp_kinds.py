"""Programmes of the kinds that SDPLIB collects, against Clarabel; what is degenerate; what has no solution."""

import numpy as np
import pytest

from quartic.sdp import SDP, read_sdpa, solve_sdp
from quartic.sdp.bound import Slack
from sdp_problems import (
    assignment,
    box_qp,
    control,
    equal_partition,
    free_variables,
    hinf,
    inequalities,
    known_optimum,
    low_rank_data,
    nearly_infeasible,
    redundant,
    reference,
    theta,
    theta_bordered,
    truss,
    write_sdpa,
)  # fmt: skip

KINDS = {
    "theta": lambda: theta(30, 100),
    "theta, sparse": lambda: theta(40, 60),
    "theta with a border": lambda: theta_bordered(25, 60),
    "equal parts": lambda: equal_partition(24, 80),
    "equal parts, shifted": lambda: equal_partition(24, 80, form="shifted"),
    "box": lambda: box_qp(20),
    "control": lambda: control(6, 2),
    "truss": lambda: truss(10),
    "assignment": lambda: assignment(4),
    "low-rank data": lambda: low_rank_data(15, 20),
    "redundant": lambda: redundant(12, 12),
    "inequalities": lambda: inequalities(12, 15),
    "free numbers": lambda: free_variables(12, 4),
    "nearly infeasible": lambda: nearly_infeasible(12, 1e-5),
    "hardly attained": lambda: hinf(10),
}


def without_the_face(problem):
    """The same where Y e = 0 is built in, Y = VWVᵀ: its dual has an optimum."""
    n = problem.n_rows
    V = np.linalg.qr(np.c_[np.ones(n), np.eye(n)[:, 1:]])[0][:, 1:]
    C = Slack(problem, problem.sign * problem.c).product(np.eye(n))
    return SDP(V.T @ C @ V, [np.outer(v, v) for v in V], np.ones(n), maximize=problem.maximize)


@pytest.mark.parametrize("kind", KINDS)
def test_value_bound_and_file(kind, tmp_path):
    pytest.importorskip("cvxpy", reason="CVXPY is not installed")
    pytest.importorskip("clarabel", reason="Clarabel is not installed")
    problem = KINDS[kind]()
    result = solve_sdp(problem)
    assert result.success, result.message
    assert max(result.errors.values()) <= 1e-6
    known = reference(without_the_face(problem) if kind.startswith("equal") else problem)
    assert result.primal == pytest.approx(known, rel=3e-6, abs=3e-6)
    sign = -1 if problem.maximize else 1
    assert sign * result.dual <= sign * known + 3e-6 * (1 + abs(known))
    if kind != "free numbers":  # whose dual has no interior, so that nothing is proven
        assert result.gap <= 1e-5
    write_sdpa(problem, tmp_path / "a.dat-s")
    again = solve_sdp(read_sdpa(tmp_path / "a.dat-s"))
    assert again.success, again.message
    assert (1 if problem.maximize else -1) * again.primal == pytest.approx(known, rel=3e-6, abs=3e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_blocks_with_a_known_optimum(seed):
    rng = np.random.default_rng(seed)
    blocks = [*rng.integers(1, 9, rng.integers(1, 5)).tolist(), *([-int(rng.integers(1, 8))] if seed % 2 else [])]
    m = int(rng.integers(1, max(2, sum(n * (n + 1) // 2 if n > 0 else -n for n in blocks) // 2)))
    problem, optimum = known_optimum(blocks, m, seed, density=0.3 if seed % 3 == 0 else 1.0, repeated=seed % 4)
    for method in ("auto", "low-rank"):  # which may give up on such a one, but must not be wrong
        result = solve_sdp(problem, method=method, max_iter=None if method == "auto" else 200)
        assert result.dual <= optimum + 1e-7 * (1 + abs(optimum))
        if result.success or method == "auto":
            assert result.success, result.message
            assert result.primal == pytest.approx(optimum, rel=3e-6, abs=3e-6)
        assert result.status not in ("infeasible", "unbounded")


@pytest.mark.parametrize("n", [5, 6])
def test_constraints_that_depend_on_each_other_only_on_a_face(n):
    """The assignment's constraints are independent; on the face that some of them leave, they are not."""
    problem = assignment(n, seed=n)
    result = solve_sdp(problem)
    assert len(problem.facing) == 2 * n
    assert result.success, result.message
    assert result.gap <= 1e-6
    assert np.abs(result.y).max() < 1e9


@pytest.mark.parametrize("seed", range(4))
def test_many_free_numbers(seed):
    result = solve_sdp(free_variables(30, 25, seed))
    assert result.success, result.message


def test_degenerate_sensing_is_the_same_from_a_file(tmp_path):
    """One feasible Y, of rank one, and 120 dense constraints: the multipliers are far from unique."""
    problem = low_rank_data(30, 120)
    write_sdpa(problem, tmp_path / "a.dat-s")
    again = read_sdpa(tmp_path / "a.dat-s")
    assert again.B.shape[1] == 120  # kept as vectors
    for trial in (problem, again):
        result = solve_sdp(trial)
        assert result.success, result.message


@pytest.mark.parametrize("method", ["auto", "interior"])
@pytest.mark.parametrize(
    ("right", "status"), [([0.0], "converged"), ([0.0, 0.0], "converged"), ([0.0, 1.0], "infeasible")]
)
def test_constraints_that_leave_nothing_but_zero(method, right, status):
    """tr Y = 0 says Y = 0: the face has no dimension left."""
    problem = SDP(np.diag([1.0, -2.0, 3.0]), [np.eye(3), np.ones((3, 3))][: len(right)], right)
    result = solve_sdp(problem, method=method)
    assert result.status.value == status
    if status == "converged":
        assert result.dual <= 0
        np.testing.assert_allclose([result.primal, result.dual], 0.0, atol=1e-9)


def test_a_block_of_zeros_beside_another():
    problem = SDP([np.ones((3, 3)), [1.0, 2.0]], [[np.eye(3), None], [None, [1.0, 1.0]]], [0.0, 1.0], blocks=[3, -2])
    result = solve_sdp(problem)
    assert result.success
    np.testing.assert_allclose([result.primal, result.dual], 1.0, rtol=1e-6)
    np.testing.assert_allclose(result.X[0], 0.0)


def test_blocks_that_nothing_looks_at():
    # the second block is empty of entries, the third is one number that the objective alone has
    problem = SDP([np.diag([2.0, 1.0]), None, np.array([[3.0]])], [[np.eye(2), None, None]], [1.0], blocks=[2, 3, 1])
    result = solve_sdp(problem)
    assert result.success
    assert result.primal == pytest.approx(1.0, abs=1e-6)
    assert [X.shape[0] for X in result.X] == [2, 3, 1]
    unbounded = SDP([np.diag([2.0, 1.0]), None, np.array([[-3.0]])], [[np.eye(2), None, None]], [1.0], blocks=[2, 3, 1])
    assert solve_sdp(unbounded).status == "unbounded"


@pytest.mark.parametrize("flip", [1, -1])
def test_small_margins_decide(flip):
    """⟨eeᵀ, Y⟩ = ∓1e-4 with ones on the diagonal is infeasible or hardly feasible."""
    n = 10
    A = [*([(k, k, 1.0)] for k in range(n)), np.ones((n, n))]
    C = np.random.default_rng(0).standard_normal((n, n))
    status = solve_sdp(SDP(C + C.T, A, np.r_[np.ones(n), flip * 1e-4])).status
    assert status == ("converged" if flip > 0 else "infeasible")


@pytest.mark.parametrize("method", ["interior", "low-rank"])
def test_an_optimum_that_is_not_attained_is_not_claimed(method):
    """Minimise Y_11 with Y_12 = 1: the infimum 0 needs Y_22 = ∞. Whatever is said must be true of what is returned."""
    problem = SDP([(0, 0, 1.0)], [[(0, 1, 0.5)]], [1.0], blocks=None)
    result = solve_sdp(problem, method=method, max_iter=2000, max_time=20)
    Y = result.X[0] @ result.X[0].T
    if result.success:
        assert Y[0, 1] == pytest.approx(1.0, abs=1e-5)
        assert 0 <= Y[0, 0] <= 1e-5
    assert result.dual <= 1e-12
    assert result.status not in ("infeasible", "unbounded")


@pytest.mark.parametrize(
    "text",
    [
        '"remark\n*\n 1 =mdim\n 1 =nblock\n 2\n{1.0}\n0 1 1 1 1\n1 1 1 1 1\n1 1 2 2 1\n',
        "1\n1\n(2)\n 1.0,\n0 1 1 1 +1.0e+0\n1 1 1 1 1.\n1 1 2 2 .1e1\n",
        "1\n1\n{2}\n[1.0]\n0,1,1,1,1\n1,1,1,1,1\n1,1,2,2,1\n",
        "1\r\n1\r\n2\r\n1.0\r\n0 1 1 1 1.0\r\n1 1 1 1 1.0\r\n1 1 2 2 1.0\r\n",
        "1\n1\n+2\n1.0\n\n0\t1 1 1 1.0\n\n1 1 1 1 1.0\n1 1 2 2 1.0",
        "1\n1\n2\n1.0D0\n0 1 1 1 1.0D+00\n1 1 1 1 1.0d0\n1 1 2 2 1.0\n",
        "1\n2\n2 -1\n1.0\n0 1 1 1 1.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n1 2 1 1 1.0\n",
    ],
)
def test_ways_of_writing_a_file(tmp_path, text):
    """Remarks, braces, commas, Fortran's exponents, line ends, empty lines: the largest eigenvalue of a projector."""
    path = tmp_path / "a.dat-s"
    path.write_bytes(text.encode())
    assert solve_sdp(read_sdpa(path)).primal == pytest.approx(1.0, abs=1e-6)


def test_a_lower_triangle_and_zeros_are_read(tmp_path):
    path = tmp_path / "a.dat-s"
    path.write_text("1\n1\n2\n1.0\n0 1 2 1 1.0\n0 1 1 1 0.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n")
    assert solve_sdp(read_sdpa(path)).primal == pytest.approx(1.0, abs=1e-6)
