"""Documentation: links, documented names, commands, generated tables, shown output, and the build of the site."""

import html
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import docs_examples
import pytest
from sybil.document import Document
from sybil.example import SybilFailure

from orcu.bench.spec import load_spec

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/plugin/README.md")]
    + [page for page in ROOT.glob("docs/**/*.md") if "generated" not in page.parts]
)
CURRENT_PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # the changelog names what was removed
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"`(orcu [^`\n]+)`")
OPTION = re.compile(r"`(--[a-z][a-z-]*)[^`\n]*`")


def name_of(page):
    return str(page.relative_to(ROOT))


def anchors(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in re.findall(r"(?m)^#+ (.+)$", text))
    return {heading.replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_page_resolve(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if "generated" in file.parts:  # written when the site is built
            assert file.stem in {"losses", "metrics", "calibrators", "data", "figures", "theory_checks"}
            continue
        if file.name == "gradcam.png":  # not in the repository because of its licence; made by `make gallery`
            continue
        assert file.exists(), f"{target}: no such file"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=name_of)
def test_commands_of_page_have_valid_options(page):
    text = page.read_text(encoding="utf-8")
    for block in CONSOLE.findall(text):
        for words, _ in docs_examples.commands(block):
            assert command_problem(words, page) is None, shlex.join(words)
    for command in COMMAND.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        assert docs_examples.option_problem(command.split(), complete=False) is None, command


def command_problem(words, page):
    """What is wrong with a command of a console block: options of orcu, files of Python, targets of make, extras."""
    if words[0] == "orcu":
        return docs_examples.option_problem(words)
    if words[0] == "python" and "/" in words[1] and not (ROOT / words[1]).exists():
        return "no such script"
    if words[0] == "make":
        targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"))
        return None if words[-1] in targets else "no such target"
    if words[:2] == ["pip", "install"]:
        project = next(folder / "pyproject.toml" for folder in page.parents if (folder / "pyproject.toml").exists())
        extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        named = {
            extra for word in words for part in re.findall(r"^(?:\.|orcu)\[(.+)\]", word) for extra in part.split(",")
        }
        return None if named <= set(extras) else "no such extra"
    return None


def test_options_named_in_the_text_exist():
    known = docs_examples.all_options() | OTHER_OPTIONS
    unknown = {}
    for page in CURRENT_PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        if missing := {option for option in OPTION.findall(text) if option not in known}:
            unknown[name_of(page)] = missing
    assert not unknown


# Options of scripts that the page names: benchmarks, and timm's train.py.
OTHER_OPTIONS = {"--markdown", "--rounds"}
OTHER_OPTIONS |= {"--bce-loss", "--class-map", "--cutmix", "--jsd-loss", "--mixup", "--smoothing"}


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=name_of)
def test_benchmark_specs_of_page_are_valid(page, tmp_path):
    for block in re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE):
        if {"name", "losses", "data"} <= set(tomllib.loads(block)):
            (tmp_path / "spec.toml").write_text(block)
            load_spec(tmp_path / "spec.toml")


def documented_names():
    """Every dotted name of orcu, and every name imported from it, that README and docs use."""
    for page in CURRENT_PAGES:
        text = page.read_text(encoding="utf-8")
        for module, names in re.findall(r"from (orcu[\w.]*) import ([\w, ]+)", text):
            yield from (f"{module}.{name.strip()}" for name in names.split(","))
        yield from re.findall(r"(?<![\w./-])orcu(?:\.[A-Za-z_]\w*)+(?![\w/])", text)


# A key of an ONNX file's metadata, and the entry point group of soft targets.
NOT_PYTHON = {"orcu.classes", "orcu.targets"}
NAMES = set(documented_names()) - NOT_PYTHON


