"""Linear maps 𝒜 from symmetric n × n matrices to m numbers, used through the factors of XXᵀ alone.

`Measurements` says what such a map offers; `Vectors`, `Matrices` and `Own` are the kinds there are, and
`as_measurements` tells from what the user gave which it is.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import (
    HOST,
    Array,
    Space,
    as_array,
    as_floats,
    astype,
    finite_csr,
    first_entry,
    float_type,
    kind_of,
    matmul,
    namespace,
    norm,
    space_of,
    to_host,
)
from quartic.core.units import shifted
from quartic.losses.factor.spectrum import signed_factors

# Up to so many rows of X, and multiplications, 𝒜*(y) is made as a matrix; beyond, bounds take the place of constants.
DENSE, WORK = 1500, 4e9
# Matrices whose pattern fills more than this share of n × n are multiplied as dense ones.
_FULL = 0.1


class Measurements(ABC):
    """2^power · 𝒜, with A_k the matrices of the rows of 𝒜: 𝒜(Y)_k = ⟨A_k, Y⟩.

    ``image(X)`` is whatever is linear in X and saves work: products with X are made there, and carried along lines.
    """

    n: int
    m: int
    dtype: type[np.floating[Any]]
    #: where its numbers are
    space: Space = HOST
    #: whether every A_k is positive semidefinite
    semidefinite: bool = False
    power: int = 0

    def image(self, X: Array) -> Array:
        """Return what ``polars`` and ``adjoint`` need of X, linear in X: X itself, or a product with it."""
        return X

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return 𝒜((XDᵀ + DXᵀ)/2) for each pair of images of X and D, as the columns of an (m, k) array."""
        return shifted(self._polars(*pairs), self.power)

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 𝒜*(y) X, from the image of X."""
        return as_floats(astype(self._adjoint(shifted(y, self.power), image), self._type(image)))

    def gram_product(self, y: Array) -> Array:
        """Return 𝒜(𝒜*(y)): the product with the Gram matrix of the A_k. It costs like a product with n columns."""
        return shifted(self._gram_product(shifted(y, self.power)), self.power)

    def scaled(self, power: int) -> Self:
        """Return 2^power times this."""
        twin = copy.copy(self)
        twin.power += power
        return twin

    @property
    def work(self) -> float:
        """About how many multiplications ``gram_product`` or ``adjoint_matrix`` takes."""
        return float(self.m) * self.n**2

    def adjoint_matrix(self, y: Array) -> Array:
        """Return 𝒜*(y) as an n × n array."""
        return self.adjoint(y, self.image(self.space.adopt(np.eye(self.n, dtype=self.dtype))))

    def _type(self, image: Array) -> type[np.floating[Any]]:
        return float_type(image)

    @abstractmethod
    def _polars(self, *pairs: tuple[Array, Array]) -> Array: ...

    @abstractmethod
    def _adjoint(self, y: Array, image: Array) -> Array: ...

    @abstractmethod
    def _gram_product(self, y: Array) -> Array: ...


def row_sums(U: Array, V: Array) -> Array:
    """Return Re Σ conj(U) ∘ V over each row."""
    sums = namespace(U).einsum
    if is_complex(U):
        return sums("ij,ij->i", U.real, V.real) + sums("ij,ij->i", U.imag, V.imag)
    return sums("ij,ij->i", U, V)


def is_complex(A: Any) -> bool:
    """Tell whether an array, a tensor or an operator has complex entries."""
    return "complex" in str(A.dtype)


class Vectors(Measurements):
    """A_k = Re(a_k a_kᴴ): 𝒜(XXᵀ)_k = ‖a_kᵀX‖², with A (m, n) an array or a LinearOperator, real or complex.

    With ``pairs`` the signal is complex and carried as [Re; Im] in 2n real rows.
    """

    semidefinite = True

    def __init__(self, A: Any, pairs: bool = False) -> None:
        self.A, self.pairs, self.space = A, pairs, space_of(A)
        self.m, self.columns = (int(size) for size in A.shape)
        self.n = 2 * self.columns if pairs else self.columns
        self.complex, self.known = is_complex(A), not isinstance(A, LinearOperator)
        self.dtype = np.float32 if str(A.dtype).endswith(("float32", "complex64")) else np.float64

    def image(self, X: Array) -> Array:
        """Return A X, complex for complex signals."""
        Z = X[: self.columns] + 1j * X[self.columns :] if self.pairs else X + 0j if self.complex else X
        if self.known:
            return cast(Array, matmul(self.A, Z))
        return np.asarray(self.A.matmat(Z)).astype(Z.dtype, copy=False)

    def _type(self, image: Array) -> type[np.floating[Any]]:
        return float_type(image.real)

    def _polars(self, *pairs: tuple[Array, Array]) -> Array:
        return namespace(pairs[0][0]).hstack([row_sums(U, V)[:, None] for U, V in pairs])

    def _adjoint(self, y: Array, image: Array) -> Array:
        """Return Aᴴ(y ∘ AX), real."""
        W = astype(y, self._type(image))[:, None] * image
        if self.known:
            A = self.A if self.space is HOST else self.A.to(W.dtype)
            B = (W.conj().T @ A).conj().T  # no copy of A, conjugated or not
        else:
            B = np.asarray(self.A.rmatmat(W))
        return namespace(W).concatenate([B.real, B.imag]) if self.pairs else B.real

    def _gram_product(self, y: Array) -> Array:
        """Return a_kᵀ N conj(a_k) with N = Aᴴ diag(y) A, twice where each complex number stands for two real ones."""
        A = self.A if self.known else np.asarray(self.A.matmat(np.eye(self.columns)))
        N = (A.conj().T * y) @ A
        if self.pairs:
            return 2 * row_sums(A @ N, A)
        return sum(row_sums(P @ N.real, P) for P in ((A.real, A.imag) if self.complex else (A,)))  # type: ignore[return-value]

    @property
    def work(self) -> float:
        return (4.0 if self.complex else 1.0) * float(self.m) * float(self.columns) ** 2


class Matrices(Measurements):
    """𝒜(Y)_k = ⟨A_k, Y⟩ for symmetric A_k, dense or sparse: T y with y the entries of Y that any A_k touches.

    Row k of the stack (m, n²) is A_k, row after row.
    """

    def __init__(self, stack: Any, n: int) -> None:
        self.n, self.m, self.space = n, int(stack.shape[0]), space_of(stack)
        self.dtype = float_type(stack)
        if sp.issparse(stack):
            columns = sp.coo_array(stack)
            i, j = np.divmod(columns.coords[1].astype(np.int64), n)
            place = np.minimum(i, j) * n + np.maximum(i, j)
            kept, where = np.unique(place, return_inverse=True)
            # A_ij and A_ji fall on one place and add up
            T = sp.csr_array((columns.data, (columns.coords[0], where)), shape=(self.m, len(kept)), dtype=self.dtype)
            rows, cols = kept // n, kept % n
        else:
            rows, cols = np.triu_indices(n)
            A = stack.reshape(self.m, n, n)
            T = as_floats(A[:, rows, cols] + A[:, cols, rows])
            T[:, rows == cols] *= 0.5
        self.T, self._full = T, len(rows) > _FULL * n**2
        self._half = self.space.adopt(np.where(rows == cols, 1.0, 0.5).astype(self.dtype))
        self.rows, self.cols = self.space.adopt(rows), self.space.adopt(cols)

    def _polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return T y for each pair."""
        Y = namespace(pairs[0][0]).hstack([self._touched(X, D)[:, None] for X, D in pairs])
        return cast(Array, matmul(self.T, Y))

    def _touched(self, X: Array, D: Array) -> Array:
        i, j = self.rows, self.cols
        y: Array
        if self._full:
            Y = X @ D.T
            y = Y[i, j] if D is X else 0.5 * (Y[i, j] + Y[j, i])
        else:
            y = row_sums(X[i], D[j])
            y = y if D is X else 0.5 * (y + row_sums(X[j], D[i]))
        return y

    def _adjoint(self, y: Array, image: Array) -> Array:
        return cast(Array, matmul(self._matrix(y), image))

    def _matrix(self, y: Array) -> Any:
        """Return 𝒜*(y), dense or sparse."""
        c = (self.T.T @ astype(y, self.dtype)) * self._half
        if self._full:
            N: Any = self.space.zeros((self.n, self.n), self.dtype)
            N[self.rows, self.cols] = N[self.cols, self.rows] = c
            return N
        off = self.rows != self.cols
        i = np.concatenate([self.rows, self.cols[off]])
        j = np.concatenate([self.cols, self.rows[off]])
        return sp.csr_array((np.concatenate([c, c[off]]), (i, j)), shape=(self.n, self.n))

    @property
    def work(self) -> float:
        return float(self.T.nnz if sp.issparse(self.T) else self.T.shape[0] * self.T.shape[1])

    def _gram_product(self, y: Array) -> Array:
        """Return T diag(½ off the diagonal, 1 on it) Tᵀ y."""
        return self.T @ (self._half * (self.T.T @ y))


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

    def _polars(self, *pairs: tuple[Array, Array]) -> Array:
        return np.stack([self._polar(X, D) for X, D in pairs], axis=1)

    def _polar(self, X: Array, D: Array) -> Array:
        """Return 𝒜((XDᵀ + DXᵀ)/2), by ``polar`` or by ``forward``."""
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

    def _adjoint(self, y: Array, image: Array) -> Array:
        G = np.asarray(self.operator.adjoint(y, image))
        if G.shape != image.shape:
            raise ValueError(f"adjoint(y, X) must return an array of X's shape {image.shape}, got {G.shape}")
        return G

    @property
    def work(self) -> float:
        """About that of an eigendecomposition; what the operator itself costs is not known."""
        return float(self.n) ** 3

    def _gram_product(self, y: Array) -> Array:
        """Return 𝒜(U₊U₊ᵀ) − 𝒜(U₋U₋ᵀ), the two parts of the spectrum of 𝒜*(y)."""
        N = self._adjoint(y, np.eye(self.n))
        q = np.zeros(self.m)
        for sign, factor in signed_factors((N + N.T) / 2):
            q += sign * self._measured(self.operator.forward(factor))
        return q


