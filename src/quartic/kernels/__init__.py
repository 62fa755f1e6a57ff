"""Bregman kernels: the geometries in which quartic losses are smooth."""

from quartic.kernels.base import Kernel
from quartic.kernels.gram import GramKernel
from quartic.kernels.norm import EuclideanKernel, NormKernel

__all__ = ["EuclideanKernel", "GramKernel", "Kernel", "NormKernel"]
