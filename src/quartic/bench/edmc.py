"""Distance completion on the paper's helix: the problem, the methods, and one run with its curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.bench.curves import Thinning
from quartic.bench.watch import Watch
from quartic.core.loop import Progress, minimize
from quartic.core.problem import Problem
from quartic.datasets import helix, random_pairs
from quartic.kernels import NormKernel
from quartic.losses import Distances
from quartic.metrics import normalized_rmse

RANK = 3
#: The paper's methods, by our names; the Gram kernel is what Dyn-NoLips takes by default where X is free.
PAPER_METHODS = {"dyn-nolips": "Dyn-NoLips", "dyn-nolips-gram": "Dyn-NoLips-Gram", "gd": "GD", "tr": "TR"}
OUR_METHODS = ("lm", "ncg", "lbfgs", "auto")
METHODS = (*PAPER_METHODS, *OUR_METHODS)

# Known distances are found again to rounding; below this there is nothing to see.
_TARGET = 1e-9


@dataclass(frozen=True)
class Helix:
    """n points of the paper's helix, a share of whose distances is known.

    Parameters
    ----------
    n : int
        Points.
    known : float
        Share of the pairs.

    Examples
    --------
    >>> from quartic.bench import Helix
    >>> len(Helix(100, 0.1).pairs)
    495
    """

    n: int
    known: float = 0.1

    def __post_init__(self) -> None:
        # Made now: what is made at first use would be on the clock of whoever comes first.
        _ = self.squared

    @cached_property
    def truth(self) -> NDArray[np.float64]:
        """The points."""
        return helix(self.n, random_state=0)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Pairs whose distance is known."""
        return random_pairs(self.n, self.known, random_state=1)

    @cached_property
    def squared(self) -> NDArray[np.float64]:
        """Their squared distances."""
        i, j = self.pairs.T
        squares: NDArray[np.float64] = ((self.truth[i] - self.truth[j]) ** 2).sum(axis=1)
        return squares

    def loss(self) -> Distances:
        """Return a new loss; sorting the pairs is part of what is timed."""
        return Distances(self.pairs, self.squared, n_points=self.n)

    def error(self, X: Array) -> float:
        """Return the normalised RMSE over all distances, known or not."""
        return normalized_rmse(X, self.truth)


def warm_cases() -> tuple[Helix, ...]:
    """Return a few points to compile on; the second has pairs enough for a core, the third for chunks of rows."""
    return Helix(60, 0.5), Helix(300, 1.0), Helix(1000, 0.2)


def run_method(
    case: Helix, method: str, seed: int, limit: float, target: float = _TARGET, wall: bool = False
) -> list[tuple[float, float]]:
    """Run one method from one random start; return seconds and normalised RMSE along the run.

    The clock starts before the loss is made of the list of pairs. The run ends when the error is at the target, at
    round-off, or out of time.
    """
    watch = Watch(wall)
    problem, solver = make(case, method)
    curve = Thinning(watch, case.error)

    def callback(progress: Progress) -> None:
        curve.see(progress.X)
        if curve.points[-1][1] <= target or curve.points[-1][0] > limit:
            raise StopIteration

    result = minimize(
        problem, rank=RANK, solver=solver, tol=1e-12, max_iter=10**9, callback=callback, random_state=seed
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt  # the loop takes Ctrl-C for the end of its run; here it means all of them
    curve.last(result.X)
    return curve.points


def make(case: Helix, method: str) -> tuple[Problem, str]:
    """Return the problem with the kernel the method asks for, and the solver."""
    loss = case.loss()
    if method == "dyn-nolips":
        return Problem(loss, kernel=NormKernel.for_loss(loss, tight=False)), method
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; there are: {', '.join(METHODS)}")
    return Problem(loss), "dyn-nolips" if method == "dyn-nolips-gram" else method


def warm_up(methods: tuple[str, ...], run: Callable[..., Any] = run_method) -> None:
    """Have everything compiled."""
    for case in warm_cases():
        for method in methods:
            run(case, method, 0, 0.2)
