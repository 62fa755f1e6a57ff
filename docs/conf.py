"""The site. Built by `make docs`, without a network; every warning is an error."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import warnings

from examples_of import SavedPictures

from quartic import __version__

project = "quartic"
author = "The quartic developers"
copyright = f"{author}. BSD-3-Clause"
version = release = __version__

extensions = [
    "mathml",
    "reference",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "examples_of",
    "docstrings",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/backreferences", "sg_execution_times.rst", "**/sg_execution_times.rst"]
language = "en_GB"
smartquotes = False  # options begin with two hyphens
nitpicky = False
highlight_language = "python"
html_math_renderer = "mathml"
math_number_all = False

# -- reference --------------------------------------------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
default_role = "py:obj"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
suppress_warnings = [
    "config.cache",  # the gallery's settings hold functions, which are not kept between builds
    "myst.header",
]

# -- gallery ----------------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "doc_module": ("quartic",),
    "backreferences_dir": "gallery/backreferences",
    "inspect_global_variables": True,
    "reference_url": {"quartic": None},
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "within_subsection_order": "examples_of.OrderOfReading",
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib", SavedPictures()),
    "matplotlib_animations": False,
    "copyfile_regex": "",
    "capture_repr": (),
    "default_thumb_file": str(Path(__file__).parent / "_static" / "mark.svg"),
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# -- look -------------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "quartic"
html_logo = "_static/logo.svg"
html_favicon = "_static/mark.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # made by fetching the pages found, which a browser refuses without a server
html_theme_options = {
    "logo": {"alt_text": "quartic"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 5,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# pages with none below them
_ALONE = ("index", "quickstart", "clusters", "choosing", "dask", "gpu", "results", "inside", "faq", "glossary")
html_sidebars = {page: [] for page in _ALONE}
html_context = {"default_mode": "auto"}
