"""quartic: minimise F(XXᵀ) + g(X) over tall, thin X, in the geometry of quartic Bregman kernels.

After Dragomir, d'Aspremont and Bolte, "Quartic First-Order Methods for Low-Rank Minimization" (2021).
"""

from quartic import diagnostics
from quartic._version import __version__
from quartic.loop import minimize
from quartic.problem import Problem
from quartic.result import History, Result, Status

__all__ = ["History", "Problem", "Result", "Status", "__version__", "diagnostics", "minimize"]
