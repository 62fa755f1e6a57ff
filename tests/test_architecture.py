"""The shape of the package: nothing lower imports anything higher, and an iteration passes through few files."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

import quartic
from quartic import DistanceCompletion, Problem, minimize
from quartic.datasets import helix, pair_distances, planted_graph, random_pairs
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import LBFGS, DynNoLips, InertialNoLips

ROOT = Path(quartic.__file__).parent

# From the lowest to the highest; what stands in one row may import each other. A file of its own counts before its
# folder: the problem is below the solvers, the loop above them.
LAYERS = [
    ["arrays", "_version"],
    ["compiled", "archives"],
    ["core/parts", "core/units", "distributed"],
    ["penalties"],
    ["kernels"],
    ["losses"],
    ["core/problem"],
    ["solvers", "baselines"],
    ["core", "init"],
    ["graphs", "io", "metrics"],
    ["datasets", "distance", "locating", "rigidity", "clustering", "estimators", "diagnostics", "plots", "sdp"],
    ["report"],
    ["commands", "bench", "cli", "demo", "nx", "__main__", "__init__"],
]

# What still looks upwards, and why. The list is to become shorter: one that is no longer needed fails the test.
EXCEPTIONS = {
    ("arrays/space", "compiled/rows"): "the space is the front of compiled passes, which are loaded when first used",
    ("arrays/space", "compiled/lbfgs"): "the same",
    ("arrays/space_torch", "compiled/lbfgs_torch"): "the same",
    ("arrays/space_torch", "compiled/rows_triton"): "the same",
    ("core/result", "plots"): "Result.plot() is a convenience of the result",
    ("init/distances", "distance/framework"): "the null space of a stress matrix is found there",
}


def layer_of(module):
    """The number of the layer a module is in, by its longest name in the table."""
    parts = module.split("/")
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        for level, names in enumerate(LAYERS):
            if name in names:
                return level
    raise AssertionError(f"{module} is in no layer: give it one in LAYERS")


def imports_of(tree):
    """The names of quartic's modules that a file imports, in functions too, but not for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "quartic":
            path = node.module.split(".")[1:]
            for alias in node.names:
                inner = [*path, alias.name]
                is_module = ROOT.joinpath(*inner).with_suffix(".py").exists() or ROOT.joinpath(*inner).is_dir()
                yield "/".join(inner if is_module else path) or "__init__"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "quartic":
                    yield "/".join(alias.name.split(".")[1:]) or "__init__"
        yield from imports_of(node)


def upward_imports():
    """Who imports something of a higher layer: pairs of file and module."""
    found = set()
    for file in sorted(ROOT.rglob("*.py")):
        name = file.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__")
        for module in imports_of(ast.parse(file.read_text())):
            if layer_of(module) > layer_of(name):
                found.add((name, module))
    return found


def test_nothing_lower_imports_anything_higher():
    found = upward_imports()
    assert sorted(found - set(EXCEPTIONS)) == []
    assert sorted(set(EXCEPTIONS) - found) == []  # no longer needed


def test_every_public_method_is_described_there_or_in_a_base_class():
    classes = {}
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                classes[node.name] = node

    def described(kind, method):
        node = classes.get(kind)
        if node is None:
            return False
        own = any(
            isinstance(part, ast.FunctionDef) and part.name == method and ast.get_docstring(part) for part in node.body
        )
        return own or any(described(ast.unparse(base).split("[")[0], method) for base in node.bases)

    bare = [
        f"{kind}.{part.name}"
        for kind, node in classes.items()
        for part in node.body
        if isinstance(part, ast.FunctionDef) and not (kind + part.name).startswith("_") and part.name[0] != "_"
        if not described(kind, part.name)
    ]
    assert bare == []


def files_of_a_step(solver, M, rank, n_steps=40):
    """The files that each of some iterations passes through: a step of the solver, then Ψ and the stopping measure."""
    problem = Problem(LeastSquares(M), Nonnegative()).counted().with_kernel()
    state = solver.init(problem, problem.loss.random_start(rank, True, np.random.default_rng(0)))
    seen = []

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            seen[-1].add(Path(frame.f_code.co_filename).relative_to(ROOT).as_posix())

    for _ in range(n_steps):
        seen.append(set())
        sys.setprofile(watch)
        try:
            state = solver.step(problem, state)
            problem.objective(state.point)
            problem.stationarity(state.point)
        finally:
            sys.setprofile(None)
    return seen[5:]  # what is loaded and chosen once is not counted


@pytest.mark.parametrize(
    ("solver", "most"), [(InertialNoLips(), 10), (DynNoLips(), 10), (LBFGS(), 16)], ids=lambda s: str(s)
)
def test_an_iteration_passes_through_few_files(solver, most):
    M, _ = planted_graph(3000, 10, random_state=0)
    steps = sorted(files_of_a_step(solver, M, 10), key=len)
    typical = steps[len(steps) // 2]
    print(len(typical), *sorted(typical), sep="\n")
    assert len(typical) <= most, sorted(typical)


def test_a_distance_fit_passes_through_few_files():
    points = helix(30, random_state=0)
    pairs = random_pairs(30, 0.5, random_state=0)
    distances = pair_distances(points, pairs)
    DistanceCompletion(random_state=0).fit_pairs(pairs, distances)  # what is loaded once is not counted
    seen = set()

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            seen.add(Path(frame.f_code.co_filename).relative_to(ROOT).as_posix())

    sys.setprofile(watch)
    try:
        DistanceCompletion(random_state=0).fit_pairs(pairs, distances)
    finally:
        sys.setprofile(None)
    print(len(seen), *sorted(seen), sep="\n")
    assert len(seen) <= 40, sorted(seen)
    assert sum(name.startswith("distance/") for name in seen) <= 10, sorted(seen)


def test_few_calls_lie_between_a_distance_fit_and_its_run():
    """fit_pairs, locate, search_all, search_component, run, minimize: five hops, from the first run on."""
    points = helix(60, random_state=0)
    pairs = random_pairs(60, 0.5, random_state=0)
    depths = []

    def watch(frame, event, argument):
        if event == "call" and frame.f_code is minimize.__wrapped__.__code__:
            names = []
            while frame.f_code.co_name != "fit_pairs":
                if frame.f_code.co_filename.startswith(str(ROOT)):
                    names.append(frame.f_code.co_name)
                frame = frame.f_back
            depths.append(names)

    sys.setprofile(watch)
    try:
        DistanceCompletion(random_state=0).fit_pairs(pairs, pair_distances(points, pairs))
    finally:
        sys.setprofile(None)
    assert depths
    assert len(depths[0]) <= 5, depths[0]
