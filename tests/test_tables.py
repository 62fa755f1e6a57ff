"""Files as people have them: what is read, what is guessed, and what is refused, with the line at fault."""

import gzip
import io as standard_io
import json
import os
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite, savemat

from quartic import io
from quartic.io.files import open_source, source_of
from quartic.io.graphs import negative_weights
from quartic.io.sheets import read_table

# -- the layout of a table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "separator", "header", "values"),
    [
        ("1,2\n3,4\n", ",", None, [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3,4\n", ",", ("a", "b"), [[1, 2], [3, 4]]),
        ("a;b\n1,5;2\n3;4,25\n", ";", ("a", "b"), [[1.5, 2], [3, 4.25]]),
        ("1\t2\n3\t4\n", "\t", None, [[1, 2], [3, 4]]),
        ("# said\n% said\n\n1 2\n 3   4 \n", " ", None, [[1, 2], [3, 4]]),
        (" 1 20\n10 20\n 1 30 ", " ", None, [[1, 20], [10, 20], [1, 30]]),
        ("10 20\n10 2 ", " ", None, [[10, 20], [10, 2]]),
        (" 1 20\n10 2\n", " ", None, [[1, 20], [10, 2]]),
        ("x|y\n1|2\n3|4\n", "|", ("x", "y"), [[1, 2], [3, 4]]),
        ('"a, b","c"\n"1",2\n3,4\n', ",", ("a, b", "c"), [[1, 2], [3, 4]]),
        ("\ufeffa,b\r\n1,2\r\n3,4\r\n", ",", ("a", "b"), [[1, 2], [3, 4]]),
        ("1e3,-2.5\n.5,4\n", ",", None, [[1000, -2.5], [0.5, 4]]),
    ],
)
def test_separator_and_header_are_found(file, text, separator, header, values):
    table = read_table(open_source(file(text)))
    assert (table.separator, table.header) == (separator, header)
    np.testing.assert_array_equal(table.numbers([0, 1]), values)


def test_titles_above_a_spreadsheet_are_left_out(file):
    """As Excel exports a sheet in western Europe, by someone who wrote what it is about above it."""
    padded = "Kunden, Stand März;;;\nin Euro;;;\nNr;Name;Größe (cm);Umsatz\n1;Zoë;1,5;1.200,25\n2;Jürgen;2,5;3\n"
    found = io.read_features(file(padded.replace("\n", "\r\n").encode("cp1252")))
    assert found.names == ("Zoë", "Jürgen")
    assert found.columns == ("Größe (cm)", "Umsatz")
    assert found.X.tolist() == [[1.5, 1200.25], [2.5, 3.0]]
    assert "2 lines above left out" in found.guess
    assert "row numbers left out: column 'Nr'" in found.guess
    beside = io.read_features(file("Nr.;Weingut;Säure;Gebiet\n1;Grün;8,5;Mosel\n2;Gelb;5,25;Mosel\n"))
    assert beside.names == ("Grün", "Gelb")  # not the row numbers, though the other column is not called a name
    assert "names from column 'Name'" in found.guess
    alone = io.read_graph(file("Friends of 7b\n\nfrom,to,weight\nann,bob,2\nbob,cid,1\n"))
    assert alone.names == ("ann", "bob", "cid")
    blank = io.read_distances(file("Room;;;\n;a;b;c\na;0;1,5;\nb;;0;2,5\nc;2;;0\n"))
    assert blank.names == ("a", "b", "c")
    assert blank.pairs.tolist() == [[0, 1], [1, 2], [0, 2]]
    with pytest.raises(io.FileFormatError, match=r"data.csv:6: 'x' in column 'z'"):
        io.read_features(file("Title;;\n\nx;y;z\n1;2;3\n1;2;3\n1;2;x\n3;4;5\n6;7;8\n"))
    for broken in ("ann\nbob,cid\ncid,dan\ndan,bob\n", "1\n2,3\n3,4\n4,5\n"):  # no names of columns below
        with pytest.raises(io.FileFormatError, match=r"data.csv:1: 1 cell where the others have 2"):
            io.read_graph(file(broken))


def test_spreadsheet_text_in_utf16_and_gzip(file):
    text = "name,x\nMüller,1\nStraße,2\n"
    for content in (text.encode("utf-16"), gzip.compress(text.encode())):
        assert io.read_features(file(content)).names == ("Müller", "Straße")


def test_a_bad_cell_deep_in_a_long_table_is_named(file):
    rows = [f"{k},{k / 2}" for k in range(10_000)]
    rows[9000] = "9000,oops"
    with pytest.raises(io.FileFormatError, match=r"data.csv:9002: 'oops' in column 'y' is not a number"):
        io.read_features(file("x,y\n" + "\n".join(rows)))


def test_standard_input(file, monkeypatch):
    class Stdin:
        buffer = standard_io.BytesIO(b"ann,bob\nbob,cid\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert io.read_graph("-").names == ("ann", "bob", "cid")
    Stdin.buffer = standard_io.BytesIO(b"")
    with pytest.raises(io.FileFormatError, match="stdin: no input"), source_of("-"):
        pass


def test_a_row_of_json_has_no_line(file):
    """Clashes name both rows; a table of text has lines, JSON and Parquet have not."""
    twice = '[["a","b",1],["b","c",2],["b","a",3]]'
    for read in (io.read_graph, io.read_distances):
        with pytest.raises(io.FileFormatError, match=r"data.json: row 3: .* but 1 in row 1;"):
            read(file(twice, "data.json"))
        with pytest.raises(io.FileFormatError, match=r"data.csv:4: .* but 1 in line 2;"):
            read(file("i,j,value\na,b,1\nb,c,2\nb,a,3\n"))


def test_decimal_commas_are_said(file):
    assert "a header, decimal commas" in io.read_features(file("name;x\na;1,5\nb;2,5\n")).guess


def test_points_between_thousands(file):
    """1.240.000 is no other number; 1.240 beside 950 may be either, and what it is taken for is said."""
    million = io.read_features(file("name;a\nx;1.240.000\ny;950\nz;1.250\n"))
    assert million.X.ravel().tolist() == [1_240_000, 950, 1250]
    thousand = io.read_features(file("name;a\nx;1.240\ny;950\n"))
    assert thousand.X.ravel().tolist() == [1.24, 950]
    assert "decimal points: 1.240 is 1.24" in thousand.guess
    for clear in ("name;a\nx;1.240\ny;95.0\n", "name;a\nx;0.240\ny;95\n", "name,a\nx,1.240\ny,95\n"):
        assert "decimal points" not in io.read_features(file(clear)).guess


def test_columns_of_features_may_be_chosen(file):
    path = file("name;no;height;age;kind\nann;7;1,5;30;p\nbob;8;2,5;40;q\ncid;11;3,5;60;q\n")
    chosen = io.read_similarity(path, "features", columns=["age", "height"])
    assert chosen.columns == ("age", "height")
    assert chosen.names == ("ann", "bob", "cid")
    assert chosen.X.tolist() == [[30, 1.5], [40, 2.5], [60, 3.5]]
    assert io.read_features(path, columns=["3"]).columns == ("height",)
    assert "left out: column 'height', column 'age'" in io.read_features(path, columns=["no"]).guess
    with pytest.raises(io.FileFormatError, match="there is no column 'size'; it has the columns name, no, height"):
        io.read_features(path, columns=["size"])
    with pytest.raises(io.FileFormatError, match="'p' in column 'kind' is not a number"):
        io.read_features(path, columns=["age", "kind"])


def test_a_matrix_has_no_columns_to_choose(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3, 2))
    with pytest.raises(io.FileFormatError, match="leave --columns out"):
        io.read_features(tmp_path / "x.npy", columns=["a"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_with_a_name_is_read_once(tmp_path):
    """As ``quartic cluster <(zcat edges.gz)`` gives one, or /dev/stdin."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("source,target\nann,bob\nbob,cid\n",))
    writer.start()
    assert io.read_similarity(tmp_path / "pipe").names == ("ann", "bob", "cid")
    writer.join()


def test_what_spreadsheets_write(file):
    """Semicolons, decimal commas, points between thousands, Windows' letters, empty columns and rows at the end."""
    text = "Name;Höhe (m);Preis;;\r\nMüller;1,5;1.234,50;;\r\nStraße;2;999,25;;\r\nÖdön;,5;-3;;\r\n;;;;\r\n"
    table = io.read_features(file(text.replace(";,5;", ";0,5;").encode("cp1252")))
    assert table.names == ("Müller", "Straße", "Ödön")
    assert table.columns == ("Höhe (m)", "Preis")
    np.testing.assert_array_equal(table.X, [[1.5, 1234.5], [2, 999.25], [0.5, -3]])
    assert "decoded as Windows-1252, empty columns left out" in table.guess
    assert "Windows" not in io.read_features(file(text.replace(";,5;", ";0,5;"))).guess


def test_cells_that_run_over_several_lines(file):
    """They are read; and the lines after them are counted right."""
    rows = [f'n{k},"a note\nof two lines, or so",{k}' for k in range(300)]
    table = io.read_features(file("name,note,x\n" + "\n".join(rows)))
    assert table.X.shape == (300, 1)
    rows[250] = rows[250].replace(",250", ",oops")
    with pytest.raises(io.FileFormatError, match=r"data.csv:502: 'oops' in column 'x' is not a number"):
        io.read_features(file("name,note,x\n" + "\n".join(rows)))


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    edges = pandas.DataFrame({"source": ["a", "a", "b"], "target": ["b", "c", "c"], "weight": [1, 2, 3]})
    edges.to_parquet(tmp_path / "edges.parquet")
    np.testing.assert_array_equal(io.read_similarity(tmp_path / "edges.parquet").adjacency.toarray(), TRIANGLE)
    pandas.DataFrame({"x": [1.5, 2.0], "y": [1, 2]}, index=["r", "s"]).to_parquet(tmp_path / "x.parquet")
    features = io.read_similarity(tmp_path / "x.parquet")
    assert (features.names, features.columns, features.X.tolist()) == (("r", "s"), ("x", "y"), [[1.5, 1], [2, 2]])
    pandas.DataFrame({"i": [0, 1], "j": [1.0, 2.0], "d": [1.5, None]}).to_parquet(tmp_path / "d.parquet")
    assert io.read_distances(tmp_path / "d.parquet").names == ("0", "1", "2")
    pandas.DataFrame({"i": ["a ", " b", "c"], "j": ["b", "c", "a"], "d": [1, 2, 3]}).to_parquet(tmp_path / "s.parquet")
    assert io.read_distances(tmp_path / "s.parquet").names == ("a", "b", "c")
    pandas.DataFrame({"x": [1.0, None]}).to_parquet(tmp_path / "gap.parquet")
    with pytest.raises(io.FileFormatError, match=r"gap\.parquet: row 2: there is no number in column 'x'"):
        io.read_features(tmp_path / "gap.parquet")
    (tmp_path / "gap.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(io.FileFormatError, match=r"gap\.parquet: not a Parquet file"):
        io.read_features(tmp_path / "gap.parquet")


def test_without_pyarrow_tables_of_text_are_read_and_the_cure_is_named_for_others(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("quartic.io.tables.find_spec", lambda name: None)
    monkeypatch.setattr("quartic.io.tables._SHORT", 3)
    assert io.read_graph(file("a,b\nb,c\n")).names == ("a", "b", "c")
    with pytest.raises(ImportError, match=r"data.parquet: Parquet is read by pyarrow: pip install 'quartic\[cli\]'"):
        io.read_graph(file("PAR1", "data.parquet"))


LAYOUTS = [
    "source,target,weight\na,b,1\nb,c,2\nc,a,3\n",
    "Von;Nach;Gewicht\n a ; b ;1,5\nb;c;1.234,5\nc;a;,5\n",
    "De;Vers;Poids\na;b;1 234,5\nb;c;2\u00a0000\nc;a;1\u202f000\u202f000,25\n",
    'from,to\n"a, x",b\nb,"c ""d"""\n',
    "1.0 2\n2 3.0\n3 1\n",
    "i,j,d\n1,2,NA\n2,3, 4 \n1,3,5\n",
    "a,b,1\nb,c\nc,a,2\nd,a,1\n",
    "a,b,1\nb,c,x\nc,a,2\nd,a,1\n",
    'a,b,1\nb,c,"2\n',
    "i,j,d\na,b,−1\nb,c,1 234\nc,a,2\n",
    "#,i,j,d\n1,a,b,1\n2,b,c,1\n3,c,a,2\n",
    "i;j;w\na;b;1 234\nb;c;2\nc;a;3\n",
    '"i" "j" "w"\n"x" a b 1\n"y" b c 2\n"z" c a 3\n',
    "source,target,w\n1.0,2.0,1\n2.0,3.0,0\n3.0,1.0,5\n",
    "0,1,2,3,4\n1.5,2,3,4,5\n2,3,4,5,6\n9,8,7,6,5\n",
]


def test_groups_of_digits_may_stand_apart_by_spaces(file):
    A = io.read_graph(file("De;Vers;Poids\na;b;1 234,5\nb;c;2\u00a0000\nc;a;1\u202f000\u202f000,25\n")).adjacency
    assert [A[0, 1], A[1, 2], A[0, 2]] == [1234.5, 2000.0, 1000000.25]


def test_chosen_columns_leave_features_features(file):
    rows = "".join(f"K{k};{100 + k / 8};{k % 7};{20 + k % 50};Ort {k % 3}\n".replace(".", ",") for k in range(60))
    path = file("Kunde;Umsatz;Besuche;Alter;Ort\n" + rows)
    for columns in (["Umsatz", "Besuche", "Alter"], ["Umsatz"], ["Alter"], ["Kunde", "Umsatz"], ["Besuche", "Umsatz"]):
        found = io.read_similarity(path, columns=columns)
        assert isinstance(found, io.FeatureTable)
        assert found.columns == tuple(name for name in columns if name != "Kunde")
    with pytest.raises(io.FileFormatError, match="'Besuche' and column 'Alter' of a table of features: the ends"):
        io.read_similarity(path, columns=["Besuche", "Alter"])
    assert isinstance(io.read_similarity(path, "graph", columns=["Besuche", "Alter"], repeats="sum"), io.GraphTable)
    assert isinstance(io.read_similarity(path, columns=["Kunde", "Ort"]), io.GraphTable)
    np.save(path.with_suffix(".npy"), np.eye(3))
    with pytest.raises(io.FileFormatError, match="leave --columns out"):
        io.read_similarity(path.with_suffix(".npy"), columns=["1", "2"])


@pytest.mark.parametrize("short", [0, 1 << 18])
def test_a_name_may_look_like_a_missing_number(file, monkeypatch, short):
    """NA is Namibia; in a column of numbers it is none."""
    monkeypatch.setattr("quartic.io.tables._SHORT", short)
    assert io.read_features(file("name,x\nNA,1\nDE,2\nNone,3\n")).names == ("NA", "DE", "None")
    with pytest.raises(io.FileFormatError, match=r"csv:3: there is no number in column 'x' \(NA\)"):
        io.read_features(file("name,x\nDE,1\nFR,NA\nIT,3\n"))


@pytest.mark.parametrize("short", [0, 1 << 18])
def test_blanks_around_cells_do_not_count(file, monkeypatch, short):
    """In names, and in cells that say there is no number, whoever cuts the file into cells."""
    monkeypatch.setattr("quartic.io.tables._SHORT", short)
    assert io.read_features(file("name, x\nann , 1\n bob,2\ncid, 3\n")).names == ("ann", "bob", "cid")
    assert io.read_distances(file("i;j;d\na ; b; NA\nb;c;1,5 \n a;c; 2\n")).distances.tolist() == [1.5, 2]
    with pytest.raises(io.FileFormatError, match=r"csv:3: 'b' in column 'x' is not a number"):
        io.read_features(file("x,y\n1,2\n b ,3\n4,5\n6,7\n"))


@pytest.mark.parametrize("text", LAYOUTS)
def test_short_and_long_files_are_read_alike(file, text, monkeypatch):
    """Those below a limit row by row, the others by pyarrow."""

    def told(read):
        try:
            found = read(file(text))
        except ValueError as error:
            return str(error)
        value = found.adjacency.toarray() if read is io.read_graph else found.distances
        return found.names, None if value is None else value.tolist(), found.guess

    readers = (io.read_graph, io.read_distances)
    short = [told(read) for read in readers]
    monkeypatch.setattr("quartic.io.tables._SHORT", 3)
    assert [told(read) for read in readers] == short


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("iris.xlsx", b"PK\x03\x04\x14\x00 [Content_Types].xml", "not a spreadsheet that Excel would open"),
        ("iris", b"PK\x03\x04\x14\x00 [Content_Types].xml", "not a spreadsheet that Excel would open"),
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"save the sheet as \.xlsx or CSV"),
        ("data.json", b"[1, 2]", "no table in it .expected a list of rows"),
        ("data.json", b"[[1, 2], [1]]", "rows of different lengths"),
        ("data.json", b'[{"a": [1]}]', "a cell holds a list"),
        ("data.json", b'{"name": "all", "children": [{"size": 3}]}', "no table in it .expected a list of rows"),
        ("data.json", b'{"x": [1], "y": [1', "not JSON"),
        ("data.csv.zip", b"PK\x03\x04\x14\x00 data.csv", "an archive; unpack it"),
        ("photo.jpg", b"\xff\xd8\xff\xe0\n\x81\x90", "jpg:2: not a text file, nor of another kind that is read"),
        ("picture", b"\x89PNG\r\n\x1a\n\x00\x00\x00", "not a text file"),
    ],
)
def test_what_is_not_read_says_what_to_do(file, name, content, words):
    for read in (io.read_similarity, io.read_graph, io.read_features, io.read_distances):
        with pytest.raises(io.FileFormatError, match=words):
            read(file(content, name))


@pytest.mark.parametrize("rows", ["ann,bob", "ann,bob\nbob,cid", "ann,bob\nbob,cid\ncid,ann", "ann,bob\ncid,dee"])
def test_names_of_columns_that_are_not_known_are_not_taken_for_an_edge(file, rows):
    with pytest.raises(io.FileFormatError, match=r"data\.csv:1: 'person' and 'friend' are in no other row: names"):
        io.read_graph(file(f"person,friend\n{rows}\n"))
    assert "person" not in io.read_graph(file(f"source,target\n{rows}\n")).names


def test_a_column_of_remarks_that_is_nearly_empty_is_text(file):
    rows = "".join(f"flat {k};{40 + k},5;{'nice' if k == 3 else ''}\n" for k in range(9))
    found = io.read_similarity(file(f"sep=;\nname;size (m²);remark\n{rows}".encode("cp1252")))
    assert (found.X.shape, found.columns) == ((9, 1), ("size (m²)",))
    assert "non-numeric columns ignored: column 'remark'" in found.guess


# -- JSON and Excel ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '[{"source": "a", "target": "b", "weight": 1}, {"source": "a", "target": "c", "weight": 2},'
        ' {"source": "b", "target": "c", "weight": 3}]',
        '[["a", "b", 1], ["a", "c", 2], ["b", "c", 3]]',
        '{"from": ["a", "a", "b"], "to": ["b", "c", "c"], "strength": [1, 2, 3]}',
        '{"from": {"0": "a", "1": "a", "2": "b"}, "to": {"0": "b", "1": "c", "2": "c"}, "w": {"0": 1, "1": 2, "2": 3}}',
        '{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}], "links": [{"source": "a", "target": "b"},'
        ' {"source": "a", "target": "c", "weight": 2}, {"source": "b", "target": "c", "value": 3}]}',
        '{"nodes": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "edges": [{"source": 0, "target": 1},'
        ' {"source": 0, "target": 2, "weight": 2}, {"source": 1, "target": 2, "weight": 3}]}',
    ],
)
@pytest.mark.parametrize("name", ["graph.json", "graph", "graph.json.gz"])
def test_json(file, text, name):
    found = io.read_similarity(file(gzip.compress(text.encode()) if name.endswith(".gz") else text, name))
    assert found.names == ("a", "b", "c")
    np.testing.assert_array_equal(found.adjacency.toarray(), TRIANGLE)


