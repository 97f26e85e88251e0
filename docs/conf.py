"""Sphinx configuration: the Markdown pages of this folder, pages generated from the registries, and the docstrings."""

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
default_role = "code"  # docstrings put code in single backticks

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

nb_execution_mode = "force"  # every build runs the notebooks, and an error in one of them fails the build
nb_execution_raise_on_error = True
nb_execution_timeout = 600

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the Args sections of the docstrings describe the types
autodoc_preserve_defaults = False  # the constructors of losses have computed signatures
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
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": []}


def escape_bars(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Escape |x| in docstrings: it is an absolute value, not a substitution."""
    code = False
    for number, line in enumerate(lines):
        code = line.lstrip().startswith((">>>", "...")) or (code and bool(line.strip()))
        if not code and "`" not in line:
            lines[number] = line.replace("|", "\\|")


def skip_member(_app: Sphinx, _what: str, name: str, _obj: Any, skip: bool, _options: Any) -> bool:
    """Skip the methods that scikit-learn adds to estimators for metadata routing."""
    return skip or name == "get_metadata_routing" or (name.startswith("set_") and name.endswith("_request"))


def setup(app: Sphinx) -> None:
    """Write the generated pages before Sphinx reads the others."""
    app.connect("builder-inited", lambda _: generated_pages.write(Path(__file__).parent))
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("autodoc-skip-member", skip_member)
