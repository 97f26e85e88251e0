import importlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from orcu.errors import InputError, UnknownNameError
from orcu.registry import Registry


@pytest.fixture
def shapes():
    registry = Registry("shape")

    @registry.register("circle")
    def circle(radius=1.0, *, filled=False):
        return ("circle", radius, filled)

    @registry.register("square")
    def square():
        return ("square",)

    return registry


def test_names_are_sorted_and_create_passes_options(shapes):
    assert shapes.names() == ["circle", "square"]
    assert shapes.create("circle", radius=2.0) == ("circle", 2.0, False)


def test_a_table_names_the_thing_and_wins_over_keywords(shapes):
    spec = {"name": "circle", "radius": 3.0}
    assert shapes.create(spec, radius=1.0, filled=True) == ("circle", 3.0, True)
    assert spec == {"name": "circle", "radius": 3.0}  # the caller's table is not changed


def test_unknown_names_offer_the_nearest(shapes):
    with pytest.raises(UnknownNameError, match=r"unknown shape 'circel'. Did you mean 'circle'\?"):
        shapes.get("circel")
    with pytest.raises(UnknownNameError, match=r"option of shape 'circle' 'radios'. Did you mean 'radius'"):
        shapes.create("circle", radios=2)
    with pytest.raises(UnknownNameError, match="Known: circle, square"):
        shapes.get("zzz")


def test_a_table_without_a_name_is_refused(shapes):
    with pytest.raises(InputError, match="needs a 'name'"):
        shapes.create({"radius": 1})


def package_of(folder, name, modules):
    """A package with a registry called SHAPES, and modules that fill it."""
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text(
        f"from orcu.registry import Registry\nSHAPES = Registry('shape', package=__name__, plugins='{name}')\n"
    )
    for module, code in modules.items():
        (package / f"{module}.py").write_text(f"from {name} import SHAPES\n{code}\n")
    return importlib.import_module(name)


REGISTERS = "@SHAPES.register('{0}')\ndef {0}():\n    return '{0}'\n"


def test_threads_wait_for_discovery(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "begun", begun, raising=False)  # where a module that is read can reach them
    monkeypatch.setattr(threading, "go_on", go_on, raising=False)
    slow = "import threading\nthreading.begun.set()\nassert threading.go_on.wait(60)\n"
    package = package_of(
        tmp_path,
        "shapes_that_wait",
        {"circle": slow + REGISTERS.format("circle"), "square": REGISTERS.format("square")},
    )
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(package.SHAPES.create, "square")
        assert begun.wait(60)  # the first thread is in the middle of its discovery
        others = [pool.submit(package.SHAPES.create, "square") for _ in range(3)]
        early = wait([first, *others], timeout=0.2).done  # a registry that thinks it is complete answers at once
        go_on.set()
        assert [future.result(60) for future in (first, *others)] == ["square"] * 4
    assert not early


def test_a_module_that_fails_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(
        tmp_path, "shapes_that_fail", {"square": "import shapes_not_there\n" + REGISTERS.format("square")}
    )
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="shapes_not_there"):
            package.SHAPES.names()
    (tmp_path / "shapes_not_there.py").write_text("")
    importlib.invalidate_caches()
    assert package.SHAPES.names() == ["square"]


def plugin(folder, group, name, code):
    """A distribution with one module, which names itself under a group of entry points."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}\n")


def test_plugins_register_by_entry_points(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_with_plugins", {"square": REGISTERS.format("square")})
    code = "from shapes_with_plugins import SHAPES\n" + REGISTERS.format("hexagon")
    plugin(tmp_path, "shapes_with_plugins", "hexagons", code)
    assert package.SHAPES.names() == ["hexagon", "square"]


def test_a_broken_plugin_is_told_and_the_rest_works(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_and_a_fault", {"square": REGISTERS.format("square")})
    plugin(tmp_path, "shapes_and_a_fault", "pentagons", "raise RuntimeError('five is right out')")
    with pytest.warns(
        UserWarning, match=r"plugin pentagons of the package pentagons .*RuntimeError: five is right out"
    ):
        assert package.SHAPES.names() == ["square"]


@pytest.mark.parametrize("group", ["losses", "metrics", "calibrators", "data", "figures", "launchers"])
def test_every_axis_takes_plugins(group, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    plugin(tmp_path, f"orcu.{group}", f"nothing_for_{group}", "")
    registries = {
        "losses": "orcu.losses.base:LOSSES",
        "metrics": "orcu.metrics.base:METRICS",
        "calibrators": "orcu.calibrators.base:CALIBRATORS",
        "data": "orcu.data.base:DATASETS",
        "figures": "orcu.figures.base:FIGURES",
        "launchers": "orcu.launchers:LAUNCHERS",
    }
    module, name = registries[group].split(":")
    registry = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(registry, "_complete", False)
    registry.names()
    assert f"nothing_for_{group}" in sys.modules


def test_a_name_is_registered_once(shapes):
    with pytest.raises(InputError, match="registered twice"):
        shapes.register("circle")(lambda: None)

    def cell(sides):
        def triangle():
            return sides

        return shapes.register("triangle")(triangle)

    cell(3)
    cell(4)  # a notebook's cell, run again after an edit
    assert shapes.create("triangle") == 4


def test_a_module_may_ask_for_names_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    asks = REGISTERS.format("square") + "assert SHAPES.create('square') == 'square'\n"
    package = package_of(tmp_path, "shapes_that_ask", {"square": asks, "triangle": REGISTERS.format("triangle")})
    assert package.SHAPES.names() == ["square", "triangle"]