@pytest.mark.parametrize("write", ["node_link_data", "adjacency_data", "cytoscape_data"])
@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph"])
def test_what_networkx_writes_as_json(file, write, kind):
    networkx = pytest.importorskip("networkx")
    graph = getattr(networkx, kind)()
    graph.add_weighted_edges_from([("a", "b", 1), ("a", "c", 2), ("b", "c", 3)])
    found = io.read_graph(file(json.dumps(getattr(networkx, write)(graph)), "graph.json"))
    assert found.names == ("a", "b", "c")
    np.testing.assert_array_equal(found.adjacency.toarray(), TRIANGLE)


def test_features_and_distances_in_json(file):
    found = io.read_features(file('[{"name": "r", "x": 1.5}, {"name": "s", "x": 2}]', "a.json"))
    assert (found.names, found.columns, found.X.tolist()) == (("r", "s"), ("x",), [[1.5], [2.0]])
    found = io.read_distances(
        file('[{"from": "r", "to": "s", "km": 1.5}, {"from": "s", "to": "t", "km": null}]', "d.json")
    )
    assert (found.names, found.distances.tolist()) == (("r", "s", "t"), [1.5])
    with pytest.raises(io.FileFormatError, match=r"a\.json: row 2: there is no number in column 'x'"):
        io.read_features(file('[{"x": 1, "y": 1}, {"y": 2}]', "a.json"))
    with pytest.raises(io.FileFormatError, match="holds no features"):
        io.read_features(file('{"nodes": [], "links": []}', "a.json"))


