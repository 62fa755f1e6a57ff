"""Sums of squares over pairs of points: distances, bounds, known entries."""
