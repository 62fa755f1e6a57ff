"""Spoiled files of every format, a few hundred each; ``make fuzz`` tries ten thousand."""

import gzip
import io
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from fuzzing.harness import fuzz
from fuzzing.mutations import FORMATS
from fuzzing.seeds import formats
from quartic.archives import machine_memory, read_npz
from quartic.datasets.stored import data_file
from quartic.io import FileFormatError, arrays, read_distances, read_features, read_graph, read_similarity
from quartic.io.arrays import read_arrays
from quartic.io.files import open_source


def test_all_formats_are_here(tmp_path):
    assert tuple(formats(tmp_path)) == FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_spoiled_files_are_read_or_refused(name, tmp_path):
    if "blocks" in name:
        pytest.importorskip("dask.array", reason="needs Dask")
    outcome = fuzz(name, 200, seed=12, folder=tmp_path)
    assert outcome.faults == []
    assert outcome.tried == 200
    assert outcome.refused > 20  # the mutations do spoil


# -- the readers that are our own, against SciPy's -------------------------------------------------------------------


def _matrices(rng):
    yield rng.standard_normal((3, 5))
    yield rng.integers(-9, 9, size=(4, 4))
    yield (rng.random((5, 2)) > 0.5)
    yield rng.random((2, 3)).astype(np.float32)
    yield rng.integers(0, 200, size=(6, 1)).astype(np.uint8)
    yield sp.random_array((7, 4), density=0.3, rng=rng, format="csc")
    yield sp.csr_array((3, 3))
    yield sp.random_array((5, 5), density=0.5, rng=rng, format="coo")


@pytest.mark.parametrize("options", [{}, {"do_compression": True}, {"format": "4"}])
def test_matlab_files_as_scipy_writes_them(tmp_path, options):
    matrices = {f"M{k}": A for k, A in enumerate(_matrices(np.random.default_rng(0)))}
    if options.get("format") == "4":
        matrices = {name: A if sp.issparse(A) else np.asarray(A, dtype=float) for name, A in matrices.items()}
    other = {"text": "a word"} if options.get("format") == "4" else {
        "text": "a word", "struct": {"a": 1.0, "b": np.eye(2)}, "cell": np.array([1, "x"], dtype=object),
        "complex": np.array([[1j]]), "cube": np.zeros((2, 2, 2)),
    }  # fmt: skip
    path = tmp_path / "many.mat"
    scipy.io.savemat(path, matrices | other, **options)
    found = read_arrays(open_source(path))
    assert set(found) == set(matrices)
    for name, expected in matrices.items():
        assert sp.issparse(found[name]) == sp.issparse(expected)
        dense = found[name].toarray() if sp.issparse(expected) else found[name]
        np.testing.assert_array_equal(dense, expected.toarray() if sp.issparse(expected) else expected)
        if not sp.issparse(expected) and "format" not in options:
            assert found[name].dtype == (np.uint8 if expected.dtype == bool else expected.dtype)


def test_big_endian_matlab(tmp_path):
    """As other machines wrote them: a 2 × 2 matrix by hand, and one of version 4."""

    def element(kind, data):
        return np.array([kind, len(data)], ">u4").tobytes() + data + b"\x00" * (-len(data) % 8)

    body = (
        element(6, np.array([6, 0], ">u4").tobytes()) + element(5, np.array([2, 2], ">i4").tobytes())
        + np.array([(1 << 16) | 1], ">u4").tobytes() + b"M\x00\x00\x00"
        + element(3, np.array([1, 2, 3, -4], ">i2").tobytes())
    )  # fmt: skip
    path = tmp_path / "sun.mat"
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI" + element(14, body))
    np.testing.assert_array_equal(read_arrays(open_source(path))["M"], [[1.0, 3.0], [2.0, -4.0]])
    path.write_bytes(np.array([1000, 2, 2, 0, 2], ">i4").tobytes() + b"M\x00" + np.arange(4, dtype=">f8").tobytes())
    np.testing.assert_array_equal(read_arrays(open_source(path))["M"], [[0.0, 2.0], [1.0, 3.0]])


