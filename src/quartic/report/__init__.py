"""The self-contained HTML report: figures that need no network, each with words beside it."""

from quartic.report.figures import (
    cluster_sizes,
    convergence,
    reordered_similarity,
    residual_histogram,
    scatter_of_points,
)
from quartic.report.page import Section, report_available, write_page

__all__ = [
    "Section",
    "cluster_sizes",
    "convergence",
    "reordered_similarity",
    "report_available",
    "residual_histogram",
    "scatter_of_points",
    "write_page",
]
