"""Linear maps 𝒜 from symmetric n × n matrices to m numbers, used through the factors of XXᵀ alone.

`Measurements` says what such a map offers; `Vectors`, `Matrices` and `Own` are the kinds there are,
`ScaledMeasurements` is a power of two times any of them, and `as_measurements` tells from what the user gave which
it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, norm, working_dtype
from quartic.core.units import shifted

# Up to so many rows of X, and multiplications, 𝒜*(y) is made as a matrix; beyond, bounds take the place of constants.
DENSE, WORK = 1500, 4e9


class Measurements(ABC):
    """𝒜, with A_k the matrices of its rows: 𝒜(Y)_k = ⟨A_k, Y⟩.

    ``image(X)`` is whatever is linear in X and saves work: products with X are made there, and carried along lines.
    """

    n: int
    m: int
    dtype: type[np.floating[Any]]
    #: whether every A_k is positive semidefinite
    semidefinite: bool = False

    @abstractmethod
    def image(self, X: Array) -> Array:
        """Return what ``polars`` and ``adjoint`` need of X, linear in X."""

    @abstractmethod
    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return 𝒜((XDᵀ + DXᵀ)/2) for each pair of images of X and D, as the columns of an (m, k) array."""

    @abstractmethod
    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 𝒜*(y) X, from the image of X."""

    @abstractmethod
    def gram_product(self, y: Array) -> Array:
        """Return 𝒜(𝒜*(y)): the product with the Gram matrix of the A_k. It costs like a product with n columns."""

    @property
    def work(self) -> float:
        """About how many multiplications ``gram_product`` or ``adjoint_matrix`` takes."""
        return float(self.m) * self.n**2

    def adjoint_matrix(self, y: Array) -> Array:
        """Return 𝒜*(y) as an n × n array."""
        return self.adjoint(y, self.image(np.eye(self.n, dtype=self.dtype)))


def row_sums(U: Array, V: Array) -> Array:
    """Return Re Σ conj(U) ∘ V over each row."""
    total: Array
    if U.dtype.kind == "c":
        total = np.einsum("ij,ij->i", U.real, V.real) + np.einsum("ij,ij->i", U.imag, V.imag)
    else:
        total = np.einsum("ij,ij->i", U, V)
    return total


class Vectors(Measurements):
    """A_k = Re(a_k a_kᴴ): 𝒜(XXᵀ)_k = ‖a_kᵀX‖², with A (m, n) an array or a LinearOperator, real or complex.

    With ``pairs`` the signal is complex and carried as [Re; Im] in 2n real rows.
    """

    semidefinite = True

    def __init__(self, A: Any, pairs: bool = False) -> None:
        self.A, self.pairs = A, pairs
        self.m, self.columns = A.shape
        self.n = 2 * self.columns if pairs else self.columns
        kind = np.dtype(np.float64 if A.dtype is None else A.dtype)
        self.complex = kind.kind == "c"
        self.dtype = np.float32 if kind in (np.dtype(np.float32), np.dtype(np.complex64)) else np.float64

    def image(self, X: Array) -> Array:
        """Return A X, complex for complex signals."""
        Z = X[: self.columns] + 1j * X[self.columns :] if self.pairs else X
        if isinstance(self.A, LinearOperator):
            image = np.asarray(self.A.matmat(Z))
            return image.astype(np.result_type(X.dtype, np.complex64) if self.complex else X.dtype, copy=False)
        AX: Array = self.A @ Z
        return AX

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return Re Σ conj(AX) ∘ AD over the columns."""
        return np.stack([row_sums(U, V) for U, V in pairs], axis=1)

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return Aᴴ(y ∘ AX), real."""
        W = y.astype(image.real.dtype, copy=False)[:, None] * image
        if isinstance(self.A, LinearOperator):
            B = np.asarray(self.A.rmatmat(W))
        else:
            B = (W.conj().T @ self.A).conj().T  # no copy of A, conjugated or not
        B = np.concatenate([B.real, B.imag]) if self.pairs else B.real
        return np.ascontiguousarray(B, dtype=image.real.dtype)

    def gram_product(self, y: Array) -> Array:
        """Return a_kᵀ N conj(a_k) with N = Aᴴ diag(y) A, twice where each complex number stands for two real ones."""
        A = self._entries()
        N = (A.conj().T * y) @ A
        if not self.pairs:
            N = N.real
        return (2 if self.pairs else 1) * row_sums(A @ N, A)

    @property
    def work(self) -> float:
        """About m·n², four times that for complex numbers."""
        return (4.0 if self.complex else 1.0) * float(self.m) * float(self.columns) ** 2

    def _entries(self) -> Array:
        if not isinstance(self.A, LinearOperator):
            return self.A  # type: ignore[no-any-return]
        return np.asarray(self.A.matmat(np.eye(self.columns)))


# Matrices whose pattern fills more than this share of n × n are multiplied as dense ones.
_FULL = 0.1


class Matrices(Measurements):
    """𝒜(Y)_k = ⟨A_k, Y⟩ for symmetric A_k, dense or sparse: T y with y the entries of Y that any A_k touches.

    Parameters
    ----------
    stack : array or sparse (m, n²)
        Row k is A_k, row after row.
    n : int
    """

    def __init__(self, stack: Any, n: int) -> None:
        self.n, self.m = n, stack.shape[0]
        self.dtype = working_dtype(np.dtype(stack.dtype))
        if sp.issparse(stack):
            columns = sp.coo_array(stack)
            i, j = np.divmod(columns.coords[1].astype(np.int64), n)
            place = np.minimum(i, j) * n + np.maximum(i, j)
            kept, where = np.unique(place, return_inverse=True)
            # A_ij and A_ji fall on one place and add up
            T = sp.csr_array((columns.data, (columns.coords[0], where)), shape=(self.m, len(kept)), dtype=self.dtype)
            self.rows, self.cols = kept // n, kept % n
        else:
            self.rows, self.cols = np.triu_indices(n)
            A = stack.reshape(self.m, n, n)
            T = np.ascontiguousarray(A[:, self.rows, self.cols] + A[:, self.cols, self.rows], dtype=self.dtype)
            T[:, self.rows == self.cols] *= 0.5
        self.T = T
        self._half = np.where(self.rows == self.cols, 1.0, 0.5).astype(self.dtype)

    def image(self, X: Array) -> Array:
        """Return X."""
        return X

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return T y for each pair."""
        Y = np.stack([self._touched(X, D) for X, D in pairs], axis=1)
        q: Array = self.T @ Y
        return q

    def _touched(self, X: Array, D: Array) -> Array:
        i, j = self.rows, self.cols
        y: Array
        if self._is_full:
            Y = X @ D.T
            y = Y[i, j] if D is X else 0.5 * (Y[i, j] + Y[j, i])
        else:
            y = row_sums(X[i], D[j])
            y = y if D is X else 0.5 * (y + row_sums(X[j], D[i]))
        return y

    @property
    def _is_full(self) -> bool:
        return len(self.rows) > _FULL * self.n**2

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 𝒜*(y) X."""
        N = self.matrix(y.astype(self.dtype, copy=False))
        return np.ascontiguousarray(N @ image, dtype=image.dtype)

    def matrix(self, y: Array) -> Any:
        """Return 𝒜*(y), dense or sparse."""
        c = (self.T.T @ y) * self._half
        if self._is_full:
            N = np.zeros((self.n, self.n), dtype=c.dtype)
            N[self.rows, self.cols] = N[self.cols, self.rows] = c
            return N
        off = self.rows != self.cols
        i = np.concatenate([self.rows, self.cols[off]])
        j = np.concatenate([self.cols, self.rows[off]])
        return sp.csr_array((np.concatenate([c, c[off]]), (i, j)), shape=(self.n, self.n))

    @property
    def work(self) -> float:
        """The entries stored."""
        return float(self.T.nnz if sp.issparse(self.T) else self.T.size)

    def gram_product(self, y: Array) -> Array:
        """Return T diag(½ off the diagonal, 1 on it) Tᵀ y."""
        K: Array = self.T @ (self._half * (self.T.T @ y))
        return K

    def adjoint_matrix(self, y: Array) -> Array:
        """Return 𝒜*(y) as an n × n array."""
        N = self.matrix(y)
        return N.toarray() if sp.issparse(N) else N  # type: ignore[no-any-return]


@runtime_checkable
class Operator(Protocol):
    """What a user's own 𝒜 must offer: ``forward(X)`` = 𝒜(XXᵀ), ``adjoint(y, X)`` = 𝒜*(y)X, and ``n_points``.

    𝒜(XXᵀ) is real, of shape (m,), for X of any number of columns; 𝒜*(y) is symmetric, with ⟨𝒜(Y), y⟩ = ⟨Y, 𝒜*(y)⟩.
    It may offer ``polar(X, D)`` = 𝒜((XDᵀ + DXᵀ)/2) as well, which is otherwise made of two forward calls.
    """

    n_points: int

    def forward(self, X: Array) -> Array:
        """Return 𝒜(XXᵀ)."""

    def adjoint(self, y: Array, X: Array) -> Array:
        """Return 𝒜*(y) X."""


class Own(Measurements):
    """A user's `Operator`."""

    def __init__(self, operator: Operator, n: int, m: int) -> None:
        self.operator, self.n, self.m, self.dtype = operator, n, m, np.float64

    def image(self, X: Array) -> Array:
        """Return X."""
        return X

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return 𝒜((XDᵀ + DXᵀ)/2) for each pair, by ``polar`` or by ``forward``."""
        return np.stack([self._polar(X, D) for X, D in pairs], axis=1)

    def _polar(self, X: Array, D: Array) -> Array:
        if D is X:
            return self._measured(self.operator.forward(X))
        if hasattr(self.operator, "polar"):
            return self._measured(self.operator.polar(X, D))
        size, length = norm(X), norm(D)
        if size == 0 or length == 0:
            return np.zeros(self.m)
        # (X + sD)(X + sD)ᵀ − (X − sD)(X − sD)ᵀ = 2s(XDᵀ + DXᵀ); s makes both terms equally long, so no digit is lost
        s = size / length
        gap = self._measured(self.operator.forward(X + s * D)) - self._measured(self.operator.forward(X - s * D))
        return gap / (4 * s)

    def _measured(self, given: Any) -> Array:
        q: Array = np.asarray(given, dtype=np.float64)
        if q.shape != (self.m,):
            raise ValueError(f"forward(X) must return one number for each of the {self.m} of b, got shape {q.shape}")
        return q

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 𝒜*(y) X."""
        G = np.asarray(self.operator.adjoint(y, image), dtype=image.dtype)
        if G.shape != image.shape:
            raise ValueError(f"adjoint(y, X) must return an array of X's shape {image.shape}, got {G.shape}")
        return np.ascontiguousarray(G)

    @property
    def work(self) -> float:
        """About that of an eigendecomposition; what the operator itself costs is not known."""
        return float(self.n) ** 3

    def gram_product(self, y: Array) -> Array:
        """Return 𝒜(U₊U₊ᵀ) − 𝒜(U₋U₋ᵀ), the two parts of the spectrum of 𝒜*(y)."""
        N = self.adjoint_matrix(y)
        values, vectors = np.linalg.eigh((N + N.T) / 2)
        factors = vectors * np.sqrt(np.abs(values))
        q = np.zeros(self.m)
        for sign, part in ((1, factors[:, values > 0]), (-1, factors[:, values < 0])):
            if part.size:
                q += sign * self._measured(self.operator.forward(np.ascontiguousarray(part)))
        return q


