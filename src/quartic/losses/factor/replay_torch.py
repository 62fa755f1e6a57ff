"""Many iterations of symmetric NMF without the host, for sizes at which launching takes longer than computing.

A GPU multiplies a matrix of a few thousand rows in some twenty microseconds, but an iteration steered by the host takes
milliseconds: a hundred launches, and a wait for the numbers that decide on the step. Here one iteration is a fixed list
of launches, its decisions numbers on the device, recorded once as a CUDA graph, and replayed; the host reads what
became of a whole batch at once. What the recording does not know (a second halving of a step, a direction that does
not descend, a product to be made anew) freezes the state: later replays change nothing, and the host takes that one
iteration in the usual way.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

from quartic.arrays.space import eps
from quartic.arrays.space_torch import DOUBLE, cross, dot, triton_serves
from quartic.compiled.rows_triton import shrink
from quartic.losses.factor import replay_triton as kernels
from quartic.losses.factor import triton as passes
from quartic.losses.factor.torch import WIDEST

if TYPE_CHECKING:
    from quartic.core.problem import Problem

# So many iterations are replayed at most before the host looks.
MOST = 32
# So many entries of M are gone over in one batch, but for four iterations at least.
_ENTRIES = 2e9
# f on a line is known to so many units of round-off (as in `quartic.losses.point`).
_ROUND_OFF = 64.0
# A step is short where ‖D‖² is below so many units of round-off of ‖X‖² (as in `quartic.losses.factor.loss`).
_SHORT = 2.0**14


def _places(*names: str) -> dict[str, int]:
    return {name: getattr(kernels, name) for name in names}


class Replay(ABC):
    """A method's iteration, for least squares with X ≥ 0, on arrays that stay in place.

    X is of the shape and type of the iterates; ``constants`` are what the kernels are to know, after ½‖M‖².
    """

    lines: bool

    def __init__(self, problem: Problem, X: torch.Tensor, *constants: float) -> None:
        self.problem, self.matrix = problem, problem.loss.matrix  # type: ignore[attr-defined]
        self.X, self.MX = torch.empty_like(X), torch.empty_like(X)
        self.S = X.new_zeros((X.shape[1],) * 2, dtype=DOUBLE)
        self.numbers = X.new_zeros(kernels.COUNT, dtype=DOUBLE)
        self.rows = X.new_zeros((MOST + 1, kernels.COLUMNS), dtype=DOUBLE)
        facts = [0.5 * self.matrix.squared_norm, *constants, 0.0, 0.0, 0.0][:4]
        small = eps(X)
        facts += [_ROUND_OFF * small, 4 * small, _SHORT * small]
        self.constants = torch.tensor(facts, dtype=DOUBLE, device=X.device)
        # replays of a frozen state are lost: the fewer of them in a batch, the more a product takes
        work = self.matrix.n * self.matrix.entries_per_row()
        self.most = self.count = int(min(max(_ENTRIES / work, 4), MOST))
        self._graph: Any = None

    @abstractmethod
    def iterate(self) -> None:
        """Make one iteration in place, or freeze."""

    def run(self, count: int, target: float) -> list[tuple[float, float, float, int]]:
        """Make up to ``count`` iterations, until stationarity is within the target or at round-off.

        Returns objective, stationarity, step and products of each.
        """
        if self.X.is_cuda and self._graph is None:
            self._record()
        self._set(FROZEN=0.0, TARGET=target, AT=0.0)
        self.rows.zero_()
        count = min(count, self.count)
        for _ in range(count):
            if self._graph is None:
                self.iterate()
            else:
                self._graph.replay()
        rows = self.rows.cpu().numpy()
        made, tried = (int(x) for x in rows[:, 3:].sum(axis=0))
        self.problem.loss._count(tried)
        self.count = min(2 * self.count, self.most) if made == count else max(made, 2)
        return [(float(row[0]), float(row[1]), float(row[2]), 1) for row in rows[:made]]

    def _record(self) -> None:
        """Record an iteration; frozen, so that warming up leaves the state as it is."""
        self._set(FROZEN=1.0)
        stream, device, graph = torch.cuda.Stream(self.X.device), self.X.device, torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(device))
        # `torch.cuda.graph` would collect garbage and give back all memory first, longer than most runs take; what
        # must not be is that garbage on the device is collected in between
        collecting = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.stream(stream):
                self.iterate()
                graph.capture_begin()
                self.iterate()
                graph.capture_end()
        finally:
            if collecting:
                gc.enable()
        torch.cuda.current_stream(device).wait_stream(stream)
        self._graph = graph

    def _set(self, **numbers: float) -> None:
        for name, value in numbers.items():
            self.numbers[getattr(kernels, name)].fill_(value)

    def _load(self, point: Any, **numbers: float) -> None:
        self.X.copy_(point.X)
        self.MX.copy_(point.MX)
        self.S.copy_(cross(self.X, self.X))
        self.numbers[kernels.FIT].copy_(dot(self.MX, self.X))
        self._set(**numbers)

    def _number(self, name: str) -> Any:
        """Return a number in the type of X."""
        return self.numbers[getattr(kernels, name)].to(self.X.dtype)

    def _tell(self, G: Any) -> None:
        """Report the iteration, G being the gradient at the new X."""
        projected = torch.where(self.X > 0, G, G.clamp(max=0))
        squares = [dot(projected, projected)]
        if self.lines:
            squares.append(dot(self.MX, self.X))
        S = torch.stack([self.S, self.S @ self.S]).reshape(2, -1)
        places = _places("OBJECTIVE", "FIT", "FROZEN", "TARGET", "AT", "MOVED", "USED", "CARRIED", "FRESH", "COLUMNS")
        kernels.tell[(1,)](
            self.numbers, S @ S.T, torch.stack(squares), self.rows, self.constants, K=2, LINES=self.lines, **places
        )

    def _gram(self, X: Any) -> Any:
        return passes.gram_of(X) if triton_serves(X, WIDEST) else cross(X, X)

    def _step_sums(self, X: Any, Y: Any, MX: Any, MY: Any) -> tuple[Any, Any, Any]:
        """Return XᵀX, DᵀD of D = X − Y, and ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩."""
        if triton_serves(X, WIDEST):
            return passes.step_sums(X, Y, MX, MY)
        D = X - Y
        C = cross(D, D)
        return cross(X, X), C, torch.stack([dot(MX - MY, D), dot(Y, D), C.trace(), dot(MX, X)])

    def _gradient(self, X: Any) -> Any:
        return torch.addmm(self.MX, X, (2 * self.S).to(X.dtype), beta=-2)


class InertialReplay(Replay):
    """Inertial NoLips (`quartic.solvers.InertialNoLips`): one product an iteration, failed trials included.

    A trial that fails, or rises, ends at the best point on the way to it, which costs no product.
    """

    lines = False

    def __init__(self, problem: Problem, X: torch.Tensor, growth: float) -> None:
        kernel: Any = problem.kernel
        self.kernel = kernel
        super().__init__(problem, X, kernel.alpha, kernel.sigma, growth)
        self.Z, self.MZ = torch.empty_like(X), torch.empty_like(X)
        self.identity = torch.eye(X.shape[1], dtype=DOUBLE, device=X.device)

    def load(self, point: Any, previous: Any, theta: float, step: float, objective: float, settled: bool) -> None:
        """Take over the state of a run."""
        ahead = 1 + (theta - 1) / (0.5 * (1 + (1 + 4 * theta**2) ** 0.5))
        numbers = {"OBJECTIVE": objective, "STEP": step, "THETA": theta, "AHEAD": ahead, "SETTLED": float(settled)}
        self._load(point, **numbers)
        self.Z.copy_(previous.X)
        self.MZ.copy_(previous.MX)

    def state(self) -> tuple[Any, Any, float, float, float, bool]:
        """Return the state reached, as `load` takes it, with arrays of its own."""
        make, numbers = self.problem.loss.point_from, self.numbers.cpu().numpy()  # type: ignore[attr-defined]
        new, old = make(self.X.clone(), self.MX.clone()), make(self.Z.clone(), self.MZ.clone())
        theta, step, objective, settled = (
            float(numbers[k]) for k in (kernels.THETA, kernels.STEP, kernels.OBJECTIVE, kernels.SETTLED)
        )
        return new, old, theta, step, objective, bool(settled)

    def iterate(self) -> None:
        """Make one iteration: the numbers are those of the solver's ``step``."""
        X, MX, kernel, step = self.X, self.MX, self.kernel, self.numbers[kernels.STEP]
        ahead = self._number("AHEAD")
        Y, MY = torch.lerp(self.Z, X, ahead), torch.lerp(self.MZ, MX, ahead)
        SY = self._gram(Y)
        A = torch.addcmul((kernel.alpha * SY.trace() + kernel.sigma) * self.identity, SY, step, value=-2)
        new = torch.addcmul(Y @ A.to(X.dtype), MY, self._number("STEP"), value=2).clamp_(min=0)
        shrink(new, dot(new, new), kernel.alpha, kernel.sigma)
        Mnew = self.matrix.product(new)
        S, curved, sums = self._step_sums(new, Y, Mnew, MY)
        _, way, sums_of_way = self._step_sums(new, X, Mnew, MX)
        change = S - self.S - way
        small = [SY, curved, S - SY, SY @ SY, self.identity, self.S, way, change, S]
        V = torch.stack(small).reshape(len(small), -1)
        places = _places(
            "OBJECTIVE", "FIT", "STEP", "FROZEN", "T", "MOVED", "DIRECT", "USED", "AHEAD", "THETA", "SETTLED"
        )
        kernels.decide_inertial[(1,)](self.numbers, V @ V.T, sums, sums_of_way, self.constants, K=len(small), **places)
        # a weight of 0 leaves an array as it is, to the last bit, and a weight of 1 gives the other
        t, moved = self._number("T"), self._number("MOVED")
        self.Z.lerp_(X, moved)
        self.MZ.lerp_(MX, moved)
        X.lerp_(new, t)
        MX.lerp_(Mnew, t)
        t, direct = self.numbers[kernels.T], self.numbers[kernels.DIRECT]
        self.S.addcmul_(torch.addcmul(change, way, t), t).lerp_(S, direct)
        self._tell(self._gradient(X))


