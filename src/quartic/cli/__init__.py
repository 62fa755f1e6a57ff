"""The command ``quartic``."""

from quartic.cli.app import main

__all__ = ["main"]
