"""What the clusters of documents are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


def top_terms(counts: Any, labels: Any, terms: Sequence[str], n_terms: int = 10) -> list[list[str]]:
    r"""Return the terms that tell each cluster of documents from the others, the most telling first.

    By the log-likelihood ratio of a term's count within the cluster and outside (Dunning 1993),
    :math:`2 \sum_s O_s \log(O_s / E_s)` over inside and outside, among terms more frequent inside.

    Parameters
    ----------
    counts : array or sparse matrix (n, p)
        Occurrences of p terms in n documents.
    labels : array of int (n,)
        Clusters.
    terms : sequence of str (p,)
        Names of the columns.
    n_terms : int, default=10
        Terms for each cluster.

    Examples
    --------
    >>> from quartic.clustering.terms import top_terms
    >>> top_terms([[3, 0, 1], [2, 0, 1], [0, 4, 1]], [0, 0, 1], ["tax", "goal", "today"], n_terms=1)
    [['tax'], ['goal']]
    """
    C = sp.csr_array(counts, dtype=np.float64)
    labels = np.asarray(labels)
    if C.shape != (len(labels), len(terms)):
        raise ValueError(f"counts must be of shape ({len(labels)}, {len(terms)}), labels by terms, got {C.shape}")
    member = sp.csr_array(
        (np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(labels.max() + 1, len(labels))
    )
    inside = (member @ C).toarray()
    every = inside.sum(axis=0)
    share = inside.sum(axis=1, keepdims=True) / max(inside.sum(), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [seen * np.log(seen / expected) for seen, expected in
                 ((inside, every * share), (every - inside, every * (1 - share)))]  # fmt: skip
    ratio = np.where(inside > every * share, np.nan_to_num(parts[0]) + np.nan_to_num(parts[1]), -1.0)
    order = np.argsort(-ratio, axis=1, kind="stable")[:, :n_terms]
    return [[terms[t] for t in row if ratio[k, t] > 0] for k, row in enumerate(order)]