@pytest.mark.parametrize("packed", [False, True])
def test_matrix_market_as_scipy_writes_it(tmp_path, packed):
    rng = np.random.default_rng(1)
    A = rng.integers(-5, 5, size=(5, 5))
    cases = [*_matrices(rng), A + A.T, (A + A.T).astype(float), A - A.T, sp.coo_array(A - A.T), sp.coo_array(A + A.T),
             sp.coo_array(np.tril(A + A.T) + np.tril(A + A.T, -1).T)]  # fmt: skip
    for k, matrix in enumerate(cases[::4] if packed else cases):  # each file is a process
        for options in ({}, {"symmetry": "general"}):
            if matrix.dtype.kind == "b":
                matrix = np.asarray(matrix, dtype=int)
            path = tmp_path / f"{k}.mtx"
            scipy.io.mmwrite(path, matrix, **options)
            expected = scipy.io.mmread(path)
            if packed:
                path = tmp_path / f"{k}.mtx.gz"
                path.write_bytes(gzip.compress((tmp_path / f"{k}.mtx").read_bytes()))
            (found,) = read_arrays(open_source(path)).values()
            assert sp.issparse(found) == sp.issparse(expected)
            found, expected = (B.toarray() if sp.issparse(B) else B for B in (found, expected))
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("%%MatrixMarket matrix array real symmetric\n3 4\n1\n", "symmetric, but 3 × 4"),
        ("%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n", "3 numbers said, 2 there"),
        ("%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "complex numbers is not read"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 5\n", "Line 3: Row index out of bounds"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 5\n", "Line 3: Row index out of bounds"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 5\n", "Truncated"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 x\n", "Line 3: Invalid"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1\n", "Line 3: Invalid"),
        ("%%MatrixMarket matrix coordinate real general\n", "Premature EOF"),
        ("%%MatrixMarket vector coordinate real general\n1 1 1\n", "not a Matrix Market file"),
        ("%%MatrixMarket matrix coordinate real general\n99999999999 99999999999 1\n1 1 1\n", "is it damaged|not fit"),
        ("%%MatrixMarket matrix array real general\n99999999 99999999\n1\n", "not a Matrix Market file"),
    ],
)
def test_faulty_matrix_market(tmp_path, text, words):
    path = tmp_path / "a.mtx"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=words) as caught:
        read_graph(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("fate", ["os.kill(os.getpid(), 9)", "time.sleep(600)"])
def test_a_reader_that_dies_or_hangs_is_an_error_and_the_next_file_is_read(tmp_path, monkeypatch, fate):
    """Compiled readers may do either on damaged files: here the process is told to."""
    scipy.io.mmwrite(tmp_path / "a.mtx", np.eye(2))
    script = Path(arrays.__file__).with_name("scipy_child.py").read_text()
    spoiled = script.replace('    if kind == "mat":\n', f'    import os, time; {fate}\n    if kind == "mat":\n', 1)
    assert spoiled != script
    (tmp_path / "scipy_child.py").write_text(spoiled)
    with monkeypatch.context() as patched:
        patched.setattr(arrays, "__file__", str(tmp_path / "arrays.py"))
        patched.setattr(arrays, "_PATIENCE", 5.0)
        with pytest.raises(FileFormatError, match=r"a\.mtx: not a Matrix Market file \(SciPy (crash|took)"):
            read_graph(tmp_path / "a.mtx")
    assert read_graph(tmp_path / "a.mtx").adjacency.nnz == 2


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16])
def test_matrices_of_truth_values_and_bytes(tmp_path, dtype):
    A = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.save(tmp_path / "a.npy", A.astype(dtype))
    np.testing.assert_array_equal(read_similarity(tmp_path / "a.npy").adjacency.toarray(), A)
    A[0, 1] = 0
    np.save(tmp_path / "a.npy", A.astype(dtype))
    with pytest.raises(FileFormatError, match="not symmetric"):
        read_similarity(tmp_path / "a.npy")


# -- bombs: small files that ask for much ------------------------------------------------------------------------------