class QuasiNewtonReplay(Replay):
    """L-BFGS on the face of X ≥ 0 (`quartic.solvers.LBFGS`): one product an iteration, the best t on the line.

    Pairs are whole arrays, zero off the face; those not made yet are zero, and drop out like pairs without positive
    curvature.
    """

    lines = True

    def __init__(self, problem: Problem, X: torch.Tensor, memory: int, most_lines: int, shrunk: float) -> None:
        super().__init__(problem, X, most_lines, shrunk)
        self.memory, self.G = memory, torch.empty_like(X)
        self.pairs = X.new_zeros((2, memory, X.numel()))
        self.order = torch.arange(1, memory + 1, device=X.device)

    def load(self, point: Any, steps: tuple[Any, ...], changes: tuple[Any, ...], carried: int, fresh: float) -> None:
        """Take over the state of a run."""
        self._load(point, CARRIED=carried, FRESH=fresh)
        self.G.copy_(point.gradient)
        self.pairs.zero_()
        for kept, pairs in zip(self.pairs, (steps, changes), strict=True):
            for k, A in enumerate(reversed(pairs)):
                kept[self.memory - 1 - k].copy_(A.reshape(-1))

    def state(self) -> tuple[Any, tuple[Any, ...], tuple[Any, ...], int, float]:
        """Return the state reached, as `load` takes it, with arrays of its own."""
        some = (self.pairs != 0).any(dim=2).all(dim=0).to(DOUBLE)
        numbers = torch.cat([self.numbers, some]).cpu().numpy()
        there = [k for k in range(self.memory) if numbers[kernels.COUNT + k]]
        steps, changes = (tuple(A[k].reshape(self.X.shape).clone() for k in there) for A in self.pairs)
        point = self.problem.loss.point_from(self.X.clone(), self.MX.clone())  # type: ignore[attr-defined]
        return point, steps, changes, int(numbers[kernels.CARRIED]), float(numbers[kernels.FRESH])

    def iterate(self) -> None:
        """Make one iteration: the numbers are those of the solver's ``step``."""
        X, MX, G = self.X, self.MX, self.G
        free = (X > 0) | (G < 0)
        self.pairs.mul_(free.reshape(-1))
        D = (X - self._metric(G * free)).clamp_(min=0).sub_(X)
        upper = torch.where(D < 0, -X / D, torch.inf).amin().to(DOUBLE)
        MD = self.matrix.product(D)
        T, C = cross(X, D), self._gram(D)
        U = T + T.T
        V = torch.stack([self.S, U, C]).reshape(3, -1)
        dots = torch.stack([dot(G, D), dot(MD, D)])
        places = _places("FROZEN", "T", "MOVED", "USED")
        kernels.decide_on_line[(1,)](self.numbers, V @ V.T, dots, upper, self.constants, K=3, **places)
        t, moved, short = self.numbers[kernels.T], self.numbers[kernels.MOVED], self._number("T")
        # what is zero but for round-off is zero; with t = 0 nothing changes
        new = torch.addcmul(X, D, short)
        X.copy_(new.masked_fill_(new <= 4 * eps(X) * X, 0))
        MX.addcmul_(MD, short)
        self.S.addcmul_(torch.addcmul(U, C, t), t)
        after = self._gradient(X)
        y = torch.where(free, (after - G) / short, 0.0).reshape(-1)
        s = D.reshape(-1)
        good = (moved > 0) & (dot(s, y) > 1e-12 * (dot(s, s) * dot(y, y)).sqrt())
        following = torch.cat([self.pairs[:, 1:], torch.stack([s, y])[:, None]], dim=1)
        torch.where(good, following, self.pairs, out=self.pairs)
        torch.where(moved > 0, after, G, out=G)
        self._tell(G)

    def _metric(self, q: Any) -> Any:
        """Return Hq, by the compact form: γq + Σ c_i s_i − γ Σ p_i y_i, with coefficients from inner products alone."""
        m, pairs = self.memory, self.pairs.reshape(2 * self.memory, -1)
        products, onto = (pairs @ pairs[m:].T).to(DOUBLE), (pairs @ q.reshape(-1)).to(DOUBLE)
        SY, YY, Sq, Yq = products[:m], products[m:], onto[:m], onto[m:]
        sy, yy = SY.diagonal(), YY.diagonal()
        curved = (sy > 0) & (yy > 0)
        scale = torch.where(curved, sy / yy, 0.0).take((curved * self.order).argmax())
        used = (curved & (sy > 1e-10 * yy * scale)).to(DOUBLE)
        both = used[:, None] * used
        R = (both * SY).triu()
        R.diagonal().add_(1 - used)
        p = torch.linalg.solve_triangular(R, (used * Sq)[:, None], upper=True)
        right = (used * sy)[:, None] * p + scale * ((both * YY) @ p - (used * Yq)[:, None])
        c = torch.linalg.solve_triangular(R.T, right, upper=False)
        gamma = torch.where(scale > 0, scale, (dot(self.X, self.X) / dot(q, q)).sqrt())
        combined = torch.cat([c, -scale * p])[:, 0].to(q.dtype)
        return torch.addcmul((combined @ pairs).reshape(q.shape), q, gamma.to(q.dtype))
