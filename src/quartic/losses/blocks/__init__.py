"""Losses whose data lie in blocks, on a Dask cluster or on disk."""
