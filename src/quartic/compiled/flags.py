"""How everything here is compiled; that it is said once a machine, and that the clock of runs stops meanwhile."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import IndexDataCacheFile

from quartic._version import __version__
from quartic.compiled.clock import begin_compiling, end_compiling

_logger = logging.getLogger("quartic")


class _Listener(event.Listener):
    """Listens for compilations, which code found in the cache does not need."""

    def __init__(self, marker: Path | None) -> None:
        self.marker, self.told = marker, False

    def on_start(self, event: Any) -> None:
        """Stop the clock; tell, if it is the first time, and one of our functions."""
        begin_compiling()
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if not self.told and str(getattr(function, "__module__", "")).startswith("quartic."):
            self.told = True
            if self._is_news():
                _logger.info("compiling for this machine: each part once, when it is first used, and kept on disk")

    def on_end(self, event: Any) -> None:
        """Let the clock go on."""
        end_compiling()

    def _is_news(self) -> bool:
        """Tell whether nobody was told yet, and leave a mark beside the compiled code that somebody is now."""
        if self.marker is None:
            return True
        versions = f"quartic {__version__}, numba {numba.__version__}, Python {sys.version.split()[0]}"
        try:
            if self.marker.exists() and self.marker.read_text() == versions:
                return False
            self.marker.parent.mkdir(parents=True, exist_ok=True)
            self.marker.write_text(versions)
        except OSError:  # then it is said once a process
            pass
        return True


def _find_marker() -> Path | None:
    """Return a file in the folder where numba keeps what it compiles for us; None where it keeps nothing."""
    try:
        folder = numba.njit(cache=True)(_find_marker).stats.cache_path
    except (AttributeError, RuntimeError):  # compiling is switched off; no folder that can be written
        return None
    return None if folder is None else Path(folder) / "quartic-told-of-compiling"


listener = _Listener(_find_marker())


# The clock stands still while something is compiled, and the logger ``quartic`` says so, at level INFO.
event.register("numba:compile", listener)  # type: ignore[no-untyped-call]

# Sums may be reordered and fused; NaN and infinity keep their meaning. What one compiled function calls of ours becomes
# a part of it: of a function that stands apart there would be several versions, each compiled with its caller and
# rounding in its own way, and which of them all callers take depends on what was compiled or read from disk before.
FLAGS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
    "no_cfunc_wrapper": True,  # an entry for callers in C, which takes time to compile and nobody uses
    "forceinline": True,
}

# The same for what only compiled code calls: it is kept with its callers, and needs no entry for Python.
INNER: dict[str, Any] = {**FLAGS, "cache": False, "no_cpython_wrapper": True}


class _CacheFile(IndexDataCacheFile):
    """Numba's cache on disk, with a file of its own for each signature.

    Numba counts the files of a function: two processes that compile different signatures of it at the same time may
    take the same number, and the next process then runs the code of one for the other. A name made of the signature is
    nobody else's. The data are written before the index that names them.
    """

    def save(self, key: Any, data: Any) -> None:
        """Write one compiled signature."""
        file: Any = self  # whose methods have no types
        digest = hashlib.sha256(file._dump(key)).hexdigest()[:16]
        name = f"{file._index_name.removesuffix('.nbi')}.{digest}.nbc"
        file._save_data(name, data)
        overloads = file._load_index()
        if overloads.get(key) != name:
            overloads[key] = name
            file._save_index(overloads)


def njit(**flags: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator of that name, for code whose cache several processes may fill at once."""

    def compile_later(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**flags)(function)
        file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
        if type(file) is IndexDataCacheFile:
            file.__class__ = _CacheFile
        return dispatcher

    return compile_later
