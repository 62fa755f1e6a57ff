"""How everything here is compiled."""

from __future__ import annotations

from typing import Any

from quartic.compiled.compiling import listen_for_compilation

# Sums may be reordered and fused; NaN and infinity keep their meaning.
FLAGS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
    "no_cfunc_wrapper": True,  # an entry for callers in C, which takes time to compile and nobody uses
}

listen_for_compilation()
