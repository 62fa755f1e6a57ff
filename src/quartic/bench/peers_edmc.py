"""Distance completion by others, each through its own public interface, on the same pairs from the same start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.bench.edmc import RANK, Helix
from quartic.bench.watch import Watch
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.losses import Distances
from quartic.solvers import Solver


class CannotDo(Exception):
    """The peer cannot do the case; the message says why."""


class Enough(Exception):
    """Raised within a peer's run to end it."""


class Keeper:
    """Keeps the iterates of a run with their times; errors are measured afterwards, at as few as will do.

    Examples
    --------
    >>> from quartic.bench.edmc import Helix
    >>> from quartic.bench.peers_edmc import Keeper
    >>> case = Helix(50)
    >>> keeper = Keeper(limit=10.0, wall=False)
    >>> keeper.keep(2 * case.truth)
    >>> keeper.keep(case.truth)
    >>> keeper.first_below(1e-6, case.error) == keeper.kept[1][0]
    True
    """

    def __init__(self, limit: float, wall: bool) -> None:
        self.watch, self.limit = Watch(wall), limit
        self.kept: list[tuple[float, Array]] = []

    def keep(self, X: Array) -> None:
        """Keep an iterate; raise `Enough` when time is up."""
        now = self.watch.seconds()
        with self.watch.paused():
            self.kept.append((now, np.array(X, copy=True)))
        if now > self.limit:
            raise Enough

    def first_below(self, target: float, error: Callable[[Array], float]) -> float | None:
        """Return the time of the first iterate at the target, by bisection: errors fall along a run."""
        if not self.kept or error(self.kept[-1][1]) > target:
            return None
        low, high = 0, len(self.kept) - 1
        while low < high:
            middle = (low + high) // 2
            if error(self.kept[middle][1]) > target:
                low = middle + 1
            else:
                high = middle
        return self.kept[low][0]


def start(loss: Distances, seed: int) -> Array:
    """Return the random start that all share."""
    return loss.random_start(RANK, False, np.random.default_rng(seed))


def quartic_solver(solver: str | Solver) -> Callable[[Helix, int, float, Keeper], None]:
    """Return a run of one of our solvers."""

    def run(case: Helix, seed: int, tol: float, keeper: Keeper) -> None:
        def callback(progress: Any) -> None:
            try:
                keeper.keep(progress.X)
            except Enough:
                raise StopIteration from None

        result = minimize(
            Problem(case.loss()), rank=RANK, solver=solver, tol=tol, max_iter=10**9, callback=callback,
            random_state=seed,
        )  # fmt: skip
        if result.status == "interrupted":
            raise KeyboardInterrupt

    return run


def quartic_estimator(case: Helix, seed: int, tol: float, keeper: Keeper) -> None:
    """Run `quartic.DistanceCompletion` as a user would: with its own start and its own checks of the answer."""
    from quartic import DistanceCompletion

    model = DistanceCompletion(RANK, random_state=seed)
    model.fit_pairs(case.pairs, np.sqrt(case.squared), n_points=case.n)
    keeper.keep(model.embedding_)


def scipy_lbfgsb(case: Helix, seed: int, tol: float, keeper: Keeper) -> None:
    """Run SciPy's L-BFGS-B with our compiled gradient."""
    loss = case.loss()
    _scipy(lambda X: (lambda p: (p.value, p.gradient))(loss.at(X)), start(loss, seed), tol, keeper)


def scipy_numpy(case: Helix, seed: int, tol: float, keeper: Keeper) -> None:
    """Run SciPy's L-BFGS-B with a gradient a user would write in NumPy."""
    _scipy(_in_numpy(case), start(case.loss(), seed), tol, keeper)


def _in_numpy(case: Helix) -> Callable[[Array], tuple[float, Array]]:
    """Return value and gradient as a user would write them."""
    i, j = case.pairs.T
    n, squared = case.n, case.squared

    def function(X: Array) -> tuple[float, Array]:
        D = X[i] - X[j]
        e = (D * D).sum(axis=1) - squared
        E = (2 * e)[:, None] * D
        G = np.column_stack([np.bincount(i, E[:, k], n) - np.bincount(j, E[:, k], n) for k in range(RANK)])
        return 0.5 * float(e @ e), G

    return function


def _scipy(function: Callable[[Array], tuple[float, Array]], X0: Array, tol: float, keeper: Keeper) -> None:
    from scipy.optimize import minimize as scipy_minimize

    first = float(np.linalg.norm(function(X0)[1]))

    def flat(x: Array) -> tuple[float, Array]:
        value, gradient = function(x.reshape(X0.shape))
        return value, gradient.ravel()

    # The largest entry of a gradient is at least its norm over √(size).
    options = {"maxiter": 10**6, "maxfun": 10**6, "ftol": 0.0, "gtol": tol * first / np.sqrt(X0.size)}
    with contextlib.suppress(Enough):
        scipy_minimize(
            flat, X0.ravel(), jac=True, method="L-BFGS-B", callback=lambda x: keeper.keep(x.reshape(X0.shape)),
            options=options,
        )  # fmt: skip


