"""Results in a folder, written row by row, so that an interrupted run goes on where it was."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quartic.bench.lock import locked
from quartic.bench.record import Record

Row = dict[str, str]


class SettingsChanged(ValueError):
    """Results are there already, made with other settings."""


@dataclass(frozen=True)
class Kept:
    """What `Store.read` finds: the rows, the settings they were made with, and a record of each run that made some."""

    rows: list[Row]
    settings: dict[str, Any]
    records: list[Record]


class Store:
    """One table of results, ``<folder>/<name>.csv``, with ``<name>.json`` beside it for settings and machine.

    Rows that belong together, such as those of one curve, are added in one block, and a block is there whole or not at
    all: one cut short when the machine stopped is dropped before the next is written. Several processes may add to one
    table; of two blocks with the same key the first counts.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    name : str
        Of the table.
    columns : sequence of str
        Its columns; ``key`` must be among them.
    key : sequence of str
        The columns that tell one block from another.

    Examples
    --------
    >>> import tempfile
    >>> from quartic.bench import Store
    >>> folder = tempfile.mkdtemp()
    >>> store = Store(folder, "times", ["solver", "seconds"], key=["solver"])
    >>> store.open({"limit": 1.0}, {"machine": "a small one"})
    >>> store.add([{"solver": "pg", "seconds": 0.5}])
    >>> again = Store(folder, "times", ["solver", "seconds"], key=["solver"])
    >>> again.open({"limit": 1.0}, {"machine": "a small one"})
    >>> again.has(solver="pg"), again.has(solver="cd")
    (True, False)
    """

    def __init__(self, folder: str | os.PathLike[str], name: str, columns: Sequence[str], key: Sequence[str]) -> None:
        self.folder, self.name = Path(folder), name
        # How many rows of the block are still to come: 0 in its last row.
        self.columns, self.key = [*columns, "run", "left"], list(key)
        self.path, self.about = self.folder / f"{name}.csv", self.folder / f"{name}.json"
        self.rows: list[Row] = []
        self._run = 0

    def open(self, settings: Any, record: Record) -> None:
        """Take up what is there, if it was made with the same settings, and note who goes on with it.

        Parameters
        ----------
        settings : mapping or dataclass
            What must agree for rows to belong in one table.
        record : dict
            Of `describe_machine`.
        """
        asked = _plain(settings)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            kept = self.read()
            if kept is not None and kept.rows and kept.settings != asked:
                other = sorted(k for k in {*asked, *kept.settings} if asked.get(k) != kept.settings.get(k))
                was = ", ".join(f"{k} = {kept.settings.get(k)!r}" for k in other)
                raise SettingsChanged(
                    f"{self.path} was made with other settings ({was}); delete it, or name another results folder"
                )
            records = kept.records if kept is not None else []
            # A run under the same conditions is not another one, whatever the time of day.
            same = [at for at, old in enumerate(records) if {**old, "date": ""} == {**record, "date": ""}]
            self._run = same[0] if same else len(records)
            about = {"settings": asked, "runs": records if same else [*records, record]}
            self._write_whole(self.about, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
            self._take(kept.rows if kept is not None else [])

    def has(self, **key: Any) -> bool:
        """Tell whether the block with this key is there."""
        return self._key_of(key) in self._keys

    def find(self, **key: Any) -> list[Row]:
        """Return the rows whose columns have these values."""
        wanted = {name: _word(value) for name, value in key.items()}
        return [row for row in self.rows if all(row[name] == value for name, value in wanted.items())]

    def add(self, block: Iterable[Mapping[str, Any]]) -> None:
        """Write a block of rows, which is safe on disk when this returns, and take up what others wrote meanwhile."""
        block = list(block)
        rows: list[Row] = []
        for at, given in enumerate(block):
            whole = {**given, "run": self._run, "left": len(block) - 1 - at}
            unknown = set(whole) - set(self.columns)
            if unknown:
                raise ValueError(f"{self.name} has no column {', '.join(sorted(unknown))}")
            rows.append({name: _word(whole.get(name, "")) for name in self.columns})
        with self._locked():
            kept = self.read()
            self._take(kept.rows if kept is not None else [])
            if not rows or self._key_of(rows[0]) in self._keys:
                return
            with self.path.open("a", encoding="utf-8", newline="") as file:
                file.write(self._text(rows))
                file.flush()
                os.fsync(file.fileno())
            self.rows += rows
            self._keys |= {self._key_of(row) for row in rows}

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Do a part of the work while no other process does it: wait for one that does, and take up what it wrote."""
        with locked(self.folder / f".{self.name}-{what}.lock"):
            self.add([])
            yield

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.folder / f".{self.name}.lock")

    def _take(self, rows: list[Row]) -> None:
        """Take rows for those of the table, and see that nothing else is on disk: no block cut short."""
        self.rows, self._keys = rows, {self._key_of(row) for row in rows}
        text = self._text(rows, head=True)
        if not self.path.is_file() or self.path.stat().st_size != len(text.encode()):
            self._write_whole(self.path, text)

    def read(self) -> Kept | None:
        """Return what is on disk, blocks that were cut short left out; None if there is nothing."""
        try:
            text = self.path.read_text(encoding="utf-8")
            about = json.loads(self.about.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        lines = text.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
        rows: list[Row] = []
        block: list[Row] = []
        for row in csv.DictReader(lines):
            if list(row) != self.columns:
                raise SettingsChanged(f"{self.path} has other columns than this version writes; delete it")
            if block and int(row["left"]) != int(block[-1]["left"]) - 1:
                block = []  # the one before was cut short
            block.append(row)
            if row["left"] == "0":
                rows += block
                block = []
        return Kept(rows, about["settings"], about["runs"])

    def export(self) -> Path | None:
        """Write the table as parquet beside the CSV where pandas and pyarrow are there; return its path."""
        try:
            import pandas
            import pyarrow  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
        except ImportError:
            return None
        path = self.path.with_suffix(".parquet")
        pandas.read_csv(self.path).to_parquet(path)
        return path

    def _key_of(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_word(row[name]) for name in self.key)

    def _text(self, rows: list[Row], head: bool = False) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        if head:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    @staticmethod
    def _write_whole(path: Path, text: str) -> None:
        aside = path.with_suffix(path.suffix + ".part")
        aside.write_text(text, encoding="utf-8", newline="")
        os.replace(aside, path)


def _word(value: Any) -> str:
    """Return a value as the table spells it; numbers keep ten digits, NaN is empty."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.10g}"
    return str(value)


def _plain(settings: Any) -> dict[str, Any]:
    given = dict(settings) if isinstance(settings, Mapping) else asdict(settings)
    plain: dict[str, Any] = json.loads(json.dumps(given))
    return plain
