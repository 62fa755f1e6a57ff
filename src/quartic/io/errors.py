"""What is wrong with a file, and in which line."""

from __future__ import annotations

from pathlib import Path


class FileFormatError(ValueError):
    """A file does not follow its format; the message starts with ``file:line``.

    Examples
    --------
    >>> from quartic.io import FileFormatError
    >>> issubclass(FileFormatError, ValueError)
    True
    """

    @classmethod
    def at(cls, path: str | Path, line: int, fault: str) -> FileFormatError:
        """Return the error for a fault in one line, counted from 1."""
        return cls(f"{path}:{line}: {fault}")
