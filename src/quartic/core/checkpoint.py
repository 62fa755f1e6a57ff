"""Checkpoints: a run's state and log as one plain ``.npz``, written atomically, read without pickle, taken up again."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from quartic.archives import DAMAGE, in_short, read_npz, write_whole
from quartic.arrays import to_host
from quartic.core.problem import Problem
from quartic.core.run_log import Row, RunLog
from quartic.core.units import Units
from quartic.losses import Loss, Point
from quartic.solvers.base import Solver, State

_FORMAT = "quartic checkpoint 3"
_LAST_WORDS = "the file was left as it is; choose another path, or move it away"


@dataclass(frozen=True)
class Checkpoint:
    """What is kept: what the run is (to refuse another), numbers of the loop, the solver's state, the history."""

    run: dict[str, str]
    numbers: dict[str, float]
    arrays: dict[str, Any]


class Keeper:
    """Writes the checkpoints of one run, and reads the one it goes on from."""

    def __init__(self, path: str | os.PathLike[str], problem: Problem, units: Units, solver: Solver, rank: int) -> None:
        self.path, self.problem, self.units, self.solver, self.rank = path, problem, units, solver, rank

    @cached_property
    def _identity(self) -> dict[str, str]:
        problem = self.problem
        return {
            "solver": repr(self.solver),
            "data": problem.loss.fingerprint(),
            "units": f"2^{-self.units.length}",
            "rank": str(self.rank),
            "penalty": repr(problem.penalty),
            "kernel": repr(problem.kernel) if self.solver.requires.kernel else "",
        }

    def save(self, state: State, log: RunLog) -> None:
        """Write a checkpoint."""
        numbers = {
            "time": log.elapsed(),
            "n_products": log.products(),
            "reference": log.reference,
            "best_objective": log.best_objective,
            "last_gain": log.last_gain,
            "least": log.least,
        }
        arrays = pack_state(state)
        pack(arrays, "best", log.best)
        arrays["history"] = np.array(log.rows)
        keep(self.path, Checkpoint(self._identity, numbers, arrays))

    def resume(self, log: RunLog) -> State | None:
        """Return the state in the checkpoint, its log read into ``log``; None where there is no file."""
        sweep(self.path)
        kept = load(self.path, self._identity)
        if kept is None:
            return None
        loss, numbers, shape = self.problem.loss, kept.numbers, (self.problem.loss.n_points, self.rank)
        try:
            state = unpack_state(self.solver.state, kept.arrays, loss, shape)
            best = unpack(kept.arrays, "best", loss)
            check_shape(best, shape)
            rows = [Row(t, f, s, int(p), step) for t, f, s, p, step in kept.arrays["history"].tolist()]
            gain = int(numbers["last_gain"]), numbers["least"]
            reference, best_objective = numbers["reference"], numbers["best_objective"]
            earlier = numbers["time"], int(numbers["n_products"])
        except (AttributeError, *DAMAGE) as error:
            raise broken(self.path, error) from error
        # only now that all of it is there: a checkpoint is never half read
        log.rows, log.best, log.best_objective, log.reference = rows, best, best_objective, reference
        (log.last_gain, log.least), (log.earlier_time, log.earlier_products) = gain, earlier
        return state


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise if a checkpoint cannot be written there for want of a folder: at the end of a run it would be too late."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"checkpoint={str(path)!r}: there is no folder {str(folder)!r}; make it first")


