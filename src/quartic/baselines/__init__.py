"""The algorithms that the paper compares with."""

import quartic.solvers  # noqa: F401  # they build on its base class, and it lists them: whoever comes first loads both
