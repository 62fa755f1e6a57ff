"""What the commands write: tables, arrays, files of atoms; whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from quartic.archives import write_whole
from quartic.cli.terminal import write_stdout

_TABLES = {".csv": ",", ".tsv": "\t"}


def check_target(path: str | os.PathLike[str], kinds: Sequence[str], option: str) -> None:
    """Raise where a result could not be written there, before the work begins."""
    if str(path) == "-":
        return
    path = Path(path)
    if path.suffix.lower() not in kinds:
        raise ValueError(f"{option} {path}: the name must end in one of {', '.join(kinds)}")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise ValueError(f"{option} {path}: this is a folder; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{option} {path}: the folder {path.parent} may not be written to")


def check_report(path: str | os.PathLike[str] | None) -> None:
    """Raise where a report is asked for that could not be written."""
    if path is not None:
        check_target(path, (".html", ".htm"), "--report")
        if find_spec("plotly") is None:
            raise ValueError("--report needs plotly: pip install 'quartic[report]'")


def write_table(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to a .csv or .tsv file, or to standard output where the path is ``-``."""
    suffix = Path(path).suffix.lower()
    text = io.StringIO()
    writer = csv.writer(text, delimiter=_TABLES.get(suffix, ","), lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    if str(path) == "-":
        write_stdout(text.getvalue())
    else:
        write_whole(path, lambda file: file.write(text.getvalue().encode()))


def write_clusters(path: str | os.PathLike[str], names: Sequence[str], labels: Any, memberships: Any) -> None:
    """Write node,cluster,membership_0,…; as .npy the clusters; as .npz nodes, clusters and memberships."""
    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        write_whole(path, lambda file: np.save(file, labels, allow_pickle=False))
    elif suffix == ".npz":
        arrays = {"node": np.array(names, dtype=np.str_), "cluster": labels, "membership": memberships}
        write_whole(path, lambda file: np.savez(file, **arrays))
    else:
        header = ["node", "cluster", *(f"membership_{k}" for k in range(memberships.shape[1]))]
        rows = zip(names, labels.tolist(), memberships.tolist(), strict=True)
        write_table(path, header, ([name, label, *(f"{m:.6g}" for m in row)] for name, label, row in rows))


def write_points(
    path: str | os.PathLike[str], names: Sequence[str], X: Any, determined: Any, errors: Any = None, atoms: Any = None
) -> None:
    """Write point,x,y[,z],…,determined[,standard_error]; as .npy the coordinates; as .pdb, .cif or .xyz atoms.

    ``atoms`` is a `quartic.io.Structure` with their names and residues, where these are known.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        write_whole(path, lambda file: np.save(file, X, allow_pickle=False))
    elif suffix in (".pdb", ".cif", ".xyz"):
        from quartic.io import Structure, write_pdb, write_xyz

        write = write_xyz if suffix == ".xyz" else write_pdb
        numbered = all(name.isdigit() for name in names)
        write(Path(path), atoms.at(X) if atoms is not None else Structure.of(X, names=None if numbered else names))
    else:
        header = ["point", *axis_names(X.shape[1]), "determined", *([] if errors is None else ["standard_error"])]
        ends = [[str(bool(sure)).lower()] for sure in determined]
        if errors is not None:
            ends = [[*end, repr(error)] for end, error in zip(ends, errors.tolist(), strict=True)]
        rows = zip(names, X.tolist(), ends, strict=True)
        write_table(path, header, ([name, *map(repr, row), *end] for name, row, end in rows))


def axis_names(dimension: int) -> list[str]:
    """Return x, y, z, or x1, x2, … where there are more."""
    return list("xyz"[:dimension]) if dimension <= 3 else [f"x{k}" for k in range(1, dimension + 1)]