def _workbook(path, *sheets):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for k, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {k}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_excel(tmp_path):
    edges = [["source", "target", "weight"], ["a", "b", 1], ["a", "c", 2.0], [None] * 3, ["b", "c", 3]]
    found = io.read_similarity(_workbook(tmp_path / "edges.xlsx", [], edges))
    np.testing.assert_array_equal(found.adjacency.toarray(), TRIANGLE)
    assert "sheet 'sheet 1'" in found.guess
    cover = [["Friends of 7b"], [None], ["by the school office"]]
    assert "sheet 'sheet 1'" in io.read_similarity(_workbook(tmp_path / "cover.xlsx", cover, edges)).guess
    assert io.read_features(_workbook(tmp_path / "one.xlsx", [["x"], [1], [2.5]], [["remarks"]])).X.tolist() == [
        [1],
        [2.5],
    ]
    table = [["", "x", "y"], ["x", None, 2.5], ["y", 2.5, None]]
    assert io.read_distances(_workbook(tmp_path / "d.xlsx", table)).distances.tolist() == [2.5]
    wrong = [["name", "height"], ["rose", 1.5], ["fern", "tall"], ["oak", 9]]
    with pytest.raises(io.FileFormatError, match=r"wrong\.xlsx:3: 'tall' in column 'height' is not a number"):
        io.read_features(_workbook(tmp_path / "wrong.xlsx", wrong))
    with pytest.raises(io.FileFormatError, match="no row of data"):
        io.read_features(_workbook(tmp_path / "empty.xlsx", []))


def test_without_openpyxl_the_cure_is_named(tmp_path, monkeypatch):
    path = _workbook(tmp_path / "x.xlsx", [["a", "b"], [1, 2]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(io.FileFormatError, match=r"pip install 'quartic\[cli\]'; or save the sheet as CSV"):
        io.read_features(path)


# -- graphs and features ----------------------------------------------------------------------------------------------

TRIANGLE = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]], dtype=float)


@pytest.mark.parametrize(
    "text",
    [
        "source,target,weight\na,b,1\na,c,2\nb,c,3\n",
        "Weight;From;To\n1;a;b\n2;a;c\n3;b;c\n",
        "a b 1\na c 2\nb c 3\nc b 3\n",
        ",a,b,c\na,0,1,2\nb,1,0,3\nc,2,3,0\n",
        "a;b;c\n0;1;2\n1;0;3\n2;3;0\n",
        "sep=;\nsource;target;weight\na;b;1\na;c;2\nb;c;3\n",
        "a,b,1,\na,c,2,\nb,c,3,\nc,b,3,\nb,a,1,\n",
    ],
)
def test_one_graph_in_many_tables(file, text):
    graph = io.read_similarity(file(text))
    assert isinstance(graph, io.GraphTable)
    assert graph.names == ("a", "b", "c")
    np.testing.assert_array_equal(graph.adjacency.toarray(), TRIANGLE)


def test_one_graph_in_many_files(tmp_path):
    mmwrite(tmp_path / "g.mtx", sp.coo_array(TRIANGLE))
    mmwrite(tmp_path / "upper.mtx", sp.coo_array(np.triu(TRIANGLE)))
    sp.save_npz(tmp_path / "g.npz", sp.csr_array(TRIANGLE))
    sp.save_npz(tmp_path / "coo.npz", sp.coo_array(TRIANGLE))
    np.save(tmp_path / "g.npy", TRIANGLE)
    savemat(tmp_path / "g.mat", {"A": sp.csc_array(TRIANGLE), "labels": np.arange(3)})
    for name in ("g.mtx", "g.npz", "coo.npz", "g.npy", "g.mat"):
        np.testing.assert_array_equal(io.read_similarity(tmp_path / name).adjacency.toarray(), TRIANGLE)
    np.testing.assert_array_equal(io.read_graph(tmp_path / "upper.mtx").adjacency.toarray(), TRIANGLE)


def test_graphml(tmp_path, monkeypatch):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.Graph([("a", "b", {"weight": 2.0}), ("b", "c")])
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    found = io.read_similarity(tmp_path / "g.graphml")
    assert found.names == ("a", "b", "c")
    assert found.adjacency[0, 1] == 2.0
    monkeypatch.setattr("quartic.io.graphs.find_spec", lambda name: None)
    with pytest.raises(io.FileFormatError, match=r"GraphML needs networkx: pip install 'quartic\[cli\]'"):
        io.read_graph(tmp_path / "g.graphml")


@pytest.mark.parametrize("kind", ["graphml", "gexf", "gml", "net", "edgelist", "edgelist.gz", "weighted.edgelist"])
def test_what_networkx_writes(tmp_path, kind):
    """Its own files, as its defaults have them."""
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.karate_club_graph()
    path = tmp_path / f"karate.{kind}"
    write = {"graphml": networkx.write_graphml, "gexf": networkx.write_gexf, "gml": networkx.write_gml,
             "net": networkx.write_pajek, "weighted.edgelist": networkx.write_weighted_edgelist}  # fmt: skip
    write.get(kind, networkx.write_edgelist)(graph, path)
    found = io.read_similarity(path)
    assert isinstance(found, io.GraphTable)
    assert sorted(found.names, key=int) == [str(k) for k in range(34)]
    at = [int(name) for name in found.names]
    np.testing.assert_array_equal(found.adjacency.toarray(), networkx.to_numpy_array(graph)[np.ix_(at, at)])


def test_an_edge_list_of_networkx_without_weights(file):
    graph = io.read_similarity(file("0 1 {}\n1 2 {}\n2 0 {}\n", "club.edgelist"))
    assert (graph.names, graph.adjacency.nnz) == (("0", "1", "2"), 6)
    with pytest.raises(io.FileFormatError, match=r"club.edgelist:2: 2 cells where the others have 3"):
        io.read_graph(file("0 1 {'weight': 2}\n1 2 {}\n2 0 {'weight': 1, 'kind': 'a b'}\n0 3 {'weight': 1}\n",
                           "club.edgelist"))  # fmt: skip


def test_directed_and_repeated_edges_of_networkx_are_summed(tmp_path):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.DiGraph([("a", "b", {"weight": 2.0}), ("b", "a", {"weight": 3.0}), ("b", "c", {"weight": 1.0})])
    networkx.write_gexf(graph, tmp_path / "g.gexf")
    found = io.read_graph(tmp_path / "g.gexf")
    assert found.adjacency.toarray().tolist() == [[0, 5, 0], [5, 0, 1], [0, 1, 0]]
    assert "directions dropped, 1 repeated edge: sum" in found.guess
    assert io.read_graph(tmp_path / "g.gexf", repeats="last").adjacency[0, 1] == 3.0