# -- what the user gave -----------------------------------------------------------------------------------------------


def as_measurements(A: Any, m: int) -> Measurements:
    """Return the map that A describes (see `quartic.losses.Sensing`), or raise an error that says what is wrong."""
    if isinstance(A, Measurements):
        return A
    if isinstance(A, LinearOperator):
        _refuse_complex(A)
        return Vectors(A)
    if sp.issparse(A):
        return _from_stack(A)
    if isinstance(A, list | tuple) and any(sp.issparse(a) for a in A):
        shapes = {np.shape(a) for a in A}
        if len(shapes) > 1 or len(A[0].shape) != 2 or A[0].shape[0] != A[0].shape[1]:
            raise ValueError(f"the matrices of A must be square and of one size, got shapes {sorted(shapes)}")
        return _from_stack(sp.vstack([sp.coo_array(a).reshape((1, -1)) for a in A], format="csr"))
    if isinstance(A, Operator):
        return Own(A, int(A.n_points), m)
    if np.ndim(A) not in (2, 3):
        raise TypeError(
            "A must be an (m, n) array of vectors, an (m, n, n) array, a list of sparse matrices or a sparse (m, n²) "
            f"stack of them, or an object with forward, adjoint and n_points; got {type(A).__name__}"
            + (f" of shape {np.shape(A)}" if np.ndim(A) else "")
        )
    clean = finite_array(A, "A")
    _refuse_complex(clean)
    if clean.ndim == 2:
        return Vectors(clean)
    if clean.shape[1] != clean.shape[2]:
        raise ValueError(f"A of shape (m, n, n) holds m square matrices, got shape {tuple(clean.shape)}")
    for k, a in enumerate(clean):
        gap = abs(a - a.T)
        if float(gap.max()) > 1e-6 * float(abs(a).max()):
            _refuse_asymmetric(k, *divmod(int(gap.argmax()), a.shape[1]))
    return Matrices(clean.reshape(len(clean), -1), int(clean.shape[1]))


