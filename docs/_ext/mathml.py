"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network.

docutils turns LaTeX into MathML; Sphinx has no renderer for that of its own.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError
from sphinx.util import logging

logger = logging.getLogger(__name__)

# docutils reads \frac12 as 12 over what follows
_SHORT_FRACTION = re.compile(r"\\([td]?)frac\s*(\d)\s*(\d)")
# commands that docutils does not know: another name for one, and sizes of brackets that do without
_OTHER_NAMES = {r"\\dots(?![a-zA-Z])": r"\ldots", r"\\[bB]igg?(?![a-zA-Z])": ""}
# bars and brackets are of the size they are written in; else they grow to the height of the whole formula
_FENCES = re.compile(r"<mo>([‖|⌊⌋⌈⌉⟨⟩])</mo>")


def to_mathml(formula: str, block: bool) -> str:
    """Return a LaTeX formula as a <math> element."""
    formula = _SHORT_FRACTION.sub(r"\\\1frac{\2}{\3}", formula)
    for unknown, known in _OTHER_NAMES.items():
        formula = re.sub(unknown, lambda _, known=known: known, formula)
    return _FENCES.sub(r'<mo fence="false" stretchy="false">\1</mo>', tex2mathml(formula, as_block=block))


def _render(node: nodes.math | nodes.math_block, block: bool) -> str:
    try:
        return to_mathml(node.astext(), block)
    except MathError as error:
        logger.warning("formula that cannot be drawn: %s (%s)", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(_render(node, block=False))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({node["number"]})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(_render(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx of the renderer."""
    try:
        app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    except ExtensionError:
        logger.warning("another renderer is called mathml")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
