"""The methods compared: our solvers and estimators, the command line, other libraries through their public interface.

A method takes a case, a seed, a tolerance and a `Recorder`, to which it shows its iterates, or returns an answer. Other
libraries are at their best: they are given our compiled passes, and none is repeated at the same X.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.bench.cases import Cell, Enough, Recorder
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.init import random_start, spectral_start
from quartic.kernels import NormKernel
from quartic.solvers import ABPG, ADMM, LAI, SMACOF, SNMPBB, CoCaIn, LvSHALS, Solver, SymANLS, SymHALS


class CannotDo(Exception):
    """The method cannot do the case; the message says why."""


@dataclass(frozen=True)
class Answer:
    """What a method returns: X, labels, its products, and its seconds where it ran in a process of its own."""

    X: Any = None
    labels: Any = None
    products: int | None = None
    seconds: float | None = None


Method = Callable[[Any, int, float, Recorder], Answer]

TUNED: dict[str, Callable[[float], Solver]] = {"hals": SymHALS, "anls": SymANLS, "admm": ADMM}
#: Their parameter: μ of SymHALS and SymANLS, ρ of ADMM, which must not be 0.
GRIDS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("hals", "anls"), (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)),
    "admm": (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
}
#: The paper's solvers and ours, for symmetric NMF and for distances.
SOLVERS = ("dyn-nolips", "pg", "beta", "cd", "hals", "anls", "admm", "inertial", "lbfgs", "auto")
METHODS = ("dyn-nolips", "dyn-nolips-gram", "gd", "tr", "lm", "ncg", "lbfgs", "auto")


def run_solver(solver: str | Solver, start: Any, case: Any, seed: int, tol: float, see: Recorder) -> Answer:
    """Run one of our solvers from a start that `minimize` knows, None for its own, or ``"case"``: the case's own.

    The clock has started, so that the making of loss and start counts. On a helix Dyn-NoLips has the norm kernel; it
    takes the Gram kernel, as it does by default where X is free, under the name dyn-nolips-gram.
    """
    problem, X0 = case.problem(), case.start(seed) if start == "case" else start
    if case.is_helix and solver == "dyn-nolips":
        problem = Problem(problem.loss, kernel=NormKernel.for_loss(problem.loss, tight=False))
    solver = "dyn-nolips" if solver == "dyn-nolips-gram" else solver
    result = minimize(
        problem, X0, rank=case.rank, solver=solver, tol=tol, max_iter=10**9, callback=see, random_state=seed
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt  # the loop takes Ctrl-C for the end of its run; here it means all of them
    return Answer(result.X)


def run_command(command: str, given: str, case: Cell, *words: str) -> tuple[Any, float]:
    """Return what ``quartic`` writes for this input, and its processor time on one thread (on Windows, wall clock)."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    rank = "-k" if command == "cluster" else "-d"
    out = f"{os.path.dirname(given)}/answer.npy"
    called = [sys.executable, "-m", "quartic", command, given, rank, str(case.rank), *words, "-o", out, "--quiet"]
    before = os.times()
    done = subprocess.run(called, env={**os.environ, **threads}, capture_output=True, text=True)
    after = os.times()
    if done.returncode > 1:  # 1: not converged, the result is written all the same
        raise CannotDo(done.stderr.strip().rpartition("\n")[2])
    children = after.children_user + after.children_system - before.children_user - before.children_system
    return np.load(out), children or after.elapsed - before.elapsed


def scipy_lbfgs(case: Any, seed: int, tol: float, see: Recorder) -> Answer:
    """Run SciPy's L-BFGS-B on our objective and gradient, without a tolerance of its own, from the random start."""
    from scipy.optimize import minimize as scipy_minimize

    problem, X0 = case.problem(), case.start(seed)
    last = [problem.loss.at(X0)]
    goal = tol * problem.stationarity(last[0])

    def function(x: Array) -> tuple[float, Array]:
        last[0] = problem.loss.at(x.reshape(X0.shape))
        return float(last[0].value), last[0].gradient.ravel()

    def callback(x: Array) -> None:
        # the last evaluation of a line search is at the point it takes; the recorder measures it anew in any case
        stationarity = float(problem.stationarity(last[0]))
        see.see(x.reshape(X0.shape), stationarity, products=problem.loss.n_products)
        if stationarity < goal:
            raise Enough

    how = {"bounds": [(0, None)] * X0.size} if problem.penalty.nonnegative else {}
    options = {"maxiter": 10**6, "maxfun": 10**6, "ftol": 0.0, "gtol": 0.0}
    with contextlib.suppress(Enough):
        scipy_minimize(function, X0.ravel(), jac=True, method="L-BFGS-B", callback=callback, options=options, **how)
    return Answer(last[0].X)


# -- symmetric NMF ----------------------------------------------------------------------------------------------------


