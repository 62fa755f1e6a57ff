"""Tables of any kind: text, sheets of Excel, Parquet and JSON; and what may be a table or a matrix."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any
from warnings import catch_warnings, simplefilter
from zipfile import ZipFile

from quartic.archives import check_fits
from quartic.io.arrays import one_matrix, read_arrays
from quartic.io.files import GRAPHS, TABLES, FileFormatError, Source, count, damage_named, read_bytes, read_text
from quartic.io.tables import BLANK, Table, read_text_table

INSTALL = "pip install 'quartic[cli]'"


def read_table_or_matrix(source: Source, names: tuple[str, ...], wanted: str) -> Any:
    """Return the table in a source, or its one matrix of numbers, by one of these names where there are several."""
    if source.kind in (*GRAPHS, "mdjeep", "atoms"):
        cure = "; use quartic locate" if source.kind == "mdjeep" else ""
        raise FileFormatError(f"{source.name}: this kind of file holds no {wanted}{cure}")
    return read_table(source) if source.kind in TABLES else one_matrix(read_arrays(source), source.name, names)


def read_table(source: Source) -> Table:
    """Read a table of text, plain or gzip, a sheet of Excel, Parquet or JSON.

    Lines that start with ``#`` or ``%`` are comments; a line of separators alone, below a header, is left out.
    """
    if source.kind in ("parquet", "json"):
        return _read_parquet(source) if source.kind == "parquet" else _read_json(source)
    return read_text_table(
        source.name, *(_read_excel(source) if source.kind == "excel" else read_text(source.path, source.name))
    )


def _read_excel(source: Source) -> tuple[bytes, str]:
    """Return the first sheet with a table, or else with anything, as CSV, and which it is; rows stay in their lines."""
    try:
        import openpyxl
    except ImportError:
        cure = "save the sheet as CSV (File, Save As, CSV UTF-8) and read that"
        raise FileFormatError(f"{source.name}: a spreadsheet, which openpyxl reads: {INSTALL}; or {cure}") from None
    with damage_named(source.name, "not a spreadsheet that Excel would open"), catch_warnings():
        simplefilter("ignore")  # of parts of the workbook that are not read
        with ZipFile(source.path) as archive:
            check_fits(sum(member.file_size for member in archive.infolist()))
        with open(source.path, "rb") as stream:  # openpyxl leaves a file that it opened itself open where it is damaged
            found: tuple[str, list[Any]] | None = None
            for sheet in openpyxl.load_workbook(stream, read_only=True, data_only=True).worksheets:
                rows = [["" if cell is None else cell for cell in row] for row in sheet.iter_rows(values_only=True)]
                filled = [sum(cell != "" for cell in row) for row in rows]
                is_table = sum(n_cells > 1 for n_cells in filled) > 1  # a cover has a few words below each other
                if is_table or (found is None and any(filled)):
                    found = sheet.title, rows
                if is_table:
                    break
    if found is None:
        raise FileFormatError(f"{source.name}: no row of data in the file")
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(found[1])
    return text.getvalue().encode(), f"sheet {found[0]!r}"


def _read_json(source: Source) -> Table:
    """Return the table in JSON: rows as objects or lists, or columns by name, as pandas writes them too."""
    content = read_text(source.path, source.name)[0]
    with damage_named(source.name, "not JSON"):
        try:
            found = json.loads(content)
        except ValueError:  # an object on each line, perhaps
            found = [json.loads(line) for line in content.splitlines() if line.strip()]
    with damage_named(source.name, "no table in it"):
        header = None
        if isinstance(found, list) and all(isinstance(row, dict) for row in found):
            header = tuple(dict.fromkeys(name for row in found for name in row))
            found = [[row.get(name) for name in header] for row in found]
        elif isinstance(found, dict) and all(isinstance(column, dict | list) for column in found.values()):
            header = tuple(found)
            columns = [list(column.values() if isinstance(column, dict) else column) for column in found.values()]
            if len(set(map(len, columns))) > 1:
                raise ValueError("columns of different lengths; write a graph as a list of edges, or nodes and links")
            found = [list(row) for row in zip(*columns, strict=True)]
        if not isinstance(found, list) or not all(isinstance(row, list) and row for row in found) or not found:
            expected = "expected a list of rows, of objects or lists, or columns of equal length by name"
            raise ValueError(f"{expected}; or a graph, with nodes and links")
        if len({len(row) for row in found}) > 1:
            raise ValueError("rows of different lengths; make all alike")
        if any(isinstance(cell, dict | list) for row in found for cell in row):
            raise ValueError("a cell holds a list or an object; keep numbers and text")
    made = [["" if cell is None else str(cell).strip(BLANK) for cell in column] for column in zip(*found, strict=True)]
    return Table(source.name, made, header, f"JSON, {count(len(made), 'column')}")


def _read_parquet(source: Source) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(f"{source.name}: Parquet is read by pyarrow: {INSTALL}") from None

    content = read_bytes(source.path, source.name)
    with damage_named(source.name, "not a Parquet file"):
        found = pq.read_table(pa.BufferReader(content), use_threads=False)
        found.validate(full=True)
        columns = []
        for name, column in zip(found.column_names, found.columns, strict=True):
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if pa.types.is_nested(kind) or pa.types.is_binary(kind):
                raise FileFormatError(f"{source.name}: column {name!r} holds {kind}; keep numbers and text")
            text = not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
            cells = column.combine_chunks().cast(pa.string() if text else kind)
            columns.append(pc.utf8_trim(cells, BLANK) if text else cells)
    if not columns or len(columns[0]) == 0:
        raise FileFormatError(f"{source.name}: no row of data in the file")
    header = tuple("" if name.startswith("__index_level_") else name for name in found.column_names)
    return Table(source.name, columns, header, f"Parquet, {len(columns)} columns")
