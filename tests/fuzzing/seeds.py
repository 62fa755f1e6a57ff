"""Sound files of every format that is read, small ones, from which the fuzzer makes unsound ones."""

import gzip
import io
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.io
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.io import (
    read_anchors,
    read_blocks,
    read_distances,
    read_features,
    read_graph,
    read_pdb,
    read_similarity,
    write_blocks,
    write_pdb,
)
from quartic.io.blocks import read_block
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative

A = np.array([[0, 2, 1, 0], [2, 0, 0, 1], [1, 0, 0, 3], [0, 1, 3, 0]], dtype=float)
D = np.array([[0, 1, 1.5, 2], [1, 0, 1, 1.2], [1.5, 1, 0, 1.1], [2, 1.2, 1.1, 0]])
EDGES = "source,target,weight\nann,bob,2\nbob,cid,1\ncid,dee,3\nann,dee,0.5\n"
NUMBERED = "0 1 2.5\n1 2 1\n2 3 0.25\n# a remark\n0 3 1\n"
DISTANCES = "i;j;d;lower;upper;weight\n1;2;1,5;1,4;1,6;1\n2;3;2,5;;;1\n1;3;2;1;3;0,5\n"
FEATURES = "name\theight\twidth\tcolour\nrose\t1.5\t2\tred\nfern\t0.5\t1\tgreen\noak\t9\t4\tgreen\n"
ANCHORS = "point,x,y\nann,0,1\nbob,1.5,-2\n"
NMR = "1 2 1 1 1.5 1.5 N CA ALA ALA\n1 3 1 1 2.0 3.0 N C ALA ALA\n2 3 1 1 1.5 1.5 CA C ALA ALA\n"
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="edge" attr.name="weight" attr.type="double"/>
<key id="d1" for="node" attr.name="colour" attr.type="string"><default>red</default></key>
<graph edgedefault="undirected">
<node id="ann"/><node id="bob"><data key="d1">blue</data></node><node id="cid"/>
<edge source="ann" target="bob"><data key="d0">2.5</data></edge>
<edge source="bob" target="cid"><data key="d0">1</data></edge>
</graph></graphml>
"""


GEXF = """<?xml version="1.0" encoding="UTF-8"?>
<gexf version="1.2" xmlns="http://www.gexf.net/1.2draft"><graph defaultedgetype="undirected" mode="static"><nodes>
<node id="0" label="ann"/><node id="1" label="bob"/><node id="2" label="cid"/></nodes>
<edges><edge id="0" source="0" target="1" weight="2.5"/><edge id="1" source="1" target="2"/></edges></graph></gexf>
"""
GML = """graph [
  node [ id 0 label "ann" ]
  node [ id 1 label "bob" ]
  node [ id 2 label "cid" ]
  edge [ source 0 target 1 weight 2.5 ]
  edge [ source 1 target 2 ]
]
"""
PAJEK = """*vertices 3
1 "ann" 0.0 0.0 ellipse
2 "bob" 0.0 0.0 ellipse
3 "cid" 0.0 0.0 ellipse
*edges
1 2 2.5
2 3 1.0
"""


JSON_EDGES = '[{"source": "ann", "target": "bob", "weight": 2}, {"source": "bob", "target": "cid", "weight": 0.5}]'
JSON_GRAPH = (
    '{"directed": false, "nodes": [{"id": "ann"}, {"id": "bob"}, {"id": 3}], '
    '"links": [{"source": "ann", "target": "bob", "weight": 2.5}, {"source": "bob", "target": 3}]}'
)


def _xlsx(text):
    import openpyxl

    book = openpyxl.Workbook()
    for line in text.splitlines():
        book.active.append([float(cell) if cell[0].isdigit() else cell for cell in line.split(",")])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _parquet(**columns):
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def _npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _sparse_npz(matrix):
    file = io.BytesIO()
    sp.save_npz(file, matrix)
    return file.getvalue()


def _mat(variables, **options):
    file = io.BytesIO()
    scipy.io.savemat(file, variables, **options)
    return file.getvalue()


def _mtx(matrix, **options):
    file = io.BytesIO()
    scipy.io.mmwrite(file, matrix, **options)
    return file.getvalue()


def _written(folder, name, write):
    write(folder / name)
    return (folder / name).read_bytes()


def _checkpoint(folder):
    minimize(PROBLEM, rank=2, max_iter=3, random_state=0, solver="lbfgs", checkpoint=folder / "seed-run.npz")
    return (folder / "seed-run.npz").read_bytes()


PROBLEM = Problem(LeastSquares(A), Nonnegative())


def _resume(path):
    return minimize(PROBLEM, rank=2, max_iter=4, random_state=0, solver="lbfgs", checkpoint=path)


def _anchors(path):
    return read_anchors(path, ["ann", "bob", "cid"], 2)


def _parts(matrix):
    """Return the files of a block by the ends of their names: one of dense rows, four of sparse ones."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            file.name.removeprefix("block-000000"): file.read_bytes() for file in write_blocks(folder, matrix).iterdir()
        }


def _block_with_part(path):
    """Read the file as one of the four parts of a block; which, its content decides."""
    parts = _parts(sp.csr_array(A))
    names = sorted(parts)
    content = path.read_bytes()
    sound = [name for name, there in parts.items() if there == content]
    parts[sound[0] if sound else names[sum(content) % 4]] = content
    folder = path.parent / "blocks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, there in parts.items():
        (folder / f"{path.name}{name}").write_bytes(there)
    whole = read_blocks(folder)
    return SimpleNamespace(
        block=read_block(str(folder / f"{path.name}.shape.npy")), shape=whole.shape, dtype=whole.dtype
    )


