"""Where a search may begin."""

from __future__ import annotations

from dataclasses import dataclass

from quartic.arrays import Array, inner, squared_norm
from quartic.init import eigenmap_start, shortest_path_start
from quartic.locating.part import Part, Search, principal_axes
from quartic.penalties import Penalty

# Shortest paths between all points are stored up to this many of them.
_ALL_PATHS = 3000
# Steps in the larger space: it is a way, not an aim.
_LOOSE, _STEPS = 1e-5, 100


def shortest_paths(search: Search, rank: int, landmarks: bool) -> Array:
    """Return multidimensional scaling of shortest paths, rescaled."""
    part = search.part
    n_landmarks = 50 if landmarks or part.n > _ALL_PATHS else None
    if part.n > 20_000:  # a path from each landmark to all points is the cost
        n_landmarks = 20
    X = shortest_path_start(
        part.pairs[part.links], part.guess[part.links], part.n, rank, search.generator, n_landmarks=n_landmarks
    )
    return part.loss.best_scale(search.usable(X))


def within_bounds(search: Search, rank: int) -> Array:
    """Return scaling of shortest paths with distances drawn within their bounds, by way of some more dimensions."""
    part, generator = search.part, search.generator
    links = part.links
    drawn = generator.uniform(part.lower[links], part.upper[links])
    extra, noise = int(generator.integers(1, 5)), float(generator.choice([0.3, 1.0, 2.0]))
    n_landmarks = None if part.n <= _ALL_PATHS else 50
    X = shortest_path_start(part.pairs[links], drawn, part.n, rank + extra, generator, n_landmarks=n_landmarks)
    X += noise * part.size * generator.standard_normal(X.shape)
    return principal_axes(search.run(X, tol=1e-6, max_iter=60).X, rank)


def eigenmap(search: Search, rank: int) -> Array:
    """Return the smoothest functions on the graph, fitted to the distances, rescaled."""
    part = search.part
    X = eigenmap_start(part.pairs[part.links], part.guess[part.links], part.n, rank, search.generator)
    return part.loss.best_scale(search.usable(X))


def random(search: Search, rank: int) -> Array:
    """Return a Gaussian cloud, rescaled."""
    return search.part.loss.random_start(rank, False, search.generator)


def relaxed(search: Search, rank: int, first: Array | None = None) -> Array:
    """Return the principal axes of a solution in two dimensions more, where there are fewer local minima.

    On the way −½μ‖X‖² keeps the points unfolded, with μ going to 0; bounds do without, their loss being no quartic.
    """
    part = search.part
    X = random(search, rank + 2) if first is None else first
    if part.loss.quadratic:
        stiffness = _stiffness(part, X)
        for share in (1e-2, 1e-3):
            X = search.run(X, penalty=Unfolding(share * stiffness), solver="lbfgs", tol=1e-3, max_iter=_STEPS).X
            X = X - X.mean(axis=0)
    X = search.run(X, tol=_LOOSE, max_iter=_STEPS).X
    return principal_axes(X, rank)


def _stiffness(part: Part, X: Array) -> float:
    """Return the mean diagonal entry of JᵀWJ."""
    _, blocks = part.loss.linearize(X)
    diagonal = [k * (k + 3) // 2 for k in range(X.shape[1])]
    return float(blocks[:, diagonal].mean())


@dataclass(frozen=True)
class Unfolding(Penalty):
    """The reward g(X) = −½μ‖X − mean‖² for points that are far apart.

    Parameters
    ----------
    weight : float
        μ, positive.
    """

    weight: float

    smooth = True
    convex = False

    def value(self, X: Array) -> float:
        """Return −½μ‖X − mean‖²."""
        return -0.5 * self.weight * squared_norm(X - X.mean(axis=0))

    def prox(self, V: Array, t: float) -> Array:
        """Return the stationary point of t g(U) + ½‖U − V‖², its minimiser where tμ < 1."""
        mean = V.mean(axis=0)
        moved: Array = mean + (V - mean) / (1 - t * self.weight)
        return moved

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return ∇f − μ(X − mean)."""
        found: Array = gradient - self.weight * (X - X.mean(axis=0))
        return found

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f − μ(X − mean)."""
        return self.stationarity(X, gradient)

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return a and b of g(X + tD) = g(X) + at + bt²."""
        D = D - D.mean(axis=0)
        return -self.weight * inner(X - X.mean(axis=0), D), -0.5 * self.weight * squared_norm(D)

    def change(self, X: Array, Y: Array) -> float:
        """Return g(Y) − g(X)."""
        D = (Y - Y.mean(axis=0)) - (X - X.mean(axis=0))
        return -0.5 * self.weight * inner(D, 2 * (X - X.mean(axis=0)) + D)