def test_five_columns_with_names_in_german_are_a_graph(file):
    rows = ["Anna;Bob;3,5;2019;Freund", "Bob;Cid;2;2020;Kollege", "Cid;Anna;1;2021;Freund", "Dora;Anna;1;2021;Freund"]
    graph = io.read_similarity(file("Von;Nach;Stärke;Jahr;Typ\n" + "\n".join(rows)))
    assert isinstance(graph, io.GraphTable)
    assert graph.adjacency[0, 1] == 3.5
    assert "weights in column 'Stärke'); left out: column 'Jahr', column 'Typ'" in graph.guess
    # names that nobody knows: the same words in two columns make it a graph, and the weight is asked for
    unknown = file("wer;wen;oft;wann;wie\n" + "\n".join(rows))
    with pytest.raises(io.FileFormatError, match=r"column 'oft', column 'wann'\? say --columns wer,wen,oft"):
        io.read_similarity(unknown)
    np.testing.assert_array_equal(
        io.read_similarity(unknown, columns=["wer", "wen", "oft"]).adjacency.toarray(), graph.adjacency.toarray()
    )
    answers = "\n".join(f"p{k},{'yes' if k % 2 else 'no'},{'no' if k % 3 else 'yes'},{20 + k}" for k in range(20))
    assert isinstance(io.read_similarity(file("who,first,second,age\n" + answers)), io.FeatureTable)
    same = "\n".join(["yes,no,3,1", "no,yes,4,2", "yes,yes,5,1"] * 5)
    with pytest.raises(io.FileFormatError, match="hold the same words: the ends of edges"):
        io.read_similarity(file("first,second,age,size\n" + same))


def test_repeated_edges_become_what_is_asked_for(file):
    path = file("a,b,1\nb,c,2\nb,a,4\na,b,1\n")
    with pytest.raises(io.FileFormatError, match=r"csv:3: the edge .* has weight 4, but 1 in line 1.* --repeats sum"):
        io.read_graph(path)
    for how, expected in {"sum": 6.0, "mean": 2.0, "last": 1.0}.items():
        graph = io.read_graph(path, repeats=how)
        assert graph.adjacency[0, 1] == graph.adjacency[1, 0] == pytest.approx(expected)
        assert graph.adjacency[1, 2] == 2.0
        assert f"2 repeated edges: {how}" in graph.guess
    with pytest.raises(ValueError, match="choose sum, mean or last"):
        io.read_graph(path, repeats="most")


def test_numbered_nodes_keep_their_names(file):
    graph = io.read_graph(file("10 7\n7 300\n"))
    assert graph.names == ("7", "10", "300")


def test_features_with_names_and_text(file):
    table = io.read_similarity(file("id,height,colour,width\nr1,1,red,2\nr2,3,blue,4\nr3,5,red,6\n"))
    assert isinstance(table, io.FeatureTable)
    assert (table.names, table.columns) == (("r1", "r2", "r3"), ("height", "width"))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4], [5, 6]])
    assert "non-numeric columns ignored: column 'colour'" in table.guess


def test_features_in_many_files(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X, labels=np.arange(3))
    savemat(tmp_path / "x.mat", {"fea": X, "gnd": np.arange(3)})
    mmwrite(tmp_path / "x.mtx", sp.coo_array(X))
    for name in ("x.npy", "x.npz", "x.mat", "x.mtx"):
        found = io.read_similarity(tmp_path / name).X
        np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, X)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5,3,1.2\n4,2,2.2\n5,3,1.1\n6,6,1\n", "whole numbers: the ends of edges, or features"),
        ("1,2\n1,2\n4,7\n", "whole numbers"),
        ("1,2\n3,4\n", "not symmetric: a graph, or features"),
        ("a,x,1\nb,y,2\n", "none in common, and one of numbers: a graph, or features\\? say"),
    ],
)
def test_ambiguous_input_is_an_error_until_said(file, text, words):
    path = file(text)
    with pytest.raises(io.FileFormatError, match=words) as error:
        io.read_similarity(path)
    assert "--as graph or --as features" in str(error.value)
    assert isinstance(io.read_similarity(path, "features"), io.FeatureTable)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "no row of data"),
        ("source,target\n", "data.csv:1: there are column names, but no rows"),
        ("hello world\n", "no graph, and no numbers"),
        ("Dear reader,\nthis is a letter\nand no table at all, or is it?\n", "no column of numbers"),
        ("a,b,1\nb,c,nan\n", "data.csv:2: there is no number in column 3"),
        ("a,b,1\nb,c,inf\n", "data.csv:2: inf in column 3 is not finite"),
        ("a,b,1\nb,c,2\nb,a,3\n", "data.csv:3: the edge between a and b has weight 3, but 1 in line 1"),
        ("source,target\na,b\nb,\n", "data.csv:3: column 'target' names no node"),
        ("a,b\nb,c\nc\nd,a\n", "data.csv:3: 1 cell where the others have 2"),
        (b"a,b\n\x81\xfe\xff", "data.csv:2: not a text file"),
        (
            "a,b\nb,c\nc,d\n" + '"b,c\nc,d\n',
            "data.csv:4: 1 cell where the others have 2 (separated by commas); a quotation",
        ),
        ('x,y\n1,2\n3,"4\n', "data.csv:3: the last cell runs over several lines; is a quotation mark left open?"),
        ("a\x1fb\n", "not a table: its lines are not alike"),
        (b"\x00\x01\x02\x03", "not a text file"),
        ("x,y\n1,2\n3,\n", "data.csv:3: there is no number in column 'y'"),
        ("# who\nann,likes,bob\nbob,knows,cid\n", "data.csv:2: 'ann', 'likes', 'bob': all columns are words. An edge"),
        ("a,b,c,d,e\nb,c,d,e,f\n", "'a', 'b', 'c', 'd': all columns are words"),
        ("a;b;12,5%\nb;c;7 %\n", "data.csv:1: '12,5%' in column 3 is text; write plain numbers"),
        ("source,target,weight\na,b,2\nb,c,€ 3\n", "data.csv:3: '€ 3' in column 'weight' is not a number; write"),
        ("name,x\na,1\nb,2\nc,none at all\n", "take the row out, or choose columns by --as features --columns"),
        (
            "Ort;Umsatz;;Kosten;\n;2023;2024;2023;2024\nA;1;2;3;4\nB;2;3;4;6\n",
            "data.csv:2: each column needs a name, all",
        ),
        (
            "Ort;Umsatz;\nA;netto;3\nB;2;3\nC;2;3\nD;4;3\n",
            "correct it, or take the row out, or choose columns by --as fe",
        ),
        (
            "0 2\n1 {'weight': 4}\n2 {'weight': 1}\n1 1\n2 {'weight': 3}\n",
            "a list of neighbours; write edges, by networkx",
        ),
        ("name;x;y\na;1,5;2\nb;1;2\nSumme;;4\n", "choose columns by --as features --columns (a row of totals?)"),
        ("source,target,weight\na,b,2\nb,c,3\nTotal,,5\n", "names no node; fill it in, or take the row out (a row of"),
    ],
)
def test_faulty_tables(file, text, words):
    with pytest.raises(io.FileFormatError) as error:
        io.read_similarity(file(text))
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["Total", "Grand total:", "Summe 2024", "", "Somme"])
def test_a_row_of_totals_is_no_sample(file, name):
    rows = "region;sales;staff\nNorth;12,5;3\nSouth;7,25;4\nEast;8,5;2\n"
    with pytest.raises(io.FileFormatError, match=r"csv:5: these are the sums .* \(a row of totals\?\)"):
        io.read_similarity(file(f"{rows}{name};28,25;9\n"))
    assert len(io.read_similarity(file(f"{rows}{name or 'x'};5;3\n")).names) == 4  # called so, and no sum
    assert len(io.read_similarity(file(f"{rows}West;28,25;9\n")).names) == 4


def test_the_columns_that_are_features_are_named(file):
    found = io.read_similarity(file("Name;Besuche;Kunden-Nr.;Umsatz\na;3;17;1,5\nb;5;18;2,5\nc;4;30;9\n"))
    assert "3 rows, 2 columns of numbers: Besuche, Umsatz (4 columns separated by semicolons" in found.guess
    assert "row numbers left out: column 'Kunden-Nr.'" in found.guess


def test_truth_values_are_neither_nodes_nor_names(file):
    found = io.read_similarity(file("id,x,smoker,old\n1,2,TRUE,FALSE\n2,3,FALSE,FALSE\n3,1,TRUE,TRUE\n"))
    assert isinstance(found, io.FeatureTable)
    assert (
        "non-numeric columns ignored: column 'smoker' (TRUE is text: write plain numbers), column 'old'" in found.guess
    )


def test_a_json_object_on_each_line(file):
    found = io.read_similarity(file('{"source": "a", "target": "b"}\n{"source": "b", "target": "c"}\n', "edges.jsonl"))
    assert found.names == ("a", "b", "c")


def test_the_only_numbers_have_a_sign(file):
    with pytest.raises(io.FileFormatError, match=r"'5\.001,50 €' in column 2 is text; write plain"):
        io.read_similarity(file("name;umsatz\nn1;5.001,50 €\nn2;7.200,00 €\nn3;1,00 €\n"))


