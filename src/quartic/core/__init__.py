"""The problem, and the one loop that solves it."""
