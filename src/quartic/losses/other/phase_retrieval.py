"""Phase retrieval: a signal from the intensities |⟨a_k, z⟩|² alone, as of coded diffraction patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, RandomState, as_array, check_count, first_entry, kind_of, random_generator, to_host
from quartic.losses.other.measurements import Vectors, finite_array, is_complex
from quartic.losses.other.sensing import Sensing


class PhaseRetrieval(Sensing):
    r"""Phase retrieval :math:`f(X) = \frac12\sum_k (\|a_k^TX\|^2 - y_k)^2`: :math:`z` from :math:`y = |Az|^2`.

    The phases of Az are lost, so z is known up to a global one: ±z for real signals, e^{iθ}z for complex ones.

    A complex signal z = u + iv is carried as the 2n real rows [u; v]. X has one column as a rule; with r columns
    z_1 … z_r the model is the sum of their intensities, which is harder to get stuck in, and ``signal`` takes the
    leading part. `minimize` begins with the usual spectral start.

    Parameters
    ----------
    A : array or tensor (m, n), or LinearOperator
        The sampling vectors, a row each, real or complex; with a tensor all is done on its device. An operator, such as
        `CodedDiffraction`, is known by its products alone: z ↦ Az and w ↦ Aᴴw.
    y : array (m,)
        Intensities: squares of magnitudes, so nonnegative.
    real : bool, optional
        Whether the signal is real; when left out, whether A is.
    smoothness : float, optional
        L_F, if you know it.

    Notes
    -----
    This is `Sensing` with A_k = Re(a_k a_kᴴ), and the constants are those: L_F = λ_max(K), with K_kl = |⟨a_k, a_l⟩|²
    for a real signal and real A. For complex signals A_k is the 2n × 2n matrix ααᵀ + ββᵀ with α = [Re a; −Im a] and
    β = [Im a; Re a], whose inner products are ⟨α_k, α_l⟩ = ⟨β_k, β_l⟩ = Re⟨a_k, a_l⟩ and ⟨α_k, β_l⟩ = ±Im⟨a_k, a_l⟩, so
    that K_kl = 2|⟨a_k, a_l⟩|². As y ≥ 0, ∇F(0) = −𝒜*(y) is negative semidefinite and ``curvature_at_zero`` is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, losses, minimize
    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal(16) + 1j * rng.standard_normal(16)
    >>> A = rng.standard_normal((96, 16)) + 1j * rng.standard_normal((96, 16))
    >>> loss = losses.PhaseRetrieval(A, np.abs(A @ z) ** 2)
    >>> result = minimize(Problem(loss), rank=1, tol=1e-9, random_state=0)
    >>> bool(np.allclose(loss.signal(result.X, like=z), z))
    True
    """

    def __init__(self, A: Any, y: Any, *, real: bool | None = None, smoothness: float | None = None) -> None:
        if not isinstance(A, LinearOperator):
            A = finite_array(A, "A")
            if A.ndim != 2 or 0 in A.shape:
                raise ValueError(f"A must be an (m, n) array, a sampling vector a row, got shape {tuple(A.shape)}")
        self.real = not is_complex(A) if real is None else bool(real)
        y = as_array(y, "y")
        if kind_of(y) != "c" and first_entry(y < 0) is not None:
            k = int(y.argmin())
            raise ValueError(f"y[{k}] = {float(y.min())} is negative; y holds intensities |⟨a_k, z⟩|²")
        super().__init__(Vectors(A, pairs=not self.real), y, smoothness=smoothness)

    def signal(self, X: Any, like: Any = None) -> NDArray[Any]:
        """Return the signal (n,) that X stands for: √λ·v for the leading eigenpair of Σ z_c z_cᴴ over its columns.

        Parameters
        ----------
        X : array (n, r), or (2n, r) for complex signals
            A point of the loss.
        like : array (n,), optional
            The global phase (or sign) is chosen to be as near to this as can be.

        Returns
        -------
        array (n,)
            Complex unless ``real``.
        """
        X = to_host(self.check(X))
        half = self.n_points // 2
        Z: NDArray[Any] = X if self.real else X[:half] + 1j * X[half:]
        z: NDArray[Any]
        if Z.shape[1] == 1:
            z = Z[:, 0]
        else:
            left, sizes, _ = np.linalg.svd(Z, full_matrices=False)
            z = sizes[0] * left[:, 0]
        if like is not None:
            overlap = np.vdot(z, np.asarray(like))
            z = z * (overlap / abs(overlap) if abs(overlap) > 0 else 1.0)
        return np.real(z).copy() if self.real else z

    def point(self, z: Any) -> Array:
        """Return the X of one column that stands for the signal z: [Re z; Im z] for complex signals."""
        z = np.asarray(z).ravel()
        X = z.real if self.real else np.concatenate([z.real, z.imag])
        return self.check(X[:, None])


class CodedDiffraction(LinearOperator):  # type: ignore[misc]
    r"""The map :math:`z \mapsto (\mathcal F(d_1 \circ z), \dots, \mathcal F(d_L \circ z))`, unitary Fourier transforms.

    What a detector sees when a known mask d_l stands before the object; |·|² of it is what it records. The matrix is
    never formed: a product costs L fast transforms.

    Parameters
    ----------
    masks : complex array (L, n) or (L, n1, n2)
        One mask a row, or one image each: then transforms are two-dimensional and signals are raveled images.

    Notes
    -----
    AᴴA is diagonal, Σ_l |d_l|².

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import CodedDiffraction
    >>> A = CodedDiffraction.random(6, (8, 8), random_state=0)
    >>> A.shape
    (384, 64)
    """

    def __init__(self, masks: Any) -> None:
        masks = finite_array(masks, "masks")
        if masks.ndim not in (2, 3) or 0 in masks.shape:
            raise ValueError(f"masks must be of shape (L, n) or (L, n1, n2), got {tuple(masks.shape)}")
        self.masks: NDArray[Any] = masks.astype(np.result_type(masks, np.complex64))
        self.image_shape = masks.shape[1:]
        n = int(np.prod(self.image_shape))
        self._axes = tuple(range(2, masks.ndim + 1))  # behind masks and columns
        super().__init__(self.masks.dtype, (len(masks) * n, n))

    @classmethod
    def random(cls, n_masks: int, shape: int | tuple[int, int], random_state: RandomState = None) -> CodedDiffraction:
        """Return masks with entries drawn from {1, −1, i, −i}, now and then (one in five) stronger, else weaker.

        The octanary law of Candès, Li and Soltanolkotabi (2015), whose fourth moment makes recovery provable.
        """
        check_count(n_masks, "n_masks")
        generator = random_generator(random_state)
        size = (n_masks, *(shape if isinstance(shape, tuple) else (shape,)))
        phase = generator.choice(np.array([1, -1, 1j, -1j]), size)
        strength = np.where(generator.random(size) < 0.2, np.sqrt(3.0), np.sqrt(0.5))
        return cls(phase * strength)

    def _matmat(self, Z: Any) -> NDArray[Any]:
        from scipy.fft import fftn

        images = np.moveaxis(Z.reshape(*self.image_shape, -1), -1, 0)
        seen = fftn(self.masks[:, None] * images[None], axes=self._axes, norm="ortho", overwrite_x=True)
        return np.moveaxis(seen, 1, -1).reshape(self.shape[0], -1)

    def _rmatmat(self, W: Any) -> NDArray[Any]:
        from scipy.fft import ifftn

        patterns = np.moveaxis(W.reshape(len(self.masks), *self.image_shape, -1), -1, 0)
        back = ifftn(patterns, axes=self._axes, norm="ortho")
        return np.moveaxis((self.masks.conj()[None] * back).sum(axis=1), 0, -1).reshape(self.shape[1], -1)
