"""One connected component of the data: its loss, how well points fit it, and runs on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaincinv

from quartic.arrays import Array, RandomState, norm, to_host
from quartic.core.loop import Progress, minimize
from quartic.core.problem import Problem
from quartic.core.result import Result, Status
from quartic.datasets.points import lengths_between
from quartic.distance.bodies import ProvingCore
from quartic.distance.cuts import Cut, OtherAnswer, rigid_motion
from quartic.distance.data import Measurements
from quartic.distance.determination import LIKELY, MOVED
from quartic.distance.graph import Indices, Mask, PairGraph, mask_of
from quartic.distance.noise import FLAT_WHOLE, noise_explains
from quartic.losses import Anchored, BoundedDistances, Distances, RawStress
from quartic.solvers import Solver

# Distances met to this, relative to their size, are met: what remains is what the solver's tolerance leaves. Bounds are
# met at their rim, where steps grow short.
_EXACT, _WITHIN, _NEARLY = 1e-7, 1e-5, 1e-4
# A pair is an outlier when its error is so many times the typical one, and the noise that is known; few may be so by
# chance.
OUTLIER, _FEW = 6.0, 1e-3
# The loss alone tells that all is met where it is that of relative errors of squares of this size.
_TINY_LOSS = 1e-8
# Pairs that are enough to tell what is typical.
_SAMPLE = 5000
# A misfit is above the noise that was given where noise would leave as much only once in ten thousand fits.
_SURE = 0.9999
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Component(Measurements):
    """Measurements that are all linked, points numbered from 0, and how well points fit them.

    ``noise`` is the standard deviation of that on the distances, where it is known; ``core`` the points that prove that
    no piece of the graph hangs on few others; ``held`` are points that runs hold, and where.
    """

    noise: float | None = None
    core: ProvingCore | None = None
    held: tuple[NDArray[np.int64], Array] | None = None

    @classmethod
    def of_all(cls, data: Measurements, noise: float | None, core: ProvingCore | None) -> Component:
        """Return all of the data, as if it were one component."""
        columns = {column.name: getattr(data, column.name) for column in fields(Measurements)}
        return cls(**columns, noise=noise, core=core)

    @cached_property
    def loss(self) -> Distances | BoundedDistances:
        """The loss of squared distances."""
        if not self.bounded:
            return Distances(self.pairs, self.lower**2, self.n_points, self.weights)
        return BoundedDistances(self.pairs, self.lower**2, self.upper**2, self.n_points, self.weights)

    def restricted_to(self, points: NDArray[np.int64]) -> Component:
        """Return the data among some points, in ascending order, which are numbered so."""
        number = np.empty(self.n_points, dtype=np.int64)
        number[points] = np.arange(len(points))
        return self.with_pairs(self.among(points), number, len(points))

    def among(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the links among some points, in ascending order."""
        return np.sort(sp.triu(self.adjacency[points][:, points]).data.astype(np.int64)) - 1

    def with_pairs(self, mine: NDArray[np.int64], number: NDArray[np.int64], n: int) -> Component:
        """Return the pairs with these numbers, point i called ``number[i]``."""
        pairs = np.sort(number[self.pairs[mine]], axis=1)
        columns = self.lower[mine], self.upper[mine], self.guess[mine]
        weights = None if self.weights is None else self.weights[mine]
        return Component(n, pairs, *columns, weights, power=self.power, noise=self.noise)

    @cached_property
    def stress(self) -> RawStress:
        """The loss of distances; weights are those of squares, to first order."""
        weights = None if self.weights is None else 4 * self.guess**2 * self.weights
        if weights is not None and not weights.any():
            weights = None
        return RawStress(self.pairs, self.lower, self.upper, self.n_points, weights)

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """The graph of the links; its entries are the numbers of the pairs, plus one."""
        i, j = self.pairs[self.linked].T
        number = np.flatnonzero(self.linked) + 1.0
        upper = sp.coo_array((number, (i, j)), shape=(self.n_points, self.n_points)).tocsr()
        return sp.csr_array(upper + upper.T)

    def errors(self, X: Array) -> Array:
        """Return by how much each distance misses its bounds, with sign."""
        d = lengths_between(X, self.pairs)
        d -= np.clip(d, self.lower, self.upper) if self.bounded else self.lower
        return d

    def that_count(self, errors: Array) -> Array:
        """Return the errors of the pairs that count; 0 for those of weight 0."""
        return errors if self.weights is None else errors * self.counts

    def are_met(self, errors: Array, exact: float = _EXACT) -> bool:
        """Tell whether all distances are met, as far as a solver's tolerance allows; of bounds, each by itself.

        One bound that cannot be met with the others leaves next to nothing in the mean of thousands.
        """
        if self.bounded:
            return float(np.abs(self.that_count(errors)).max()) <= _WITHIN * self.size
        return self.root_mean_square(errors) <= exact * self.size

    def are_nearly_met(self, errors: Array) -> bool:
        """Tell whether the misfit is so small that it will probably vanish."""
        return self.root_mean_square(errors) <= _NEARLY * self.size

    def root_mean_square(self, errors: Array) -> float:
        """Return that of the errors of pairs that count."""
        counted = self.that_count(errors)
        return float(np.sqrt(counted @ counted / len(counted)))

    def outliers(self, errors: Array) -> NDArray[np.bool_]:
        """Return the pairs that are missed by far more than the others are, absolutely, for their length and by weight.

        Noise may go with the distance or not, and squares let long distances rule; none of that does both. Weights say
        how much noise there is on each square. Where the noise is known it decides too: of few distances most may be
        met, and the others by no more than noise misses.
        """
        errors, size = np.abs(self.that_count(errors)), max(self.size, _TINY)
        # of bounds most are kept, and say nothing of the others; a distance that is met to the last digit does
        missed = np.flatnonzero(errors if self.bounded else self.counts)
        some, found = missed[:: max(1, len(missed) // _SAMPLE)], missed
        if self.noise is not None:
            found = missed[errors[missed] > OUTLIER * self.noise]
        scales: list[Callable[[Indices], Array | float]] = [
            lambda at: 1 / size,
            lambda at: 1 / np.maximum(self.guess[at], 0.05 * size),
        ]
        if self.weights is not None:
            w = self.weights
            mean = max(float(np.sqrt(np.mean(self.guess[some] ** 2 * w[some]))) if len(some) else 0.0, _TINY)
            scales.append(lambda at: self.guess[at] * np.sqrt(w[at]) / (mean * size))
        for scale in scales:
            typical = 1.4826 * float(np.median(errors[some] * scale(some))) if len(some) else 0.0
            found = found[errors[found] * scale(found) > OUTLIER * max(typical, _EXACT)]
        return mask_of(found, len(errors))

    def are_suspect(self, errors: Array) -> bool:
        """Tell whether the misfit looks like folds and flips rather than like noise."""
        return float(self.outliers(errors).mean()) > _FEW

    def is_explained(self, X: Array, errors: Array, generator: np.random.Generator) -> bool | None:
        """Tell whether the misfit is round-off or what noise leaves; None where the data do not show the noise."""
        if self.are_met(errors):
            return True
        if self.are_suspect(errors):
            return False
        if self.noise is not None:
            quantile = 2 * float(gammaincinv(len(self.pairs) / 2, _SURE))  # of the χ² distribution
            return float(np.sum(self.that_count(errors) ** 2)) <= self.noise**2 * quantile
        if self.bounded:
            return None
        return noise_explains(self.pairs, self.guess, self.weights, X, generator)

    @cached_property
    def graph(self) -> PairGraph:
        """The graph of the distances that are known."""
        return PairGraph.from_pairs(self.fixing_pairs, self.n_points)


@dataclass(frozen=True)
class Settings:
    """The parameters of `DistanceCompletion` that a fit depends on, and when it ends; ``device`` is one of torch's."""

    n_components: int
    solver: str | Solver = "auto"
    init: Any = "auto"
    n_init: int = 1
    tol: float = 1e-8
    max_iter: int = 10_000
    max_time: float | None = None
    n_jobs: int | None = None
    device: Any = None
    random_state: RandomState = None
    verbose: bool = False
    align_to: Any = None
    signs: Any = None
    refine: str | None = None
    noise: float | None = None
    robust: bool = False
    cleaned: bool = False  # distances that contradict the others are left out
    approximate: bool = False  # the distances are right, and fewer dimensions than they need are wanted
    deadline: float = np.inf
    callback: Callable[[Progress], object] | None = None
    told: list[Status] = field(default_factory=list)  # what ended a run that was told to stop: Ctrl-C or the callback

    def __reduce__(self) -> Any:  # who watches and interrupts here does not do so in another process
        return Settings, tuple(getattr(self, each.name) for each in fields(self)[:-2])

    def begin(self) -> Settings:
        """Return the same, the time that is allowed running from now on."""
        if self.max_time is None or self.deadline < np.inf:  # or it runs already
            return self
        return replace(self, deadline=time.perf_counter() + self.max_time)

    def spent(self) -> bool:
        """Tell whether the search is to end with what it has: the time is up, or it was told to stop."""
        return time.perf_counter() >= self.deadline or self.stopped()

    def watch(self, progress: Progress) -> None:
        """Show the user an iteration of a run; who raises StopIteration ends the whole search."""
        assert self.callback is not None
        try:
            self.callback(progress)
        except StopIteration:
            self.told.append(Status.CALLBACK)
            raise

    def stopped(self) -> bool:
        """Tell whether it was told to stop, by Ctrl-C or by the callback."""
        return bool(self.told)


@dataclass(eq=False)
class Search:
    """Runs on one component, and what they led to: the lowest so far, what was done, whether the misfit is explained.

    ``drawn`` is a random start: the tolerance of a run from it refers to its own gradient. ``cuts`` are the flat cuts
    of a result, ``_missed`` by how much a result misses the distances.
    """

    component: Component
    effort: Settings
    generator: np.random.Generator
    best: Result | None = None
    n_iter: int = 0
    n_products: int = 0
    steps: list[str] = field(default_factory=list)
    explained: bool = False
    others: list[OtherAnswer] = field(default_factory=list)
    in_place: bool | None = None
    drawn: Array | None = None
    cuts: tuple[Result | None, list[Cut]] = (None, [])
    _missed: tuple[Result | None, Array] = (None, np.empty(0))

    @cached_property
    def reference(self) -> float:
        """The gradient at a random start: what the tolerance refers to, whatever the start."""
        return gradient_at_random(self.component.loss, self.effort.n_components)

    @cached_property
    def loss(self) -> Distances | BoundedDistances:
        """The loss of the component, on the device where runs are to be made."""
        component, device = self.component, self.effort.device
        if device is None or component.bounded or component.held is not None:
            return component.loss
        import torch

        columns = (component.pairs, component.lower**2, component.weights)
        pairs, squared, weights = (None if A is None else torch.from_numpy(A).to(device) for A in columns)
        return Distances(pairs, squared, component.n_points, weights)

    def run(self, X: Array, *, tol: float | None = None, max_iter: int | None = None, loss: Any = None) -> Result:
        """Minimise from X, in as many dimensions as X has.

        Anchors are held, where there are any. Another ``loss`` than that of squares takes solvers for it alone.
        """
        effort, X, anchors = self.effort, self.usable(X), self.component.held
        reference = self.reference if loss is None and X is not self.drawn else None
        if loss is not None:
            reference = gradient_at_random(loss, effort.n_components)
        solver = "auto" if isinstance(loss, RawStress) else effort.solver
        loss = self.loss if loss is None else loss
        problem, start = Problem(loss), loss.space.adopt(X)
        if anchors is not None:
            places = np.zeros((len(anchors[0]), X.shape[1]))
            places[:, : anchors[1].shape[1]] = anchors[1]
            center = places.mean(axis=0)
            held = Anchored(loss, anchors[0], places - center)
            start = (X - center)[held.free]
            problem, start = Problem(held), start if start.any() else start + 1e-3
        most = effort.max_iter if max_iter is None else min(max_iter, effort.max_iter)
        result = minimize(
            problem, start, solver=solver, tol=effort.tol if tol is None else tol, reference=reference,
            max_iter=0 if effort.stopped() else most,
            max_time=None if np.isinf(effort.deadline) else max(effort.deadline - time.perf_counter(), 1e-3),
            callback=None if effort.callback is None else effort.watch, verbose=effort.verbose,
        )  # fmt: skip
        if result.status is Status.INTERRUPTED:
            effort.told.append(result.status)
        self.n_iter += result.n_iter
        self.n_products += result.n_products
        X = to_host(result.X)
        if anchors is not None:
            X = held.fill(X) + center
            X[held.anchors] = places
        return replace(result, X=X)

    def flatten(self, X: Array, rank: int) -> Array:
        """Return X in the space of its first principal axes, onto the anchors that runs hold."""
        return self.onto_anchors(turn_to_principal_axes(X, rank))

    def onto_anchors(self, X: Array) -> Array:
        """Return X, moved as a whole onto the anchors where runs hold some."""
        return X if self.component.held is None else move_onto(X, *self.component.held)

    def usable(self, X: Array) -> Array:
        """Return X, with the least noise where all points, or many, are in one place and nothing could move."""
        spread = float(np.abs(X - X[:1]).max(initial=0.0))
        if spread > 0:
            return X
        noise: Array = X + self.component.size * self.generator.standard_normal(X.shape)
        return noise

    def offer(self, result: Result) -> bool:
        """Keep the result if it is the lowest; tell whether it is lower by at least a hundredth."""
        before = self.best_objective
        if result.objective < before or self.best is None:
            self.best = result
        return result.objective < 0.99 * before

    @property
    def X(self) -> Array:
        """The best points so far."""
        assert self.best is not None
        return self.best.X

    @property
    def best_objective(self) -> float:
        """Their loss."""
        return np.inf if self.best is None else self.best.objective

    @property
    def errors(self) -> Array:
        """By how much they miss each distance."""
        if self._missed[0] is not self.best:
            self._missed = self.best, self.component.errors(self.X)
        return self._missed[1]

    def is_explained(self) -> bool | None:
        """Tell whether their misfit is round-off or what noise leaves; None where the data do not show the noise."""
        return self.component.is_explained(self.X, self.errors, self.generator)

    def fits_as_well(self, objective: float, X: Array, exact: float = _EXACT) -> bool:
        """Tell whether other points are as likely as the best: all met as well, or not missed by more than noise tells.

        Twice the logarithms of the likelihoods differ by RSS / σ²; where the noise is unknown, by RSS · freedom / RSS₀.
        Distances met to ``exact`` are met no worse by the other.
        """
        component = self.component
        here, there = self.errors, component.errors(X)
        if component.noise is None and component.are_met(here):
            return component.are_met(there, exact if component.are_met(here, exact) else _EXACT)
        squares, others = (float(np.sum(component.that_count(errors) ** 2)) for errors in (here, there))
        if component.noise is not None:
            return others <= squares + LIKELY * component.noise**2
        freedom = max(len(component.pairs) - self.effort.n_components * component.n_points, 1)
        likely = 1 + LIKELY / freedom
        return objective <= likely * self.best_objective or others <= likely * squares

    def answer(self, X: Array, piece: Mask | None = None) -> OtherAnswer:
        """Return other points as another answer, which differs from the best by reflecting a piece, say."""
        component, everyone = self.component, np.arange(len(X))
        least = max(4 * component.root_mean_square(self.errors), OUTLIER * (component.noise or 0.0))
        # points that are nearly in special position meet distances nearly in many ways, all points a little elsewhere
        folded = piece is None and component.noise is None and component.are_met(self.errors)
        piece = np.zeros(len(X), dtype=bool) if piece is None else piece
        return OtherAnswer(self.X, X, max(least, MOVED * component.size), everyone, piece, folded)

    def note(self, text: str) -> None:
        """Write down a step, and how well the best points meet the distances now."""
        rmse = self.component.tell(self.component.root_mean_square(self.errors), 2)
        self.steps.append(f"{text} (rmse {rmse}{', all met' if self.is_met() else ''})")

    def is_met(self) -> bool:
        """Tell whether the best points meet all distances, from the loss alone where it is as small as can be."""
        return self.has_loss_of(_TINY_LOSS) or self.component.are_met(self.errors)

    def has_loss_of(self, error: float) -> bool:
        """Tell whether the loss is no more than that of relative errors of squares of this size; False if weighted."""
        component = self.component
        most = 0.5 * len(component.pairs) * (error * component.size**2) ** 2
        return component.weights is None and not component.bounded and self.best_objective <= most

    def stands_in_place(self) -> bool:
        """Tell that no piece of a well-linked graph can be reflected where the best points are."""
        if self.component.core is not None:
            misfit = self.component.root_mean_square(self.errors) / self.component.size
            self.in_place = self.component.core.stands_in_place(self.X, self.component.fixing_pairs, misfit)
        return bool(self.in_place)

    def lie_flat(self) -> None:
        """Offer points that lie nearly in a hyperplane as found within it: across it squares are flat, steps short."""
        X, rank = self.X - self.X.mean(axis=0), self.effort.n_components
        extent = np.linalg.eigvalsh(X.T @ X)
        flat = int(np.count_nonzero(extent > FLAT_WHOLE**2 * extent[-1]))
        if 0 < flat < rank and self.component.held is None:
            within = self.run(turn_to_principal_axes(X, flat))
            self.offer(replace(within, X=np.pad(within.X, ((0, 0), (0, rank - flat)))))

    def done(self) -> bool:
        """Tell whether nothing is left to be gained, or no time."""
        return self.best is not None and (self.effort.spent() or self.is_met())


def gradient_at_random(loss: Any, rank: int) -> float:
    """Return the size of the gradient at a random start."""
    return norm(loss.at(loss.random_start(rank, False, np.random.default_rng(0))).gradient)


def turn_to_principal_axes(X: Array, rank: int | None = None) -> Array:
    """Return X centred and turned to its principal axes, the first ``rank`` of them, with signs always the same.

    The entry of largest size in each column is positive.
    """
    X = X - X.mean(axis=0)
    _, axes = np.linalg.eigh(X.T @ X)
    Y: Array = X @ axes[:, ::-1][:, : X.shape[1] if rank is None else rank]
    largest = np.abs(Y).argmax(axis=0)
    return Y * np.where(Y[largest, np.arange(Y.shape[1])] < 0, -1.0, 1.0)


def move_onto(X: Array, at: NDArray[np.int64], places: Array) -> Array:
    """Return X moved as a whole so that its rows ``at`` come nearest to ``places``."""
    Q, x, y = rigid_motion(X[at], places)
    moved: Array = (X - x) @ Q + y
    return moved


def spans_space(places: Array) -> bool:
    """Tell whether points extend in all directions of their space."""
    extent = np.linalg.svd(places - places.mean(axis=0), compute_uv=False)
    return bool(np.count_nonzero(extent > 1e-9 * extent[0]) == places.shape[1])


# Anchors are linked to each other, all of them up to this many, else each to so many others.
_ALL_LINKED, _LINKS = 40, 12


def find_components(data: Measurements) -> NDArray[np.int64]:
    """Return the component of each point, 0 for the largest; anchors hang together."""
    i, j = data.pairs[data.linked].T
    if len(data.anchors):
        first = np.full(len(data.anchors), data.anchors[0])
        i, j = np.concatenate([i, first]), np.concatenate([j, data.anchors])
    return PairGraph.from_pairs(np.column_stack([i, j])[i != j], data.n_points).components()


def add_anchor_pairs(data: Component) -> Component:
    """Return the data with pairs between anchors added, or replaced, by the distances of their places."""
    a = len(data.anchors)
    if a <= _ALL_LINKED:
        at = np.column_stack(np.triu_indices(a, 1))
    else:
        generator = np.random.default_rng(0)
        at = np.column_stack([np.repeat(np.arange(a), _LINKS), generator.integers(a, size=a * _LINKS)])
        at = np.unique(np.sort(at[at[:, 0] != at[:, 1]], axis=1), axis=0)
    place = mask_of(data.anchors, data.n_points)
    kept = ~place[data.pairs].all(axis=1)
    d = np.linalg.norm(data.places[at[:, 0]] - data.places[at[:, 1]], axis=1)
    lower, upper, guess = (np.concatenate([column[kept], d]) for column in (data.lower, data.upper, data.guess))
    weights = data.weights
    if weights is not None:
        weights = np.concatenate([weights[kept], np.full(len(d), float(weights.max()))])
    pairs = np.concatenate([data.pairs[kept], data.anchors[at]])
    return replace(data, pairs=pairs, lower=lower, upper=upper, guess=guess, weights=weights)
