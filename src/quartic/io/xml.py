"""A look through an XML file before it is read: no definitions of its own, and no depth without bottom."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from quartic.io.errors import FileFormatError
from quartic.io.text import check_size

_DEEPEST = 100
_BYTES_AN_ELEMENT = 1000  # what an element and its attributes take in memory, generously


def check_xml(content: bytes, name: str) -> None:
    """Raise where XML is faulty, or does what data need not: entities that unfold, elements nested without end."""
    depth = elements = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth, elements = depth + 1, elements + 1
        if depth > _DEEPEST:
            raise FileFormatError.at(name, parser.CurrentLineNumber, f"more than {_DEEPEST} elements in one another")
        if elements % 1000 == 0:
            check_size(_BYTES_AN_ELEMENT * elements, name)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: Any) -> None:
        raise FileFormatError.at(name, parser.CurrentLineNumber, "a document type is not read; take it out")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{name}: not an XML file ({error})") from None
