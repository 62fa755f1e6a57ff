"""What the columns of a table are called, in a few languages: ends of pairs, weights, distances, names of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Names of the two ends of a pair, one after the other; the last ones may be anything.
ENDS = (
    ("i", "j"), ("source", "target"), ("from", "to"), ("src", "dst"), ("origin", "destination"), ("node1", "node2"),
    ("node_1", "node_2"), ("node_a", "node_b"), ("point1", "point2"), ("point_1", "point_2"), ("p1", "p2"),
    ("atom1", "atom2"), ("id1", "id2"), ("person1", "person2"), ("name1", "name2"), ("start", "end"),
    ("von", "nach"), ("von", "zu"), ("quelle", "ziel"), ("knoten1", "knoten2"), ("punkt1", "punkt2"),
    ("de", "vers"), ("source", "cible"), ("origine", "destination"), ("origen", "destino"), ("desde", "hasta"),
    ("sender", "recipient"), ("sender", "receiver"), ("absender", "empfänger"), ("caller", "callee"),
    ("source_id", "target_id"), ("from_id", "to_id"), ("user1", "user2"), ("user_a", "user_b"), ("node 1", "node 2"),
    ("follower", "followee"), ("citing", "cited"), ("author1", "author2"), ("parent", "child"),
    ("da", "a"), ("de", "a"), ("u", "v"), ("a", "b"),
)  # fmt: skip
CLEAR_ENDS = ENDS[:-4]
CLEAR_WEIGHT = ("weight", "weights", "gewicht", "poids", "peso")
WEIGHT = (
    *CLEAR_WEIGHT, "w", "similarity", "value", "strength", "count", "stärke", "anzahl", "ähnlichkeit", "wert", "fuerza",
)  # fmt: skip
DISTANCE = (
    "d", "dist", "distance", "length", "range", "value", "entfernung", "distanz", "abstand", "länge", "distancia",
    "distanza", "wert", "km", "miles",
)  # fmt: skip
LOWER = ("lower", "low", "lo", "min", "lb", "lower_bound", "minimum")
UPPER = ("upper", "high", "hi", "max", "ub", "upper_bound", "maximum")
# Of the columns that name rows: these, and those that end in id, nr. or no. as a word, or in ID or Id.
NAMES = (
    "", "id", "index", "name", "node", "point", "label", "key", "sample", "document", "nr", "nr.", "no",
    "no.", "number", "nummer", "#",
)  # fmt: skip
TIMES = ("year", "date", "time", "timestamp", "jahr", "datum", "zeit", "année", "año")
_NAMED_ID = re.compile(r".+[ _.-](?i:id|nr\.?|no\.?)|.+[a-z]I[dD]|Unnamed: 0[.\d]*")
ALL_NAMES = frozenset({*(name for pair in ENDS for name in pair), *WEIGHT, *DISTANCE, *LOWER, *UPPER})
KNOWN_NAMES = ALL_NAMES - {"a", "b", "u", "v", "d", "w", "da", "de"}  # these may as well be the names of nodes


def plain(name: str) -> str:
    """Return the name of a column in small letters, without a unit in brackets."""
    return re.sub(r"\s*[\[(].*[\])]\s*$", "", name).strip().lower()


def names_rows(title: str) -> bool:
    """Tell whether a column called so names the rows, as an ``id`` or ``Customer Nr.`` does."""
    return plain(title) in NAMES or _NAMED_ID.fullmatch(title.strip()) is not None


def find_ends(header: Sequence[str], ends: Sequence[tuple[str, str]] = ENDS) -> tuple[int, int] | None:
    """Return the columns of the two ends of a pair, by their names."""
    names = [plain(name) for name in header]
    found = ((names.index(one), names.index(two)) for one, two in ends if one in names and two in names)
    return next(found, None)


def find_column(header: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the column that has one of these names, whatever its letters' case."""
    names = [plain(name) for name in header]
    return next((names.index(name) for name in wanted if name in names), None)
