"""Many iterations of symmetric NMF without the host, for sizes at which launching takes longer than computing.

A GPU multiplies a matrix of a few thousand rows in some twenty microseconds, but an iteration steered by the host takes
milliseconds: a hundred launches, and a wait for the numbers that decide on the step. Here one iteration is a fixed list
of launches, its decisions numbers on the device, recorded once as a CUDA graph, and replayed; the host reads what
became of a whole batch at once. What the recording does not know (a direction that does not descend, a product to be
made anew) freezes the state: later replays change nothing, and the host takes that one iteration in the usual way.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch
import triton

from quartic.arrays.space import eps
from quartic.arrays.space_torch import DOUBLE, cross, dot, triton_serves
from quartic.compiled.rows_triton import shrink
from quartic.losses.factor import replay_triton as kernels
from quartic.losses.factor import triton as passes
from quartic.losses.factor.loss import SHORT
from quartic.losses.factor.torch import WIDEST, gram_tensor, tensors_of_step

if TYPE_CHECKING:
    from quartic.core.problem import Problem

# So many iterations are replayed at most before the host takes over the state.
MOST = 32
# After so many numbers read, but no fewer and no more iterations, it looks whether the state is frozen: replays of a
# frozen state are lost, and looking takes as long as a short iteration. An iteration reads M, and so many arrays.
_NUMBERS, _FEWEST, _LONGEST, _ARRAYS = 2e8, 2, 16, 16
# f on a line is known to so many units of round-off (as in `quartic.losses.steps`).
_ROUND_OFF = 64.0


class Replay(ABC):
    """A method's iteration, for least squares with X ≥ 0, on arrays that stay in place.

    X is of the shape and type of the iterates; ``constants`` are what the kernels are to know, after ½‖M‖².
    """

    def __init__(self, problem: Problem, X: torch.Tensor, *constants: float) -> None:
        self.problem, self.matrix = problem, problem.loss.matrix  # type: ignore[attr-defined]
        self.X, self.MX = torch.empty_like(X), torch.empty_like(X)
        self.S = X.new_zeros((X.shape[1],) * 2, dtype=DOUBLE)
        self.numbers = X.new_zeros(kernels.COUNT, dtype=DOUBLE)
        self.rows = X.new_zeros((MOST + 1, kernels.COLUMNS.value), dtype=DOUBLE)
        facts = [0.5 * self.matrix.squared_norm, *constants, 0.0, 0.0, 0.0][:4]
        small = eps(X)
        facts += [_ROUND_OFF * small, 4 * small, SHORT * small]
        self.constants = torch.tensor(facts, dtype=DOUBLE, device=X.device)
        work = self.matrix.n * self.matrix.entries_per_row() + _ARRAYS * X.numel()
        self.batch = int(min(max(_NUMBERS / work, _FEWEST), _LONGEST))
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
        count, made, tried, asked = min(count, MOST), 0, 0, 0
        while tried == asked and (made == 0 or asked < count):  # not frozen; where all trials failed it goes on
            batch = min(self.batch, count - asked % count)
            for _ in range(batch):
                if self._graph is None:
                    self.iterate()
                else:
                    self._graph.replay()
            asked += batch
            rows = self.rows.cpu().numpy()
            made, tried = (int(x) for x in rows[:, 3:].sum(axis=0))
        self.problem.loss.count_products(tried)
        return [(float(row[0]), float(row[1]), float(row[2]), int(row[4])) for row in rows[:made]]

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
            self._at(name).fill_(value)

    def _load(self, point: Any, **numbers: float) -> None:
        self.X.copy_(point.X)
        self.MX.copy_(point.MX)
        self.S.copy_(cross(self.X, self.X))
        self._at("FIT").copy_(dot(self.MX, self.X))
        self._set(**numbers)

    def _at(self, name: str, numbers: Any = None) -> Any:
        """Return a number of the state."""
        return (self.numbers if numbers is None else numbers)[getattr(kernels, name).value]

    def _number(self, name: str) -> Any:
        """Return a number in the type of X."""
        return self._at(name).to(self.X.dtype)


class InertialReplay(Replay):
    """Inertial NoLips (`quartic.solvers.InertialNoLips`): one product an iteration, failed trials included.

    A trial that fails, or rises, ends at the best point on the way to it, which costs no product; where there is none
    the next replay tries again.
    """

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
        self._load(point, **numbers, FIRST_STEP=step, FIRST_SETTLED=float(settled), FAILED=0.0)
        self.Z.copy_(previous.X)
        self.MZ.copy_(previous.MX)

    def state(self) -> tuple[Any, Any, float, float, float, bool]:
        """Return the state reached, as `load` takes it, with arrays of its own."""
        make, numbers = self.problem.loss.point_from, self.numbers.cpu().numpy()  # type: ignore[attr-defined]
        new, old = make(self.X.clone(), self.MX.clone()), make(self.Z.clone(), self.MZ.clone())
        theta, step, objective, settled = (
            float(self._at(name, numbers)) for name in ("THETA", "STEP", "OBJECTIVE", "SETTLED")
        )
        return new, old, theta, step, objective, bool(settled)

    def iterate(self) -> None:
        """Make one iteration: the numbers are those of the solver's ``step``."""
        X, MX, kernel, step = self.X, self.MX, self.kernel, self._at("STEP")
        ahead = self._number("AHEAD")
        Y, MY = torch.lerp(self.Z, X, ahead), torch.lerp(self.MZ, MX, ahead)
        SY = gram_tensor(Y)
        A = torch.addcmul((kernel.alpha * SY.trace() + kernel.sigma) * self.identity, SY, step, value=-2)
        new = torch.addcmul(Y @ A.to(X.dtype), MY, self._number("STEP"), value=2).clamp_(min=0)
        shrink(new, dot(new, new), kernel.alpha, kernel.sigma)
        Mnew = self.matrix.product(new)
        S, curved, sums = tensors_of_step(new, Y, Mnew, MY)
        _, way, sums_of_way = tensors_of_step(new, X, Mnew, MX)
        change = S - self.S - way
        small = [SY, curved, S - SY, SY @ SY, self.identity, self.S, way, change, S]
        V = torch.stack(small).reshape(len(small), -1)
        kernels.decide_inertial[(1,)](self.numbers, V @ V.T, sums, sums_of_way, self.constants, K=len(small))
        # a weight of 0 leaves an array as it is, to the last bit, and a weight of 1 gives the other
        t, moved = self._number("T"), self._number("MOVED")
        self.Z.lerp_(X, moved)
        self.MZ.lerp_(MX, moved)
        X.lerp_(new, t)
        MX.lerp_(Mnew, t)
        t, direct = self._at("T"), self._at("DIRECT")
        self.S.addcmul_(torch.addcmul(change, way, t), t).lerp_(S, direct)
        G = torch.addmm(MX, X, (2 * self.S).to(X.dtype), beta=-2)
        projected = torch.where(X > 0, G, G.clamp(max=0))
        size = dot(self.S, self.S @ self.S)
        kernels.tell[(1,)](self.numbers, size, dot(projected, projected), self.rows, self.constants)


