"""Where data sets are looked for, and where built things may be kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


class DatasetNotFound(FileNotFoundError):
    """A data set is not in the data folder; the message says which, where it was looked for, and the cure.

    Examples
    --------
    >>> from quartic.datasets import DatasetNotFound
    >>> issubclass(DatasetNotFound, FileNotFoundError)
    True
    """


def cache_home() -> Path:
    """Return the user's cache folder for this library (it need not exist).

    ``$XDG_CACHE_HOME/quartic`` where that is set; else ``~/Library/Caches/quartic`` on macOS,
    ``%LOCALAPPDATA%\\quartic\\Cache`` on Windows and ``~/.cache/quartic`` elsewhere.

    Examples
    --------
    >>> from quartic.datasets import cache_home
    >>> cache_home().is_absolute()
    True
    """
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser().absolute() / "quartic"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "quartic"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "quartic" / "Cache"
    return Path.home() / ".cache" / "quartic"


def data_home() -> Path:
    """Return the folder the loaders read: ``$QUARTIC_DATA`` where that is set, else ``data`` in `cache_home`.

    Examples
    --------
    >>> from quartic.datasets import data_home
    >>> data_home().is_absolute()
    True
    """
    if given := os.environ.get("QUARTIC_DATA"):
        return Path(given).expanduser().absolute()
    return cache_home() / "data"


def data_file(dataset: str, relative: str) -> Path:
    """Return the path of a file of ``dataset`` under `data_home`, or raise `DatasetNotFound`."""
    if ".." in Path(relative).parts or Path(relative).is_absolute():
        raise ValueError(f"data set {dataset!r}: {relative!r} leads out of the data folder")
    path = data_home() / relative
    if not path.is_file():
        raise DatasetNotFound(
            f"data set {dataset!r} is missing: looked for {path}; put the file there, "
            "or set QUARTIC_DATA to a folder that has it"
        )
    return path
