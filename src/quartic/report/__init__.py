"""The self-contained HTML report: the answer first, figures that need no network, each with words beside it."""

from quartic.report.clusters import cluster_section, role_section
from quartic.report.page import DataTable, Section, report_available, write_page
from quartic.report.points import point_section

__all__ = [
    "DataTable", "Section", "cluster_section", "point_section", "report_available", "role_section", "write_page",
]  # fmt: skip