class QuasiNewtonReplay(Replay):
    """L-BFGS on the face of X ≥ 0 (`quartic.solvers.LBFGS`): one product an iteration, the best t on the line."""

    def __init__(self, problem: Problem, X: torch.Tensor, memory: int, most_lines: int, shrunk: float) -> None:
        super().__init__(problem, X, most_lines, shrunk)
        self.memory, self.G, self.D = memory, torch.empty_like(X), torch.empty_like(X)
        self.free = torch.empty(X.shape, dtype=torch.int8, device=X.device)
        rows = max(16, triton.next_power_of_2(2 * memory + 2))
        self.pairs = X.new_zeros((rows, X.numel()))
        self.coefficients = X.new_zeros(rows + 1, dtype=DOUBLE)
        columns = self.pairs.T
        self.launches = passes.Launch(columns, "pairs"), passes.Launch(columns, "direction"), passes.Launch(X, "moved")
        self._given: tuple[Any, Any] = None, None

    def load(self, point: Any, steps: tuple[Any, ...], changes: tuple[Any, ...], carried: int, fresh: float) -> None:
        """Take over the state of a run; what `state` gave is here already."""
        if point is self._given[0]:
            self._set(CARRIED=carried, FRESH=fresh)
        else:
            self._load(point, CARRIED=carried, FRESH=fresh)
            self.G.copy_(point.gradient)
        if steps is self._given[1]:
            return
        self._set(HEAD=0.0)
        self.pairs.zero_()
        self.free.fill_(1)
        half = len(self.pairs) // 2
        for kept, arrays in ((self.pairs[:half], steps), (self.pairs[half:], changes)):
            for k, A in enumerate(reversed(arrays)):
                kept[self.memory - k].copy_(A.reshape(-1))

    def state(self) -> tuple[Any, tuple[Any, ...], tuple[Any, ...], int, float]:
        """Return the state reached, as `load` takes it, with arrays of its own."""
        pairs = self.pairs.clone()
        numbers = torch.cat([self.numbers, (pairs != 0).any(dim=1).to(DOUBLE)]).cpu().numpy()
        some, half, head = numbers[kernels.COUNT :], len(pairs) // 2, int(self._at("HEAD", numbers))
        slots = [(head + 1 + k) % (self.memory + 1) for k in range(self.memory)]
        there = [k for k in slots if some[k] and some[half + k]]
        steps, changes = (tuple(A[k].reshape(self.X.shape) for k in there) for A in (pairs[:half], pairs[half:]))
        point = self.problem.loss.point_from(self.X.clone(), self.MX.clone())  # type: ignore[attr-defined]
        self._given = point, steps
        return point, steps, changes, int(self._at("CARRIED", numbers)), float(self._at("FRESH", numbers))

    def iterate(self) -> None:
        """Make one iteration: the numbers are those of the solver's ``step``."""
        X, MX, G, D, run, flat, rows, numbers = self.X, self.MX, self.G, self.D, *self.launches, self.numbers
        size, count, tiles = run.sizes
        sums = run.sums()
        kernels.multiply_pairs[(run.programs,)](
            numbers, self.pairs, X, G, self.free, sums, size, tiles, R=run.settings["R"], C=count,
            num_warps=run.settings["num_warps"],
        )  # fmt: skip
        rank = X.shape[1]
        kernels.combine_pairs[(1,)](
            numbers, sums.sum(dim=0), self.S, rank, self.coefficients, MEMORY=self.memory, C=count,
            W=triton.next_power_of_2(rank), num_warps=1,
        )  # fmt: skip
        ends = flat.sums(2)
        kernels.find_direction[(flat.programs,)](
            numbers, self.pairs, X, G, self.free, self.coefficients, D, ends, size, flat.sizes[2],
            R=flat.settings["R"], C=count, num_warps=flat.settings["num_warps"],
        )  # fmt: skip
        MD = self.matrix.product(D)
        T, C, bend = self._line_sums(MD)
        kernels.decide_on_line[(1,)](
            numbers, self.S, T, C, rank, T.stride(0), ends, flat.programs, bend, self.constants, BLOCK=1024,
            MANY=triton.next_power_of_2(flat.programs),
        )  # fmt: skip
        sums = rows.sums(6)
        kernels.move_on_line[(rows.programs,)](
            numbers, self.pairs, self.S, X, MX, D, MD, G, self.free, sums, self.constants, *rows.sizes,
            HALF=count // 2, **rows.settings,
        )  # fmt: skip
        kernels.tell_of_line[(1,)](
            numbers, sums, rows.programs, self.rows, self.constants, MANY=triton.next_power_of_2(rows.programs),
            MEMORY=self.memory,
        )  # fmt: skip

    def _line_sums(self, MD: Any) -> tuple[Any, Any, Any]:
        """Return XᵀD, DᵀD and ⟨MD, D⟩."""
        if triton_serves(self.X, WIDEST):
            return passes.line_sums(self.X, self.D, MD)
        return cross(self.X, self.D), cross(self.D, self.D), dot(MD, self.D)