def keep(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write the checkpoint of a run; where that fails the run goes on, since its result is worth more."""
    try:
        save(path, checkpoint)
    except OSError as error:
        words = f"the checkpoint {str(path)!r} could not be written ({error}); the run goes on without"
        warnings.warn(words, RuntimeWarning, stacklevel=3)


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write the checkpoint, whole or not at all."""
    sums = digest(checkpoint.arrays)
    header = json.dumps({"format": _FORMAT, "run": checkpoint.run, "numbers": checkpoint.numbers, "digest": sums})
    write_whole(path, lambda file: np.savez(file, header=np.array(header), **checkpoint.arrays))


def sweep(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that processes killed while writing this checkpoint left behind."""
    target = Path(path)
    for stray in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        number = stray.name[len(target.name) + 2 :].split(".")[0]
        if number.isdecimal() and not _is_alive(int(number)):
            with contextlib.suppress(OSError):
                stray.unlink()


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # to ask there would be to end it
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is someone else's
        return True
    return True


def load(path: str | os.PathLike[str], run: dict[str, str]) -> Checkpoint | None:
    """Return the checkpoint at path, None where there is no file; refuse one that is broken or of another run."""
    if not Path(path).exists():
        return None
    try:
        arrays = read_npz(path)
        header = json.loads(str(arrays.pop("header")))
        written = header["format"]
        if written == _FORMAT:
            texts = {str(key): str(value) for key, value in header["run"].items()}
            numbers = {str(key): float(value) for key, value in header["numbers"].items()}
            found = Checkpoint(texts, numbers, arrays)
            if header["digest"] != digest(arrays):
                raise ValueError("its arrays are not those that were written")
    except (OSError, AttributeError, *DAMAGE) as error:
        raise broken(path, error) from error
    if written != _FORMAT:
        raise ValueError(f"{path} holds {written!r}, this version reads {_FORMAT!r}; {_LAST_WORDS}")
    for key, value in run.items():
        if found.run.get(key) != value:
            raise ValueError(
                f"{path} is the checkpoint of another run: its {key} is {found.run.get(key)!r}, here {value!r}; "
                f"{_LAST_WORDS}"
            )
    return found


def broken(path: str | os.PathLike[str], error: BaseException) -> ValueError:
    """Return the error that refuses a file by name."""
    return ValueError(
        f"{path} is not a whole quartic checkpoint ({type(error).__name__}: {in_short(error)}); {_LAST_WORDS}"
    )


def digest(arrays: dict[str, Any]) -> str:
    """Return a digest of names, types, shapes and contents."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def pack_state(state: State) -> dict[str, Any]:
    """Return the state as a flat dictionary of arrays: points, arrays, numbers, and tuples of them."""
    flat: dict[str, Any] = {}
    for name in _kept(type(state)):
        pack(flat, f"state.{name}", getattr(state, name))
    return flat


def _kept(kind: type[State]) -> list[str]:
    """Return the names of a state's fields but for what a device has recorded, which is recorded again."""
    return [field.name for field in fields(kind) if field.name != "replay"]


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


def unpack_state(kind: type[State], arrays: dict[str, Any], loss: Loss, like: tuple[int, int]) -> State:
    """Return the state that `pack_state` flattened, whose X has the shape ``like``."""
    names = {name.split(".")[1] for name in arrays if name.startswith("state.")}
    if names != set(_kept(kind)):
        raise ValueError(f"a state of {', '.join(sorted(names)) or 'nothing'} is not one of {kind.__name__}")
    state = kind(**{name: unpack(arrays, f"state.{name}", loss) for name in names})
    check_shape(state.point, like)
    for name in names - set(kind.listed):
        _check_arrays(getattr(state, name), name, like)
    state.check(like)
    return state


def _check_arrays(value: Any, name: str, like: tuple[int, int]) -> None:
    """Raise unless arrays are of the shape of X, or of its row blocks, packed or not: compiled passes do not look."""
    if isinstance(value, tuple):
        for item in value:
            _check_arrays(item, name, like)
    elif isinstance(value, Point):
        check_shape(value, like)
    elif isinstance(value, np.ndarray):
        shapes = [(like[0], width) for width in (like[1], like[1] * (like[1] + 1) // 2, like[1] ** 2)]
        if value.dtype.kind != "f" or (value.size and value.shape not in shapes):
            raise ValueError(f"{name} is {value.dtype} of shape {value.shape}")


def check_shape(point: Any, like: tuple[int, int]) -> None:
    """Raise unless this is a point whose X has the shape ``like``."""
    if not isinstance(point, Point) or point.X.shape != like:
        raise ValueError(f"no point of shape {like} where one belongs")


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
