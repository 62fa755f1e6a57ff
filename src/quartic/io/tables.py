"""Tables of text: the separator, the header and the kinds of the columns are found out, not asked."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from quartic.io.errors import FileFormatError
from quartic.io.source import Source
from quartic.io.text import read_lines

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
_NONE = "\n"  # of a table with one column
MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "#n/a"})
_LOOKED_AT = 200  # rows from which the layout is guessed
_BLOCK = 4096
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d{1,400}")  # longer ones are names
_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_FRACTION = re.compile(r"[+-]?\d*\.\d*")


@dataclass(frozen=True, eq=False)
class Table:
    """A table of text.

    Attributes
    ----------
    name : str
        What messages call it.
    lines : list of str
        Its rows as they stand in the file, without the header, comments and blank lines.
    numbers_of_lines : sequence of int
        Their line numbers, counted from 1.
    separator : str
        Between cells; a blank stands for any white space.
    header : tuple of str, or None
        Names of the columns, where the first row holds them.
    n_columns : int
        Cells of a row.
    decimal_comma : bool
        Whether numbers are written 1,5.
    header_line : int
        The line of the header, or of the first row.
    """

    name: str
    lines: list[str] = field(repr=False)
    numbers_of_lines: Sequence[int] = field(repr=False)
    separator: str
    header: tuple[str, ...] | None
    n_columns: int
    decimal_comma: bool = False
    header_line: int = 1

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self) -> Iterator[list[str]]:
        """Yield the cells of each row, stripped; a row of another length is an error."""
        for line, cells in zip(self.numbers_of_lines, _cells(self.lines, self.separator), strict=True):
            if len(cells) != self.n_columns:
                raise FileFormatError.at(
                    self.name,
                    line,
                    f"{_count(len(cells), 'cell')} where the others have {self.n_columns} "
                    f"(separated by {SEPARATORS[self.separator]}); make all rows alike",
                )
            yield cells

    def sample(self) -> list[list[str]]:
        """Return the first rows."""
        return list(islice(_cells(self.lines[:_LOOKED_AT], self.separator), _LOOKED_AT))

    def title(self, column: int) -> str:
        """Return what messages call a column."""
        if self.header is not None and self.header[column]:
            return f"column {self.header[column]!r}"
        return f"column {column + 1}"

    def words(self, column: int) -> list[str]:
        """Return the cells of a column."""
        return [cells[column] for cells in self.rows()]

    def identities(self, columns: Sequence[int], what: str) -> list[tuple[str, ...]]:
        """Return cells that name things, a tuple for each row; whole numbers lose their decimal point."""
        found = []
        for line, cells in zip(self.numbers_of_lines, self.rows(), strict=True):
            row = tuple([cells[column] for column in columns])
            for column, cell in zip(columns, row, strict=True):
                if cell.lower() in MISSING:
                    raise FileFormatError.at(self.name, line, f"{self.title(column)} names no {what}")
                if "." in cell and _FRACTION.fullmatch(cell):
                    if not _WHOLE.fullmatch(cell):
                        raise FileFormatError.at(
                            self.name,
                            line,
                            f"{cell} in {self.title(column)} is no {what}; use a whole number or a name",
                        )
                    row = tuple(m[1] if (m := _WHOLE.fullmatch(c)) else c for c in row)
            found.append(row)
        return found

    def numbers(
        self, columns: Sequence[int], *, missing: bool = False, negative: bool = True, infinite: bool = False
    ) -> NDArray[np.float64]:
        """Return columns of numbers, (rows, columns), or raise an error that names the row.

        ``missing``: an empty cell, or NA, becomes NaN. ``negative``, ``infinite``: such numbers may be.
        """
        blocks = []
        lines = iter(self.numbers_of_lines)
        rows = self.rows()
        while block := list(islice(rows, _BLOCK)):
            at = list(islice(lines, len(block)))
            texts = [[cells[column] for column in columns] for cells in block]
            try:
                values = np.array(texts, dtype=np.str_).astype(np.float64)
            except ValueError:
                values = np.array(
                    [self._numbers_of_row(row, columns, line) for line, row in zip(at, texts, strict=True)]
                )
            values = values.reshape(len(block), len(columns))
            bad = np.isnan(values) if not missing else np.zeros(values.shape, dtype=bool)
            if not infinite:
                bad |= np.isinf(values)
            if not negative:
                bad |= values < 0
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise FileFormatError.at(
                    self.name, at[row], self._fault(texts[row][column], columns[column], values[row, column])
                )
            blocks.append(values)
        return np.concatenate(blocks) if blocks else np.empty((0, len(columns)))

    def _numbers_of_row(self, row: list[str], columns: Sequence[int], line: int) -> list[float]:
        values = []
        for text, column in zip(row, columns, strict=True):
            value = _number(text, self.decimal_comma)
            if value is None:
                raise FileFormatError.at(
                    self.name, line, f"{text!r} in {self.title(column)} is not a number; correct it or take the row out"
                )
            values.append(value)
        return values

    def _fault(self, text: str, column: int, value: float) -> str:
        if math.isnan(value):
            said = f"there is no number in {self.title(column)}" + (f" ({text})" if text else "")
            return f"{said}; fill it in, or take the row out"
        if math.isinf(value):
            return f"{text} in {self.title(column)} is not finite; correct it or take the row out"
        return f"{text} in {self.title(column)} is negative; correct it or take the row out"

    def is_numeric(self, column: int) -> bool:
        """Tell whether most of the first rows have a number, or nothing, in this column."""
        cells = [row[column] for row in self.sample() if len(row) == self.n_columns]
        n_numbers = sum(_number(cell, self.decimal_comma) is not None for cell in cells)
        return 2 * n_numbers > len(cells)

    def is_integer(self, column: int) -> bool:
        """Tell whether the first rows all have a whole number of at least zero there."""
        cells = [row[column] for row in self.sample() if len(row) == self.n_columns]
        return all(cell.isdigit() and cell.isascii() for cell in cells)

    def layout(self) -> str:
        """Return the guess in words."""
        named = "a header" if self.header is not None else "no header"
        if self.n_columns == 1:
            return f"one column, {named}"
        return f"{self.n_columns} columns separated by {SEPARATORS[self.separator]}, {named}"


def read_table(source: Source) -> Table:
    """Read a table of text, plain or gzip, and find out its separator and header.

    Lines that start with ``#`` or ``%`` are comments.
    """
    lines = read_lines(source.path, source.name)
    kept = [
        (at, line)
        for at, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith(("#", "%"))
    ]
    if not kept:
        raise FileFormatError(f"{source.name}: no row of data in the file")
    numbers_of_lines, texts = [at for at, _ in kept], [line for _, line in kept]
    if any("\x00" in line for line in texts[:_LOOKED_AT]):
        raise FileFormatError.at(source.name, numbers_of_lines[0], "not a text file; is its name right?")
    separator, n_columns = _separator(texts[:_LOOKED_AT])
    table = Table(source.name, texts, numbers_of_lines, separator, None, n_columns, header_line=numbers_of_lines[0])
    table = replace(table, decimal_comma=_has_decimal_comma(table))
    header = _header(table)
    if header is None:
        return table
    if len(texts) == 1:
        raise FileFormatError.at(source.name, numbers_of_lines[0], "there are column names, but no rows below them")
    return replace(table, lines=texts[1:], numbers_of_lines=numbers_of_lines[1:], header=header)


def number_names(rows: Sequence[tuple[str, ...]]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return names as numbers from 0, (rows, columns), and the names; numbers in rising order, words as they come."""
    index: dict[str, int] = {}
    for row in rows:
        for name in row:
            index.setdefault(name, len(index))
    names = list(index)
    if all(_INTEGER.fullmatch(name) for name in names):
        names.sort(key=int)
        index = {name: at for at, name in enumerate(names)}
    numbers = np.array([[index[name] for name in row] for row in rows], dtype=np.int64)
    return numbers, tuple(names)


