"""The few hot primitives that solvers, kernels and losses share."""

from quartic.ops.tall import gram, inner, norm, squared_norm, squares_are_safe, trace_inner

__all__ = ["gram", "inner", "norm", "squared_norm", "squares_are_safe", "trace_inner"]
