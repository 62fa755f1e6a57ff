"""Coded diffraction patterns: Fourier transforms of a signal seen through masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import RandomState, check_count, random_generator


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
        masks = np.asarray(masks)
        if masks.ndim not in (2, 3) or 0 in masks.shape or masks.dtype.kind not in "fiubc":
            raise ValueError(
                f"masks must be numbers of shape (L, n) or (L, n1, n2), got {masks.shape} of dtype {masks.dtype}"
            )
        if not np.isfinite(masks).all():
            raise ValueError("masks must be finite")
        single = masks.dtype in (np.dtype(np.float32), np.dtype(np.complex64))
        self.masks: NDArray[Any] = masks.astype(np.complex64 if single else np.complex128)
        self.image_shape = masks.shape[1:]
        n = int(np.prod(self.image_shape))
        self._axes = tuple(range(1, masks.ndim))
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

        columns = Z.shape[1]
        images = np.moveaxis(Z.reshape(*self.image_shape, columns), -1, 0)
        seen = self.masks[:, None] * images[None]
        axes = tuple(a + 1 for a in self._axes)
        transformed = fftn(seen, axes=axes, norm="ortho", overwrite_x=True)
        stacked: NDArray[Any] = np.moveaxis(transformed, 1, -1).reshape(self.shape[0], columns)
        return stacked

    def _rmatmat(self, W: Any) -> NDArray[Any]:
        from scipy.fft import ifftn

        columns = W.shape[1]
        patterns = np.moveaxis(W.reshape(len(self.masks), *self.image_shape, columns), -1, 0)
        axes = tuple(a + 1 for a in self._axes)
        back = ifftn(patterns, axes=axes, norm="ortho")
        total = (self.masks.conj()[None] * back).sum(axis=1)
        signals: NDArray[Any] = np.moveaxis(total, 0, -1).reshape(self.shape[1], columns)
        return signals

    def _matvec(self, z: Any) -> NDArray[Any]:
        return self._matmat(z.reshape(-1, 1)).ravel()

    def _rmatvec(self, w: Any) -> NDArray[Any]:
        return self._rmatmat(w.reshape(-1, 1)).ravel()