# -- the guesses ------------------------------------------------------------------------------------------------------


def _cells(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    if separator == " ":
        return (line.split() for line in lines)
    return ([cell.strip() for cell in _cut(line, separator)] for line in lines)


def _cut(line: str, separator: str) -> list[str]:
    if '"' not in line:
        return line.split(separator)
    try:  # line by line: a quote left open would swallow the lines after it
        return next(csv.reader([line], delimiter=separator))
    except (csv.Error, StopIteration):  # a cell longer than csv allows
        return line.split(separator)


def _separator(lines: Sequence[str]) -> tuple[str, int]:
    """Return the separator that cuts the lines into the same number of cells, and that number."""
    best: tuple[float, str, int] = (0.0, _NONE, 1)
    for separator in SEPARATORS:
        counts = Counter(len(cells) for cells in _cells(lines, separator))
        n_cells, n_lines = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        share = n_lines / len(lines)
        # a few odd lines are faults in a table; many are no table
        if n_cells > 1 and share > best[0] and (share == 1.0 or (share >= 0.75 and len(lines) > 3)):
            best = (share, separator, n_cells)
    return best[1], best[2]


def _has_decimal_comma(table: Table) -> bool:
    if table.separator == ",":
        return False
    cells = [cell for row in table.sample() for cell in row]
    return any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells) and not any(
        re.fullmatch(r"[+-]?\d*\.\d+", cell) for cell in cells
    )


