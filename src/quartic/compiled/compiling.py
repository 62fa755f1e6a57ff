"""Says once that something of ours is being compiled: the first run ever takes seconds longer than all later ones."""

from __future__ import annotations

import logging
from typing import Any

from numba.core import event

_logger = logging.getLogger("quartic")


class _Teller(event.Listener):
    """Listens for compilations, which code found in the cache does not need."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        """Tell, if it is the first time and one of our functions."""
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if not self.told and str(getattr(function, "__module__", "")).startswith("quartic."):
            self.told = True
            _logger.info("compiling for this machine; this happens once, the result is kept on disk")

    def on_end(self, event: Any) -> None:
        """Say nothing."""


teller = _Teller()


def tell_of_compilation() -> None:
    """Have the logger ``quartic`` say, at level INFO, once a process, that something is compiled."""
    event.register("numba:compile", teller)  # type: ignore[no-untyped-call]
