"""The command ``quartic``."""

from quartic.cli.app import app, main

__all__ = ["app", "main"]