def pymanopt_method(
    manifold_name: str, optimizer_name: str, numpy: bool = False
) -> Callable[[Helix, int, float, Keeper], None]:
    """Return a run of pymanopt with our compiled gradient and second derivative, or with what a user would write."""

    def run(case: Helix, seed: int, tol: float, keeper: Keeper) -> None:
        try:
            import pymanopt
            from pymanopt import manifolds, optimizers
        except ImportError:
            raise ImportError("pymanopt is not installed (pip install 'quartic[bench]')") from None
        loss = case.loss()
        X0 = start(loss, seed)
        goal = tol * float(np.linalg.norm(loss.at(X0).gradient))
        manifold = getattr(manifolds, manifold_name)(case.n, RANK)

        own = _in_numpy(case)

        def cost(X: Array) -> float:
            return own(X)[0] if numpy else loss.at(X).value

        def gradient(X: Array) -> Array:
            G = own(X)[1] if numpy else loss.at(X).gradient
            keeper.keep(X)
            if np.linalg.norm(G) < goal:
                raise Enough
            return G

        def hessian(X: Array, D: Array) -> Array:
            return loss.hessian_product(loss.at(X), D)

        known = pymanopt.function.numpy(manifold)
        second = None if numpy else known(hessian)
        problem = pymanopt.Problem(manifold, known(cost), euclidean_gradient=known(gradient), euclidean_hessian=second)
        optimizer = getattr(optimizers, optimizer_name)(
            verbosity=0, max_iterations=10**6, max_time=1e9, min_gradient_norm=0.0, min_step_size=0.0
        )
        with contextlib.suppress(Enough):
            optimizer.run(problem, initial_point=X0)

    return run


def sklearn_mds(case: Helix, seed: int, tol: float, keeper: Keeper) -> None:
    """Run scikit-learn's metric MDS (SMACOF), which minimises the stress of a complete matrix of distances."""
    import inspect

    from sklearn.manifold import MDS

    D = _complete(case, "scikit-learn's MDS (SMACOF) needs all distances")
    settings: dict[str, Any] = {"n_init": 1, "max_iter": 3000, "eps": 1e-12, "random_state": seed}
    # The names of these settings differ between versions.
    known = inspect.signature(MDS).parameters
    settings |= (
        {"metric": "precomputed", "init": "random"} if "metric_mds" in known else {"dissimilarity": "precomputed"}
    )
    if "normalized_stress" in known:
        settings["normalized_stress"] = False
    keeper.keep(MDS(RANK, **settings).fit_transform(D))


def networkx_layout(case: Helix, seed: int, tol: float, keeper: Keeper) -> None:
    """Run NetworkX's Kamada–Kawai layout, for complete distances; it loses their unit, which is put back."""
    import networkx as nx

    D = _complete(case, "networkx's Kamada–Kawai layout needs all distances (shortest paths stand in for unknown ones)")
    if case.n > 150:
        raise CannotDo("networkx's Kamada–Kawai layout takes over a minute on so many points")
    rows = {a: dict(enumerate(row)) for a, row in enumerate(D.tolist())}
    scale = float(np.abs(D).max())
    X0 = np.random.default_rng(seed).standard_normal((case.n, RANK)) * scale / 4
    found = nx.kamada_kawai_layout(nx.complete_graph(case.n), dist=rows, pos=dict(enumerate(X0)), dim=RANK)
    X = np.array([found[a] for a in range(case.n)])
    i, j = case.pairs.T
    d = np.linalg.norm(X[i] - X[j], axis=1)
    keeper.keep(X * float(d @ np.sqrt(case.squared)) / float(d @ d))


def _complete(case: Helix, why: str) -> Array:
    if len(case.pairs) < case.n * (case.n - 1) // 2:
        raise CannotDo(why)
    D = np.zeros((case.n, case.n))
    i, j = case.pairs.T
    D[i, j] = D[j, i] = np.sqrt(case.squared)
    return D


PEERS: dict[str, Callable[[Helix, int, float, Keeper], None]] = {
    "quartic auto": quartic_solver("auto"),
    "quartic dyn-nolips": quartic_solver("dyn-nolips"),
    "quartic.DistanceCompletion": quartic_estimator,
    "scipy L-BFGS-B, our gradient": scipy_lbfgsb,
    "scipy L-BFGS-B, NumPy gradient": scipy_numpy,
    "pymanopt PSDFixedRank, CG": pymanopt_method("PSDFixedRank", "ConjugateGradient"),
    "pymanopt PSDFixedRank, TR": pymanopt_method("PSDFixedRank", "TrustRegions"),
    "pymanopt Euclidean, CG": pymanopt_method("Euclidean", "ConjugateGradient"),
    "pymanopt Euclidean, TR": pymanopt_method("Euclidean", "TrustRegions"),
    "pymanopt PSDFixedRank, CG, NumPy gradient": pymanopt_method("PSDFixedRank", "ConjugateGradient", numpy=True),
    "pymanopt Euclidean, CG, NumPy gradient": pymanopt_method("Euclidean", "ConjugateGradient", numpy=True),
    "scikit-learn MDS (SMACOF)": sklearn_mds,
    "networkx Kamada–Kawai": networkx_layout,
}
