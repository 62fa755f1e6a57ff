"""Checkpoints: a run's whole state as one plain ``.npz``, written atomically, read without pickle."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from quartic.losses import Loss, Point
from quartic.ops import to_host
from quartic.solvers.base import State

_FORMAT = "quartic checkpoint 1"
_LAST_WORDS = "the file was left as it is; choose another path, or move it away"


@dataclass(frozen=True)
class Checkpoint:
    """What is kept: what the run is (to refuse another), numbers of the loop, the solver's state, the history."""

    run: dict[str, str]
    numbers: dict[str, float]
    arrays: dict[str, Any]


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise if a checkpoint cannot be written there for want of a folder: at the end of a run it would be too late."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"checkpoint={str(path)!r}: there is no folder {str(folder)!r}; make it first")


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write the checkpoint: to a temporary file beside it, synced to disk, then renamed over it."""
    target = Path(path)
    header = json.dumps({"format": _FORMAT, "run": checkpoint.run, "numbers": checkpoint.numbers})
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, header=np.array(header), **checkpoint.arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str], run: dict[str, str]) -> Checkpoint | None:
    """Return the checkpoint at path, None where there is no file; refuse one that is broken or of another run."""
    if not Path(path).exists():
        return None
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != _FORMAT:
            raise ValueError(f"{path} holds {header['format']!r}, this version reads {_FORMAT!r}; {_LAST_WORDS}")
        found = Checkpoint(header["run"], header["numbers"], arrays)
    except (OSError, KeyError, TypeError, EOFError, zipfile.BadZipFile, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a whole quartic checkpoint ({type(error).__name__}); {_LAST_WORDS}") from error
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        raise ValueError(f"{path} is not a whole quartic checkpoint ({error}); {_LAST_WORDS}") from error
    for key, value in run.items():
        if found.run.get(key) != value:
            raise ValueError(
                f"{path} is the checkpoint of another run: its {key} is {found.run.get(key)!r}, here {value!r}; "
                f"{_LAST_WORDS}"
            )
    return found


def pack_state(state: State) -> dict[str, Any]:
    """Return the state as a flat dictionary of arrays: points, arrays, numbers, and tuples of them."""
    flat: dict[str, Any] = {}
    for field in fields(state):
        pack(flat, f"state.{field.name}", getattr(state, field.name))
    return flat


def pack(flat: dict[str, Any], name: str, value: Any) -> None:
    """Write a point, an array, a number or a tuple of them into ``flat``, under names that begin with ``name``."""
    if isinstance(value, Point):
        for key, array in value.arrays().items():
            flat[f"{name}.point.{key}"] = np.asarray(to_host(array))
    elif isinstance(value, tuple):
        flat[f"{name}.length"] = np.array(len(value))
        for k, item in enumerate(value):
            pack(flat, f"{name}.{k}", item)
    else:
        flat[name] = np.asarray(to_host(value))


def unpack_state(kind: type[State], arrays: dict[str, Any], loss: Loss) -> State:
    """Return the state that `pack_state` flattened."""
    return kind(**{field.name: unpack(arrays, f"state.{field.name}", loss) for field in fields(kind)})


def unpack(arrays: dict[str, Any], name: str, loss: Loss) -> Any:
    """Return what `pack` wrote under ``name``."""
    if name in arrays:
        value = arrays[name]
        return loss.space.adopt(value) if value.ndim else value.item()
    if f"{name}.length" in arrays:
        return tuple(unpack(arrays, f"{name}.{k}", loss) for k in range(int(arrays[f"{name}.length"])))
    prefix = f"{name}.point."
    kept = {key[len(prefix) :]: array for key, array in arrays.items() if key.startswith(prefix)}
    return loss.restore(kept)
