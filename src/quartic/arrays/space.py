"""Where the arrays of a loss live, and what is spelled differently there: NumPy's arrays; torch's are in `space_torch`.

A loss asks once, from its data, and has its `Space` from then on; solvers, kernels and penalties work through that.
Whoever has nothing but an array asks `space_of`, the one place that tells NumPy from torch.

Sums over tall arrays are made in float64 whatever the arrays' type. A device hands them out before it has them: `read`
waits for them, for all that are asked for together.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, cast, overload

import numpy as np

from quartic.arrays.checks import Array, is_torch, working_dtype
from quartic.arrays.threads import spread
from quartic.arrays.waiting import Waiting, on_host

# float32 input is widened this many rows at a time, so that no float64 copy of a tall array is ever made
_ROWS = 4096
# Numbers of an array that are worked on in one call: they stay in the cache, and threads seldom wait for Python's lock.
_NEAR = 1 << 17
# Sums are made of at most so many pieces; of arrays up to this size in one call. Random numbers of larger ones are
# drawn so many at a time.
_PIECES, _SMALL, _DRAWN = 128, 1 << 20, 1 << 18
# Of so many columns the zeros are left out where no more than this share of the terms is not zero.
_WIDE, _EMPTY = 48, 0.01
# Arrays below this size come from the allocator's own cache; above it each would be mapped, zeroed and unmapped anew.
_WORTH_KEEPING = 1 << 16
# Bytes of a cache line.
LINE = 64
_EPS = {kind: float(np.finfo(kind).eps) for kind in (np.float32, np.float64)}


def eps(A: Any) -> float:
    """Return the relative round-off of A's type."""
    return _EPS[np.float32 if A.dtype.itemsize == 4 else np.float64]


def squares_are_safe(total: float) -> bool:
    """Tell whether a sum of squares is so far from under- and overflow that its root can be trusted."""
    return 1e-280 < total < 1e300


def trace_inner(A: Array, B: Array) -> float:
    """Return ⟨A, B⟩ of two small matrices."""
    return float(np.vdot(A, B))


@overload
def unit_cubic_root(w: float) -> float: ...
@overload
def unit_cubic_root(w: Array) -> Array: ...
def unit_cubic_root(w: float | Array) -> float | Array:
    """Return the root y ≥ 0 of y³ + y = w for w ≥ 0, elementwise, to machine precision.

    The closed form y = (2/√3) sinh(⅓ asinh(½·3√3·w)) neither cancels nor overflows, unlike Cardano's; it loses a few
    digits to the logarithm when w is huge, which two Newton steps bring back.
    """
    if isinstance(w, float):
        y = (2 / math.sqrt(3)) * math.sinh(math.asinh(min(w, 1e300) * (1.5 * math.sqrt(3))) / 3)
        for _ in range(2):
            y -= (y * (y * y + 1) - w) / (3 * y * y + 1)
        return y
    xp = space_of(w).xp
    root: Array = (2 / math.sqrt(3)) * xp.sinh(xp.arcsinh(xp.clip(w, None, 1e300) * (1.5 * math.sqrt(3))) / 3)
    for _ in range(2):
        root -= (root * (root * root + 1) - w) / (3 * root * root + 1)
    return root


def norm_scale(size: float, alpha: float, sigma: float) -> float:
    """Return the z with z²(z − σ) = α·size², the cubic of Proposition 2.

    z = σ(1 + y²) with y³ + y = size·√(α/σ)/σ: free of units, so that it neither cancels nor overflows.
    """
    y = unit_cubic_root(size * (math.sqrt(alpha / sigma) / sigma))
    return sigma * (1 + y * y)


