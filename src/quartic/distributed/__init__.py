"""Data in blocks, on a Dask cluster or on disk: where they are, and functions mapped over them."""

from quartic.distributed.blocks import Blocks, blocks_of
from quartic.distributed.client import connect
from quartic.distributed.inputs import in_blocks, is_dask_array, is_dask_frame

__all__ = ["Blocks", "blocks_of", "connect", "in_blocks", "is_dask_array", "is_dask_frame"]
