"""Rectangular matrices: nonnegative factorisation against scikit-learn, completion against soft-impute.

``python benchmarks/rectangular.py`` writes ``rectangular.md`` beside this file. One thread, and CPU seconds, which
other work on the machine disturbs little. For the factorisation the methods take turns, and figures are medians of ten
starts; a completion is run once. The objectives are computed here, from the factors returned, by one function for all.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import platform
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import sklearn
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

import quartic
from quartic import Problem, certify, minimize
from quartic.init import rectangular_start
from quartic.losses import Rectangular
from quartic.penalties import Nonnegative, Ridge

RANKS, SEEDS = (10, 25), range(10)
PAGE = Path(__file__).with_suffix(".md")


def timed(call):
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


# -- nonnegative factorisation -------------------------------------------------------------------------------------


def by_sklearn(A, rank, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that max_iter was reached
        model = NMF(rank, init="random", random_state=seed, max_iter=1000, tol=1e-4)
        U = model.fit_transform(A)
    return U, model.components_.T


def by_quartic(A, rank, seed):
    loss = Rectangular(A)
    return loss.factors(minimize(Problem(loss, Nonnegative()), rank=rank, tol=1e-4, random_state=seed).X)


def fit(A, U, V):
    return 0.5 * float(np.sum((A - U @ V.T) ** 2))


def documents(seed=0):
    """Return a sparse matrix of word counts: 3,000 documents on 12 subjects, 2,000 words."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(2000, 0.02), 12)
    shares = rng.dirichlet(np.full(12, 0.1), 3000)
    return sp.csr_array(rng.poisson(80 * shares @ topics).astype(float))