def test_columns_of_text_that_are_numbers_with_a_sign_say_how_to_be_used(file):
    found = io.read_similarity(file("name;price;n\na;9,99 €;2\nb;19,99 €;3\nc;1.200,00 €;9\n"))
    assert (
        "names from column 'name'; non-numeric columns ignored: column 'price' (9,99 € is text: write plain"
        in found.guess
    )


def test_messages_stay_short_whatever_is_in_the_file(file):
    names = ["1" * 5000, "b", "c", "d"]
    path = file(",".join(names) + "\n" + "x,y,1,2\ny,x,3,4\n" * 3)
    for read in (io.read_graph, io.read_distances):
        with pytest.raises(io.FileFormatError) as error:
            read(path)
        assert len(str(error.value)) < 2100
        assert "data.csv" in str(error.value)


def test_three_columns_of_words_are_an_edge_list_where_a_header_says_so(file):
    """The cure that the error names."""
    rows = "ann,likes,bob\nbob,knows,cid\ncid,likes,ann\n"
    for read in (io.read_graph, io.read_similarity):
        with pytest.raises(io.FileFormatError, match=r"data.csv:1: .* name the two in a first line"):
            read(file(rows))
        graph = read(file("source,kind,target\n" + rows))
        assert graph.names == ("ann", "bob", "cid")
        assert graph.adjacency.nnz == 6
        assert "no weights); left out: column 'kind'" in graph.guess


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ann,bob,2\nbob,cid,1\n", None),
        (
            "ann,bob,2\nbob,cid,-1.5\ncid,dan,-3\n",
            "2 of 3 edges have negative weights, the first -1.5 between bob and cid",
        ),
        ("0 2 -1 0\n2 0 1 0\n-1 1 0 1\n0 0 1 0\n", "1 of 4 edges has a negative weight, the first -1 between 0 and 2"),
    ],
)
def test_negative_weights_are_told(file, text, words):
    assert negative_weights(io.read_graph(file(text))) == words


def test_faulty_binary_files(tmp_path, file):
    nan = sp.csr_array(np.where(TRIANGLE == 3, np.nan, TRIANGLE))
    sp.save_npz(tmp_path / "nan.npz", nan)
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "whole.npy", np.ones((30, 20)))
    content = (tmp_path / "whole.npy").read_bytes()
    cases = {
        "nan.npz": "row 1, column 2",
        "objects.npy": "Python objects",
        file(content[:300], "short.npy").name: "cut short",
        file(content.replace(b"(30, 20), }", b"(9000000,9000000), }"), "liar.npy").name: "not a NumPy array|cut short",
        file(b"PK\x03\x04garbage", "broken.npz").name: "damaged .npz",
        file("%%MatrixMarket matrix coordinate real general\n9000000000000 9 1\n1 1 1\n", "huge.mtx").name: "memory",
        file("%%MatrixMarket matrix coordinate real general\n9 9 800\n1 1 1\n", "cut.mtx").name: "Truncated file",
        file("%%MatrixMarket nonsense\n", "no.mtx").name: "not a Matrix Market file",
        file(b"MATLAB 7.3 MAT-file" + b"\0" * 200, "new.mat").name: "MATLAB",
    }
    for name, words in cases.items():
        with pytest.raises(io.FileFormatError, match=words):
            io.read_similarity(tmp_path / name)


def test_a_sparse_file_with_indices_out_of_range_is_refused(tmp_path):
    A = sp.csr_array(TRIANGLE)
    np.savez(
        tmp_path / "wild.npz",
        data=A.data,
        indices=A.indices + 7,
        indptr=A.indptr,
        shape=A.shape,
        format=np.array("csr"),
    )
    with pytest.raises(io.FileFormatError, match="damaged sparse matrix"):
        io.read_graph(tmp_path / "wild.npz")


# -- distances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "i,j,d\na,b,3\na,c,4\nb,c,5\n",
        "a b 3\na c 4\nb c 5\n",
        "distance;to;from\n3;b;a\n4;c;a\n5;c;b\n5;c;b\n",
        ",a,b,c\na,0,3,4\nb,3,0,5\nc,4,5,0\n",
        ",a,b,c\na,,3,4\nb,,,5\nc,,,\n",
        "a\tb\tc\n0\t3\t4\n3\t0\t5\n4\t5\t0\n",
        ",a,b,c\na,0,0,0\nb,3,0,0\nc,4,5,0\n",
    ],
)
def test_one_set_of_distances_in_many_tables(file, text):
    table = io.read_distances(file(text))
    found = {frozenset(table.names[k] for k in pair): d for pair, d in zip(table.pairs, table.distances, strict=True)}
    assert found == {frozenset("ab"): 3, frozenset("ac"): 4, frozenset("bc"): 5}


def test_one_set_of_distances_in_many_files(tmp_path):
    D = np.array([[0, 3, 4], [3, 0, 5], [4, 5, 0]], dtype=float)
    pairs, distances = np.array([[0, 1], [0, 2], [1, 2]]), np.array([3.0, 4.0, 5.0])
    np.savez(tmp_path / "p.npz", pairs=pairs, distances=distances)
    np.save(tmp_path / "d.npy", D)
    np.save(tmp_path / "list.npy", np.column_stack([pairs, distances]))
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(np.triu(D)))
    mmwrite(tmp_path / "m.mtx", sp.coo_array(D))
    lines = "".join(f"{i + 1} {j + 1} {d} {d}\n" for (i, j), d in zip(pairs, distances, strict=True)).encode()
    (tmp_path / "e.nmr").write_bytes(lines)
    (tmp_path / "e.nmr.gz").write_bytes(gzip.compress(lines))
    for name in ("p.npz", "d.npy", "list.npy", "s.npz", "m.mtx", "e.nmr", "e.nmr.gz"):
        table = io.read_distances(tmp_path / name)
        np.testing.assert_array_equal(table.pairs, pairs, err_msg=name)
        np.testing.assert_array_equal(table.distances, distances)
    assert io.read_distances(tmp_path / "e.nmr").names == ("1", "2", "3")


def test_distances_by_any_name_with_blanks_and_repeats(file):
    table = io.read_distances(
        file("Ort A;Ort B;km;Notiz\nKöln;Bonn;25,5;Zug\nBonn;Mainz;;?\nMainz;Köln;140;\n".encode("cp1252"))
    )
    assert (table.names, table.pairs.tolist()) == (("Köln", "Bonn", "Mainz"), [[0, 1], [2, 0]])
    np.testing.assert_array_equal(table.distances, [25.5, 140])
    assert "1 row without a distance left out; left out: column 'Notiz'" in table.guess
    path = file("i,j,d\na,b,1\nb,c,2\nb,a,2\n")
    with pytest.raises(io.FileFormatError, match=r"csv:4: the distance of b and a is 2, but 1 in line 2.*--repeats"):
        io.read_distances(path)
    np.testing.assert_array_equal(io.read_distances(path, repeats="mean").distances, [1.5, 2])
    np.testing.assert_array_equal(np.sort(io.read_distances(path, repeats="last").distances), [2, 2])
    several = file("p,q,road,air\na,b,3,2\nb,c,4,3\n")
    with pytest.raises(io.FileFormatError, match=r"unknown column 'road', 'air'.*--columns POINT,POINT,DISTANCE"):
        io.read_distances(several)
    np.testing.assert_array_equal(io.read_distances(several, columns=["p", "q", "air"]).distances, [2, 3])


def test_bounds_and_weights(file):
    table = io.read_distances(file("i,j,d,lower,upper,weight\n0,1,,1,2,1\n1,2,3,,,2\n0,2,,,4,1\n"))
    np.testing.assert_array_equal(table.distances, [np.nan, 3, np.nan])
    np.testing.assert_array_equal(table.lower, [1, np.nan, np.nan])
    np.testing.assert_array_equal(table.upper, [2, np.nan, 4])
    np.testing.assert_array_equal(table.weights, [1, 2, 1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i,j,d\n0,1,1\n1,2,-2\n", "data.csv:3: -2 in column 'd' is negative"),
        ("foo,bar,baz,qux\n0,1,1,2\n", "data.csv:1: unknown column 'baz', 'qux'; expected i,j,d"),
        ("i,j,d,uper\n0,1,1,2\n", "data.csv:1: unknown column 'uper'"),
        ("i,j,weight\n0,1,1\n", "no column d"),
        ("i,j,d\n0,1,1\n1,2,2\n1,0,3\n", "data.csv:4: the distance of 1 and 0 is 3, but 1 in line 2"),
        ("d\n1\n2\n", "data.csv:1: only one column"),
        ("0 1\n1 2\n0 3\n", "only two columns"),
        ("0 1 2 3\n1 2 2 3\n", "4 columns without names"),
        ("i,j,d\n0,1.5,1\n", "data.csv:2: 1.5 in column 'j' is no point"),
        ("i,j,d²\n0,1,9\n1,2,1\n", "data.csv:1: column 'd²' seems to hold squares; take their roots, or rename it"),
        ("von,nach,km\na,b,255 km\n", "'255 km' in column 'km' is not a number; write plain numbers, or take the row"),
        ("i,j,d\n0,1,far\n0,2,1\n1,2,1\n", "data.csv:2: 'far' in column 'd' is not a number"),
        ("i,j,d\n0,1,\n0,2,\n", "no distance between two different points"),
        ("i,j,d,weight\n0,1,1,\n0,2,1,1\n", "data.csv:2: there is no number in column 'weight'"),
        ("i,j,d\n0,0,1\n", "data.csv:2: the point 0 is paired with itself"),
        ("i,j,lower,upper\n0,1,3,2\n", "data.csv:2: the lower bound is above the upper"),
        ("i,j,d,upper\n0,1,3,2\n", "outside its bounds (distance 3 in column 'd', upper bound 2 in column 'upper')"),
        ("i,j,lower,upper\n0,1,,\n", "no distance between two different points"),
        ("i,j,d\n0,1,1\n0,2\n1,2,1\n", "data.csv:3: 2 cells where the others have 3"),
        (",a,b\na,0,1\nb,2,0\n", "the distance of b and a is 2, but 1"),
        ("name;city;length\na;x;1,5\nb;y;2\nc;z;3\n", "data.csv:2: no point is in two rows, so that nothing can be"),
    ],
)
def test_faulty_distances(file, text, words):
    with pytest.raises(io.FileFormatError) as error:
        io.read_distances(file(text))
    assert words in str(error.value)