def finite_array(A: Any, name: str) -> Any:
    """Return an array or tensor of numbers, real or complex, in single or double precision, or raise an error."""
    A = as_array(A, name)
    if space_of(A) is not HOST and A.layout != namespace(A).strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {A.layout}; sparse matrices are taken from SciPy")
    if kind_of(A) not in "fiubc":
        raise TypeError(f"{name} must be numbers, real or complex, got dtype {A.dtype}")
    if kind_of(A) != "c":
        clean: Any = as_floats(A)
    elif space_of(A) is HOST:
        clean = np.ascontiguousarray(A, dtype=np.complex64 if A.dtype == np.complex64 else np.complex128)
    else:
        clean = A.contiguous()
    place = first_entry(~namespace(clean).isfinite(clean))
    if place is not None:
        raise ValueError(f"{name} must be finite, but {name}{list(place)} is {to_host(clean)[place]}")
    return clean


def _from_stack(stack: Any) -> Matrices:
    n = round(stack.shape[1] ** 0.5)
    if n * n != stack.shape[1]:
        raise ValueError(
            f"a sparse A holds one matrix a row, (m, n²), but {stack.shape[1]} columns are no square; "
            "for sparse vectors pass scipy.sparse.linalg.aslinearoperator(A)"
        )
    _refuse_complex(stack)
    S = sp.coo_array(finite_csr(stack, "A"))
    i, j = np.divmod(S.coords[1].astype(np.int64), n)
    gap = abs(sp.csr_array(S) - sp.csr_array((S.data, (S.coords[0], j * n + i)), shape=S.shape))
    if gap.nnz and gap.max() > 1e-6 * np.abs(S.data).max():
        k, place = divmod(int(sp.coo_array(gap).argmax()), n * n)
        _refuse_asymmetric(k, *divmod(place, n))
    return Matrices(S, n)


def _refuse_asymmetric(k: int, i: int, j: int) -> None:
    raise ValueError(
        f"A[{k}] must be symmetric, but its entries ({i}, {j}) and ({j}, {i}) differ; only the symmetric part "
        "meets XXᵀ: pass (A + Aᵀ)/2"
    )


def _refuse_complex(A: Any) -> None:
    if is_complex(A):
        raise TypeError("A is complex, which makes this phase retrieval; use PhaseRetrieval(A, b)")
