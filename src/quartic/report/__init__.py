"""The self-contained HTML report: the answer first, figures that need no network, each with words beside it."""

from quartic.report.clusters import cluster_section, cluster_sizes, membership_chart, node_map, role_section
from quartic.report.figures import convergence
from quartic.report.page import DataTable, Section, report_available, write_page
from quartic.report.points import point_section, residual_histogram, residuals_of, scatter_of_points

__all__ = [
    "DataTable",
    "Section",
    "cluster_section",
    "cluster_sizes",
    "convergence",
    "membership_chart",
    "node_map",
    "point_section",
    "report_available",
    "residual_histogram",
    "residuals_of",
    "role_section",
    "scatter_of_points",
    "write_page",
]
