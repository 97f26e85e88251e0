"""Layers of the package: which package may import which, read from every import, lazy and typing ones too.

docs/architecture.md has a map of these layers, which is compared with `LAYERS` below.
"""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MAP = Path(__file__).parents[1] / "docs" / "architecture.md"
# From the lowest layer up: a package imports packages of lower layers only, never of its own layer.
LAYERS = [
    ["errors", "defaults"],
    ["registry", "inputs", "threads"],
    ["resampling"],
    ["geometry"],
    ["io", "kernels", "raters"],
    ["predictions", "preprocessing"],
    ["model_selection"],
    ["decisions"],
    ["metrics"],
    ["launchers", "calibrators", "theory"],
    ["ensemble"],
    ["losses", "boosting"],
    ["evaluation", "data"],
    ["judges", "explain"],
    ["models"],
    ["training"],
    ["estimators", "figures"],
    ["report"],
    ["bench", "explore", "integrations", "monitoring", "testing"],
    ["cli"],
]
LAYER = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}


def module_name(path):
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(module):
    """The modules of orcu that a module imports, also inside functions and under TYPE_CHECKING.

    Functions such as ``to_html`` and ``_repr_html_`` may import `orcu.report`: these imports do not count.
    """
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside_functions = {node for function in functions for node in ast.walk(function)}
    targets = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # from orcu.metrics import rps: a module of that name, or a name in orcu.metrics
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in names]
        targets |= {name for name in names if not (node in inside_functions and name.startswith("orcu.report."))}
    return {target for target in targets if target in MODULES and target != module}


def test_report_may_be_imported_inside_functions_only(tmp_path, monkeypatch):
    path = tmp_path / "module.py"
    path.write_text(
        "import orcu.report.page\n"
        "def to_html():\n"
        "    from orcu.report.card_html import card\n"
        "    from orcu.cli import process\n"
    )
    monkeypatch.setitem(MODULES, "orcu.metrics.example", path)
    assert imported("orcu.metrics.example") == {"orcu.report.page", "orcu.cli"}


GRAPH = {module: imported(module) for module in MODULES if module not in {"orcu", "orcu.__main__"}}


def package_of(module):
    return module.split(".")[1] if "." in module else "orcu"


def test_layers_contain_every_package():
    assert {package_of(module) for module in GRAPH} == set(LAYER)


def test_architecture_map_lists_the_layers_from_the_highest_to_the_lowest():
    section = MAP.read_text(encoding="utf-8").partition("## Layers\n")[2]
    table = re.search(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert [sorted(re.findall(r"`(\w+)`", row)) for row in rows] == [sorted(layer) for layer in reversed(LAYERS)]


@pytest.mark.parametrize("module", GRAPH)
def test_module_imports_only_lower_layers(module):
    package = package_of(module)
    for target in GRAPH[module] - {"orcu"}:
        imported_package = package_of(target)
        assert imported_package == package or LAYER[imported_package] < LAYER[package], (
            f"{module} imports {target}, which is not in a lower layer"
        )


# Predictions.read and Predictions.from_frame import the reader of the class inside the method.
CONSTRUCTOR_IMPORT = ("orcu.predictions.predictions", "orcu.predictions.source")


def test_modules_have_no_import_cycles():
    state: dict[str, int] = {}

    def visit(module, path):
        if state.get(module) == 2:
            return
        assert state.get(module) != 1, f"a cycle: {' -> '.join([*path[path.index(module) :], module])}"
        state[module] = 1
        for target in sorted(GRAPH.get(module, set())):
            if (module, target) != CONSTRUCTOR_IMPORT:
                visit(target, [*path, module])
        state[module] = 2

    for module in GRAPH:
        visit(module, [])