def symnmf_solver(name: str, penalty: float | None = None, spectral: bool = False) -> Method:
    """Return a run of one of our solvers from the paper's start, or the spectral one, as ``auto`` does by default."""
    start = spectral_start if spectral or name == "auto" else random_start
    return partial(run_solver, name if penalty is None else TUNED[name](penalty), start)


def estimator_symnmf(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Fit `quartic.SymNMF` as a user does."""
    from quartic import SymNMF

    model = SymNMF(case.rank, tol=tol, random_state=seed).fit(case.given[0])
    return Answer(model.embedding_, model.labels_, model.result_.n_products)


def command_cluster(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Run ``quartic cluster`` on a file, start-up, reading and writing included."""
    import scipy.sparse as sp

    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(f"{folder}/graph.npz", sp.csr_matrix(case.given[0]))
        labels, s = run_command("cluster", f"{folder}/graph.npz", case, "--tol", f"{tol:g}", "--seed", str(seed))
    return Answer(labels=labels, seconds=s)


def sklearn_nmf(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Run scikit-learn's NMF on M; it gives M ≈ WH, whose halves are brought to one scale and averaged for X."""
    from sklearn.decomposition import NMF

    model = NMF(case.rank, init="nndsvda", max_iter=1000, random_state=seed)
    W = model.fit_transform(case.given[0])
    H = model.components_.T
    with see.watch.paused():
        w, h = np.linalg.norm(W, axis=0), np.linalg.norm(H, axis=0)
        scale = np.sqrt(np.divide(h, w, out=np.ones_like(w), where=(w > 0) & (h > 0)))
        return Answer(0.5 * (W * scale + H / scale), W.argmax(axis=1))


def spectral_clustering(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Run scikit-learn's SpectralClustering on M, with the 32-bit indices that it insists on."""
    from sklearn.cluster import SpectralClustering

    with see.watch.paused():
        M = case.given[0].copy()
        M.indices, M.indptr = (part.astype(np.int32) for part in (M.indices, M.indptr))
    return Answer(labels=SpectralClustering(case.rank, affinity="precomputed", random_state=seed).fit(M).labels_)


def networkx_louvain(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Run NetworkX's Louvain clustering, which chooses the number of clusters itself."""
    import networkx as nx

    graph = nx.from_scipy_sparse_array(case.given[0])
    labels = np.empty(case.given[0].shape[0], dtype=np.int64)
    for at, members in enumerate(nx.community.louvain_communities(graph, weight="weight", seed=seed)):
        labels[list(members)] = at
    return Answer(labels=labels)


# -- distances --------------------------------------------------------------------------------------------------------


def estimator_edmc(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Fit `quartic.DistanceCompletion` as a user does: with its own start and its own checks of the answer."""
    from quartic import DistanceCompletion

    pairs, d, X = case.given
    model = DistanceCompletion(case.rank, random_state=seed).fit_pairs(pairs, d, n_points=len(X))
    return Answer(model.embedding_, products=model.result_.n_products)


def command_locate(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Run ``quartic locate`` on a file, start-up, reading and writing included."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/distances.npz", pairs=case.given[0], distances=case.given[1])
        X, seconds = run_command("locate", f"{folder}/distances.npz", case, "--seed", str(seed))
    return Answer(X, seconds=seconds)


def pymanopt_edmc(manifold_name: str, optimizer_name: str, case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Run pymanopt with our compiled passes, none of which is repeated at the same X."""
    try:
        import pymanopt
        from pymanopt import manifolds, optimizers
    except ImportError:
        raise ImportError("pymanopt is not installed (pip install 'quartic[bench]')") from None
    loss, X0 = case.problem().loss, case.start(seed)
    last: Any = loss.at(X0)

    def at(X: Array) -> Any:
        nonlocal last
        if not np.array_equal(X, last.X):
            last = loss.at(np.array(X, copy=True))
        return last

    goal = tol * float(np.linalg.norm(at(X0).gradient))
    manifold = getattr(manifolds, manifold_name)(*X0.shape)

    def gradient(X: Array) -> Array:
        G: Array = at(X).gradient
        see.see(X)
        if np.linalg.norm(G) < goal:
            raise Enough
        return G

    def cost(X: Array) -> float:
        return float(at(X).value)

    def hessian(X: Array, D: Array) -> Array:
        H: Array = loss.hessian_product(at(X), D)
        return H

    cost, gradient, hessian = map(pymanopt.function.numpy(manifold), (cost, gradient, hessian))
    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
    never = {"max_iterations": 10**6, "max_time": 1e9, "min_gradient_norm": 0.0, "min_step_size": 0.0}
    with contextlib.suppress(Enough):
        getattr(optimizers, optimizer_name)(verbosity=0, **never).run(problem, initial_point=X0)
    return Answer(see.kept[-1][1])


def sklearn_mds(case: Cell, seed: int, tol: float, see: Recorder) -> Answer:
    """Run scikit-learn's metric MDS (SMACOF), which minimises the stress of a complete matrix of distances."""
    from sklearn.manifold import MDS

    pairs, d, X = case.given
    if len(pairs) < len(X) * (len(X) - 1) // 2:
        raise CannotDo("scikit-learn's MDS (SMACOF) needs all distances")
    known = inspect.signature(MDS).parameters  # the names of some settings differ between versions
    wanted = {"metric": "precomputed", "init": "random"} if "metric_mds" in known else {"dissimilarity": "precomputed"}
    D = np.zeros((len(X), len(X)))
    i, j = pairs.T
    D[i, j] = D[j, i] = d
    model = MDS(case.rank, n_init=1, max_iter=3000, eps=1e-12, random_state=seed, normalized_stress=False, **wanted)
    return Answer(model.fit_transform(D))


# -- all of them ------------------------------------------------------------------------------------------------------


MU = GRIDS["hals"][2:]
SYMNMF: dict[str, Method] = {
    "SymNMF.fit": estimator_symnmf,
    "quartic cluster": command_cluster,
    "inertial, random start": symnmf_solver("inertial"),
    "Dyn-NoLips": symnmf_solver("dyn-nolips"),
    "Dyn-NoLips, spectral start": symnmf_solver("dyn-nolips", spectral=True),
    **{f"SymHALS μ={mu:g}": symnmf_solver("hals", mu) for mu in MU},
    **{f"SymHALS, spectral start μ={mu:g}": symnmf_solver("hals", mu, spectral=True) for mu in MU},
    "SciPy L-BFGS-B": scipy_lbfgs,
    "scikit-learn NMF": sklearn_nmf,
    "scikit-learn SpectralClustering": spectral_clustering,
    "NetworkX Louvain": networkx_louvain,
    **{name: symnmf_solver(name) for name in SOLVERS if name not in GRIDS},
    **{f"{name} {p:g}": symnmf_solver(name, p) for name, penalties in GRIDS.items() for p in penalties},
}
EDMC: dict[str, Method] = {
    "DistanceCompletion.fit_pairs": estimator_edmc,
    "quartic locate": command_locate,
    "minimize, auto": partial(run_solver, "auto", None),
    "Dyn-NoLips (Gram)": partial(run_solver, "dyn-nolips-gram", None),
    "SciPy L-BFGS-B": scipy_lbfgs,
    **{
        f"pymanopt {manifold}, {optimizer}": partial(pymanopt_edmc, manifold, optimizer)
        for manifold in ("PSDFixedRank", "Euclidean")
        for optimizer in ("ConjugateGradient", "TrustRegions")
    },
    "scikit-learn MDS (SMACOF)": sklearn_mds,
    **{name: partial(run_solver, name, None) for name in METHODS},
}


# -- the league -------------------------------------------------------------------------------------------------------


def _entries(name: str, *solvers: Solver) -> dict[str, Method]:
    """Return a rival of the league once for each of its settings, those of a grid."""
    called = (f"{name} {str(solver).partition('(')[2].rstrip(')')}".strip() for solver in solvers)
    return {name: partial(run_solver, solver, "case") for name, solver in zip(called, solvers, strict=True)}


def _all_of(names: str) -> dict[str, Method]:
    return {name: scipy_lbfgs if name == "scipy" else partial(run_solver, name, "case") for name in names.split()}


#: Who competes in the league, by family.
LEAGUE: dict[str, dict[str, Method]] = {
    "symnmf": {
        **_all_of("auto face-cg inertial lbfgs pgncg dyn-nolips cd pg beta scipy"),
        **_entries("snmpbb", SNMPBB(), SNMPBB(memory=1), SNMPBB(alternate=False)),
        **_entries("lai", LAI(mu=1e-2), LAI(mu=1e-1), LAI()),
        **_entries("lvs-hals", LvSHALS(mu=1e-2), LvSHALS(mu=1e-1), LvSHALS(mu=1e-1, share=0.2)),
        **_entries("cocain", CoCaIn(first=1e-3), CoCaIn(first=1e-2)),
        **_entries("abpg", ABPG()),
        **_entries("hals", SymHALS(1e-3), SymHALS(1e-2), SymHALS(1e-1)),
        **_entries("anls", SymANLS(1e-2), SymANLS(1e-1)),
        **_entries("admm", ADMM(1e-2), ADMM(1e-1)),
    },
    "edmc": {
        **_all_of("auto lm ncg lbfgs inertial tr dyn-nolips gd scaledgd scipy"),
        **_entries("cocain", CoCaIn(first=1e-2), CoCaIn(first=1e-1)),
        **_entries("abpg", ABPG()),
    },
    "stress": {**_all_of("auto lbfgs scipy"), **_entries("smacof", SMACOF(), SMACOF(1.5), SMACOF(1.9))},
}


def methods_of(case: Cell) -> dict[str, Method]:
    """Return all who can be run on a case."""
    if case.begin:
        return LEAGUE[case.family]
    return EDMC if case.is_helix else SYMNMF