class ScaledMeasurements(Measurements):
    """2^power · 𝒜."""

    def __init__(self, measurements: Measurements, power: int) -> None:
        self.whole, self.power = measurements, power
        self.n, self.m, self.dtype = measurements.n, measurements.m, measurements.dtype
        self.semidefinite = measurements.semidefinite

    def image(self, X: Array) -> Array:
        """Return the image under 𝒜."""
        return self.whole.image(X)

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return what 𝒜 measures, scaled."""
        return shifted(self.whole.polars(*pairs), self.power)

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 2^power · 𝒜*(y) X."""
        return self.whole.adjoint(shifted(y, self.power), image)

    def gram_product(self, y: Array) -> Array:
        """Return 4^power · 𝒜(𝒜*(y))."""
        return shifted(self.whole.gram_product(shifted(y, self.power)), self.power)

    @property
    def work(self) -> float:
        """That of 𝒜."""
        return self.whole.work


def as_measurements(A: Any, m: int) -> Measurements:
    """Return the map that A describes (see `quartic.losses.Sensing`), or raise an error that says what is wrong."""
    if isinstance(A, Measurements):
        return A
    if isinstance(A, LinearOperator):
        _refuse_complex(np.dtype(A.dtype))
        return Vectors(A)
    if sp.issparse(A):
        return _from_stack(A)
    if isinstance(A, list | tuple) and len(A) and all(sp.issparse(a) for a in A):
        shapes = {a.shape for a in A}
        if len(shapes) > 1 or A[0].shape[0] != A[0].shape[1]:
            raise ValueError(f"the matrices of A must be square and of one size, got shapes {sorted(shapes)}")
        return _from_stack(sp.vstack([sp.coo_array(a).reshape((1, -1)) for a in A], format="csr"))
    if isinstance(A, Operator):
        return Own(A, int(A.n_points), m)
    array = np.asarray(A)
    _refuse_complex(array.dtype)
    if array.dtype.kind not in "fiub" or array.ndim not in (2, 3):
        raise TypeError(
            "A must be an (m, n) array of vectors, an (m, n, n) array, a list of sparse matrices or a sparse (m, n²) "
            f"stack of them, or an object with forward, adjoint and n_points; got {type(A).__name__}"
            + (f" of shape {array.shape}, dtype {array.dtype}" if array.ndim else "")
        )
    clean = np.ascontiguousarray(array, dtype=working_dtype(array.dtype))
    if not np.isfinite(clean).all():
        place = tuple(int(k) for k in np.argwhere(~np.isfinite(clean))[0])
        raise ValueError(f"A must be finite, but A{list(place)} is {clean[place]}")
    if clean.ndim == 2:
        return Vectors(clean)
    if clean.shape[1] != clean.shape[2]:
        raise ValueError(f"A of shape (m, n, n) holds m square matrices, got shape {clean.shape}")
    _check_symmetric(clean)
    return Matrices(clean.reshape(len(clean), -1), clean.shape[1])


