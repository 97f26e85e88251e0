"""The house: which package may import which, held by reading every import with ``ast``, lazy and typing ones too.

docs/architecture.md has the picture of these layers.
"""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
# From the ground up: a package imports packages of lower floors only. Those on one floor do not know each other.
FLOORS = [
    ["errors"],
    ["registry", "inputs", "blas", "threads"],
    ["geometry"],
    ["io", "kernels"],
    ["predictions"],
    ["model_selection"],
    ["decisions"],
    ["metrics"],
    ["launchers", "calibrators", "losses", "theory", "boosting"],
    ["evaluation", "data"],
    ["judges"],
    ["models"],
    ["training"],
    ["estimators", "figures"],
    ["report"],
    ["bench", "explore", "integrations", "monitoring", "testing"],
    ["cli"],
]
FLOOR = {package: floor for floor, packages in enumerate(FLOORS) for package in packages}


def module_name(path):
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(module):
    """The modules of orcu that a module imports anywhere, also inside functions and under TYPE_CHECKING."""
    targets = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:  # from orcu.metrics import rps: a module of that name, or a name in orcu.metrics
                whole = f"{node.module}.{alias.name}"
                targets.add(whole if whole in MODULES else node.module)
    return {target for target in targets if target in MODULES and target != module}


GRAPH = {module: imported(module) for module in MODULES if module not in {"orcu", "orcu.__main__"}}


def package_of(module):
    return module.split(".")[1] if "." in module else "orcu"


def test_every_package_stands_on_a_floor():
    assert {package_of(module) for module in GRAPH} == set(FLOOR)


@pytest.mark.parametrize("module", GRAPH)
def test_imports_point_down(module):
    here = package_of(module)
    for target in GRAPH[module] - {"orcu"}:
        there = package_of(target)
        assert there == here or FLOOR[there] < FLOOR[here], (
            f"{module} imports {target}, which stands above or beside it"
        )


def test_no_module_imports_itself_by_detours():
    state: dict[str, int] = {}

    def visit(module, path):
        if state.get(module) == 2:
            return
        assert state.get(module) != 1, f"a cycle: {' -> '.join([*path[path.index(module) :], module])}"
        state[module] = 1
        for target in sorted(GRAPH.get(module, set())):
            visit(target, [*path, module])
        state[module] = 2

    for module in GRAPH:
        visit(module, [])
