"""Readers and writers: round trips, real files, and faults named by their line."""

import gzip

import numpy as np
import pytest

from quartic import datasets, io

ATOM = "ATOM      1  N   THR A   1      17.047  14.099   3.625  1.00 13.79           N"


def test_pdb_fields(file):
    lines = [
        "HEADER    SOMETHING",
        "MODEL        1",
        ATOM,
        "ATOM      2  CA ATHR A   1      16.967  12.784   4.338  1.00 10.80           C",
        "ATOM      3  CA BTHR A   1      99.000  99.000  99.000  1.00 10.80           C",
        "ATOM      4  C  1THR B  22      -5.685-112.755-105.133  1.00  9.19           C",
        "ATOM      5  C  2THR B  22      99.000  99.000  99.000  1.00  9.19           C",
        "HETATM    6  O   HOH A 101      99.000  99.000  99.000  1.00  0.00           O",
        "ENDMDL",
        "MODEL        2",
        ATOM,
        "ENDMDL",
    ]
    atoms = io.read_pdb(file("\n".join(lines)))
    expected = [[17.047, 14.099, 3.625], [16.967, 12.784, 4.338], [-5.685, -112.755, -105.133]]
    np.testing.assert_array_equal(atoms.coordinates, expected)
    assert atoms.names == ("N", "CA", "C")
    assert atoms.residues == ("THR",) * 3
    assert atoms.chains == ("A", "A", "B")
    np.testing.assert_array_equal(atoms.residue_ids, [1, 1, 22])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"HEADER\n{ATOM[:50]}\n", ":2: an ATOM record needs at least 54 columns"),
        (f"{ATOM}\n{ATOM.replace('14.099', '14.x99')}\n", ":2: y coordinate must be a finite number, got '14.x99'"),
        (ATOM.replace("14.099", "   nan"), ":1: y coordinate"),
        (ATOM.replace("A   1 ", "A  1x "), ":1: the residue number"),
        ("HEADER\nEND\n", "no ATOM record"),
        ("", "no ATOM record"),
        (b"ATOM\n\x81\xfe", ":2: not a text file"),
        (b"\x1f\x8bnot gzip", "damaged gzip"),
    ],
)
def test_bad_pdb(file, text, words):
    with pytest.raises(io.FileFormatError, match=words) as caught:
        io.read_pdb(file(text, "bad.pdb"))
    assert "bad.pdb" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["out.pdb", "out.pdb.gz"])