@pytest.mark.parametrize("name", sorted(NAMES))
def test_documented_name_exists(name):
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


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("SCE 3.8 %", "SCE 3.8 %\n", True),
        ("SCE 3.8 %", "SCE 3.9 %", True),  # one unit in the last digit
        ("SCE 3.8 %", "SCE 5.7 %", False),
        ("(-0.31, 0.20)", "(-0.32, 0.21)", True),
        ("(-0.31, 0.20)", "(0.31, 0.20)", False),
        ("SCE 3.8 %", "SCE 3.84 %", False),
        ("600 rows", "601 rows", False),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nd", True),
        ("a\n...\nd", "a\nb\nc", False),
        ("...\nd", "c\nd", True),
        ("took ... s", "took 3 s", True),
        ("took ... s", "took\n3 s", False),
        ("a", "a\nb", False),
    ],
)
def test_shown_output_matches_printed_output(shown, printed, equal):
    assert (docs_examples.output_problem(shown, printed) is None) is equal


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("orcu evaluate preds.csv --label grade --probs 'p_*'", None),
        ("orcu evaluate preds.csv --n-bins=10", None),
        ("orcu evaluate preds.csv --bins 10", "--bins"),
        ("orcu evaluate --label grade", "files"),
        ("orcu evaluate preds.csv --format html", "html"),
        ("orcu evaluate preds.csv --label", "--label"),
        ("orcu judge preds.csv", "preds.csv"),
        ("orcu calibrate apply a.csv b.json c.json -o d.csv", "c.json"),
    ],
)
def test_option_problem_names_what_is_wrong(command, problem):
    message = docs_examples.option_problem(shlex.split(command))
    assert message is None if problem is None else problem in message


def test_console_block_is_split_into_commands_and_output():
    block = "$ orcu evaluate \\\n  a.csv  # comment\none\n\ntwo\n$ orcu losses list && make test\n$ echo $?\n4\n"
    assert docs_examples.commands(block) == [
        (["orcu", "evaluate", "a.csv"], "one\n\ntwo\n"),
        (["orcu", "losses", "list"], None),
        (["make", "test"], None),
        (["echo", "$?"], "4\n"),
    ]


PAGE = """
```python
value = 0.5
print(value)
```

```text
{shown}
```

<!-- slow: reason -->
```python
assert value == 0.5
```

<!-- not run: reason -->
```console
$ orcu evaluate missing.csv
```

```console
$ orcu losses show nothing
$ echo $?
{code}
```
"""


@pytest.mark.parametrize(
    ("shown", "code", "failures"), [("0.5", 2, 0), ("0.7", 2, 1), ("0.5", 0, 1), ("0.5\n0.5", 4, 2)]
)
def test_example_fails_if_the_page_shows_other_output(shown, code, failures, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(shown=shown, code=code))
    examples = list(Document.parse(str(page), docs_examples.parse_examples).examples())
    assert [example.region.lexemes["slow"] for example in examples] == [False, True, False]
    assert sum(fails(example) for example in examples) == failures


def fails(example):
    try:
        example.evaluate()
    except SybilFailure:
        return True
    return False


def test_slow_example_runs_the_examples_above_it_first(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(shown="0.5", code=2))
    _, slow, _ = Document.parse(str(page), docs_examples.parse_examples).examples()
    assert not fails(slow)


def tool(name):
    sys.path.insert(0, str(ROOT / "tools"))
    return importlib.import_module(name)


def test_claims_page_matches_the_results():
    claims = tool("claims")
    assert claims.PAGE.read_text(encoding="utf-8") == claims.page(), "run tools/claims.py write"
    better, level, worse = claims.Tally(2, 0, 0), claims.Tally(0, 2, 0), claims.Tally(0, 0, 2)
    assert claims._verdict(better, better) == "**holds**"
    assert claims._verdict(worse, better) == "**holds when over-fitted**"
    assert claims._verdict(worse, worse) == "**does not hold here**"
    assert claims._verdict(level, level) == "no difference here"
    assert claims._verdict(level, level, no_worse=True) == "**holds**"


def test_generated_tables_match_the_results():
    pages = tool("results").pages()
    assert pages
    for file, text in pages.items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run tools/results.py write"


@pytest.mark.docs
def test_site_builds_without_warnings(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    build = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stderr
    assert "First steps" in (tmp_path / "index.html").read_text(encoding="utf-8")
    for page in ("results", "theory", "extend", "guides/research", "generated/losses", "api/losses"):
        assert (tmp_path / f"{page}.html").exists()
    # the figures and numbers that the text of the notebooks mentions
    for name, figures, outputs in (
        ("evaluate", 4, ["Over-confident by 14", "'boosted trees': ('failed'", "'logistic': ('passed'"]),
        ("calibrate", 2, ["Recommended: vector", "do not differ significantly", "coverage 89.9%", "[672 328   0   0]"]),
    ):
        page = (tmp_path / f"notebooks/{name}.html").read_text("utf-8")
        assert len(re.findall(r"<img [^>]*_images/", page)) == figures
        text = html.unescape(re.sub(r"<[^>]+>", "", page))
        assert [output for output in outputs if output not in text] == []
