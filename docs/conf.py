"""Sphinx: the Markdown pages beside this file, pages made from the registries, and the docstrings."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generated_pages
from sphinx.application import Sphinx

from orcu import __version__

project = "orcu"
author = "The orcu developers"
copyright = "The orcu developers, Apache-2.0"
version = release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns: list[str] = []
source_suffix = {".md": "myst-nb"}
default_role = "code"  # docstrings name things in single backticks

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

nb_execution_mode = "force"  # the notebooks are run whenever the site is built, and an error in one ends it
nb_execution_raise_on_error = True
nb_execution_timeout = 600

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types stand in the signatures' own words: the Args of each docstring
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Warns", "params_style")]

html_theme = "pydata_sphinx_theme"
html_title = f"orcu {version}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_depth": 2,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "results": []},
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": []}


def bars_are_text(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """|x| in a docstring is an absolute value, not a substitution."""
    code = False
    for k, line in enumerate(lines):
        code = line.lstrip().startswith((">>>", "...")) or (code and bool(line.strip()))
        if not code and "`" not in line:
            lines[k] = line.replace("|", "\\|")


def skipped(_app: Sphinx, _what: str, name: str, _obj: Any, skip: bool, _options: Any) -> bool:
    """Leave out what scikit-learn adds to every estimator for metadata routing."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app: Sphinx) -> None:
    """Pages that follow from the code are written before the others are read."""
    app.connect("builder-inited", lambda _: generated_pages.write(Path(__file__).parent))
    app.connect("autodoc-process-docstring", bars_are_text)
    app.connect("autodoc-skip-member", skipped)
