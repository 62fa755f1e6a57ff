"""Arrays of data sets on disk, read as carefully as a user's files."""

from __future__ import annotations

from typing import Any

from quartic.datasets.home import data_file
from quartic.io.arrays import read_arrays
from quartic.io.files import FileFormatError, open_source


def stored_arrays(dataset: str, relative: str, *names: str) -> list[Any]:
    """Return arrays of a .npy, .npz or .mat file of a data set; the only one where no names are given."""
    path = data_file(dataset, relative)
    arrays = read_arrays(open_source(path))
    if not names:
        return list(arrays.values())[:1]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise FileFormatError(f"{path}: there is no {', '.join(missing)} in the file; is it that of {dataset!r}?")
    return [arrays[name] for name in names]
