"""Solvers side by side on completion, sensing, phase retrieval and quadratic losses.

``python benchmarks/losses.py`` fills the section ``losses`` of the results in about a minute, on one thread. Solvers
start at the same X0, the loss's own start, and stop at tol = 1e-6 of the stationarity there. Products are those of
the run (the start's and the constants' are left out), seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.bench.harness import one_thread
from quartic.bench.numbers import record, run_script
from quartic.losses import CodedDiffraction, Completion, PhaseRetrieval, Quadratic, Sensing
from quartic.penalties import Nonnegative

FREE, SIGNED = ("lm", "lbfgs", "ncg", "tr", "inertial"), ("lbfgs", "inertial")


def completion(noise, draw):
    rng = np.random.default_rng(1)
    T = draw(rng.standard_normal((2000, 5)))
    i, j = np.triu_indices(2000)
    known = rng.random(len(i)) < 0.03
    i, j = i[known], j[known]
    values = np.einsum("ij,ij->i", T[i], T[j])
    return Completion(i, j, values + noise * values.std() * rng.standard_normal(len(i)), 2000), 5


def sensing(draw):
    rng = np.random.default_rng(2)
    T, A = draw(rng.standard_normal((150, 2))), rng.standard_normal((6 * 150 * 2, 150))
    b = ((A @ T) ** 2).sum(axis=1)
    return Sensing(A, b * (1 + 0.05 * rng.standard_normal(len(b)))), 2


def phases(seed, n, measurements):
    rng = np.random.default_rng(seed)
    A = measurements(rng)
    z = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    return PhaseRetrieval(A, np.abs(A @ z) ** 2), 1


def gaussian(rng):
    return rng.standard_normal((6 * 256, 256)) + 1j * rng.standard_normal((6 * 256, 256))


def cut(rho):
    W = sp.random_array((800, 800), density=0.01, random_state=1, format="csr")
    W = sp.csr_array(((W + W.T) > 0).astype(float))
    L, eye = sp.csr_array(sp.diags_array(W.sum(axis=1)) - W), sp.eye_array(800, format="csr")
    return Quadratic(rho * eye, -L / 4 - rho * eye), 41


def weighted(draw):
    M = np.random.default_rng(5).standard_normal((400, 400))
    M = draw(M + M.T)
    return Quadratic(1 + np.abs(M), -M), 5


CASES = {
    "completion, n = 2000, r = 5, 3 %": (partial(completion, 0.0, np.array), None),
    "completion, 10 % noise": (partial(completion, 0.1, np.array), None),
    "completion, X ≥ 0": (partial(completion, 0.1, np.abs), Nonnegative()),
    "sensing, 6nr vectors, n = 150, r = 2, 5 % noise": (partial(sensing, np.array), None),
    "sensing, X ≥ 0": (partial(sensing, np.abs), Nonnegative()),
    "phase retrieval, complex, 6 · 256 Gaussian": (partial(phases, 3, 256, gaussian), None),
    "phase retrieval, six patterns of 64 × 64": (
        partial(phases, 4, 4096, lambda rng: CodedDiffraction.random(6, (64, 64), random_state=0)), None),
    "MaxCut, n = 800, r = 41, ρ = 100": (partial(cut, 100.0), None),
    "quadratic, dense weights, n = 400, r = 5": (partial(weighted, np.array), None),
    "quadratic, X ≥ 0": (partial(weighted, np.abs), Nonnegative()),
}  # fmt: skip


def measure(case):
    make, penalty = CASES[case]
    loss, rank = make()
    problem = Problem(loss, penalty)
    X0 = loss.default_start(rank, problem.penalty.nonnegative, np.random.default_rng(7))
    auto = minimize(problem, X0, max_iter=0).solver
    for solver in FREE if penalty is None else SIGNED:
        if solver == "lm" and not hasattr(loss, "linearize"):
            continue
        minimize(problem, X0, solver=solver, max_iter=2)  # compiles
        started = time.process_time()
        result = minimize(problem, X0, solver=solver, tol=1e-6, max_iter=5000)
        seconds, products = time.process_time() - started, np.ptp(result.history.n_products)
        if result.success:
            facts = {"s": seconds, "iterations": result.n_iter, "products": products, "objective": result.objective}
            yield from record(case, f"{solver} (auto)" if solver == auto else solver, **facts)


if __name__ == "__main__":
    with one_thread():
        run_script("losses", {case: partial(measure, case) for case in CASES})
