"""Semidefinite programmes of the kinds that SDPLIB collects, of any size, and a writer of SDPA's format."""

import warnings

import numpy as np
from scipy import sparse

from quartic.sdp import SDP


def random_graph(n, edges, seed):
    """The upper triangle of a random graph's edges."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n, 1)
    chosen = np.sort(rng.choice(len(i), edges, replace=False))
    return i[chosen], j[chosen]


def laplacian(n, i, j, w=1.0):
    W = sparse.coo_array((np.broadcast_to(w, i.shape), (i, j)), shape=(n, n))
    W = W + W.T
    return sparse.csr_array(sparse.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)


def theta(n, edges, seed=0):
    """Lovász' theta as SDPLIB's theta problems have it."""
    i, j = random_graph(n, edges, seed)
    A = [sparse.eye_array(n), *([(a, b, 1.0)] for a, b in zip(i.tolist(), j.tolist(), strict=True))]
    return SDP(np.ones((n, n)), A, np.r_[1.0, np.zeros(edges)], maximize=True)


def theta_bordered(n, edges, seed=0):
    """Lovász' theta in the form with a border, Y_00 = 1 and Y_ii = Y_0i, as thetaG11 has it."""
    i, j = random_graph(n, edges, seed)
    C = [(k + 1, k + 1, 1.0) for k in range(n)]
    A = [[(0, 0, 1.0)], *([(k + 1, k + 1, 1.0), (0, k + 1, -0.5)] for k in range(n))]
    A += [[(a + 1, b + 1, 1.0)] for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    return SDP(C, A, np.r_[1.0, np.zeros(n + edges)], blocks=None, maximize=True)


def equal_partition(n, edges, seed=0, form="sum"):
    """Equipartition: diagonal one and ⟨eeᵀ, Y⟩ = 0, in the forms of gpp ("sum") and equalG ("shifted")."""
    i, j = random_graph(n, edges, seed)
    L = laplacian(n, i, j)
    ones = np.ones((n, n))
    A = [*([(k, k, 1.0)] for k in range(n)), ones]
    if form == "shifted":  # C shifted by multiples of the constraints, b small but not zero
        return SDP((-L).toarray() - 0.5 * ones, A, np.r_[np.ones(n), 0.0], maximize=True)
    return SDP(-L, A, np.r_[np.ones(n), 0.0], maximize=True)


def box_qp(n, seed=0):
    """Max xᵀQx over the box: a matrix of twice the size, as qpG11, whose second half is diagonal."""
    rng = np.random.default_rng(seed)
    Q = sparse.random_array((n, n), density=4 / n, rng=rng)
    Q = sparse.csr_array(Q + Q.T - 2 * sparse.diags_array((Q + Q.T).sum(axis=1)))
    C = sparse.block_array([[-Q, None], [None, sparse.csr_array((n, n))]])
    A = [[(k, k, 1.0), (n + k, n + k, 1.0)] for k in range(n)]
    return SDP(C, A, np.ones(n), maximize=True)


def control(n, inputs, seed=0):
    """Multipliers make up P: P and −(FᵀP + PF + PGGᵀP), as a matrix with a border, are to be positive semidefinite.

    Two blocks whose every entry is shared by many dense constraints, as in SDPLIB's control problems; tr P is largest.
    """
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, n)) / np.sqrt(n) - 2 * np.eye(n)
    G = rng.standard_normal((n, inputs))
    A, b = [], []
    for i in range(n):
        for j in range(i, n):
            E = np.zeros((n, n))
            E[i, j] = E[j, i] = 1.0
            border = np.block([[F.T @ E + E @ F, E @ G], [G.T @ E, np.zeros((inputs, inputs))]])
            A.append([border, -E])
            b.append(float(i == j))
    C = np.zeros((n + inputs, n + inputs))
    C[n:, n:] = np.eye(inputs)
    C[:n, :n] = 0.1 * np.eye(n)
    return SDP([C, None], A, b, blocks=[n + inputs, n])