def test_pdb_round_trip(tmp_path, name):
    X = np.random.default_rng(0).uniform(-900, 9000, size=(12, 3)).round(3)
    atoms = io.Structure.of(X, ["N", "CA", "HG11"] * 4, ["ALA"] * 12, np.arange(12) // 3 + 1, ["B"] * 12)
    io.write_pdb(tmp_path / name, atoms)
    again = io.read_pdb(tmp_path / name)
    np.testing.assert_allclose(again.coordinates, X, rtol=0, atol=1e-9)
    assert (again.names, again.residues, again.chains) == (atoms.names, atoms.residues, atoms.chains)
    np.testing.assert_array_equal(again.residue_ids, atoms.residue_ids)
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_pdb_of_more_atoms_than_its_columns_count(tmp_path):
    X = np.zeros((100_001, 3))
    io.write_pdb(tmp_path / "big.pdb", X)
    lines = (tmp_path / "big.pdb").read_text().splitlines()
    assert {len(line) for line in lines[:-1]} == {66}
    assert len(io.read_pdb(tmp_path / "big.pdb")) == 100_001


def test_pdb_refuses_what_does_not_fit(tmp_path):
    with pytest.raises(ValueError, match="atom 1 at"):
        io.write_pdb(tmp_path / "far.pdb", [[0.0, 0.0, 0.0], [1e5, 0.0, 0.0]])
    with pytest.raises(ValueError, match="1 to 3 columns"):
        io.write_pdb(tmp_path / "far.pdb", np.zeros((2, 4)))
    with pytest.raises(ValueError, match="finite"):
        io.write_xyz(tmp_path / "far.xyz", [[np.nan]])
    assert list(tmp_path.iterdir()) == []  # nothing, not even a part


@pytest.mark.parametrize("name", ["out.xyz", "out.xyz.gz"])
def test_xyz_keeps_all_digits(tmp_path, name):
    X = np.random.default_rng(1).standard_normal((9, 3)) * 10.0 ** np.arange(-4, 5)[:, None]
    io.write_xyz(tmp_path / name, io.Structure.of(X, ["C", "H", "O"] * 3), comment="nine atoms")
    found = np.loadtxt(tmp_path / name, skiprows=2, dtype=str)
    np.testing.assert_array_equal(found[:, 1:].astype(float), X)
    assert found[:, 0].tolist() == ["C", "H", "O"] * 3
    io.write_xyz(tmp_path / name, X[:, :2])
    flat = np.loadtxt(tmp_path / name, skiprows=2, usecols=(1, 2, 3))
    np.testing.assert_array_equal(flat, np.column_stack([X[:, :2], np.zeros(9)]))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(ValueError, match="single line"):
        io.write_xyz("never.xyz", [[0.0]], comment="a\nb")


def test_structure_names_a_wrong_length():
    with pytest.raises(ValueError, match="names must have one entry for each of the 2 atoms, got 1"):
        io.Structure.of(np.eye(2), names=["H"])


LAYOUTS = {
    "names after": "   1    2    1.5    1.5 N   CA  THR  THR \n   3    1    2.0    3.25 N   C   THR  THR \n",
    "residues before": "   1    2   7   8   1.5    1.5 N   CA  THR  THR \n\n 3 1 7 8 2.0 3.25 N   C   THR  THR \n",
    "bare": "1 2 1.5 1.5\n# a comment\n3 1 2.0 3.25\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packed", [False, True])
def test_mdjeep_layouts(file, layout, packed):
    text = LAYOUTS[layout].encode()
    bounds = io.read_distances(file(gzip.compress(text) if packed else text, "some.nmr"))
    np.testing.assert_array_equal(bounds.pairs, [[0, 1], [0, 2]])
    assert bounds.pairs.dtype == np.int64
    np.testing.assert_array_equal(bounds.lower, [1.5, 2.0])
    np.testing.assert_array_equal(bounds.upper, [1.5, 3.25])
    assert bounds.n_points == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2 1.0 1.0\n1 3 1.0\n", ":2: 3 cells where the others have 4"),
        ("1 2 7 8 1.0 1.0\n1 3 7 8\n", ":2: 4 cells where the others have 6"),
        ("0 2 1.0 1.0\n", ":1: a vertex must be an integer from 1 to 2³¹, got '0'"),
        ("1 x 1.0 1.0\n", ":1: a vertex"),
        ("\n2 2 1.0 1.0\n", ":2: the point 2 is paired with itself"),
        ("1 2 2.0 1.0\n", ":1: the lower bound is above the upper"),
        ("1 2 -1.0 1.0\n", ":1: the lower bound -1 is negative"),
        ("1 2 one 1.0\n", ":1: 'one' in column 3 is not a number"),
        ("1 2 1.0 inf\n", ":1: inf in column 4 is not finite"),
        ("1 2 1.0\n", ":1: expected at least 4 columns, got 3"),
        ("# nothing\n", "no row of data"),
    ],
)
def test_bad_mdjeep(file, text, words):
    with pytest.raises(io.FileFormatError, match=words):
        io.read_distances(file(text, "some.nmr"))


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        io.write_xyz(tmp_path / "absent" / "out.xyz", [[0.0]])


def need_file(relative):
    path = datasets.data_home() / relative
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    return path


def test_mdjeep_exact_file_equals_the_protein():
    found = io.read_distances(need_file("mdjeep/exact/1ptq.nmr.gz"))
    atoms = io.read_pdb(need_file("proteins/1ptq.pdb"))
    backbone = atoms.coordinates[np.isin(atoms.names, ["N", "CA", "C"])]
    assert found.n_points == len(backbone) == 150
    assert len(found.pairs) == 829
    assert found.lower is found.upper is None
    np.testing.assert_allclose(found.distances, datasets.pair_distances(backbone, found.pairs), rtol=1e-12)


@pytest.mark.parametrize("name", ["1hj0", "2jmy", "2ksl", "sensor118"])
def test_mdjeep_interval_files(name):
    bounds = io.read_distances(need_file(f"mdjeep/interval/{name}.nmr.gz"))
    assert (bounds.lower <= bounds.upper).all()
    assert (bounds.lower >= 0).all()
    assert 0 < np.count_nonzero(bounds.lower == bounds.upper) < len(bounds.pairs)
    assert bounds.upper.max() < 100  # residue numbers, had they been read as bounds, go higher
    absent = 4 if name == "sensor118" else 0  # its first four vertices have no distance
    assert bounds.names == tuple(str(k) for k in range(absent + 1, absent + bounds.n_points + 1))


def test_mmcif_tells_the_elements_by_the_names_of_atoms(tmp_path):
    """Viewers colour and join atoms by their elements; CA is carbon in alanine, and calcium where it stands alone."""
    pytest.importorskip("gemmi")
    names, residues = ["CA", "1HB", "CA", "Zn", "door"], ["ALA", "ALA", "CA", "", ""]
    io.write_pdb(tmp_path / "some.cif", io.Structure.of(np.ones((5, 3)), names, residues, [1, 1, 2, 3, 4]))
    lines = (tmp_path / "some.cif").read_text().splitlines()
    assert [line.split()[2].upper() for line in lines if line.startswith("ATOM")] == ["C", "H", "CA", "ZN", "X"]
