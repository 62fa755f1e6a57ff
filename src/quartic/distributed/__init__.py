"""Data in blocks, on a Dask cluster or on disk: where they are, and functions mapped over them."""

from quartic.distributed.cluster import connect
from quartic.distributed.inputs import in_blocks

__all__ = ["connect", "in_blocks"]
