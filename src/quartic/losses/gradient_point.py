"""The plain point, under the name it had when `Point` was abstract."""

from quartic.losses.point import Point as GradientPoint

__all__ = ["GradientPoint"]