def _blocks(path):
    """Read the file as the one block of a folder: what the client makes of its headers, and what a worker reads."""
    folder = path.parent / "blocks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copyfile(path, folder / path.name)
    whole = read_blocks(folder)
    return SimpleNamespace(block=read_block(str(folder / path.name)), shape=whole.shape, dtype=whole.dtype)


def formats(folder: Path):
    """Return for each format: the end of the file's name, sound contents, and what reads them."""
    atoms = np.array([[0.0, 1.0, 2.0], [1.5, -2.25, 3.0], [4.0, 5.0, 6.5]])
    similar, distances = [read_similarity, read_graph, read_features], [read_distances]
    pairs = {"pairs": np.array([[0, 1], [1, 2], [0, 2]]), "distances": np.array([1.0, 2.0, 2.5])}
    return {
        "csv": (".csv", [EDGES.encode(), DISTANCES.encode(), b"a,b\nb,c\nc,a\n"], similar + distances),
        "table": (".txt", [NUMBERED.encode(), FEATURES.encode(), FEATURES.encode("utf-16")], similar + distances),
        "csv.gz": (".csv.gz", [gzip.compress(EDGES.encode()), gzip.compress(DISTANCES.encode())], similar + distances),
        "anchors": (".csv", [ANCHORS.encode()], [_anchors]),
        "npy": (".npy", [_npy(A), _npy(D.astype(np.float32)), _npy(np.asfortranarray(A)), _npy(A > 0)],
                similar + distances),
        "npz": (".npz", [_npz(A=A), _npz(X=D, labels=np.arange(4)), _npz(**pairs)], similar + distances),
        "npz sparse": (".npz", [_sparse_npz(sp.csr_array(A)), _sparse_npz(sp.coo_array(A)),
                                _sparse_npz(sp.csc_array(A))], similar + distances),
        "mat": (".mat", [_mat({"A": A}), _mat({"fea": D, "gnd": np.ones((4, 1))}), _mat({"W": sp.csc_array(A)}),
                         _mat({"s": {"a": A}, "W": A, "t": "text"})], similar + distances),
        "mat packed": (".mat", [_mat({"A": A}, do_compression=True),
                                _mat({"W": sp.csc_array(A)}, do_compression=True)], similar + distances),
        "mat 4": (".mat", [_mat({"A": A}, format="4"), _mat({"W": sp.csc_array(A)}, format="4")], similar + distances),
        "mtx": (".mtx", [_mtx(sp.coo_array(A)), _mtx(A), _mtx(sp.coo_array(A), symmetry="general"),
                         b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 1\n"],
                similar + distances),
        "mtx.gz": (".mtx.gz", [gzip.compress(_mtx(sp.coo_array(A)))], similar + distances),
        "graphml": (".graphml", [GRAPHML.encode(), GRAPHML.replace("undirected", "directed").encode()], similar),
        "gexf": (".gexf", [GEXF.encode()], similar),
        "gml": (".gml", [GML.encode()], similar),
        "pajek": (".net", [PAJEK.encode()], similar),
        "json": (".json", [JSON_EDGES.encode(), JSON_GRAPH.encode(), b'{"x": [1, 2.5], "y": [0, 1]}',
                           b"[[0, 1, 2.5], [1, 2, 1]]"], similar + distances),
        "excel": (".xlsx", [_xlsx(EDGES), _xlsx(FEATURES.replace("\t", ","))], similar + distances),
        "edgelist": (".edgelist", [b"0 1 {}\n1 2 {}\n2 3 {}\n3 0 {}\n",
                                   b"a b {'weight': 2}\nb c {'weight': 3, 'kind': 'x y'}\nc d {'weight': 1}\n"],
                     similar),
        "parquet": (".parquet", [_parquet(source=["a", "b", "c"], target=["b", "c", "a"], weight=[1.0, 2.5, 3.0]),
                                 _parquet(i=[0, 1, 0], j=[1, 2, 2], d=[1.0, None, 2.0]),
                                 _parquet(name=["r", "s"], x=[1, 2], y=[0.5, 1.5], z=[True, False])],
                    similar + distances),
        "mdjeep": (".nmr", [NMR.encode(), b"1 2 1.5 1.5 N CA\n1 3 2.0 3.0 N C\n"], [read_distances]),
        "pdb": (".pdb", [_written(folder, "seed.pdb", lambda path: write_pdb(path, atoms))], [read_pdb]),
        "cif": (".cif", [_written(folder, "seed.cif", lambda path: write_pdb(path, atoms))], [read_pdb]),
        "checkpoint": (".npz", [_checkpoint(folder)], [_resume]),
        "blocks": (".npz", [_sparse_npz(sp.csr_array(B)) for B in (A, A > 0, A.astype(np.float32))], [_blocks]),
        "blocks parts": (".npy", list(_parts(sp.csr_array(A)).values()), [_block_with_part]),
        "blocks npy": (".npy", [*_parts(A).values(), _npy(np.asfortranarray(A)), _npy(A.astype(">f8"))], [_blocks]),
        "unnamed": ("", [EDGES.encode(), _npy(A), _npz(A=A), _mat({"A": A}), _mtx(sp.coo_array(A)), GRAPHML.encode()],
                    similar + distances),
    }  # fmt: skip