def _sums_of_pieces(A: Array, B: Array, shape: tuple[int, ...], multiply: Callable[[Array, Array], Any]) -> Array:
    """Return Σ multiply(a, b) over pieces of rows in float64, a sum for each piece: they depend on the shape alone."""
    rows = max(_ROWS, -(-len(A) // _PIECES))
    sums = np.zeros((max(1, -(-len(A) // rows)), *shape))

    def work(first: int, last: int) -> None:
        for piece in range(first, last):
            end = min((piece + 1) * rows, len(A))
            for k in range(piece * rows, end, _ROWS):
                a = _widen(A[k : min(k + _ROWS, end)])
                sums[piece] += multiply(a, a if B is A else _widen(B[k : min(k + _ROWS, end)]))

    spread(work, len(sums), float(A.size) * math.prod(shape[1:]))
    return sums


def _multiply(A: Array, B: Array) -> Array:
    return A.T @ B


def mostly_zeros(A: Array, B: Array) -> bool:
    """Tell whether AᵀB of many columns is best made of what is not zero, by a sample of the rows."""
    if min(A.shape[1], B.shape[1]) < _WIDE:
        return False
    shares = [np.count_nonzero(some) / max(some.size, 1) for some in (C[:: max(1, len(C) // 64)] for C in (A, B))]
    return bool(shares[0] * shares[1] < _EMPTY)


class Space:
    """What solvers, kernels, penalties and the loop need of arrays: those of NumPy here, of torch in `DeviceSpace`."""

    deferred = False
    xp: Any = np

    def take(self, A: Any, name: str) -> Any:
        """Return what the user gave as an array that lives here, or raise an error that says why it cannot."""
        if is_torch(A):
            raise TypeError(
                f"{name} is a torch tensor on {A.device}, but the data are NumPy or SciPy arrays; "
                f"give both as tensors, or pass {name}.cpu().numpy()"
            )
        return A

    def adopt(self, A: Any) -> Any:
        """Return an array read from a checkpoint, its type kept, as one that lives here."""
        return A

    def to_host(self, A: Any) -> Any:
        """Return an array as a NumPy array, a number as a float."""
        return A if isinstance(A, np.ndarray | float) else on_host(A)

    def read(self, *numbers: Any) -> tuple[Any, ...]:
        """Return numbers as floats and small matrices as NumPy arrays: the only wait on a device, one for all."""
        return numbers

    def later(self, function: Callable[..., Any], *numbers: Any) -> Any:
        """Return ``function(*numbers)``; on a device a number that is worked out when it is read."""
        return function(*numbers)

    def zeros(self, shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> Array:
        """Return zeros."""
        return np.zeros(shape, dtype)

    def normal(self, generator: np.random.Generator, shape: tuple[int, int], dtype: Any = np.float64) -> Array:
        """Return standard normal numbers."""
        return _draw(generator, shape, dtype, lambda source, size: source.standard_normal(size))

    def uniform(self, generator: np.random.Generator, low: float, high: float, shape: tuple[int, int]) -> Array:
        """Return numbers spread evenly between two, in float64."""
        return _draw(generator, shape, np.float64, lambda source, size: source.uniform(low, high, size))

    def errors(self, what: str, needs: float) -> AbstractContextManager[None]:
        """Return a context in which errors of the device are told with the sizes at hand."""
        return nullcontext()

    def inner(self, A: Array, B: Array) -> float:
        """Return ⟨A, B⟩ = Σ A_ij B_ij."""
        if A.size <= _SMALL and A.dtype == B.dtype == np.float64:
            return float(np.dot(A.ravel(), B.ravel()))
        return math.fsum(_sums_of_pieces(A, B, (), lambda a, b: np.dot(a.ravel(), b.ravel())).tolist())

    def norm(self, A: Array) -> float:
        """Return ‖A‖, also where the squares under- or overflow."""
        return self.root(self.inner(A, A), lambda: A)

    def root(self, squared: float, make: Callable[[], Array]) -> float:
        """Return ‖A‖ from its square; where that under- or overflowed, from A, then made for it, scaled."""

        def finish(square: float) -> float:
            if squares_are_safe(square):
                return math.sqrt(square)
            A = make()
            largest = self.largest(A)
            if largest == 0.0 or not math.isfinite(largest):
                return largest
            A = A / largest
            return largest * math.sqrt(self.inner(A, A))

        return self.later(finish, squared)

    def largest(self, A: Array) -> float:
        """Return the largest |A_ij|, 0 where there is none."""
        A = np.asarray(A)
        return max(float(A.max(initial=0.0)), -float(A.min(initial=0.0)))

    def gram(self, A: Array, B: Array | None = None) -> Array:
        """Return AᵀB (AᵀA when B is left out), an r × r matrix in float64."""
        B = A if B is None else B
        if A.size <= _SMALL and A.shape[1] < _WIDE and A.dtype == B.dtype == np.float64:
            return A.T @ B
        if mostly_zeros(A, B):
            from quartic.compiled.rows import gram_of_few as multiply
        else:
            multiply = _multiply
        return cast(Array, _sums_of_pieces(A, B, (A.shape[1], B.shape[1]), multiply).sum(axis=0))

    def total(self, A: Array) -> float:
        """Return the sum of all entries."""
        return float(A.sum(dtype=np.float64))

    def least(self, A: Array) -> float:
        """Return the least entry, or 0 if that is positive; NaN where there is one."""
        return float(A.min(initial=0.0))

    def projected(self, X: Array, G: Array) -> Array:
        """Return the paper's ∇ᴾf(X) from G = ∇f(X): G where X > 0, min(G, 0) where X = 0."""
        xp = self.xp
        return xp.where(X > 0, G, xp.clip(G, None, 0))

    def projected_norm(self, X: Array, G: Array) -> float:
        """Return ‖∇ᴾf(X)‖² from G = ∇f(X)."""
        V = self.projected(X, G)
        return self.inner(V, V)

    def is_zero(self, A: Array) -> bool:
        """Tell whether all entries are zero."""
        return not any(A[k : k + _ROWS].any() for k in range(0, len(A), _ROWS))  # most are told by the first few

    def first_entry(self, wanted: Any) -> tuple[int, ...] | None:
        """Return the indices of the first true entry, None where there is none."""
        return tuple(int(k) for k in np.argwhere(wanted)[0]) if wanted.any() else None

    def astype(self, A: Array, dtype: type[np.floating[Any]]) -> Array:
        """Return A in another type; A itself where it has that already."""
        return A if A.dtype == dtype else _copy(A, dtype)

    def float_type(self, A: Array) -> type[np.floating[Any]]:
        """Return np.float32 or np.float64, the type of A's entries."""
        return working_dtype(A.dtype)

    @np.errstate(over="ignore", under="ignore")
    def ldexp(self, A: Array, power: int) -> Array:
        """Return 2^power · A: exact, but for what then under- or overflows."""
        return np.ldexp(A, power)

    def copy(self, A: Array) -> Array:
        """Return a copy."""
        return _copy(A, A.dtype)

    def positive_part(self, A: Array) -> Array:
        """Return max(A, 0), entry by entry."""
        return np.maximum(A, 0)

    def clip_in_place(self, A: Array, least: float = 0.0) -> None:
        """Set A to max(A, least)."""
        _by_blocks(lambda a: np.maximum(a, a.dtype.type(least), out=a), A)

    def falling_order(self, x: Array) -> Any:
        """Return the order that sorts a vector, largest first, equals as they come."""
        return np.argsort(-x, kind="stable")

    def times(self, A: Array, S: Array, reuse: bool = False) -> Array:
        """Return A S for a small matrix S, in A's type; where S is square, in A's own memory if that may be used."""
        S = S.astype(A.dtype, copy=False)
        if A.size <= _SMALL:
            return A @ S
        out = A if reuse else empty((len(A), S.shape[1]), A.dtype)
        _by_blocks(lambda a, new: np.matmul(a, S, out=new), A, out)
        return out

    def shrink(self, W: Array, square: float, alpha: float, sigma: float) -> None:
        """Divide W by ``norm_scale(‖W‖, alpha, sigma)``, given ‖W‖²; on a device without a read."""
        W *= 1 / norm_scale(self.root(square, lambda: W), alpha, sigma)

    def mix(self, A: Array, factor: float, *terms: tuple[float, Array]) -> None:
        """Set A = factor·A + b·B + c·C for one or two terms (b, B), (c, C)."""
        from quartic.compiled.rows import combine

        kind, ((b, B), (c, C)) = A.dtype.type, (*terms, (0.0, A))[:2]
        _by_blocks(lambda *arrays: combine(*arrays, kind(factor), kind(b), kind(c)), A, B, C)

    def small(self, S: Any) -> Array:
        """Return a small float64 matrix as `gram` would."""
        return cast(Array, S)

    def bare(self, S: Any) -> Any:
        """Return what `gram` or a sum returned, to compute with; on a device a tensor, without a read."""
        return S

    def front(self, S: Array, alpha: float, sigma: float) -> float:
        """Return α·tr(S) + σ."""
        return alpha * float(S.trace()) + sigma

    def regular_inverse(self, S: Array, shift: float) -> Array:
        """Return (S + shift·tr(S)/r·I)⁻¹; I where S = 0."""
        A = S.copy()
        A.flat[:: len(A) + 1] += shift / len(A) * S.trace() or 1.0
        return np.linalg.inv(A)

    def quotient(self, a: float, b: float) -> float:
        """Return a / b."""
        return float(a) / float(b)

    def quotient_of_norms(self, A: Array, B: Array) -> float:
        """Return ‖A‖ / ‖B‖, ‖A‖ where B is zero."""
        return self.norm(A) / (self.norm(B) or 1.0)

    def sweep_rows(self, X: Array, G: Array, C: Array) -> None:
        """Minimise ½xᵀGx − cᵀx over each entry x_k ≥ 0 in turn, for every row x of X (in place) and c of C."""
        from quartic.compiled.rows import sweep_rows

        sweep_rows(X, G, C)

    @property
    def lbfgs(self) -> ModuleType:
        """The module with the passes over what L-BFGS remembers; that of devices has the same functions."""
        from quartic.compiled import lbfgs

        return lbfgs


class HostSpace(Space):
    """The host's memory: there is one."""

    def __reduce__(self) -> str:
        return "HOST"


HOST = HostSpace()


def space_of(A: Any) -> Space:
    """Return the space in which an array, a number or small matrix from it, or what a user gave lives."""
    if type(A) is not np.ndarray and (is_torch(A) or isinstance(A, Waiting)):
        from quartic.arrays.space_torch import DeviceSpace

        return DeviceSpace(A.tensor.device if isinstance(A, Waiting) else A.device)
    return HOST


def _by_blocks(work: Callable[..., Any], *arrays: Array) -> None:
    """Call ``work`` on blocks of rows of all arrays, small enough to stay in the cache."""
    rows = max(1, _NEAR * len(arrays[0]) // max(arrays[0].size, 1))
    n_blocks = -(-len(arrays[0]) // rows)

    def some(first: int, last: int) -> None:
        for k in range(first, last):
            work(*(A[k * rows : (k + 1) * rows] for A in arrays))

    spread(some, n_blocks, 8.0 * arrays[0].size)


def _copy(A: Array, dtype: Any) -> Array:
    if A.ndim == 0:
        return A.astype(dtype)
    new = empty(A.shape, dtype)
    _by_blocks(np.copyto, new, A)
    return new


def _draw(generator: np.random.Generator, shape: tuple[int, int], dtype: Any, draw: Callable[..., Array]) -> Array:
    """Return random numbers; of a tall array the pieces come from generators of their own, by several threads."""
    new = empty(shape, dtype)
    rows, sources = len(new), [generator]
    if new.size > _SMALL:
        rows = max(1, _DRAWN // shape[1])
        seeds = np.random.SeedSequence(generator.integers(2**63, size=2).tolist())
        sources = [np.random.default_rng(seed) for seed in seeds.spawn(-(-len(new) // rows))]

    def work(first: int, last: int) -> None:
        for k in range(first, last):
            here = new[k * rows : (k + 1) * rows]
            here[...] = draw(sources[k], here.shape)

    spread(work, len(sources), 8.0 * new.size)
    return new


def _widen(A: Array) -> Array:
    return np.ascontiguousarray(A, dtype=np.float64)


# -- the same where only an array is at hand: asks where it lives, and forwards ----------------------------------------


def namespace(A: Any) -> Any:
    """Return the module, numpy or torch, whose ``where``, ``abs``, ``sign`` … work on A."""
    return space_of(A).xp


def matmul(A: Any, Z: Any) -> Any:
    """Return A @ Z; a tensor A in the type of Z, since torch does not mix them."""
    return (A if space_of(Z) is HOST else A.to(Z.dtype)) @ Z


def squared_norm(A: Array) -> float:
    """Return ‖A‖²."""
    return space_of(A).inner(A, A)


def _forward(name: str) -> Any:
    """Return the method of that name of the space in which its first argument lives, as a function."""

    def call(A: Any, *others: Any) -> Any:
        return getattr(space_of(A), name)(A, *others)

    call.__name__, call.__doc__ = name, getattr(Space, name).__doc__
    return call


inner: Callable[[Array, Array], float] = _forward("inner")
norm: Callable[[Array], float] = _forward("norm")
gram: Callable[..., Array] = _forward("gram")
total: Callable[[Array], float] = _forward("total")
is_zero: Callable[[Array], bool] = _forward("is_zero")
first_entry: Callable[[Any], tuple[int, ...] | None] = _forward("first_entry")
astype: Callable[[Any, type[np.floating[Any]]], Array] = _forward("astype")
float_type: Callable[[Any], type[np.floating[Any]]] = _forward("float_type")
copy: Callable[[Any], Array] = _forward("copy")
to_host: Callable[[Any], Any] = _forward("to_host")
positive_part: Callable[[Any], Array] = _forward("positive_part")
times: Callable[..., Array] = _forward("times")
bare: Callable[[Any], Any] = _forward("bare")


def meet_bounds(X: Array, before: Array) -> None:
    """Set what is negative, or round-off of what it was, to zero, in place: left at 1e-18 it would count as free."""
    X[(X - 4 * eps(X) * before) <= 0] = 0


def norm_length(W: Array, alpha: float, sigma: float) -> Array:
    """Return the U parallel to W with (α‖U‖² + σ) U = W."""
    return W / norm_scale(float(norm(W)), alpha, sigma)


# -- arrays used again: memory fresh from the system costs more than the pass that fills it ---------------------------


class _Memory(np.ndarray[Any, Any]):
    """Bytes that an array lies in, of a type of their own: views of the array then have it as their base, not these."""


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialised array that begins with a cache line, so that its rows lie in as few lines as they can.

    NumPy's begin a quarter of a line later: 32 numbers are then in five lines, not four, and half the loads in two.
    """
    if math.prod(shape) * np.dtype(dtype).itemsize < _WORTH_KEEPING:
        return np.empty(shape, dtype)
    memory = _Memory(math.prod(shape) * np.dtype(dtype).itemsize + LINE, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % LINE)


class Fresh:
    """Hands out new arrays."""

    def like(self, X: Array) -> Array:
        """Return an uninitialised C-ordered array with the shape and type of X; a tensor where X is one."""
        return empty(X.shape, X.dtype) if type(X) is np.ndarray else space_of(X).xp.empty_like(X)


class Workspace(Fresh):
    """For one run, in one thread: hands out arrays, and takes back those that nobody refers to any more.

    Python counts references: an array that only this list knows is free. A point that is still held, by a state, by
    the caller, by a view, keeps its arrays. Never more arrays are kept than were in use at the same time.
    """

    def __init__(self) -> None:
        self._kept: list[Array] = []

    def like(self, X: Array) -> Array:
        if type(X) is not np.ndarray:  # torch keeps freed memory itself
            return super().like(X)
        shape, dtype = X.shape, X.dtype
        if X.nbytes < _WORTH_KEEPING or not _COUNTS_ARE_EXACT:
            return empty(shape, dtype)
        kept = self._kept
        for k in range(len(kept)):
            # two references: the list's and the argument's
            if sys.getrefcount(kept[k]) == _FREE and kept[k].shape == shape and kept[k].dtype == dtype:
                return kept[k]
        new = empty(shape, dtype)
        self._kept = [A for A in kept if A.shape == shape and A.dtype == dtype]  # a run has one shape; others are over
        self._kept.append(new)
        return new


def _references_of_a_free_array() -> int:
    kept = [np.empty(1)]
    return sys.getrefcount(kept[0])


_FREE = _references_of_a_free_array()
_COUNTS_ARE_EXACT = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
