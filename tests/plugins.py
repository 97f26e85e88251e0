"""Distributions as pip would install them, made in a folder: a module and the metadata that names it."""

import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"


def distribution(folder, name, entry_points, modules=()):
    """A distribution in a folder of ``sys.path``: ``{group: {key: module}}``, and the code of modules by name."""
    for module, code in dict(modules).items():
        (folder / f"{module}.py").write_text(code)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {module}\n" for key, module in keys.items())
        for group, keys in entry_points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))


def example_distribution(folder):
    """The metadata of the example package; its modules are read where they stand."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    distribution(folder, project["name"].replace("-", "_"), project["entry-points"])
