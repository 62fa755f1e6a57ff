"""
An image from its diffraction patterns
======================================

A detector far behind an object records the intensity of its Fourier transform; the phases are lost, and with them the
image, unless masks of known shape are put before the object and several patterns are taken.
`~quartic.losses.PhaseRetrieval` with a `~quartic.losses.CodedDiffraction` operator finds the image: fast Fourier
transforms only, the matrix is never formed.

The object here is a transparent cell, as in a microscope: it absorbs little, and delays light by what is in it. So the
picture to be found is complex: a brightness and a delay at every pixel. Without noise both come back to six digits and
more, up to one phase for all; with noise they come back as good as the noise.
"""

from __future__ import annotations

import numpy as np

from quartic import Problem, minimize
from quartic.losses import CodedDiffraction, PhaseRetrieval


def cell(side: int) -> np.ndarray:
    """Return a complex image: an ellipse with a nucleus, a few vesicles and a fold."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]

    def blob(cx: float, cy: float, a: float, b: float, angle: float) -> np.ndarray:
        u = (x - cx) * np.cos(angle) + (y - cy) * np.sin(angle)
        v = (y - cy) * np.cos(angle) - (x - cx) * np.sin(angle)
        return 1 / (1 + np.exp(12 * (np.hypot(u / a, v / b) - 1)))

    body, nucleus = blob(0, 0, 0.8, 0.6, 0.4), blob(0.15, -0.1, 0.3, 0.22, 1.0)
    spots = sum(blob(cx, cy, 0.07, 0.07, 0) for cx, cy in ((-0.4, 0.1), (-0.3, -0.25), (0.45, 0.3), (0.1, 0.35)))
    fold = body * np.exp(-(((x - y + 0.3) / 0.1) ** 2))
    return (1 - 0.2 * body - 0.3 * nucleus - 0.2 * spots) * np.exp(1j * (1.2 * body + 0.8 * nucleus + 0.5 * fold))


def run(side: int = 64, n_masks: int = 6, noise: float = 0.0, seed: int = 0) -> tuple[float, object]:
    """Return the relative error of the image found, up to a global phase, and a figure."""
    truth = cell(side)
    A = CodedDiffraction.random(n_masks, (side, side), random_state=seed)
    patterns = np.abs(A @ truth.ravel()) ** 2
    patterns *= np.maximum(1 + noise * np.random.default_rng(seed).standard_normal(len(patterns)), 0)
    loss = PhaseRetrieval(A, patterns)
    result = minimize(Problem(loss), rank=1, tol=1e-8, random_state=seed)
    image = loss.signal(result.X, like=truth.ravel()).reshape(side, side)
    error = float(np.linalg.norm(image - truth) / np.linalg.norm(truth))
    return error, draw(patterns[: side * side].reshape(side, side), image)


def draw(pattern: np.ndarray, image: np.ndarray) -> object:
    """Return one of the patterns, and the brightness and delay found."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(9, 3), layout="constrained")
    pictures = (
        ("one of the patterns (log)", np.log1p(np.fft.fftshift(pattern))),
        ("brightness found", np.abs(image)),
        ("delay found", np.angle(image)),
    )
    for k, (title, picture) in enumerate(pictures):
        axes = figure.add_subplot(1, 3, k + 1)
        axes.imshow(picture, cmap="cividis")
        axes.set_title(title)
        axes.set_axis_off()
    return figure


if __name__ == "__main__":
    exact, drawn = run()
    print(f"64 × 64 pixels, six patterns: relative error {exact:.1e}")
    print(f"with 5 % noise on every intensity: {run(noise=0.05)[0]:.1e}")
    if drawn is not None:
        drawn.savefig("phase-retrieval.png", dpi=150)
        print("phase-retrieval.png")
