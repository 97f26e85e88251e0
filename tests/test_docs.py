"""The documentation: it builds without a warning, its links lead somewhere, its tables are those of the results."""

import html
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    + [page for page in ROOT.glob("docs/**/*.md") if "generated" not in page.parts]
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(plain.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if "generated" in file.parts:  # written when the site is built
            assert file.stem in {"losses", "metrics", "calibrators", "data", "figures", "theory_checks"}
            continue
        if file.name == "gradcam.png":  # its licence is not ours: made by `make gallery`
            continue
        assert file.exists(), f"{target} leads nowhere"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


def documented_names():
    """Every dotted name of orcu, and every name imported from it, that README and docs use."""
    for page in PAGES:
        if page.name != "CHANGELOG.md":  # it speaks of what was
            text = page.read_text(encoding="utf-8")
            for module, names in re.findall(r"from (orcu[\w.]*) import ([\w, ]+)", text):
                yield from (f"{module}.{name.strip()}" for name in names.split(","))
            yield from re.findall(r"(?<![\w./-])orcu(?:\.[A-Za-z_]\w*)+(?![\w/])", text)


NOT_PYTHON = {"orcu.classes"}  # a key of an ONNX file's metadata
NAMES = set(documented_names()) - NOT_PYTHON


@pytest.mark.parametrize("name", sorted(NAMES))
def test_documented_names_exist(name):
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("orcu"):
                raise
            continue
        for attribute in parts[length:]:
            value = getattr(value, attribute)
        return


def tool(name):
    sys.path.insert(0, str(ROOT / "tools"))
    return importlib.import_module(name)


def test_the_claims_are_judged_by_the_results():
    claims = tool("claims")
    assert claims.PAGE.read_text(encoding="utf-8") == claims.page(), "not what tools/claims.py write gives"
    better, level, worse = claims.Tally(2, 0, 0), claims.Tally(0, 2, 0), claims.Tally(0, 0, 2)
    assert claims._verdict(better, better) == "**holds**"
    assert claims._verdict(worse, better) == "**holds when over-fitted**"
    assert claims._verdict(worse, worse) == "**does not hold here**"
    assert claims._verdict(level, level) == "no difference here"
    assert claims._verdict(level, level, no_worse=True) == "**holds**"


def test_the_tables_are_those_of_the_results():
    pages = tool("results").pages()
    assert pages
    for file, text in pages.items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name} is not what tools/results.py write gives"


@pytest.mark.docs
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Five minutes" in first
    for page in ("results", "theory", "extend", "guides/research", "generated/losses", "api/losses"):
        assert (tmp_path / f"{page}.html").exists()
    # what the text of the notebooks says of their figures and numbers
    for name, figures, outputs in (
        ("judge", 4, ["Over-confident by 14", "'boosted trees': ('tripped'", "'logistic': ('passed'"]),
        ("calibrate", 2, ["Recommended: vector", "matches accuracy within noise", "[675 325   0   0]"]),
    ):
        page = (tmp_path / f"notebooks/{name}.html").read_text("utf-8")
        assert len(re.findall(r"<img [^>]*_images/", page)) == figures
        text = html.unescape(re.sub(r"<[^>]+>", "", page))
        assert [output for output in outputs if output not in text] == []