def truss(n_bars, seed=0):
    """Many small blocks, one of size 1 and a diagonal one: like SDPLIB's truss problems."""
    rng = np.random.default_rng(seed)
    m = 6
    blocks = [2] * n_bars + [1, -m]
    A, b = [], []
    for _ in range(m):
        row = []
        for _ in range(n_bars):
            v = rng.standard_normal((2, 2))
            row.append(v + v.T)
        row.append(np.array([[rng.standard_normal()]]))
        row.append(rng.uniform(0.1, 1.0, m))
        A.append(row)
    Y = [rng.standard_normal((abs(s), abs(s))) for s in blocks]
    Y = [y @ y.T if s > 0 else np.diag(np.abs(np.diag(y))) for y, s in zip(Y, blocks, strict=True)]
    for row in A:
        b.append(sum(float(np.vdot(p if np.ndim(p) == 2 else np.diag(p), y)) for p, y in zip(row, Y, strict=True)))
    y = rng.standard_normal(m)
    C = []
    for k, size in enumerate(blocks):
        M = sum(y[q] * (A[q][k] if size > 0 else np.diag(A[q][k])) for q in range(m))
        Z = rng.standard_normal((abs(size), 2))
        C.append(M + Z @ Z.T if size > 0 else np.diag(M) + rng.uniform(0.1, 1, m))
    return SDP(C, A, b, blocks=blocks)


def assignment(n, seed=0):
    """The relaxation of a quadratic assignment problem with its redundant constraints, as SDPLIB's qap."""
    rng = np.random.default_rng(seed)
    F, D = (np.triu(rng.integers(0, 6, (n, n)), 1).astype(float) for _ in range(2))
    F, D = F + F.T, D + D.T
    N = n * n + 1
    C = np.zeros((N, N))
    C[1:, 1:] = np.kron(D, F)
    A, b = [[(0, 0, 1.0)]], [1.0]
    for k in range(1, N):  # binary: Y_kk = Y_0k
        A.append([(k, k, 1.0), (0, k, -0.5)])
        b.append(0.0)
    for q in range(n):  # rows and columns sum to one: (Σx − 1)² = 0
        for members in (1 + q * n + np.arange(n), 1 + q + n * np.arange(n)):
            u = np.zeros(N)
            u[0], u[members] = -1.0, 1.0
            A.append(np.outer(u, u))
            b.append(0.0)
    for a in range(n):  # one place for one facility: zeros inside the blocks
        for p in range(n):
            for q in range(p + 1, n):
                A.append([(1 + a * n + p, 1 + a * n + q, 1.0)])
                b.append(0.0)
                A.append([(1 + p * n + a, 1 + q * n + a, 1.0)])
                b.append(0.0)
    return SDP(C, A, b)


def low_rank_data(n, m, seed=0):
    """Dense rank-one constraints, as in sensing and phase retrieval."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((m, n))
    x = rng.standard_normal(n)
    return SDP(np.eye(n), [np.outer(u, u) for u in U], (U @ x) ** 2)


def redundant(n, m, seed=0):
    """Constraints of which a third follow from the others."""
    rng = np.random.default_rng(seed)
    A = [np.eye(n)] + [B + B.T for B in rng.standard_normal((m - 1, n, n))]
    mix = rng.standard_normal((m // 2, m))
    A += [sum(c * B for c, B in zip(row, A[:m], strict=True)) for row in mix]
    C = rng.standard_normal((n, n))
    Y = rng.standard_normal((n, n))
    Y = Y @ Y.T
    return SDP(C + C.T, A, [np.vdot(B, Y) for B in A])


def inequalities(n, m, seed=0):
    """Slacks of both signs beside equations."""
    rng = np.random.default_rng(seed)
    A = [np.eye(n)] + [B + B.T for B in rng.standard_normal((m - 1, n, n))]
    C = rng.standard_normal((n, n))
    Y = rng.standard_normal((n, 2))
    Y = Y @ Y.T
    senses = ["="] + [("<=", ">=", "=")[k % 3] for k in range(m - 1)]
    b = [np.vdot(B, Y) + {"<=": 0.5, ">=": -0.5, "=": 0.0}[s] for B, s in zip(A, senses, strict=True)]
    return SDP(C + C.T, A, b, senses=senses)


def free_variables(n, k, seed=0):
    """k free numbers split into differences of nonnegative ones: the dual has no interior."""
    rng = np.random.default_rng(seed)
    m = n + k
    A, b = [], []
    Y, f = rng.standard_normal((n, 2)), rng.standard_normal(k)
    Y = Y @ Y.T
    G = rng.standard_normal((m, k))
    for q in range(m):
        B = rng.standard_normal((n, n))
        A.append([B + B.T, np.r_[G[q], -G[q]]])
        b.append(float(np.vdot(B + B.T, Y) + G[q] @ f))
    y = rng.standard_normal(m)
    Z = rng.standard_normal((n, n - 2))
    C = sum(y[q] * A[q][0] for q in range(m)) + Z @ Z.T
    g = G.T @ y
    return SDP([C, np.r_[g, -g]], A, b, blocks=[n, -2 * k])


def nearly_infeasible(n, depth, seed=0):
    """⟨eeᵀ, Y⟩ = depth with ones on the diagonal: feasible, with hardly an interior."""
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n, n))
    return SDP(C + C.T, [*([(k, k, 1.0)] for k in range(n)), np.ones((n, n))], np.r_[np.ones(n), depth])


def hinf(n, seed=0):
    """A small programme whose optimum is hardly attained: like SDPLIB's hinf."""
    rng = np.random.default_rng(seed)
    A = []
    m = n - 1
    u = rng.standard_normal((n, 1))
    for _ in range(m):
        B = rng.standard_normal((n, n))
        A.append(B + B.T)
    # C + Σ y A touches the cone in one direction only far out
    C = u @ u.T + 1e-4 * np.eye(n)
    Y = np.diag(10.0 ** -np.arange(n))
    b = [float(np.vdot(B, Y)) for B in A]
    return SDP(C, A, b)


