"""The self-contained HTML report: figures that need no network, each with words beside it."""

from quartic.report.cluster_figures import cluster_sizes, membership_chart, reordered_similarity
from quartic.report.clustering import clustering_figures, clustering_tables
from quartic.report.localisation import localisation_figures, localisation_tables, residuals_of
from quartic.report.page import DataTable, Section, report_available, write_page
from quartic.report.point_figures import residual_histogram, scatter_of_points
from quartic.report.run_figures import convergence

__all__ = [
    "DataTable",
    "Section",
    "cluster_sizes",
    "clustering_figures",
    "clustering_tables",
    "convergence",
    "localisation_figures",
    "localisation_tables",
    "membership_chart",
    "reordered_similarity",
    "report_available",
    "residual_histogram",
    "residuals_of",
    "scatter_of_points",
    "write_page",
]
