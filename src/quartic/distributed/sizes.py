"""How much memory a block takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def n_bytes(block: Any) -> int:
    """Return the bytes of an array, a sparse matrix, or an object that holds arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distributed.sizes import n_bytes
    >>> n_bytes(np.zeros(4))
    32
    """
    if isinstance(block, np.ndarray):
        return int(block.nbytes)
    if sp.issparse(block):
        return sum(int(getattr(block, name).nbytes) for name in ("data", "indices", "indptr") if hasattr(block, name))
    return sum(n_bytes(value) for value in vars(block).values()) if hasattr(block, "__dict__") else 0
