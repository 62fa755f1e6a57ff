"""Points in space: curves, surfaces and proteins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import RandomState, random_generator
from quartic.datasets.home import data_file
from quartic.datasets.pairs import checked_count
from quartic.datasets.stored import stored_arrays
from quartic.io import FileFormatError, Structure, read_pdb
from quartic.io.files import read_lines


def helix(n: int, random_state: RandomState = None) -> NDArray[np.float64]:
    r"""Draw points on the paper's helix, :math:`x_i = (\cos 3t_i, \sin 3t_i, 2t_i)`, :math:`t_i` uniform in [0, 2π].

    Parameters
    ----------
    n : int
        Number of points.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    ndarray (n, 3)
        The points.

    Examples
    --------
    >>> from quartic.datasets import helix
    >>> helix(100, random_state=0).shape
    (100, 3)
    """
    t = random_generator(random_state).uniform(0.0, 2 * np.pi, checked_count(n, "n"))
    return np.column_stack([np.cos(3 * t), np.sin(3 * t), 2 * t])


def swiss_roll(n: int, random_state: RandomState = None) -> NDArray[np.float64]:
    r"""Draw points on the swiss roll, :math:`(t \cos t, h, t \sin t)`, t uniform in [3π/2, 9π/2], h in [0, 21].

    Parameters
    ----------
    n : int
        Number of points.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    ndarray (n, 3)
        The points.

    Examples
    --------
    >>> from quartic.datasets import swiss_roll
    >>> swiss_roll(100, random_state=0).shape
    (100, 3)
    """
    generator = random_generator(random_state)
    t = generator.uniform(1.5 * np.pi, 4.5 * np.pi, checked_count(n, "n"))
    return np.column_stack([t * np.cos(t), generator.uniform(0.0, 21.0, n), t * np.sin(t)])


def protein(path_or_name: str | Path) -> Structure:
    """Read a protein from a PDB file.

    Parameters
    ----------
    path_or_name : str or Path
        A file, or the name of one in the data folder: ``"1ptq"``, ``"1pht"``, ``"1ax8"``, ``"1rgs"``, ``"1crn"``.

    Returns
    -------
    Structure
        Atoms of the first model; ``coordinates`` in Å.

    Examples
    --------
    >>> from quartic.datasets import protein
    >>> protein("1ptq").coordinates.shape  # doctest: +SKIP
    (402, 3)
    """
    path = Path(path_or_name)
    if path.suffix or path.is_file():
        return read_pdb(path)
    return read_pdb(data_file(f"protein {path_or_name}", f"proteins/{str(path_or_name).lower()}.pdb"))


def load_points(name: str) -> NDArray[np.float64]:
    """Load a point set: ``"uscities"`` (2920 x 2, longitude and latitude) or ``"cow"`` (2601 x 3, a surface).

    Parameters
    ----------
    name : {"uscities", "cow"}
        Which.

    Returns
    -------
    ndarray (n, d)
        The points.

    Examples
    --------
    >>> from quartic.datasets import load_points
    >>> load_points("uscities").shape  # doctest: +SKIP
    (2920, 2)
    """
    if name == "uscities":
        (cities,) = stored_arrays(name, "points/UScities.mat", "spt")
        return np.array(cities[:, :2], dtype=np.float64)
    if name == "cow":
        lines = read_lines(data_file(name, "points/cow.off"))
        try:
            n = int(lines[1].split()[0])
            return np.array([line.split() for line in lines[2 : 2 + n]], dtype=np.float64)
        except (IndexError, ValueError) as error:
            raise FileFormatError(f"points/cow.off: not a file of points ({error})") from None
    raise ValueError(f"name must be uscities or cow, got {name!r}")