def factorisation(lines):
    lines += [
        "## Nonnegative factorisation, ½‖A − UVᵀ‖²",
        "",
        "Ten random starts each; scikit-learn: `NMF(init='random', tol=1e-4, max_iter=1000)`;",
        "quartic: `Rectangular(A)`, `Nonnegative()`, `tol=1e-4`, `auto` (which is L-BFGS here).",
        "",
        "| data | r | best of ten: sklearn | quartic | ratio | median: ratio | CPU seconds a run: sklearn | quartic |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, A in (("digits, 1797 × 64", load_digits().data), ("word counts, 3000 × 2000, sparse", documents())):
        dense = A.toarray() if sp.issparse(A) else A
        by_quartic(A, 3, 0), by_sklearn(A, 3, 0)  # compiled, and warm
        for rank in RANKS:
            theirs, ours = [], []
            for seed in SEEDS:
                for method, found in ((by_sklearn, theirs), (by_quartic, ours)):
                    (U, V), seconds = timed(lambda m=method, s=seed, A=A, r=rank: m(A, r, s))
                    found.append((fit(dense, U, V), seconds))
            (f, t), (g, u) = np.array(theirs).T, np.array(ours).T
            lines.append(
                f"| {name} | {rank} | {f.min():.6g} | {g.min():.6g} | {g.min() / f.min():.4f} | "
                f"{np.median(g) / np.median(f):.4f} | {np.median(t):.2f} | {np.median(u):.2f} |"
            )
            print(lines[-1], flush=True)


# -- completion ----------------------------------------------------------------------------------------------------


def ratings(users, items, per_user, seed=0):
    """Return known ratings as a sparse matrix, and as many hidden ones: tastes of rank 6, noise, half stars.

    Some items are rated far more often than others, and some users rate far more than others, as in life. The mean
    rating is taken off.
    """
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((users, 6)) @ rng.standard_normal((items, 6)).T / np.sqrt(6)
    popular, busy = rng.pareto(1.2, items) + 0.3, rng.pareto(2.0, users) + 0.5
    share = np.minimum(0.5, np.outer(busy / busy.mean(), popular / popular.mean()) * 2 * per_user / items)
    seen = rng.random((users, items)) < share
    A = np.clip(np.round(2 * (3.4 + 0.9 * taste + 0.5 * rng.standard_normal((users, items)))) / 2, 0.5, 5)
    known = seen & (rng.random((users, items)) < 0.5)
    hidden = seen & ~known
    mean = A[known].mean()
    rows, cols = np.nonzero(known)
    return sp.csr_array((A[known] - mean, (rows, cols)), shape=A.shape), (*np.nonzero(hidden), A[hidden] - mean)


def soft_impute(A, weight, rank, tol, max_iter=500):
    """Soft-impute (Mazumder, Hastie and Tibshirani 2010): B ← S_λ(P_Ω(A) + P_Ω^⊥(B)).

    The matrix is sparse plus low rank, and a thin SVD of it is taken by ARPACK. It ends when ‖B⁺ − B‖² ≤ tol²·‖B‖².
    """
    rows, cols = A.nonzero()
    known = A.data
    m, n = A.shape
    U, s, V = np.zeros((m, 1)), np.zeros(1), np.zeros((n, 1))
    R, start = A.copy(), None
    for _ in range(max_iter):
        R.data = known - np.einsum("ij,ij->i", U[rows] * s, V[cols])
        operator = LinearOperator(
            (m, n),
            matvec=lambda v, U=U, s=s, V=V, R=R: R @ v.ravel() + U @ (s * (V.T @ v.ravel())),
            rmatvec=lambda u, U=U, s=s, V=V, R=R: R.T @ u.ravel() + V @ (s * (U.T @ u.ravel())),
        )
        left, sigma, right = svds(operator, rank, v0=start)
        order = np.argsort(-sigma)
        left, sigma, right = left[:, order], np.maximum(sigma[order] - weight, 0), right[order].T
        start = (left if m < n else right)[:, 0]
        # ‖B⁺ − B‖² from the small matrices
        cross = np.vdot((left * sigma).T @ (U * s), (right.T @ V))
        change = sigma @ sigma + s @ s - 2 * cross
        U, s, V = left, sigma, right
        if change <= tol**2 * (s @ s):
            break
    return U * np.sqrt(s), V * np.sqrt(s)


def by_quartic_ridge(A, weight, rank, tol, solver="auto"):
    loss = Rectangular(A, weights=abs(A) > 0)
    problem = Problem(loss, Ridge(weight))
    return loss.factors(minimize(problem, rectangular_start, rank=rank, tol=tol, random_state=0, solver=solver).X)


def penalised(A, U, V, weight):
    rows, cols = A.nonzero()
    e = A.data - np.einsum("ij,ij->i", U[rows], V[cols])
    nuclear = np.linalg.svd(np.linalg.qr(U)[1] @ np.linalg.qr(V)[1].T, compute_uv=False).sum()
    return 0.5 * float(e @ e) + weight * float(nuclear)


def completion(lines):
    rank = 20
    lines += [
        "## Completion of a ratings-like matrix, ½ Σ_known (A − B)² + λ‖B‖_*",
        "",
        f"Both with at most {rank} columns. Soft-impute is written out in this script.",
        "quartic: `Rectangular(A, weights=known)` with `Ridge(λ)`. 'excess': objective over the best seen, less 1;",
        "RMSE is over hidden ratings, in stars; 'gap' is what `quartic.certify` proves about quartic's answer,",
        "relative to the objective.",
        "",
        "| users × items, known | λ | method | tol | CPU seconds | excess | hidden RMSE | gap |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for users, items, per_user in ((1000, 500, 40), (3000, 1500, 60)):
        A, (i, j, hidden) = ratings(users, items, per_user)
        by_quartic_ridge(A, 10.0, 2, 1e-1)  # compiled, and warm
        for weight in (5.0, 10.0):
            runs = []
            for tol in (1e-2, 1e-3):
                runs.append(("soft-impute", tol, *timed(lambda t=tol, w=weight, A=A: soft_impute(A, w, rank, t))))
            for solver in ("lm", "lbfgs", "ncg"):
                for tol in (1e-2, 1e-3):
                    runs.append(
                        (
                            f"quartic, {solver}",
                            tol,
                            *timed(lambda t=tol, w=weight, A=A, s=solver: by_quartic_ridge(A, w, rank, t, s)),
                        )
                    )
            values = [penalised(A, *factors, weight) for _, _, factors, _ in runs]
            for (method, tol, (U, V), seconds), value in zip(runs, values, strict=True):
                error = np.sqrt(np.mean((np.einsum("ij,ij->i", U[i], V[j]) - hidden) ** 2))
                gap = ""
                if method.startswith("quartic"):
                    problem = Problem(Rectangular(A, weights=abs(A) > 0), Ridge(weight))
                    gap = f"{certify(problem, np.vstack([U, V])).gap / value:.1e}"
                lines.append(
                    f"| {users} × {items}, {A.nnz:,} | {weight:g} | {method} | {tol:g} | {seconds:.2f} | "
                    f"{value / min(values) - 1:.1e} | {error:.4f} | {gap} |"
                )
                print(lines[-1], flush=True)


def main():
    versions = f"quartic {quartic.__version__}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}"
    lines = [
        "# Rectangular matrices",
        "",
        f"Written by `benchmarks/rectangular.py`. {versions}, Python {platform.python_version()}. One thread.",
        "",
    ]
    factorisation(lines)
    lines.append("")
    completion(lines)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
