"""SMACOF: raw stress by majorisation (de Leeuw 1977), also with few distances known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from quartic.arrays import Array, check_number
from quartic.core.problem import Problem
from quartic.losses import Loss, RawStress
from quartic.solvers.base import Requirements, Solver, State

# The factors of V, for each loss that is alive.
_factors: WeakKeyDictionary[Loss, Any] = WeakKeyDictionary()


@dataclass(frozen=True)
class OfRawStress(Requirements):
    """Raw stress without a penalty, of pairs in the host's memory."""

    def unmet(self, problem: Problem) -> str | None:
        """Return what is missing, in words, or None."""
        loss, penalty = problem.loss, problem.penalty
        if not isinstance(loss, RawStress) or not loss.pairs.listed:
            return f"the loss RawStress with NumPy data, but it is {type(loss).__name__}"
        if penalty.ridge != 0.0:
            return f"no penalty, but it is {type(penalty).__name__}"
        return None


@dataclass(frozen=True)
class SMACOF(Solver):
    """X⁺ = X − ω V⁺∇f(X), with V the graph Laplacian of the weights, and V⁺ its pseudo-inverse.

    V bounds raw stress from above: f(Y) ≤ f(X) + ⟨∇f(X), Y − X⟩ + ½⟨Y − X, V(Y − X)⟩ for all X and Y, since
    ‖y_i − y_j‖ is at least the length of its projection to the old direction. Its minimiser is Guttman's transform,
    ω = 1; f falls for every ω below 2, and near 2 it falls fastest (de Leeuw and Heiser 1980).

    Parameters
    ----------
    relaxation : float, default=1.0
        ω, above 0 and below 2.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import RawStress
    >>> loss = RawStress([[0, 1], [1, 2], [0, 2]], [3.0, 4.0, 5.0])
    >>> minimize(Problem(loss), rank=2, solver="smacof", tol=1e-6, random_state=0).objective < 1e-9
    True
    """

    name = "smacof"
    requires = OfRawStress()

    relaxation: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.relaxation, "relaxation", below=2.0)

    def init(self, problem: Problem, X0: Array) -> State:
        """Return the state at X0."""
        return State(problem.loss.at(X0))

    def step(self, problem: Problem, state: State) -> State:
        """Return Guttman's transform, or beyond it."""
        p = state.point
        D = -_solve(problem.loss, p.gradient)
        return State(problem.loss.at(p.X + self.relaxation * D), step=self.relaxation)


def _solve(loss: Any, G: Array) -> Array:
    """Return a Z with VZ = G, where the columns of G sum to 0 over each connected component."""
    if loss not in _factors:
        w = np.ones(loss.n_pairs) if loss.weight is None else np.asarray(loss.weight, np.float64)
        n, rows, cols = loss.n_points, loss.rows, loss.cols
        W = sp.coo_array((w, (rows, cols)), (n, n)).tocsr()
        W = W + W.T
        held = np.unique(connected_components(W, directed=False)[1], return_index=True)[1]
        free = np.setdiff1d(np.arange(n), held)  # one point of each component stays where it is
        V = sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W
        factor = splu(V.tocsc()[free][:, free].tocsc(), permc_spec="MMD_AT_PLUS_A") if len(free) else None
        _factors[loss] = free, factor
    free, factor = _factors[loss]
    Z: Array = np.zeros_like(G)
    if factor is not None:
        Z[free] = factor.solve(np.asarray(G[free], np.float64))
    Z -= Z.mean(axis=0)
    return Z
