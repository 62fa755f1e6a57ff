"""Solvers side by side on completion, sensing, phase retrieval and quadratic losses.

``python benchmarks/losses.py`` fills the section ``losses`` of the results in about a minute, on one thread. Solvers
start at the same X0, the loss's own start, and stop at tol = 1e-6 of the stationarity there. Products are those of
the run (the start's and the constants' are left out), seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import time
from functools import partial

import numpy as np
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.bench.numbers import run_script, told
from quartic.losses import CodedDiffraction, Completion, PhaseRetrieval, Quadratic, Sensing
from quartic.penalties import Nonnegative

FREE, SIGNED = ("lm", "lbfgs", "ncg", "tr", "inertial"), ("lbfgs", "inertial")


def completion(share, noise, nonnegative=False):
    rng = np.random.default_rng(1)
    n, T = 2000, rng.standard_normal((2000, 5))
    T = np.abs(T) if nonnegative else T
    i, j = np.triu_indices(n)
    known = rng.random(len(i)) < share
    i, j = i[known], j[known]
    values = np.einsum("ij,ij->i", T[i], T[j])
    return Completion(i, j, values + noise * values.std() * rng.standard_normal(len(i)), n), 5


def sensing(nonnegative=False):
    rng = np.random.default_rng(2)
    T = rng.standard_normal((150, 2))
    T = np.abs(T) if nonnegative else T
    A = rng.standard_normal((6 * 150 * 2, 150))
    b = ((A @ T) ** 2).sum(axis=1)
    return Sensing(A, b * (1 + 0.05 * rng.standard_normal(len(b)))), 2


def gaussian_phases():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((6 * 256, 256)) + 1j * rng.standard_normal((6 * 256, 256))
    z = rng.standard_normal(256) + 1j * rng.standard_normal(256)
    return PhaseRetrieval(A, np.abs(A @ z) ** 2), 1


def patterns():
    rng = np.random.default_rng(4)
    A = CodedDiffraction.random(6, (64, 64), random_state=0)
    z = rng.standard_normal(4096) + 1j * rng.standard_normal(4096)
    return PhaseRetrieval(A, np.abs(A @ z) ** 2), 1


def cut(rho):
    W = sp.random_array((800, 800), density=0.01, random_state=1, format="csr")
    W = sp.csr_array(((W + W.T) > 0).astype(float))
    L = sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)
    eye = sp.eye_array(800, format="csr")
    return Quadratic(rho * eye, -L / 4 - rho * eye), 41


def weighted(nonnegative=False):
    M = np.random.default_rng(5).standard_normal((400, 400))
    M = np.abs(M + M.T) if nonnegative else M + M.T
    return Quadratic(1 + np.abs(M), -M), 5


CASES = {
    "completion, n = 2000, r = 5, 3 %": (partial(completion, 0.03, 0.0), None),
    "completion, 10 % noise": (partial(completion, 0.03, 0.1), None),
    "completion, X ≥ 0": (partial(completion, 0.03, 0.1, True), Nonnegative()),
    "sensing, 6nr vectors, n = 150, r = 2, 5 % noise": (sensing, None),
    "sensing, X ≥ 0": (partial(sensing, True), Nonnegative()),
    "phase retrieval, complex, 6 · 256 Gaussian": (gaussian_phases, None),
    "phase retrieval, six patterns of 64 × 64": (patterns, None),
    "MaxCut, n = 800, r = 41, ρ = 100": (partial(cut, 100.0), None),
    "quadratic, dense weights, n = 400, r = 5": (weighted, None),
    "quadratic, X ≥ 0": (partial(weighted, True), Nonnegative()),
}


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
            yield from told(case, f"{solver} (auto)" if solver == auto else solver, **facts)


if __name__ == "__main__":
    run_script("losses", {case: partial(measure, case) for case in CASES})