def test_the_one_column_beside_the_ends_is_the_weight_whatever_it_is_called(file):
    graph = io.read_similarity(file("from;to;hours\nZoë;Tom;8,5\nTom;Kim;2\n"))
    assert graph.adjacency.toarray().max() == 8.5
    assert "weights in column 'hours'" in graph.guess
    several = file("from,to,hours,year\nZoë,Tom,8.5,2020\nTom,Kim,2,2021\n")
    with pytest.raises(io.FileFormatError, match=r"csv:1: which is the weight: column 'hours', column 'year'"):
        io.read_similarity(several)
    told = io.read_similarity(several, columns=["from", "to", "year"])
    assert "weights in column 'year'); left out: column 'hours'" in told.guess
    assert "no weights); left out: column 'hours', column 'year'" in io.read_graph(several, columns=["1", "2"]).guess
    with pytest.raises(io.FileFormatError, match="there is no column 'nobody'; it has the columns from, to"):
        io.read_graph(several, columns=["from", "nobody"])
    with pytest.raises(io.FileFormatError, match="seems to hold distances"):
        io.read_similarity(file("from,to,distance\na,b,8.5\nb,c,2\n"))
    for name in ("squared_distance", "Abstand in mm", "Entfernung km"):
        with pytest.raises(io.FileFormatError, match=f"'{name}' seems to hold distances"):
            io.read_similarity(file(f"from,to,{name}\na,b,8.5\nb,c,2\n"))
    assert io.read_graph(file("from,to,distance\na,b,8.5\nb,c,2\n"), columns=["1", "2"]).adjacency.nnz == 4  # as told
    with pytest.raises(io.FileFormatError, match=r"column .Abstand.* seems to hold distances"):
        io.read_similarity(file("Ort;Ziel;Abstand (m)\na;b;8,5\nb;c;2\nc;d;1\n"))


def test_remarks_beside_anchors_are_no_coordinates(file):
    found = io.read_anchors(file("point,x,y,remark,determined\na,1,2,fixed,yes\nb,3,4,,yes\n"), ["a", "b"], 2)
    assert [place.tolist() for place in found.values()] == [[1, 2], [3, 4]]


def test_no_command_is_named_that_does_not_read_the_file_either(file):
    atoms, bounds = file("1\n\nH 0 0 0\n", "h.xyz"), file("1 2 3 3\n", "a.nmr")
    for read in (io.read_similarity, io.read_graph, io.read_features, io.read_distances):
        with pytest.raises(io.FileFormatError, match="this kind of file holds no ") as error:
            read(atoms)
        assert "use quartic locate" not in str(error.value)
    with pytest.raises(io.FileFormatError, match="holds no graph and no features; use quartic locate"):
        io.read_similarity(bounds)


def test_anchors(file):
    path = file("point,x,y,determined,standard_error\nb,1,2,true,0.1\na,0,0.5,false,inf\n")
    anchors = io.read_anchors(path, ["a", "b", "c"], 2)
    assert {k: v.tolist() for k, v in anchors.items()} == {1: [1.0, 2.0], 0: [0.0, 0.5]}
    with pytest.raises(io.FileFormatError, match=r"data.csv:2: the point 'b' is in no distance"):
        io.read_anchors(path, ["a"], 2)
    with pytest.raises(
        io.FileFormatError, match=r"m.xyz: known places are a table, point,x,y\[,z\], or a file .pdb or .cif"
    ):
        io.read_anchors(file("x", "m.xyz"), ["a"], 2)
    with pytest.raises(io.FileFormatError, match="2 coordinates where 3 are needed"):
        io.read_anchors(path, ["a", "b"], 3)
    with pytest.raises(io.FileFormatError, match="two places"):
        io.read_anchors(file("a,0,0\na,1,1\n"), ["a"], 2)


@pytest.mark.parametrize("called", ["CustomerID", "customer_id", "Customer Id", "Kunden-Nr."])
def test_numbers_that_are_names_are_no_features(file, called):
    found = io.read_similarity(
        file(f"{called},age,income\n" + "".join(f"{7 * k},{k % 9},{k % 5}.5\n" for k in range(30)))
    )
    assert found.columns == ("age", "income")
    assert found.names[:3] == ("0", "7", "14")
    twice = f"{called},age,income\n" + "".join(f"{k // 2},{k % 9}.5,{k % 5}.5\n" for k in range(30))
    assert io.read_similarity(file(twice)).columns[0] == called  # one that comes again names no row
    assert io.read_features(file("acid,x\n1,2\n3,4\n5,6\n")).columns == ("acid", "x")


def test_a_distance_of_a_point_to_itself_may_be_listed_where_it_is_zero(file):
    """As a matrix is written row by row."""
    found = io.read_distances(file("i,j,d\n1,1,0\n1,2,3\n2,1,3\n2,2,0\n1,3,4\n2,3,5\n3,3,0\n"))
    assert found.distances.tolist() == [3, 4, 5]
    assert "3 rows of a point with itself left out" in found.guess


@pytest.mark.parametrize("ends", ["sender,recipient", "Absender,Empfänger", "caller,callee", "citing,cited"])
def test_lists_of_mails_and_calls_are_graphs(file, ends):
    found = io.read_similarity(file(f"{ends},day,subject\na,b,Mon,hi\nb,c,Tue,re: hi\nc,a,Mon,news\na,b,Tue,hi\n"))
    assert found.names == ("a", "b", "c")
    assert "no weights); 1 repeated edge: once (--repeats sum adds them up); left out: column 'day'" in found.guess


def test_one_triangle_of_a_named_similarity_matrix_is_enough(file):
    """The others left blank, as a table of correlations is printed; its diagonal too."""
    whole = io.read_graph(file(",a,b,c\na,1,.5,.2\nb,.5,1,.3\nc,.2,.3,1\n")).adjacency.toarray()
    for text in (",a,b,c\na,1,.5,.2\nb,,1,.3\nc,,,1\n", ";a;b;c\na;1;;\nb;0,5;1;\nc;0,2;0,3;1\n"):
        np.testing.assert_array_equal(io.read_graph(file(text)).adjacency.toarray(), whole)
    hollow = io.read_similarity(file(",a,b,c\na,,.5,.2\nb,,,.3\nc,,,\n"))
    np.testing.assert_array_equal(hollow.adjacency.toarray(), whole - np.eye(3))
    with pytest.raises(io.FileFormatError, match=r"data.csv:2: there is no number in column 'c'"):
        io.read_graph(file(",a,b,c\na,1,.5,\nb,,1,.3\nc,,,1\n"))


@pytest.mark.parametrize("blank", ["-", "–", "?", "."])
def test_blank_cells_may_be_marked(file, blank):
    """As people fill them in by hand, and as SAS and Stata do."""
    found = io.read_distances(file(f";a;b;c\na;{blank};1,5;\nb;;0;2,5\nc;2;{blank};0\n"))
    assert found.distances.tolist() == [1.5, 2.5, 2.0]
    with pytest.raises(io.FileFormatError, match=rf"data.csv:3: there is no number in column 'y' .\{blank}."):
        io.read_features(file(f"x,y\n1,2\n3,{blank}\n5,6\n"))


def test_distances_in_matlab_files_may_stand_beside_labels(tmp_path):
    D = np.array([[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]])
    savemat(tmp_path / "d.mat", {"D": D, "labels": np.arange(3)})
    assert io.read_distances(tmp_path / "d.mat").distances.tolist() == [1, 2, 1.5]


@pytest.mark.parametrize("short", [0, 1 << 18])
def test_commas_between_thousands(file, monkeypatch, short):
    """As English spreadsheets export them, in quotation marks."""
    monkeypatch.setattr("quartic.io.tables._SHORT", short)
    shops = io.read_similarity(file('shop,revenue,area\ns1,"1,000",50\ns2,"12,345.5",60\ns3,950,70\n'))
    assert shops.X.tolist() == [[1000, 50], [12345.5, 60], [950, 70]]
    assert "between thousands: 1,000 is 1000" in shops.guess
    swiss = io.read_similarity(file("name;chf\nA;1'000.50\nB;2’345’678\nC;7\n"))
    assert swiss.X.ravel().tolist() == [1000.5, 2345678, 7]
    assert io.read_features(file("shop;a\ns1;1,000\ns2;2,5\n")).X.ravel().tolist() == [1, 2.5]
    mixed = io.read_features(file("shop;a;b\ns1;1,000;2.5\ns2;7;3.25\n"))
    assert mixed.X.tolist() == [[1000, 2.5], [7, 3.25]]
    with pytest.raises(io.FileFormatError, match="'1,0' in column 'a' is not a number"):
        io.read_features(file('shop,a\ns1,"1,0"\ns2,7\ns3,8\n'))


