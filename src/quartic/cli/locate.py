"""``quartic locate``: from some distances to coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from quartic.cli.fitting import Fit, call_code, fit_code, watched_fit, write_result
from quartic.cli.terminal import Options
from quartic.distance.findings import DistanceWarning
from quartic.io import DistanceTable, FileFormatError, read_anchors, read_distances, write_pdb, write_xyz
from quartic.io.distances import atoms_of_points, axis_names

_ATOMS = (".pdb", ".cif", ".xyz")
OUTPUTS = (".csv", ".tsv", ".npy", *_ATOMS)
# Warnings speak of Python's parameters; here they are options.
_OPTIONS = {
    'weights="noise"': "--weights noise",
    'refine="stress"': "--refine stress",
    "robust=True": "--robust",
    "n_components =": "-d =",
    "n_init": "--n-init",
    ", another init or another": " or another",
    "random_state": "--seed",
}


def run(options: Options) -> None:
    """Locate, write, report; exit with 1 where the run did not converge, with 2 where the input is at fault."""
    from quartic.distance.completion import DistanceCompletion
    from quartic.report.points import describe_points

    options.check(OUTPUTS)
    if options.output.lower().endswith(_ATOMS) and options.dimension > 3:
        raise ValueError(f"-o {options.output}: atoms have at most 3 coordinates, not {options.dimension}; write .csv")
    if options.input == "-" and "-" in (options.anchors, options.align):
        raise ValueError("standard input can be read only once; give the anchors as a file")
    table, known = _read(options)
    d, names = options.dimension, table.names
    anchors, align_to = (
        None if path is None else read_anchors(path, names, d) for path in (options.anchors, options.align)
    )
    asked = {name: getattr(options, name) for name in ("refine", "noise", "robust")}
    settings = {**options.settings, **asked}
    model = DistanceCompletion(d, align_to=align_to, **settings)
    options.say(f"{options.source}: {table.guess}")

    def locate(watcher: Any) -> Any:
        return model.set_params(callback=watcher).fit_pairs(table.pairs, **known, anchors=anchors or None)

    fit = watched_fit(options, locate, partial(_rephrase, names=names))
    determined = np.asarray(model.determined_)
    header = ["point", *axis_names(d), "determined"]
    ends = [determined.tolist()]
    if options.noise is not None:
        header.append("standard_error")
        ends.append(model.standard_errors_.tolist())
    places = zip(names, model.embedding_.tolist(), *ends, strict=True)
    rows = [[name, *place, *end] for name, place, *end in places]
    fit.finish(
        describe_points(model, len(table.pairs), names),
        write=lambda: _write(options.output, header, rows, model.embedding_, table),
        section=lambda: _section(options, table, list(anchors or ()), _code(options, settings), model, fit),
        facts={
            "guess": table.guess,
            "n_points": table.n_points,
            "n_pairs": len(table.pairs),
            "dimension": d,
            "rmse": float(model.rmse_),
            "n_determined": int(determined.sum()),
            "not_determined": [names[i] for i in np.flatnonzero(~determined)],
            "left_out": [[names[i] for i in pair] for pair in model.outliers_.tolist()],
            "chirality": model.chirality_,
        },
        rows=lambda: {"points": [dict(zip(header, row, strict=True)) for row in rows]},
    )


def _read(options: Options) -> tuple[DistanceTable, dict[str, Any]]:
    """Return the distances, and what `DistanceCompletion.fit_pairs` is told of them."""
    table = read_distances(options.input, **options.reading)
    if options.dimension > table.n_points - 1:
        fault = f"{table.n_points} points span at most {table.n_points - 1} dimensions, not {options.dimension}"
        raise FileFormatError(f"{options.input}: {fault}; choose a smaller -d")
    known: dict[str, Any] = {**table.quantities(), "n_points": table.n_points}
    if options.weights is not None:
        if table.weights is not None:
            raise ValueError(f"--weights noise: {options.input} has weights of its own; leave one of them out")
        known["weights"] = options.weights
    return table, known


def _rephrase(warning: Warning, names: Sequence[str]) -> str:
    """Return a warning with points called by their names in the file, and parameters replaced by options."""
    if not isinstance(warning, DistanceWarning):
        return str(warning)
    text = str(warning.args[0])
    for parameter, option in _OPTIONS.items():
        text = text.replace(parameter, option)  # before the names are put in, which may look like a parameter
    return type(warning)(text, *warning.args[1:]).told(names)


def _write(path: str, header: list[str], rows: list[list[Any]], X: Any, table: DistanceTable) -> None:
    """Write point,x,y[,z],…,determined[,standard_error]; as .npy the coordinates; as .pdb, .cif or .xyz atoms."""
    if not path.lower().endswith(_ATOMS):
        write_result(path, header, rows, X)
        return
    write = write_xyz if path.lower().endswith(".xyz") else write_pdb
    write(path, (table.atoms or atoms_of_points(table.names)).at(X))


def _section(options: Options, table: DistanceTable, anchors: list[int], code: str, model: Any, fit: Fit) -> Any:
    from quartic.report import point_section

    return point_section(
        model, table.pairs, {"distances": table.distances, "lower": table.lower, "upper": table.upper}, table.names,
        title=f"Points from {options.input}", guessed=f"Read as {table.guess}.", anchors=anchors, code=code,
        **fit.section(**{"mirror image": model.chirality_, "search": model.start_}),
    )  # fmt: skip


def _code(options: Options, settings: dict[str, Any]) -> str:
    from quartic import DistanceCompletion

    def places(path: str) -> str:
        return f"io.read_anchors({path!r}, table.names, {options.dimension})"

    made = call_code("DistanceCompletion", str(options.dimension), settings, DistanceCompletion().get_params())
    if options.align is not None:
        made = f"{made[:-1]}, align_to={places(options.align)})"
    known = "**table.columns()" + ("" if options.weights is None else f' | {{"weights": {options.weights!r}}}')
    anchors = "" if options.anchors is None else f", anchors={places(options.anchors)}"
    fitted = f"{made}.fit_pairs(table.pairs, {known}{anchors})"
    return fit_code(options, "read_distances", fitted, "place", "embedding_")
