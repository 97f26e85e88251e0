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
import numpy as np
import pytest
from sybil.document import Document
from sybil.example import SybilFailure

from orcu.bench.spec import load_spec
from orcu.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/plugin/README.md")]
    + [page for page in ROOT.glob("docs/**/*.md") if "generated" not in page.parts]
)
CURRENT_PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # the changelog names what was removed
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SCRIPT = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
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
    for line in "\n".join(SCRIPT.findall(text)).splitlines():
        words = shlex.split(line, comments=True)
        assert not words or command_problem(words, page) is None, line
    for command in COMMAND.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        assert docs_examples.option_problem(command.split(), complete=False) is None, command


def command_problem(words, page):
    """What is wrong with a command of a console block: options of orcu, files of Python, targets of make, extras."""
    if words[0] == "srun":  # it starts the command that follows its options
        words = words[words.index("orcu") :]
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


@pytest.mark.parametrize("name", ["evaluate", "llm_judges", "monitoring", "workflow"])
def test_guide_without_torch_imports_only_what_the_base_install_has(name):
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = {re.split("[^a-z-]", line)[0] for line in metadata["dependencies"]} - {"scikit-learn"}
    available = packages | {"orcu", "sklearn", *sys.stdlib_module_names}
    text = (ROOT / "docs" / "guides" / f"{name}.md").read_text(encoding="utf-8")
    imported = re.findall(r"(?m)^\s*(?:import|from) (\w+)", "".join(PYTHON.findall(text)))
    assert imported
    assert not set(imported) - available
    assert "to_pandas" not in text


def test_options_named_in_the_text_exist():
    known = docs_examples.all_options() | OTHER_OPTIONS
    unknown = {}
    for page in CURRENT_PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        if missing := {option for option in OPTION.findall(text) if option not in known}:
            unknown[name_of(page)] = missing
    assert not unknown


# Options of programs that the page names: benchmarks, SLURM, and timm's train.py.
OTHER_OPTIONS = {"--gres", "--markdown", "--rounds"}
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
        except MissingExtraError as error:  # an adapter to a package that is not in the extra dev
            pytest.skip(str(error))
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


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ((7, 5, 0), "holds"),
        ((6, 6, 0), "holds in part"),
        ((4, 8, 0), "holds in part"),
        ((11, 0, 1), "mixed"),
        ((0, 12, 0), "not shown"),
        ((0, 6, 6), "opposite in part"),
        ((0, 5, 7), "opposite"),
        ((0, 0, 0), "not run"),
    ],
)
def test_verdict_of_a_claim_follows_from_its_counts(counts, word):
    claims = tool("claims")
    assert claims.verdict(claims.Tally(*counts)) == word


def claim_rows(orcu, ce, qwk=0.5):
    sizes = {"calibrator": "none", "seed": 0, "train_rows": 300, "test_rows": 100, "data": "lev"}
    return [
        {**sizes, "loss": loss, "run": f"{loss} {fold}", "fold": fold, "qwk": qwk, "sce": value, "ece": value}
        for loss, values in (("orcu", orcu), ("ce", ce))
        for fold, value in enumerate(values)
    ]


def test_claims_compare_in_the_direction_of_the_metric_and_of_the_claim():
    claims = tool("claims")
    regime = claims.Regime(claim_rows([0.10, 0.11, 0.12], [0.20, 0.21, 0.23]))
    (lower,) = regime.compare("sce", "orcu", "ce")
    (higher,) = regime.compare("sce", "orcu", "ce", claimed=1)
    assert (lower.outcome(), higher.outcome()) == (1, -1)
    assert claims.Tally.of([lower, higher], {lower: 0.04, higher: 0.2}) == (1, 1, 0)  # after control of the FDR


def test_claims_of_no_difference_need_an_interval_within_the_margin():
    claims = tool("claims")
    noisy = claims.Regime(claim_rows([0.10, 0.14, 0.06], [0.10, 0.10, 0.10]))
    exact = claims.Regime(claim_rows([0.101, 0.100, 0.099], [0.10, 0.10, 0.10]))
    worse = claims.Regime(claim_rows([0.150, 0.151, 0.152], [0.10, 0.10, 0.10]))
    outcomes = [regime.no_worse("ece", "orcu", "ce")[0].outcome() for regime in (noisy, exact, worse)]
    assert outcomes == [0, 1, -1]


def test_claims_of_a_value_within_a_margin_need_an_interval_within_the_margin():
    claims = tool("claims")
    regime = claims.Regime(claim_rows([0.029, 0.030, 0.031], [0.001, 0.0, -0.001]))
    above = {loss: regime.sign("sce", loss, -1, margin=0.02)[0].outcome() for loss in ("orcu", "ce")}
    below = {loss: regime.sign("sce", loss, 1, margin=0.02)[0].outcome() for loss in ("orcu", "ce")}
    assert above == {"orcu": -1, "ce": 1}
    assert below == {"orcu": 1, "ce": 1}