def known_optimum(blocks, m, seed=0, density=1.0, repeated=0):
    """A random programme with a strictly complementary solution, and its optimum; the last constraints follow."""
    rng = np.random.default_rng(seed)
    Y, Z = [], []
    for size in blocks:
        n = abs(size)
        turn = np.linalg.qr(rng.standard_normal((n, n)))[0] if size > 0 else np.eye(n)
        used, values = np.arange(n) < rng.integers(0, n + 1), rng.uniform(0.5, 2, n)
        Y.append((turn * (values * used)) @ turn.T)
        Z.append((turn * (values * ~used)) @ turn.T)
    A = []
    for _ in range(m):
        row = [
            np.triu(rng.standard_normal((abs(n), abs(n))) * (rng.random((abs(n), abs(n))) < density)) for n in blocks
        ]
        A.append([B + B.T if n > 0 else np.diag(B.diagonal()) for B, n in zip(row, blocks, strict=True)])
    for mix in rng.integers(-2, 3, (repeated, m)):
        A.append([sum(w * B for w, B in zip(mix, column, strict=True)) for column in zip(*A[:m], strict=True)])
    y = rng.standard_normal(len(A))
    C = [
        sum(t * B for t, B in zip(y, column, strict=True)) + S
        for column, S in zip(zip(*A, strict=True), Z, strict=True)
    ]
    b = [sum(float(np.vdot(B, part)) for B, part in zip(row, Y, strict=True)) for row in A]
    return SDP(C, A, b, blocks=blocks), sum(float(np.vdot(M, part)) for M, part in zip(C, Y, strict=True))


def reference(problem):
    """The optimum by Clarabel: maximise bᵀy with C − 𝒜*(y) positive semidefinite."""
    import cvxpy as cp

    whole, y = problem.explicit(), cp.Variable(problem.m)
    v = whole.c - whole.S.T @ y
    cones = []
    for first, last, size in zip(problem.offsets[:-1], problem.offsets[1:], problem.blocks, strict=True):
        here = np.flatnonzero((whole.i >= first) & (whole.i < last))
        i, j, n = whole.i[here] - first, whole.j[here] - first, int(last - first)
        if size < 0:
            cones.append(sparse.csr_array((np.ones(len(here)), (i, here)), shape=(n, len(whole.c))) @ v >= 0)
        elif len(here):
            places = np.r_[i * n + j, j * n + i], np.r_[here, here]
            spread = sparse.csr_array((np.full(2 * len(here), 0.5), places), shape=(n * n, len(whole.c)))
            cones.append(cp.reshape(spread @ v, (n, n), order="C") >> 0)
    programme = cp.Problem(cp.Maximize(problem.b @ y), cones)
    with warnings.catch_warnings():  # where no y attains the optimum, Clarabel says that it is inaccurate
        warnings.simplefilter("ignore")
        return problem.sign * float(programme.solve(solver=cp.CLARABEL))


def write_sdpa(problem, path):
    """Write a programme in SDPA's sparse format; the value changes sign where it was minimised."""
    explicit = problem.explicit()
    lines = [str(problem.m), str(len(problem.blocks)), " ".join(map(str, problem.blocks))]
    lines.append(" ".join(repr(float(x)) for x in problem.b))
    stacked = sparse.coo_array(sparse.vstack([sparse.csr_array(-explicit.c[None]), explicit.S]))
    k, p = stacked.coords
    i, j = explicit.i[p], explicit.j[p]
    block = np.searchsorted(problem.offsets, i, side="right") - 1
    start = problem.offsets[block]
    value = np.where(i == j, stacked.data, stacked.data / 2)
    for row in zip(k, block + 1, i - start + 1, j - start + 1, value, strict=True):
        lines.append("{} {} {} {} {!r}".format(*map(int, row[:4]), float(row[4])))
    path.write_text("\n".join(lines) + "\n")
