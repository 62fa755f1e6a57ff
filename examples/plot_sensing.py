"""
A covariance from quadratic measurements
========================================

A detector that only measures energy sees, for each vector a_k it is tuned to, the mean of (a_kᵀx)² over a stream of
signals x: that is a_kᵀΣa_k, one number about their covariance Σ. No signal is ever stored. From enough such numbers
`~quartic.losses.Sensing` finds Σ, if it is of low rank or nearly so, and with it the principal components.

The stream here is scikit-learn's handwritten digits, 64 pixels each, measured along 6nr random directions. Two answers
are known: for digits projected to r components recovery is exact; for the digits as they are the subspace should be
near that of ordinary principal components, which see every pixel.
"""

from __future__ import annotations

import numpy as np

from quartic import Problem, minimize
from quartic.losses import Sensing


def digits() -> np.ndarray:
    """Return the digits, centred and scaled to unit variance in all."""
    from sklearn.datasets import load_digits

    D = load_digits().data
    D = D - D.mean(axis=0)
    return D / np.sqrt((D**2).sum() / len(D))


def from_energies(A: np.ndarray, stream: np.ndarray, rank: int, seed: int) -> np.ndarray:
    """Return X with XXᵀ near the covariance of the stream, seen through energies only."""
    energies = ((stream @ A.T) ** 2).mean(axis=0)
    return minimize(Problem(Sensing(A, energies)), rank=rank, tol=1e-8, random_state=seed).X


def run(rank: int = 8, seed: int = 0) -> tuple[float, float, object]:
    """Return the error for digits of exact rank, the share of variance kept for real ones, and a figure."""
    D = digits()
    components = np.linalg.svd(D, full_matrices=False)[2][:rank]
    A = np.random.default_rng(seed).standard_normal((6 * D.shape[1] * rank, D.shape[1]))
    flat = D @ components.T @ components
    covariance = flat.T @ flat / len(D)
    X = from_energies(A, flat, rank, seed)
    error = float(np.linalg.norm(X @ X.T - covariance) / np.linalg.norm(covariance))
    found = np.linalg.svd(from_energies(A, D, rank, seed))[0][:, :rank]
    kept = float(((D @ found) ** 2).sum() / ((D @ components.T) ** 2).sum())
    return error, kept, draw(components, found)


def draw(components: np.ndarray, found: np.ndarray) -> object:
    """Return the leading components from pixels and those from energies, turned to lie on them."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    left, _, right = np.linalg.svd(found.T @ components.T)
    turned = found @ left @ right
    figure = Figure(figsize=(8, 3), layout="constrained")
    for k in range(min(5, len(components))):
        for row, image, name in ((0, components[k], "from pixels"), (1, turned[:, k], "from energies")):
            axes = figure.add_subplot(2, 5, 5 * row + k + 1)
            axes.imshow(image.reshape(8, 8), cmap="cividis")
            axes.set_xticks([])
            axes.set_yticks([])
            if k == 0:
                axes.set_ylabel(name)
    return figure


if __name__ == "__main__":
    exact, share, picture = run()
    print(f"rank 8 exactly: covariance recovered to {exact:.1e}")
    print(f"the digits as they are: {share:.1%} of the variance that principal components keep")
    if picture is not None:
        picture.savefig("sensing.png", dpi=150)
        print("sensing.png")
