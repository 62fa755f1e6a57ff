"""
MaxCut by a semidefinite relaxation
===================================

Colour the nodes of a graph with two colours so that as many edges as possible join different ones. That is NP-hard; its
semidefinite relaxation, max ¼⟨L, Y⟩ over Y ⪰ 0 with ones on the diagonal, is not, and random hyperplanes turn its
solution into cuts (Goemans and Williamson). With the diagonal penalised the relaxation is a quadratic of Y = XXᵀ,

    ½ρ Σ(Y_ii − 1)² − ¼⟨L, Y⟩,

and so a `~quartic.losses.Quadratic` loss. Rows of X, scaled to unit length, are feasible, and ρ(Y_ii − 1) are nearly
the multipliers of the constraints: made feasible, they bound every cut there is from above.

Two graphs whose largest cut is known: a grid on a torus with even sides, where all edges can be cut, and Petersen's
graph, where 12 of 15 can, and the relaxation has the value 12½.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from quartic import Problem, minimize
from quartic.losses import Quadratic


def torus(side: int) -> sp.csr_array:
    """Return the adjacency matrix of a side × side grid whose edges wrap around."""
    ring = sp.csr_array(np.roll(np.eye(side), 1, axis=1))
    ring = ring + ring.T
    eye = sp.eye_array(side, format="csr")
    return sp.csr_array(sp.kron(ring, eye) + sp.kron(eye, ring))


def petersen() -> sp.csr_array:
    """Return the adjacency matrix of Petersen's graph: an outer pentagon, an inner pentagram, five spokes."""
    edges = [(k, (k + 1) % 5) for k in range(5)]
    edges += [(5 + k, 5 + (k + 2) % 5) for k in range(5)]
    edges += [(k, k + 5) for k in range(5)]
    i, j = np.array(edges).T
    W = sp.csr_array((np.ones(15), (i, j)), shape=(10, 10))
    return sp.csr_array(W + W.T)


class Cut(NamedTuple):
    """A cut, and what is known of all others: no cut is larger than ``bound``."""

    side: np.ndarray
    size: float
    relaxation: float
    bound: float


def largest_cut(W: sp.csr_array, *, rank: int | None = None, rho: float = 100.0, seed: int = 0) -> Cut:
    """Return the best of a hundred roundings of the relaxation's solution."""
    n = W.shape[0]
    degree = np.asarray(W.sum(axis=1)).ravel()
    quarter = sp.csr_array(sp.diags_array(degree) - W) / 4  # ¼L: ⟨¼L, xxᵀ⟩ is the size of the cut x ∈ {−1, 1}ⁿ
    eye = sp.eye_array(n, format="csr")
    # with r(r + 1)/2 > n the factorised problem has, but for rare graphs, no minima that the relaxation has not
    rank = int(np.ceil(np.sqrt(2 * n))) + 1 if rank is None else rank
    loss = Quadratic(rho * eye, -quarter - rho * eye)
    X = minimize(Problem(loss), rank=min(rank, n), tol=1e-7, random_state=seed).X
    multipliers = rho * ((X**2).sum(axis=1) - 1)
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    # diag(d) ⪰ ¼L makes Σd a bound; the multipliers need but a small shift for that
    gap = quarter - sp.diags_array(multipliers)
    shift = np.linalg.eigvalsh(gap.toarray())[-1] if n < 500 else eigsh(gap, k=1, which="LA")[0][0]
    sides = np.sign(U @ np.random.default_rng(seed).standard_normal((U.shape[1], 100)))
    sizes = np.einsum("ik,ik->k", sides, quarter @ sides)
    best = int(sizes.argmax())
    relaxation = float(np.einsum("ij,ij->", U, quarter @ U))
    return Cut(sides[:, best], float(sizes[best]), relaxation, float(multipliers.sum() + n * max(shift, 0.0)))


def run(side: int = 20, seed: int = 0) -> tuple[Cut, Cut, object]:
    """Return the cuts of the torus and of Petersen's graph, and a figure of the first (None without matplotlib)."""
    cut = largest_cut(torus(side), seed=seed)
    return cut, largest_cut(petersen(), seed=seed), draw(cut, side)


def draw(cut: Cut, side: int) -> object:
    """Return the two colours on the torus: a chequerboard where the cut is the largest."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(cut.side.reshape(side, side), cmap="cividis")
    axes.set_title(f"{cut.size:g} of {2 * side * side} edges cut; no cut has more than {cut.bound:.2f}")
    axes.set_axis_off()
    return figure


if __name__ == "__main__":
    grid, small, picture = run()
    for name, found in (("torus", grid), ("Petersen", small)):
        print(f"{name}: cut {found.size:g}, relaxation {found.relaxation:.4f}, no cut above {found.bound:.4f}")
    if picture is not None:
        picture.savefig("maxcut.png", dpi=150)
        print("maxcut.png")