def _header(table: Table) -> tuple[str, ...] | None:
    """Return the names in the first row: it has words where the rows below have numbers, or words that we know.

    All of them, or those of the two ends of a pair.
    """
    first, *others = (row for row in table.sample() if len(row) == table.n_columns)
    names = tuple(first)
    known = {name.lower() for name in names} <= (KNOWN_NAMES if others else ALL_NAMES)
    if others:
        known |= find_ends(names, CLEAR_ENDS) is not None
    if known and not any(name in row for name in names for row in others):
        return names
    if not others:
        return None
    is_word = [_number(cell, table.decimal_comma) is None for cell in first]
    for column, word in enumerate(is_word):
        below = [row[column] for row in others]
        n_numbers = sum(_number(cell, table.decimal_comma) is not None for cell in below)
        if word and 2 * n_numbers > len(below):
            return names
    # a corner left empty, as frames are written, above row names
    if names[0] == "" and table.n_columns > 1 and all(row[0] for row in others):
        return names
    return None


def _number(text: str, decimal_comma: bool) -> float | None:
    """Return the number, NaN for a missing one, None for a word."""
    if text.lower() in MISSING:
        return math.nan
    if decimal_comma and _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


# Names of the two ends of a pair, one after the other; the last two may be anything.
ENDS = (
    ("i", "j"), ("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2"), ("node_1", "node_2"),
    ("point1", "point2"), ("point_1", "point_2"), ("p1", "p2"), ("atom1", "atom2"), ("id1", "id2"), ("start", "end"),
    ("u", "v"), ("a", "b"),
)  # fmt: skip
CLEAR_ENDS = ENDS[:-3]
WEIGHT = ("weight", "w", "similarity", "value", "strength", "count")
DISTANCE = ("d", "dist", "distance", "length", "range", "value")
LOWER = ("lower", "low", "lo", "min", "lb", "lower_bound")
UPPER = ("upper", "high", "hi", "max", "ub", "upper_bound")
NAMES = ("", "id", "index", "name", "node", "point", "label", "key", "sample", "document", "unnamed: 0")
ALL_NAMES = frozenset({*(name for pair in ENDS for name in pair), *WEIGHT, *DISTANCE, *LOWER, *UPPER})
KNOWN_NAMES = ALL_NAMES - {"a", "b", "u", "v", "d", "w"}  # these may as well be the names of nodes


def find_ends(header: Sequence[str], ends: Sequence[tuple[str, str]] = ENDS) -> tuple[int, int] | None:
    """Return the columns of the two ends of a pair, by their names."""
    lowered = [name.lower() for name in header]
    found = ((lowered.index(one), lowered.index(two)) for one, two in ends if one in lowered and two in lowered)
    return next(found, None)


def find_column(header: Sequence[str], names: Sequence[str]) -> int | None:
    """Return the column that has one of these names, whatever its letters' case."""
    lowered = [name.lower() for name in header]
    return next((lowered.index(name) for name in names if name in lowered), None)
