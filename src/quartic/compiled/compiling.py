"""Says once a machine that something of ours is compiled, and stops the clock of the runs meanwhile."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numba
from numba.core import event

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


def listen_for_compilation() -> None:
    """Have the clock stand still while something is compiled, and the logger ``quartic`` say so, at level INFO."""
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
