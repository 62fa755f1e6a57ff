"""Tables of text: CSV and its relatives, whose separator, header and columns are detected.

The layout is guessed from the first rows. Large files are then read by pyarrow, small ones, and what it refuses, row by
row: to load pyarrow takes longer than to read a thousand rows.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quartic.io.files import FileFormatError, count, read_text
from quartic.io.names import ALL_NAMES, CLEAR_ENDS, KNOWN_NAMES, find_ends, names_rows, plain

if TYPE_CHECKING:
    import pyarrow

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
_NONE = "\x1f"  # between the cells of a table that has one column
MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "#n/a"})
_NO_NUMBER = MISSING | {"-", "–", "—", "?", "."}  # which may be names
BLANK = " \t\u00a0\u202f"  # around cells; not the ends of lines, by which open quotation marks are told
_LOOKED_AT = 200  # rows from which the layout is guessed
_SHORT = 1 << 18  # characters
# groups of three digits stand apart by points or, in French and Swedish, by spaces
_GROUPED = re.compile(r"[+-]?\d{1,3}([.\s]\d{3})+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # or a number of three decimals
_MILLIONS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3}){2,}")
_DECIMAL_COMMA = re.compile(rf"([+-]?\d+|{_GROUPED.pattern}),\d+([eE][+-]?\d+)?")
_THOUSANDS_APART = re.compile(r"[+-]?\d{1,3}([,'’\s]\d{3})+(\.\d*)?")  # in English, in Switzerland, in France
_INTEGER = re.compile(r"[+-]?\d{1,400}")  # longer ones are names
_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_FRACTION = re.compile(r"[+-]?\d*\.\d*")
# numbers as spreadsheets show them: 12,5 %, € 9.99, 1 200 kr, (12.50), TRUE; and 1,5 beside 2.5
_SHOWN = re.compile(
    r"[%€$£¥]\s*[+-]?[\d.,\s]*\d|[+-]?\d[\d.,\s]*?\s*([%‰€$£¥]|kr\.?|zł|CHF|EUR|USD|GBP)|\([\d.,\s]+\)|"
    r"[+-]?\d+,\d+|"
    "true|false|wahr|falsch|vrai|faux|verdadero|falso|vero",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    r"((grand |sub)?(total|sum|summe|gesamt|insgesamt|zusammen|somme|suma)(e|s|en)?|"
    r"mean|average|avg|mittel(wert)?|durchschnitt|moyenne|media|promedio)\b",
    re.IGNORECASE,
)
_REMARK = re.compile(rb"^[ \t]*([#%].*)?$", re.MULTILINE)
# networkx writes an edge list with the attributes of an edge as a dictionary at the end of its line
_ATTRIBUTES = re.compile(rb"[ \t]+\{(?:[^}\n]*'weight': ([^,}\n]*))?[^}\n]*\}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Table:
    """A table: its columns hold text as it stands in the file, in lists or pyarrow's arrays; in Parquet numbers too."""

    name: str  # what messages call it
    columns: list[Any] = field(repr=False)
    header: tuple[str, ...] | None  # names of the columns, where the first row holds them
    layout: str  # how it was read, in words
    decimal_comma: bool = False
    content: bytes = field(default=b"", repr=False)  # the text, for the numbers of lines; empty for Parquet
    separator: str = ","
    edges: bool = False  # each row is an edge: networkx wrote it

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @cached_property
    def sample(self) -> list[list[str]]:
        """The first rows, as text."""
        first = [_as_text(column[:_LOOKED_AT]) for column in self.columns]
        return [list(row) for row in zip(*first, strict=True)]

    @cached_property
    def lines(self) -> list[int]:
        """The line of each row of a text, counted from 1."""
        found = [line for line, _ in _iterate_rows(self.content, self.separator)]
        return found[len(found) - len(self) :]

    def place(self, row: int) -> str:
        """Return where a row stands, in words."""
        return f"line {self.lines[row]}" if self.content else f"row {row + 1}"

    def fault(self, row: int, what: str) -> FileFormatError:
        """Return the error that names a row, −1 for the header."""
        what += " (a row of totals?)" if row == len(self) - 1 and self.ends_in_total else ""
        if not self.content:
            return FileFormatError(f"{self.name}: {self.place(row)}: {what}" if row >= 0 else f"{self.name}: {what}")
        first = next(line for line, _ in _iterate_rows(self.content, self.separator))
        return FileFormatError.at(self.name, self.lines[row] if row >= 0 else first, what)

    @cached_property
    def ends_in_total(self) -> bool:
        """Whether the last row is called a total or a mean, or has no name where others have one."""
        last = [self.words(k)[-1] for k in range(self.n_columns) if not self.is_numeric(k)]
        return any(map(_TOTAL.match, last)) or (not any(last) and len(last) > 0)

    def disguised(self, column: int) -> str | None:
        """Return a cell of a column of text that holds truth values, or numbers with a sign of percent or currency."""
        found = [cell for row in self.sample if (cell := row[column])]
        shown = [cell for cell in found if _SHOWN.fullmatch(cell)]
        return shown[0] if 2 * len(shown) > len(found) else None

    def title(self, column: int) -> str:
        """Return what messages call a column."""
        if self.header is not None and self.header[column]:
            return f"column {self.header[column]!r}"
        return f"column {column + 1}"

    def words(self, column: int) -> list[str]:
        """Return the cells of a column as text."""
        return _as_text(self.columns[column])

    def find(self, given: Sequence[str]) -> list[int]:
        """Return the columns of these names, or numbers counted from 1."""
        names = [name.lower() for name in self.header or ()]
        found = []
        for name in given:
            if name.lower() in names:
                found.append(names.index(name.lower()))
            elif name.isdigit() and 1 <= int(name) <= self.n_columns:
                found.append(int(name) - 1)
            else:
                known = f"columns {', '.join(self.header)}" if self.header else f"{self.n_columns} columns"
                raise FileFormatError(f"{self.name}: there is no column {name!r}; it has the {known}")
        return found

    def identities(self, columns: Sequence[int], what: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return the nodes or points that these columns name as indices (rows, columns), and their names.

        Names that are whole numbers lose their decimal point and are sorted; others keep the order of the file.
        """
        codes, words = _encode([self.columns[column] for column in columns])
        index: dict[str, int] = {}
        merged = np.empty(len(words), dtype=np.int64)
        appear = np.empty_like(merged)  # where each stands first
        appear[codes.ravel()[::-1]] = np.arange(codes.size - 1, -1, -1)
        for code in np.argsort(appear).tolist():
            name = words[code]
            written = name.replace(",", ".") if self.decimal_comma else name
            if name.lower() in MISSING or ("." in written and _FRACTION.fullmatch(written)):
                number = _WHOLE.fullmatch(written)
                if number is None:
                    row, column = divmod(int(appear[code]), len(columns))
                    where = self.title(columns[column])
                    if name.lower() in MISSING:
                        raise self.fault(row, f"{where} names no {what}; fill it in, or take the row out")
                    raise self.fault(row, f"{name} in {where} is no {what}; use a whole number or a name")
                name = number[1]
            merged[code] = index.setdefault(name, len(index))
        names = list(index)
        if all(_INTEGER.fullmatch(name) for name in names):
            names.sort(key=int)
            place = {name: at for at, name in enumerate(names)}
            merged = np.array([place[name] for name in index], dtype=np.int64)[merged]
        return merged[codes], tuple(names)

    def numbers(
        self, columns: Sequence[int], *, missing: Any = False, infinite: bool = False, cure: str = ""
    ) -> NDArray[np.float64]:
        """Return columns of numbers, (rows, columns), or raise an error that names the row.

        ``missing``: an empty cell, or NA, becomes NaN, anywhere or in these entries. ``infinite``: such numbers may be.
        ``cure``: what else helps.
        """
        values = np.empty((len(self), len(columns)))
        for k, column in enumerate(columns):
            values[:, k] = self._numbers(column, cure)
        bad = np.isnan(values)
        bad[missing] = False
        if not infinite:
            bad |= np.isinf(values)
        if bad.any():
            row, k = np.argwhere(bad)[0]
            cell, where, value = self.words(columns[k])[row], self.title(columns[k]), values[row, k]
            if math.isnan(value):
                said = f"there is no number in {where}" + (f" ({cell})" if cell else "")
                raise self.fault(int(row), f"{said}; fill it in, or take the row out{cure}")
            raise self.fault(int(row), f"{cell} in {where} is not finite; correct it or take the row out{cure}")
        return values

    def _numbers(self, column: int, cure: str) -> NDArray[np.float64]:
        cells = self.columns[column]
        if not isinstance(cells, list) and (found := _cast(cells, self.decimal_comma)) is not None:
            return found
        values = np.empty(len(self))
        for row, cell in enumerate(self.words(column)):
            value = _number(cell, self.decimal_comma)
            if value is None:
                plainly = "write plain numbers" if _SHOWN.fullmatch(cell) or cell[:1].isdigit() else "correct it"
                fault = f"{cell!r} in {self.title(column)} is not a number; {plainly}, or take the row out{cure}"
                raise self.fault(row, fault)
            values[row] = value
        return values

    def is_numeric(self, column: int) -> bool:
        """Tell whether most of the first cells of this column are numbers, blank ones left aside."""
        values = [_number(row[column], self.decimal_comma) for row in self.sample]
        filled = [value for value in values if value is None or not math.isnan(value)]
        return 2 * sum(value is not None for value in filled) > len(filled) or not filled

    def is_integer(self, column: int) -> bool:
        """Tell whether the first rows all have a whole number of at least zero there."""
        return all(row[column].isdigit() and row[column].isascii() for row in self.sample)

    def counts_rows(self, column: int) -> bool:
        """Tell whether a column only numbers the rows, as an ``id`` does."""
        if self.header is None or not names_rows(self.header[column]) or not self.is_integer(column):
            return False
        cells = self.words(column)
        return len(set(cells)) == len(cells) and plain(self.header[column]) != "number"  # of what the pair shares


def read_text_table(name: str, content: bytes, guessed: str) -> Table:
    """Return the table in a text; ``guessed`` is said of it, such as how it was decoded."""
    content = re.sub(rb"\A\"?sep=.\"?\n", b"\n", content)  # Excel's word on the separator, which we find anyway
    content = re.sub(rb"\A#(?=[,;])", b'"#"', content)  # no remark, but a column of row numbers
    n_remarks = 0
    indented = any(sign in content and b"\n" + sign in content for sign in (b" ", b"\t"))  # a sign alone is found fast
    if indented or b"#" in content or b"%" in content:
        above = re.match(rb"(?:[ \t]*(?:[#%].*)?\n)*", content)
        n_remarks = len(re.findall(rb"^[ \t]*[#%]", content[above.end() if above else 0 :], re.MULTILINE))
        content = _REMARK.sub(b"", content)  # lines stay, so that they can be counted
    attributes = _ATTRIBUTES.search(content[:100_000]) is not None
    if attributes:
        if re.search(rb"^\S+[ \t]+\{", content, re.MULTILINE):
            raise FileFormatError(f"{name}: a list of neighbours; write edges, by networkx.write_edgelist")
        content = _ATTRIBUTES.sub(lambda found: b" " + (found[1] or b""), content)
        content = re.sub(rb"[ \t]+$", b"", content, flags=re.MULTILINE)
    lines = [found[0].decode() for found in islice(re.finditer(rb"[^\n]+", content), _LOOKED_AT)]
    if not lines:
        raise FileFormatError(f"{name}: no row of data in the file")
    share, separator, n_columns = _find_separator(lines)
    if share < 1 and b'"' in content:  # cells in quotes may run over several lines
        joined = _join_quoted(lines)
        if (found := _find_separator(joined))[0] > share:
            lines, (share, separator, n_columns) = joined, found
    rows = _split_lines(lines, separator)
    sample = [row for row in rows if len(row) == n_columns]
    if not sample:
        raise FileFormatError(f"{name}: not a table: its lines are not alike")
    comma = separator != "," and _has_decimal_comma(sample)
    if n_titles := _count_titles(rows, n_columns, comma):
        content = re.sub(rb"^.+$", b"", content, count=n_titles, flags=re.MULTILINE)
        sample = [row for row in rows[n_titles:] if len(row) == n_columns]
    # without quotes, commas within numbers may be what is too much
    if (separator != "," or lines[0].startswith('"')) and _lacks_corner(rows, n_columns, comma):
        content = f'""{separator}'.encode() + content.lstrip()
        sample.insert(0, ["", *rows[0]])
    header = _find_header(sample, n_columns, comma)
    if header is not None and header[0] and f"\n{separator}".encode() in content:
        content = re.sub(rf"^[{re.escape(separator)} \t]+$".encode(), b"", content, flags=re.MULTILINE)
    if separator == " ":
        content = _squeeze(content)
    columns = _read_columns(name, content, separator, n_columns)
    if len(columns[-1]) and "\n" in str(columns[-1][-1]):
        *_, (line, _) = _iterate_rows(content, separator)
        raise FileFormatError.at(name, line, "the last cell runs over several lines; is a quotation mark left open?")
    if header is not None:
        columns = [column[1:] for column in columns]
    said = ["one column" if n_columns == 1 else f"{n_columns} columns"]
    if n_columns > 1 and not guessed.startswith("sheet "):
        said[0] += f" separated by {SEPARATORS[separator]}"
    said.append("a header" if header is not None else "no header")
    said.append(f"{count(n_titles, 'line')} above left out" if n_titles else "")
    said.append(f"{count(n_remarks, 'remark')} (# or %) left out" if n_remarks else "")
    doubtful = _find_doubtful(sample, "," if comma else ".") if separator in "\t|" or not comma else None
    if comma or (doubtful and separator != ","):
        points = "decimal commas" if comma else "decimal points"
        said.append(points + (f": {doubtful} is {_number(doubtful, comma):g}" if doubtful else ""))
    if apart := [cell for row in sample for cell in row if not comma and _THOUSANDS_APART.fullmatch(cell)]:
        said.append(f"between thousands: {apart[0]} is {_number(apart[0], False):.12g}")
    said += ["attributes of networkx" if attributes else "", guessed]
    table = Table(name, columns, header, ", ".join(filter(None, said)), comma, content, separator, attributes)
    if len(table) == 0:
        raise table.fault(-1, "there are column names, but no rows below them")
    if header is not None and header[0] and "" in header[1:] and not sample[1][0]:  # cells above were merged
        raise table.fault(0, "each column needs a name, all of them in one row")
    return _drop_empty_columns(table)


def read_columns(path: str | os.PathLike[str], name: str) -> Table:
    """Return the columns of a text file between which there is white space; nothing is guessed, none has a name."""
    content = _squeeze(_REMARK.sub(b"", read_text(path, name)[0]))
    n_columns = len(content.strip().split(b"\n", 1)[0].split())
    if n_columns == 0:
        raise FileFormatError(f"{name}: no row of data in the file")
    return Table(name, _read_columns(name, content, " ", n_columns), None, "", content=content, separator=" ")


def _squeeze(content: bytes) -> bytes:
    """Return text with one space between words, and none at the ends of lines."""
    padded = b"\n" + content + b"\n"
    if not any(sign in padded for sign in (b"  ", b"\t", b"\n ", b" \n")):
        return content
    return re.sub(rb"[ \t]+", b" ", re.sub(rb"^[ \t]+|[ \t]+$", b"", content, flags=re.MULTILINE))


def _read_columns(name: str, content: bytes, separator: str, n_columns: int) -> list[Any]:
    """Return the cells column by column, as lists where the text is short."""
    if len(content) > _SHORT and find_spec("pyarrow") is not None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv as arrow

        read = arrow.ReadOptions(
            use_threads=False, block_size=max(len(content) + 64, 1 << 16), autogenerate_column_names=True
        )
        types = arrow.ConvertOptions(column_types={f"f{k}": pa.string() for k in range(n_columns)})
        how = arrow.ParseOptions(delimiter=separator, newlines_in_values=True)
        try:
            found = arrow.read_csv(pa.BufferReader(content), read, how, types)
            if found.num_columns == n_columns:
                return [pc.utf8_trim(column.combine_chunks(), BLANK) for column in found.columns]
        except pa.ArrowInvalid:
            pass
    rows = []
    for line, cells in _iterate_rows(content, separator):
        if len(cells) != n_columns:
            between = "" if separator == _NONE else f" (separated by {SEPARATORS[separator]})"
            opened = "; a quotation mark is left open" if any("\n" in cell for cell in cells) else ""
            fault = f"{count(len(cells), 'cell')} where the others have {n_columns}{between}{opened}"
            raise FileFormatError.at(name, line, f"{fault}; make all rows alike")
        rows.append(cells)
    return [[cell.strip(BLANK) for cell in column] for column in zip(*rows, strict=True)]


def _drop_empty_columns(table: Table) -> Table:
    """Leave out columns with neither a name nor a cell, as spreadsheets write them; a square may be a matrix."""
    header = table.header or ("",) * table.n_columns
    kept = [k for k, name in enumerate(header) if name or any(row[k] for row in table.sample) or any(table.words(k))]
    if len(kept) in (0, table.n_columns) or (table.header is None and table.n_columns == len(table)):
        return table
    named = None if table.header is None else tuple(header[k] for k in kept)
    layout = f"{table.layout}, empty columns left out"
    return replace(table, columns=[table.columns[k] for k in kept], header=named, layout=layout)


def _iterate_rows(content: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each row that is not blank."""
    text = content.decode()
    limit = csv.field_size_limit(max(len(text), 1 << 17))
    try:
        reader, before = csv.reader(StringIO(text, newline=""), delimiter=separator), 0
        for cells in reader:
            if cells:
                yield before + 1, cells
            before = reader.line_num
    finally:
        csv.field_size_limit(limit)


def _as_text(cells: Any) -> list[str]:
    """Return cells as text."""
    return cells if isinstance(cells, list) else ["" if cell is None else str(cell) for cell in cells.to_pylist()]


def _encode(columns: list[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return a number for the text of each cell, (rows, columns), and the texts."""
    if isinstance(columns[0], list):
        index: dict[str, int] = {}
        numbers = [[index.setdefault(cell, len(index)) for cell in cells] for cells in columns]
        return np.array(numbers, dtype=np.int64).T, list(index)
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = []
    for cells in columns:
        if pa.types.is_floating(cells.type):  # 3.0 names 3
            texts.append(pa.array(["" if cell is None else f"{cell:.17g}" for cell in cells.to_pylist()]))
        else:
            text = cells.cast(pa.string())
            texts.append(pc.fill_null(text, "") if text.null_count else text)  # which loads pandas
    coded = pa.concat_arrays(texts).dictionary_encode()
    codes = np.frombuffer(coded.indices.buffers()[1], dtype=np.int32)[: len(coded)].astype(np.int64)
    return codes.reshape(len(columns), -1).T, coded.dictionary.to_pylist()


def _cast(cells: pyarrow.Array, decimal_comma: bool) -> NDArray[np.float64] | None:
    """Return the numbers in cells, NaN where there is none; None where they have to be looked at one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(cells.type):
        if decimal_comma and pc.any(pc.match_substring(cells, ".")).as_py():  # 1.234,5 perhaps
            return None
        cells = pc.replace_substring(cells, ",", ".") if decimal_comma else cells
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _as_floats(cells.cast(pa.float64()))
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # cells that say there is none
        absent = pc.is_in(pc.utf8_lower(cells), pa.array(sorted(_NO_NUMBER)))
        return _as_floats(pc.if_else(absent, None, cells).cast(pa.float64()))
    return None


def _as_floats(cells: pyarrow.Array) -> NDArray[np.float64]:
    """Return numbers as NumPy has them, NaN where there is none; pyarrow's own way would load pandas first."""
    if cells.null_count:
        return np.asarray(cells.to_numpy(zero_copy_only=False))
    return np.frombuffer(cells.buffers()[1])[cells.offset :][: len(cells)]


# -- the guesses ------------------------------------------------------------------------------------------------------


def _split_lines(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Return the cells of lines, each by itself: a quotation mark left open would swallow the lines after it."""
    rows = []
    for line in lines:
        line = re.sub(r"[ \t]+", " ", line.strip(" \t")) if separator == " " else line
        cells = line.split(separator)
        if '"' in line:
            with suppress(csv.Error, StopIteration):  # a cell longer than csv allows
                cells = next(csv.reader([line], delimiter=separator))
        rows.append([cell.strip() for cell in cells])
    return rows


def _join_quoted(lines: Sequence[str]) -> list[str]:
    """Return lines with those put together between which a quotation mark is open."""
    joined: list[str] = []
    for line in lines:
        if joined and joined[-1].count('"') % 2:
            joined[-1] += f"\n{line}"
        else:
            joined.append(line)
    return joined


def _find_separator(lines: Sequence[str]) -> tuple[float, str, int]:
    """Return the share of lines that the best separator cuts alike, the separator, and the number of cells."""
    best: tuple[float, str, int] = (0.0, _NONE, 1)
    for separator in SEPARATORS:
        counts = Counter(len(cells) for cells in _split_lines(lines, separator))
        n_cells, n_lines = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        share = n_lines / len(lines)
        # a few odd lines are faults in a table; many are no table
        if n_cells > 1 and share > best[0] and (share == 1.0 or (share >= 0.75 and len(lines) > 3)):
            best = (share, separator, n_cells)
    return best


def _count_titles(rows: list[list[str]], n_columns: int, comma: bool) -> int:
    """Return how many lines above the names of the columns are titles: one cell is filled, as spreadsheets have it."""
    n = next((at for at, row in enumerate(rows) if sum(map(bool, row)) > 1), 0)
    alike = [row for row in rows[n:] if len(row) == n_columns]
    if n == 0 or rows[n] not in alike[:1] or n_columns == 1:
        return 0
    header = _find_header(alike, n_columns, comma)
    return n if header is not None and all(_number(name, comma) is None for name in header if name) else 0


def _has_decimal_comma(sample: list[list[str]]) -> bool:
    cells = [cell for row in sample for cell in row]
    return any(_DECIMAL_COMMA.fullmatch(cell) or _MILLIONS.fullmatch(cell) for cell in cells) and not any(
        re.fullmatch(r"[+-]?\d*\.\d+", cell) and not _GROUPED.fullmatch(cell) for cell in cells
    )


def _find_doubtful(sample: list[list[str]], sign: str) -> str | None:
    """Return a cell like 1.240 that may be a thousand: no other says otherwise; of points, among whole numbers."""
    for column in zip(*sample, strict=True):
        dotted: list[str] = [cell for cell in column if sign in cell and _number(cell, sign == ",") is not None]
        if dotted and all(map(_THOUSANDS.fullmatch, dotted)) and (sign == "," or any(map(_INTEGER.fullmatch, column))):
            return dotted[0]
    return None


def _lacks_corner(rows: list[list[str]], n_columns: int, comma: bool) -> bool:
    """Tell whether only the first line has one cell less, all of them names: R writes none above those of the rows."""
    first, *others = rows
    words = all(_number(cell, comma) is None for cell in first) and not names_rows(first[0])
    alike = len(others) > 1 and {len(row) for row in others} == {n_columns}
    return words and alike and len(first) == n_columns - 1 > 1


def _find_header(sample: list[list[str]], n_columns: int, comma: bool) -> tuple[str, ...] | None:
    """Return the names in the first row: it has words where the rows below have numbers, or words that we know.

    All of them, or those of the two ends of a pair.
    """
    first, *others = sample
    names = tuple(first)
    known = {plain(name) for name in names} <= (KNOWN_NAMES if others else ALL_NAMES)
    if others:
        known |= find_ends(names, CLEAR_ENDS) is not None
    if known and not any(name in row for name in names for row in others):
        return names
    if not others:
        return None
    if _counts_columns(first, others, comma):
        return names
    is_word = [_number(cell, comma) is None for cell in first]
    for column, word in enumerate(is_word):
        below = [row[column] for row in others]
        n_numbers = sum(_number(cell, comma) is not None for cell in below)
        if word and 2 * n_numbers > len(below) and any(below):
            return names
    # a corner left empty, as frames are written, above row names
    if names[0] == "" and n_columns > 1 and all(row[0] for row in others):
        return names
    return None


def _counts_columns(first: list[str], others: list[list[str]], comma: bool) -> bool:
    """Tell whether the first row only counts the columns from 0 on, as pandas does, and is no edge."""
    n = len(first)
    if n < 2 or first != [str(k) for k in range(n)]:
        return False
    no_nodes = any("." in cell or "e" in cell or (comma and "," in cell) for row in others for cell in row[:2])
    square = len(others) == n > 2 and others == [list(column) for column in zip(*others, strict=True)]
    return n > 4 or no_nodes or square


def _number(text: str, decimal_comma: bool) -> float | None:
    """Return the number, NaN for a missing one, None for a word."""
    if text.lower() in _NO_NUMBER:
        return math.nan
    if decimal_comma and (_DECIMAL_COMMA.fullmatch(text) or _GROUPED.fullmatch(text)):
        text = re.sub(r"[.\s]", "", text).replace(",", ".")
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        if text[:1] == "\u2212":  # a minus sign, as typesetters have it
            return _number(f"-{text[1:]}", decimal_comma)
        apart = not decimal_comma and _THOUSANDS_APART.fullmatch(text)
        return float(re.sub(r"[,'’\s]", "", text)) if apart else None