def test_claims_count_the_papers_means_in_the_claimed_direction_without_ties():
    claims = tool("claims")
    assert claims.paper_count("ece", "ce", first="ls") == "4 of 4"
    assert claims.paper_count("ece", "ce", first="ls", claimed=1) == "0 of 4"
    # both have 100 % on SST-5
    assert {claims.paper_count("unimodality", "sord", table="text", claimed=sign) for sign in (1, -1)} == {"0 of 1"}


def test_claims_leave_out_collapsed_models():
    claims = tool("claims")
    regime = claims.Regime(claim_rows([0.1, 0.2, 0.3], [0.2, 0.3, 0.4], qwk=0.05))
    assert regime.compare("sce", "orcu", "ce") == []
    assert regime.collapsed == [("lev", "ce"), ("lev", "orcu")]


def test_claims_count_a_comparison_once_in_the_false_discovery_rate():
    claims = tool("claims")
    regime = claims.Regime(claim_rows([0.10, 0.11, 0.12], [0.20, 0.21, 0.23]))
    (first,) = regime.compare("sce", "orcu", "ce")
    (reversed_,) = regime.compare("sce", "ce", "orcu")
    (other_metric,) = regime.compare("ece", "orcu", "ce")  # the same values
    claim = claims.Claim("", "", "", [claims.Row("", [first, other_metric], [reversed_])], "")
    # Benjamini and Yekutieli with two equal p values: p * 2 * (1 + 1 / 2) / 2
    p = first.difference.p * 1.5
    assert claims.adjust([claim]) == pytest.approx({first: p, other_metric: p, reversed_: p})


def test_claims_identify_comparisons_by_runs_metric_and_null_value():
    claims = tool("claims")
    rows = claim_rows([0.10, 0.11, 0.12], [0.20, 0.21, 0.23])
    relabelled = [{**row, "loss": "s = 3"} for row in rows if row["loss"] == "orcu"]
    copied = [{**row, "loss": "sord", "run": f"sord {row['fold']}"} for row in rows if row["loss"] == "orcu"]
    regime = claims.Regime(rows + relabelled + copied)
    (first,) = regime.compare("ece", "orcu", "ce")
    keys = [
        comparison.key
        for comparison in (
            *regime.compare("ece", "ce", "s = 3"),  # the same runs under another name
            *regime.compare("sce", "orcu", "ce"),
            *regime.compare("ece", "sord", "ce"),
            *regime.no_worse("ece", "orcu", "ce"),
        )
    ]
    assert [key == first.key for key in keys] == [True, False, False, False]
    assert len(set(keys)) == 4


@pytest.mark.parametrize("num_classes", range(4, 11))
def test_claims_predict_the_same_directions_of_the_optimum_for_every_label(num_classes):
    claims = tool("claims")
    for label in range(num_classes):
        assert claims.optimum_directions(num_classes, label) == [1, 1, 1, -1, -1, -1, -1, -1]


def test_run_statistics_take_the_split_sizes_from_the_data_and_correct_archived_ones():
    rows = [{"data": "diamonds", "fold": 0, "run": "a", "train_rows": 2000, "test_rows": 10}]
    sizes = {("diamonds", 0): {"train_rows": 32364, "test_rows": 10788}}
    (row,) = tool("run_statistics").with_split_sizes(rows, sizes)
    assert (row["run"], row["train_rows"], row["test_rows"]) == ("a", 32364, 10788)


def test_run_statistics_of_errors_and_convergence():
    statistics = tool("run_statistics")
    probs = np.array([[0.3, 0.6, 0.1], [0.1, 0.2, 0.7]])
    on_errors = statistics.on_errors(probs, np.array([0, 0]))
    assert on_errors == pytest.approx({"p_true_on_errors": 0.2, "side_on_errors": (0.2 + 0.3) / 2})
    curves = {f"validation_{name}": [0.4, 0.3, 0.105, 0.1] for name in ("ece", "sce", "ace")}
    assert statistics.convergence(curves) == {"epochs_ece": 3, "epochs_sce": 3, "epochs_ace": 3}


def test_run_statistics_order_is_high_for_features_along_the_classes():
    statistics = tool("run_statistics")
    labels = np.repeat([0, 1, 2], 15)
    noise = np.random.default_rng(0).normal(size=(45, 2))
    ordered, shuffled = statistics.order(noise + 20 * labels[:, None], labels), statistics.order(noise, labels)
    assert ordered["feature_order"] > 0.8 > 0.3 > abs(shuffled["feature_order"])
    assert ordered["tsne_order"] > 0.5 > abs(shuffled["tsne_order"])


@pytest.mark.docs
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
