"""Errors of a device, told with the sizes at hand and what to try."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_GIGA = 1e9


@contextmanager
def explained(device: torch.device, what: str, needs: float) -> Iterator[None]:
    """Turn torch's errors of memory and of the device into ones that say what was under way.

    Parameters
    ----------
    device : torch.device
        Where.
    what : str
        Of which sizes.
    needs : float
        About how many bytes it takes.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(
            f"out of memory on {device}: {what} takes about {needs / _GIGA:.2g} GB{_room(device)}; try float32 data, a "
            "smaller rank, solver='inertial' (which keeps the fewest arrays), free other tensors and call "
            "torch.cuda.empty_cache(), or leave device out to compute on the host"
        ) from error
    except RuntimeError as error:
        if not _of_the_device(error):
            raise
        raise RuntimeError(
            f"{device} failed while working on {what}: {_first_line(error)}; what was computed there is lost and this "
            "process can use the device no more: start it again, with CUDA_LAUNCH_BLOCKING=1 to see where it fails, or "
            "with QUARTIC_TRITON=0 to do without our own kernels"
        ) from error


def _of_the_device(error: RuntimeError) -> bool:
    words = str(error)
    return "CUDA error" in words or "CUDA driver" in words or "cuSPARSE" in words or "CUBLAS" in words.upper()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _room(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    try:
        free, total = torch.cuda.mem_get_info(device)
    except RuntimeError:
        return ""
    return f", and {free / _GIGA:.2g} of its {total / _GIGA:.3g} GB are free"