def _from_stack(stack: Any) -> Matrices:
    n = round(stack.shape[1] ** 0.5)
    if n * n != stack.shape[1]:
        raise ValueError(
            f"a sparse A holds one matrix a row, (m, n²), but {stack.shape[1]} columns are no square; "
            "for sparse vectors pass scipy.sparse.linalg.aslinearoperator(A)"
        )
    _refuse_complex(stack.dtype)
    S = sp.coo_array(stack)
    if not np.isfinite(S.data).all():
        raise ValueError("A must be finite, but a stored entry is not")
    i, j = np.divmod(S.coords[1].astype(np.int64), n)
    gap = abs(sp.csr_array(S) - sp.csr_array((S.data, (S.coords[0], j * n + i)), shape=S.shape))
    if gap.nnz and gap.max() > 1e-6 * np.abs(S.data).max():
        k, place = divmod(int(sp.coo_array(gap).argmax()), n * n)
        raise ValueError(_asymmetric(k, *divmod(place, n)))
    return Matrices(S, n)


def _check_symmetric(A: Array) -> None:
    for k, a in enumerate(A):
        gap = np.abs(a - a.T)
        if gap.max() > 1e-6 * np.abs(a).max(initial=0.0):
            i, j = np.unravel_index(int(gap.argmax()), gap.shape)
            raise ValueError(_asymmetric(k, int(i), int(j)))


def _asymmetric(k: int, i: int, j: int) -> str:
    return (
        f"A[{k}] must be symmetric, but its entries ({i}, {j}) and ({j}, {i}) differ; only the symmetric part "
        "meets XXᵀ: pass (A + Aᵀ)/2"
    )


def _refuse_complex(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise TypeError("A is complex, which makes this phase retrieval; use PhaseRetrieval(A, b)")