def test_whole_numbers_that_are_none_further_down(file):
    rows = [f"{k},{(7 * k + 1) % 300}" for k in range(300)]
    rows[280] = "1.5,2"
    assert isinstance(io.read_similarity(file("\n".join(rows))), io.FeatureTable)
    rows[280] = "x,2"
    with pytest.raises(io.FileFormatError, match=r"data.csv:281: 'x' in column 1 is not a number"):
        io.read_similarity(file("\n".join(rows)))
    rows[280] = "280,2"
    assert isinstance(io.read_similarity(file("\n".join(rows))), io.GraphTable)


def test_edge_lists_are_never_taken_for_features_in_silence(file):
    """With more columns than three, with or without a header, of names or of numbers."""
    ends = [(i, j) for i in range(7) for j in range(i) if (i + j) % 3]
    for header in ("", "p,q,often,when\n"):
        words = file(header + "\n".join(f"n{i},n{j},{i + j},{2000 + i}" for i, j in ends), "words.csv")
        with pytest.raises(io.FileFormatError, match=r"which is the weight: column .* say --columns (p,q,often|1,2,3)"):
            io.read_similarity(words)
        numbers = file(header + "\n".join(f"{i},{j},{i + j}.5,{2000 + i}" for i, j in ends))
        with pytest.raises(io.FileFormatError, match=r"the ends of edges, or features.* --as graph or --as features"):
            io.read_similarity(numbers)
        with pytest.raises(io.FileFormatError, match="--columns"):
            io.read_similarity(numbers, "graph")
        for path in (words, numbers):
            assert io.read_similarity(path, columns=["1", "2", "3"]).adjacency.nnz == 2 * len(ends)
    accounts = "user_id,follows_id\n" + "".join(f"{10**17 + 9 * i},{10**17 + 9 * j}\n" for i, j in ends)
    with pytest.raises(io.FileFormatError, match=r"the ends of edges, or features.* --as graph or --as features"):
        io.read_similarity(file(accounts))  # numbers with gaps between them
    assert io.read_similarity(file(accounts), "graph").adjacency.nnz == 2 * len(ends)
    with pytest.raises(io.FileFormatError, match="the ends of edges, or features"):
        io.read_similarity(file("age,weight\n1,2\n1,3\n2,3\n3,4\n4,5\n4,6\n5,6\n"))
    few = "s,t\n1,2\n1,3\n2,3\n3,4\n4,5\n4,6\n5,6\n"
    for more in ("", "6,5\n5,6\n", "4,4\n", "1,2\n4,4\n"):  # edges that come again, and loops
        with pytest.raises(io.FileFormatError, match=r"the ends of edges, or features.* --as graph or --as features"):
            io.read_similarity(file(few + more))
    many = "\n".join(f"{i},{j}" for i, j in np.random.default_rng(0).integers(0, 300, (4000, 2)))
    with pytest.raises(io.FileFormatError, match=r"the ends of edges, or features.* --as graph or --as features"):
        io.read_similarity(file(f"s,t\n{many}"))
    friends = "101,202,1\n101,303,1\n202,303,1\n303,404,2\n404,505,1\n404,606,1\n505,606,1\n505,606,1\n"
    found = io.read_similarity(file(f"user,friend,weight\n{friends}"))
    assert (found.adjacency.nnz, "weights in column 'weight'); 1 repeated edge" in found.guess) == (14, True)
    sizes = np.random.default_rng(0).integers(80, 120, (60, 3))
    people = "waist,hip,weight\n" + "\n".join(",".join(map(str, row)) for row in sizes)
    with pytest.raises(io.FileFormatError, match="the ends of edges, or features"):
        io.read_similarity(file(people))  # they weigh more than edges do
    maths = [88, 45, 50, 54, 50, 88, 92, 74, 42, 45, 59, 65, 77, 68, 55, 49, 81, 84, 41, 46]
    reading = [67, 63, 93, 71, 65, 65, 79, 75, 50, 84, 85, 97, 87, 57, 59, 78, 79, 81, 92, 57]  # a third is in both
    marks = "maths,reading\n" + "".join(f"{one},{two}\n" for one, two in zip(maths, reading, strict=True))
    assert isinstance(io.read_similarity(file(marks)), io.FeatureTable)
    # rows that are numbered, and ages, are no edges
    people = "\n".join(f"{k},{20 + k % 50},{k / 7}" for k in range(1, 90))
    assert isinstance(io.read_similarity(file("id,age,height\n" + people)), io.FeatureTable)


@pytest.mark.parametrize("short", [0, 1 << 18])
@pytest.mark.parametrize(
    ("ends", "names"),
    [
        (["10,9", "9,2", "2,10"], ("2", "9", "10")),
        (["7,007", "007,1", "1,7"], ("1", "7", "007")),
        (["5,+5", "+5,1", "1,5"], ("1", "5", "+5")),
        (["3,-1", "-1,0", "0,3"], ("-1", "0", "3")),
        (["1,99999999999", "99999999999,4", "4,1"], ("1", "4", "99999999999")),
        (["1.0,2", "2,3.0", "3,1"], ("1", "2", "3")),
    ],
)
def test_points_called_by_numbers_are_the_same_whoever_reads_the_file(file, monkeypatch, short, ends, names):
    """By pyarrow, as whole numbers at once where each is spelt in one way, or row by row."""
    monkeypatch.setattr("quartic.io.tables._SHORT", short)
    table = io.read_distances(file("i,j,d\n" + "".join(f"{pair},{k + 3}\n" for k, pair in enumerate(ends))))
    assert sorted(table.names) == sorted(names)
    assert [int(name) for name in table.names] == sorted(map(int, names))
    assert table.n_points == 3
    said = [[table.names[k] for k in pair] for pair in table.pairs.tolist()]
    assert said == [[word.removesuffix(".0") for word in pair.split(",")] for pair in ends]


def test_row_numbers_and_times_are_no_weights(file):
    for text, left in (
        ("id,from,to\n1,a,b\n2,b,c\n", "column 'id'"),
        ("from,to,year\na,b,2001\nb,c,2004\n", "column 'year'"),
        ("from,to,timestamp\na,b,1577836800\nb,c,1577836900\n", "column 'timestamp'"),
    ):
        graph = io.read_similarity(file(text))
        assert graph.adjacency.max() == 1
        assert f"no weights); left out: {left}" in graph.guess
    for header in ("id,von,bis,km", ",from,to,distance", "#,from,to,distance"):
        found = io.read_distances(file(f"{header}\n1,a,b,1\n2,b,c,2\n3,a,c,2\n"))
        assert (found.names, found.distances.tolist()) == (("a", "b", "c"), [1, 2, 2])
    plants = io.read_features(file("#,height,width\n1,1.5,2\n2,3,4.5\n3,5,7\n"))
    assert (plants.names, plants.columns) == (("1", "2", "3"), ("height", "width"))


@pytest.mark.parametrize("rows", ["1,2\n2,3\n", "1.0,2.0\n2.0,3.0\n", "1.0,2\n2,3\n"])
def test_as_many_edges_as_columns_are_no_matrix(file, rows):
    graph = io.read_similarity(file(f"source,target\n{rows}"))
    assert (graph.names, graph.adjacency.nnz) == (("1", "2", "3"), 4)
    table = file(f"source,target,w\n{rows.replace(chr(10), ',1.0' + chr(10))}3.0,1.0,2.0\n")
    assert io.read_similarity(table).adjacency.max() == 2  # and no features, though all are numbers


def test_weights_of_zero_are_no_edges(file):
    graph = io.read_graph(file("source,target,weight\na,b,0\nb,c,2\n"))
    assert (len(graph.names), graph.adjacency.nnz) == (3, 2)
    assert "1 edge of weight 0 left out" in graph.guess
    with pytest.raises(io.FileFormatError, match="all weights are 0: a graph without an edge"):
        io.read_graph(file("source,target,weight\na,b,0\nb,c,0\n"))


def test_accents_may_be_letters_of_their_own(file):
    graph = io.read_graph(file("source,target\nZo\u00eb,bob\nZoe\u0308,cid\n"))
    assert graph.names == ("Zoë", "bob", "cid")


@pytest.mark.parametrize("header", ['"a","b"', "a b", "a\tb"])
def test_r_writes_no_name_above_those_of_the_rows(file, header):
    separator = next(sign for sign in ",\t " if sign in header)
    rows = "\n".join(separator.join(row) for row in (("x", "1.5", "2"), ("y", "3", "4"), ("z", "5", "7")))
    found = io.read_similarity(file(f"{header}\n{rows}\n"))
    assert (found.names, found.columns, found.X[0].tolist()) == (("x", "y", "z"), ("a", "b"), [1.5, 2])
    with pytest.raises(io.FileFormatError, match=r"csv:4: '?5?x'? in column 'a'|csv:4: '5x' in column 'a'"):
        io.read_features(file(f"{header}\n{rows[:-3]}{rows[-3:].replace('5', '5x')}\n"))


@pytest.mark.parametrize("header", ["Name,Umsatz", "Kunde,Umsatz", '"Name","Umsatz"'])
def test_a_comma_too_many_is_no_header_of_r(file, header):
    with pytest.raises(io.FileFormatError, match="csv:1: 2 cells where the others have 3"):
        io.read_similarity(file(f"{header}\nx,1,5\ny,2,5\nz,3,5\n"))


