"""What the site is made with: formulas, docstrings, the pages of the reference. `make docs` builds the site itself."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def load(name):
    """Load an extension of the site, for whose work Sphinx is not needed."""
    for module in ("docutils", "sphinx"):
        if importlib.util.find_spec(module) is None and name == "mathml":
            pytest.skip(f"{module} is not installed; make docs brings it")
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_formulas_become_mathml():
    to_mathml = load("mathml").to_mathml
    half = to_mathml(r"\tfrac12 \|X\|^2", block=True)
    assert re.search(r"<mfrac[^>]*>\s*<mn>1</mn>\s*<mn>2</mn>\s*</mfrac>", half)
    assert 'stretchy="false">‖' in half
    assert "(" in to_mathml(r"\rho\big((x)\big)", block=False)
    assert "…" in to_mathml(r"1, \dots, r", block=False)


def test_bars_in_docstrings_are_no_substitutions():
    escape = load("docstrings").escape_bars
    assert escape(["the sum of |X_ij| over all"]) == [r"the sum of \|X_ij\| over all"]
    assert escape(["|⟨x, y⟩| / 2"]) == [r"\|⟨x, y⟩\| / 2"]
    kept = ["| a line", "``|x|`` and :math:`|x|`", ".. math:: |x|", "          + |y|", ">>> a | b"]
    assert escape(kept) == kept


def test_the_reference_has_every_public_name(tmp_path):
    reference = load("reference")
    stale = tmp_path / "api" / "generated" / "quartic.losses.Forgotten.rst"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    reference._write(SimpleNamespace(srcdir=tmp_path))
    assert not stale.exists()
    assert len(dict(reference.PAGES)) == len(reference.PAGES)  # no page twice
    listed = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "api").glob("*.rst"))
    for name, _ in reference.PAGES:
        module = importlib.import_module(name)
        assert isinstance(module, ModuleType)
        for public in reference.names_of(module):
            assert re.search(rf"^   {public}$", listed, re.MULTILINE), f"{name}.{public}"
    for name in ("SymNMF", "minimize", "LeastSquares", "GramKernel", "check_gradient", "read_pdb", "normalized_rmse"):
        assert re.search(rf"^   {name}$", listed, re.MULTILINE)


def test_a_private_name_is_not_listed():
    module = ModuleType("made_up")
    module.__dict__.update(shown=len, _hidden=len, __all__=["shown", "_hidden", "__version__"], __version__="1")
    assert load("reference").names_of(module) == ["shown"]


def test_the_pages_name_only_what_exists():
    """Roles that lead nowhere would only be found when the site is built."""
    for page in DOCS.glob("**/*.rst"):
        if {"_build", "gallery", "api"} & set(page.relative_to(DOCS).parts):
            continue
        for role, target in re.findall(
            r":(class|func|meth|mod):`(?:[^`<]*<)?~?(quartic[\w.]*)>?`", page.read_text("utf-8")
        ):
            found = sys.modules.get("quartic") or importlib.import_module("quartic")
            for part in target.split(".")[1:]:
                try:
                    found = getattr(found, part)
                except AttributeError:
                    found = importlib.import_module(f"{found.__name__}.{part}")
            assert found is not None, f"{page.name}: {role} {target}"
