"""The algorithms that the paper compares with."""