def test_remarks_among_the_rows_are_told(file):
    found = io.read_features(file("# of plants\nname,a\n#1,2\n#2,3\nx,4\n"))
    assert (found.names, "2 remarks (# or %) left out" in found.guess) == (("x",), True)
    assert "left out" not in io.read_graph(file("# FromNodeId ToNodeId\n\n# 3 edges\n0 1\n1 2\n2 0\n")).guess


def test_numbers_as_they_are_set_in_type(file):
    found = io.read_similarity(file("name,a,b\nx,−1.5,2\ny,3,4\nz,−5,7\n"))
    assert found.X[:, 0].tolist() == [-1.5, 3, -5]
    found = io.read_similarity(file("name;a;b\nx;1 500;2\ny;3 100;4\nz;5 000;7\n"))
    assert found.X[:, 0].tolist() == [1500, 3100, 5000]
    assert "between thousands: 1 500 is 1500" in found.guess
    found = io.read_similarity(file("name\ta\tb\nx\t1,500\t2\ny\t3,100\t4\nz\t5,000\t7\n"))
    assert "decimal commas: 1,500 is 1.5" in found.guess
    found = io.read_similarity(file("name;a;b\nx;1,5;2.5\ny;3,1;4.25\nz;5,0;7.5\n"))
    assert "non-numeric columns ignored: column 'a' (1,5 is text: write plain numbers)" in found.guess


def test_means_below_a_table_are_no_sample(file):
    with pytest.raises(io.FileFormatError, match=r"csv:5: these are the means of the rows"):
        io.read_similarity(file("name,a,b\nx,1,2\ny,3,4\nz,5,6\nMean,3,4\n"))


def test_a_matrix_whose_rows_are_in_another_order(file):
    for read in (io.read_similarity, io.read_distances):
        with pytest.raises(io.FileFormatError, match="csv:2: row 'b' stands where column 'a' does"):
            read(file(",a,b,c\nb,1,0,3\na,0,1,2\nc,2,3,0\n"))
    with pytest.raises(io.FileFormatError, match=r"the entry \(a, c\) is 2 but \(c, a\) is 5"):
        io.read_similarity(file(",a,b,c\na,0,1,2\nb,1,0,3\nc,5,3,0\n"))


def test_one_triangle_of_a_file_of_arrays_is_enough(tmp_path):
    for name, M in (("a.mtx", sp.coo_matrix(np.triu(np.ones((3, 3)), 1))), ("b.mtx", sp.eye_array(3, k=-1))):
        mmwrite(tmp_path / name, M, symmetry="general")
        assert io.read_similarity(tmp_path / name).adjacency.nnz == 2 * M.nnz
    np.save(tmp_path / "c.npy", np.tril(np.ones((3, 3))))
    assert io.read_similarity(tmp_path / "c.npy").adjacency.nnz == 9


def test_the_weights_of_graph_files_whatever_they_are_called(file):
    gml = 'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] edge [ source 0 target 1 value 3 ] {} ]\n'
    assert io.read_graph(file(gml.format(""), "a.gml")).adjacency.max() == 3
    twice = io.read_graph(file(gml.format("edge [ source 0 target 1 value 4 ]"), "b.gml"))
    assert twice.adjacency.max() == 7
    assert "1 repeated edge: sum" in twice.guess
    xml = (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="k" for="edge" attr.name="{}" '
        'attr.type="double"/><graph edgedefault="undirected"><node id="a"/><node id="b"/>'
        '<edge source="a" target="b"><data key="k">2.5</data></edge></graph></graphml>'
    )
    capital = io.read_graph(file(xml.format("Weight"), "c.graphml"))
    assert (capital.adjacency.max(), "weights in Weight" in capital.guess) == (2.5, True)
    words = io.read_graph(file(gml.format("").replace("value 3", 'value "close"'), "w.gml"))
    assert (words.adjacency.max(), "no weights, left out: value" in words.guess) == (1, True)
    length = io.read_graph(file(xml.format("length"), "d.graphml"))
    assert (length.adjacency.max(), "no weights, left out: length" in length.guess) == (1, True)
    links = '{"nodes": [{"id": 1, "label": "x"}, {"id": 2, "label": "y"}], "edges": [{"from": 1, "to": 2}]}'
    assert io.read_graph(file(links, "e.json")).names == ("x", "y")
    with pytest.raises(io.FileFormatError, match="a link names no source and target"):
        io.read_graph(file('{"nodes": [], "edges": [{"one": 1, "other": 2}]}', "f.json"))


def test_a_directed_file_that_says_each_edge_both_ways_is_not_summed(file):
    matrix = io.read_graph(file('*Vertices 3\n1 "a"\n2 "b"\n3 "c"\n*Matrix\n4 1 2\n1 0 3\n2 3 0\n', "g.net"))
    assert matrix.adjacency.toarray().tolist() == [[4, 1, 2], [1, 0, 3], [2, 3, 0]]


@pytest.mark.parametrize("title", ["similarity", "Korrelation"])
def test_similarities_are_no_distances(file, title):
    with pytest.raises(io.FileFormatError, match="seems to hold similarities, which say the opposite"):
        io.read_distances(file(f"source,target,{title}\na,b,1\nb,c,2\n"))
    with pytest.raises(io.FileFormatError, match="seems to hold squares"):
        io.read_distances(file("i,j,dist_sq\na,b,1\nb,c,2\n"))


@pytest.mark.parametrize("text", ["point,y,x\na,2,1\n", "x,y,point\n1,2,a\n", ",point,x,y\n0,a,1,2\n"])
def test_anchors_in_another_order(file, text):
    assert io.read_anchors(file(text), ["a", "b"], 2)[0].tolist() == [1, 2]


def test_the_header_that_pandas_writes_for_an_array(file):
    for below in ("1.5,2,3\n4,5,6\n7,8.5,9\n", "1,2.5,3\n4,5,6\n7,8,9\n0,0,1\n"):
        found = io.read_similarity(file(f"0,1,2\n{below}"))
        assert (found.columns, len(found.X)) == (("0", "1", "2"), below.count("\n"))
    digits = io.read_features(file("0,1,2,3,4\n0,0,5,13,9\n0,1,4,12,9\n3,1,0,7,8\n"))
    assert digits.X.shape == (3, 5)
    matrix = "0,1,2\n0,1,3\n1,0,2\n3,2,0\n"
    assert io.read_distances(file(matrix)).distances.tolist() == [1, 3, 2]
    assert io.read_similarity(file(matrix)).adjacency.toarray().tolist() == [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    edges = io.read_graph(file("0,1,2\n1,2,3\n0,2,4\n1,3,1\n"))  # no header
    assert edges.adjacency.nnz == 8


@pytest.mark.parametrize("first", [0, 1])
def test_a_matrix_whose_rows_are_counted(file, first):
    """As pandas writes a frame whose columns alone have names."""
    text = ",A,B,C\n" + "".join(f"{first + k},{row}\n" for k, row in enumerate(("0,1,3", "1,0,2", "3,2,0")))
    assert io.read_similarity(file(text)).names == ("A", "B", "C")
    distances = io.read_distances(file(text))
    assert (distances.names, distances.distances.tolist()) == (("A", "B", "C"), [1, 3, 2])
    features = io.read_similarity(file(text.replace("3,2,0", "4,2,0")))
    assert features.X.shape == (3, 3)


def test_numbers_with_decimal_commas_are_no_nodes(file):
    table = file("Name;Größe;x\na;1,5;-0,13\nb;2,5;0,7\nc;9,25;3,0\n")
    with pytest.raises(io.FileFormatError, match=r"csv:2: 1,5 in column 'Größe' is no node; use a whole number"):
        io.read_graph(table, columns=["Größe", "x"])
    graph = io.read_graph(file("von;nach;Gewicht\n1,0;2,0;0,5\n2,0;3,0;1,5\n"))
    assert graph.names == ("1", "2", "3")


def test_a_line_of_sizes_is_no_edge(file):
    for text in ("5 3\n1 2\n2 3\n4 5\n", "3 6\n1 2\n2 3\n4 6\n", "4 3\n1 2\n2 3\n3 4\n"):
        with pytest.raises(io.FileFormatError, match=r"csv:1: \d and \d are how many nodes and edges follow"):
            io.read_similarity(file(text))
        edges = text.split("\n")[1:4]
        moved = io.read_similarity(file("\n".join([*edges, text.split("\n")[0]])))  # as told
        assert moved.adjacency.nnz == 8 - 2 * (text[:3] in ("4 3",))


def test_sizes_may_be_equal_and_a_first_edge_a_loop(file):
    with pytest.raises(io.FileFormatError, match="csv:1: 5 and 5 are how many nodes and edges follow"):
        io.read_graph(file("5 5\n1 2\n2 3\n3 4\n4 5\n5 1\n"))
    graph = io.read_graph(file("4 4\n1 2\n2 3\n3 4\n1 4\n1 3\n"))
    assert graph.adjacency.nnz == 11


def test_a_matrix_of_similarities_is_no_matrix_of_distances(file):
    with pytest.raises(io.FileFormatError, match="csv:2: the distance of A to itself, 1, must be 0; similarities are"):
        io.read_distances(file(",A,B,C\nA,1,.5,.2\nB,.5,1,.3\nC,.2,.3,1\n"))
