"""
A kernel matrix from a tenth of its entries
===========================================

Similarities are often expensive: an experiment, a human judgement, an alignment of two proteins. Here are 1,797
handwritten digits and the cosine of every two of them, a positive semidefinite matrix; of its 1.6 million entries one
in ten is given. `~quartic.losses.Completion` fits an XXᵀ of rank r to those, and so predicts the others.

How good can it be? No matrix of rank r is nearer to M than the one of its leading eigenvectors, and that one needs all
of M. A small ridge prevents overfitting to the known entries.
"""

from __future__ import annotations

import numpy as np

from quartic import Problem, minimize
from quartic.losses import Completion


def similarities(n_samples: int) -> np.ndarray:
    """Return the cosines between the first digits of scikit-learn's collection."""
    from sklearn.datasets import load_digits

    D = load_digits().data[:n_samples]
    D = D / np.linalg.norm(D, axis=1, keepdims=True)
    return D @ D.T


def run(
    n_samples: int = 1797, share: float = 0.1, ranks: tuple[int, ...] = (2, 4, 8, 16), seed: int = 0
) -> tuple[dict[int, tuple[float, float]], object]:
    """Return for each rank the error on the hidden entries and the least any matrix of that rank has, and a figure."""
    M = similarities(n_samples)
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(len(M))
    shown = rng.random(len(i)) < share
    hidden = M[i[~shown], j[~shown]]
    values, vectors = np.linalg.eigh(M)
    errors = {}
    for rank in ranks:
        loss = Completion(i[shown], j[shown], M[i[shown], j[shown]], len(M), ridge=0.02)
        X = minimize(Problem(loss), rank=rank, tol=1e-4, random_state=seed).X
        best = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
        errors[rank] = tuple(
            float(np.linalg.norm(Y[i[~shown], j[~shown]] - hidden) / np.linalg.norm(hidden)) for Y in (X @ X.T, best)
        )
    return errors, draw(errors, share)


def draw(errors: dict[int, tuple[float, float]], share: float) -> object:
    """Return both errors against the rank."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="rank", ylabel="relative error on what was hidden")
    found, best = np.array(list(errors.values())).T
    axes.plot(list(errors), found, "o-", color="#0072B2", label=f"from {share:.0%} of the entries")
    axes.plot(list(errors), best, "s--", color="#D55E00", label="best of that rank, from all of them")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    table, picture = run()
    for r, (ours, least) in table.items():
        print(f"rank {r:2d}: {ours:.4f} from a tenth of the entries, {least:.4f} at best from all")
    if picture is not None:
        picture.savefig("completion.png", dpi=150)
        print("completion.png")