def _header(shape, descr="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_2_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _zip_of(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return file.getvalue()


def _sparse_npz(shape, indices=(0,), indptr=(0, 1)):
    file = io.BytesIO()
    np.savez(file, format=np.array("csr"), shape=np.array(shape), data=np.ones(len(indices)),
             indices=np.array(indices), indptr=np.array(indptr))  # fmt: skip
    return file.getvalue()


def _lying_zip():
    """A member whose central entry says it is a thousand times what it is."""
    content = bytearray(_zip_of(A_npy=_header((4, 4)) + bytes(128)))
    at = content.rindex(b"PK\x01\x02")
    content[at + 24 : at + 28] = (2**31 - 1).to_bytes(4, "little")
    return bytes(content)


def _matlab_bomb():
    packed = zlib.compress(bytes(2**23), 9)
    tag = (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little")
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + tag + packed


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {x} "{"".join(["&" + y + ";"] * 10)}">' for x, y in zip("bcdefghi", "abcdefgh", strict=True))
    + "]><graphml>&i;</graphml>"
)
BOMBS = {
    "header.npy": _header((2**40, 2**20)),
    "overflow.npy": _header((2**62, 4)),
    "negative.npy": _header((-1, 5)) + bytes(40),
    "objects.npy": _header((2, 2), "|O") + bytes(40),
    "long.npy": b"\x93NUMPY\x02\x00" + (2**31 - 1).to_bytes(4, "little") + b"{",
    "header.npz": _zip_of(A_npy=_header((2**40, 2**20))),
    "zeros.npz": _zip_of(A_npy=_header((4, 4)) + bytes(2**27)),
    "lying.npz": _lying_zip(),
    "rows.npz": _sparse_npz((2**40, 2**40)),
    "indices.npz": _sparse_npz((4, 4), [7], [0, 1, 1, 1, 1]),
    "falling.npz": _sparse_npz((4, 4), [1, 1, 1], [0, 3, 1, 2, 3]),
    "packed.mat": _matlab_bomb(),
    "rows.mtx": b"%%MatrixMarket matrix coordinate real general\n999999999999 999999999999 1\n1 1 1\n",
    "entries.mtx": b"%%MatrixMarket matrix coordinate real general\n3 3 999999999999\n1 1 1\n",
    "dense.mtx": b"%%MatrixMarket matrix array real general\n999999 999999\n1\n",
    "laughs.graphml": LAUGHS.encode(),
    "laughs16.graphml": LAUGHS.replace('"1.0"', '"1.0" encoding="utf-16"').encode("utf-16"),
    "outside.graphml": b'<?xml version="1.0"?><!DOCTYPE g SYSTEM "file:///etc/passwd"><graphml/>',
    "deep.graphml": b"<a>" * 100_000 + b"</a>" * 100_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name, tmp_path):
    """Refused by name, in memory that goes with the file's size and not with what it says."""
    path = tmp_path / name
    path.write_bytes(BOMBS[name])
    for reader in (read_graph, read_similarity, read_features, read_distances):
        if name.endswith("graphml") and reader in (read_features, read_distances):
            continue
        tracemalloc.start()
        try:
            with pytest.raises(FileFormatError) as caught:
                reader(path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert str(path) in str(caught.value)
        assert len(str(caught.value)) < 1000
        assert peak < 160 * 2**20


def test_a_gzip_bomb_is_cut_off(tmp_path, monkeypatch):
    """It unpacks a thousandfold: reading stops at the limit, and does not go on to the end."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b,1\n" * (1 << 24), 1))
    monkeypatch.setattr("quartic.archives.machine_memory", lambda: 2 << 24)
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="would not fit the memory"):
        read_graph(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80 << 20


def test_archives_keep_to_themselves(tmp_path):
    path = tmp_path / "a.npz"
    for name in ("../evil.npy", "/evil.npy", "..\\evil.npy", "C:/evil.npy", "a/../../evil.npy"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, _header((1,)) + bytes(8))
        with pytest.raises(FileFormatError, match="leads out of the archive"):
            read_graph(path)
        with pytest.raises(ValueError, match="leads out of the archive"):
            read_npz(path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]
    for relative in ("../secret.npy", "/etc/passwd", "a/../../b"):
        with pytest.raises(ValueError, match="leads out of the data folder"):
            data_file("mine", relative)


def test_no_loader_unpickles():
    """Nothing that opens files asks NumPy to unpickle, or loads a pickle itself."""
    import quartic

    root = Path(quartic.__file__).parent
    readers = [*root.glob("io/*.py"), *root.glob("datasets/*.py"), *root.glob("cli/*.py"), *root.glob("*.py")]
    assert len(readers) > 30
    for file in readers:
        text = file.read_text()
        assert "allow_pickle=True" not in text, file
        assert "import pickle" not in text, file
        if file.name != "archives.py":
            assert "np.load(" not in text, file
        if file.name != "scipy_child.py":
            assert "loadmat(" not in text, file
            assert "mmread(" not in text, file
        assert "extractall" not in text, file
        assert "eval(" not in text.replace("literal_eval(", ""), file
    assert machine_memory() > 2**28
