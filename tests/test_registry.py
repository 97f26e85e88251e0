import importlib
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from plugins import distribution

from orcu.errors import InputError, PluginWarning, UnknownNameError
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
    distribution(folder, name, {group: {name: name}}, {name: code})


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
        PluginWarning, match=r"plugin pentagons of the package pentagons .*RuntimeError: five is right out"
    ):
        assert package.SHAPES.names() == ["square"]


def test_a_plugin_that_names_what_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_and_a_slip", {"square": REGISTERS.format("square")})
    distribution(tmp_path, "slip", {"shapes_and_a_slip": {"one": "shapes_and_a_slip.absent", "two": "math:absent"}})
    with pytest.warns(PluginWarning) as told:
        assert package.SHAPES.names() == ["square"]
    texts = sorted(str(one.message) for one in told)
    assert "plugin math:absent of the package slip fails to load (AttributeError" in texts[0]
    assert "plugin shapes_and_a_slip.absent of the package slip fails to load (ModuleNotFoundError" in texts[1]


def test_a_plugin_that_registers_nothing_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_and_nothing", {"square": REGISTERS.format("square")})
    plugin(tmp_path, "shapes_and_nothing", "idle_shapes", "import math")
    says = (
        "the plugin idle_shapes of the package idle_shapes registers nothing; its entry point in the group "
        "shapes_and_nothing should name the module whose import registers"
    )
    with pytest.warns(PluginWarning, match=says):
        assert package.SHAPES.names() == ["square"]
    again = Registry("shape", plugins="shapes_and_nothing")  # two registries may read a group: one warning is enough
    assert again.names() == []


def test_a_plugin_whose_modules_were_imported_before_is_not_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_known_before", {"square": REGISTERS.format("square")})
    code = "from shapes_known_before import SHAPES\n" + REGISTERS.format("hexagon")
    plugin(tmp_path, "shapes_known_before", "early_hexagons", code)
    importlib.import_module("early_hexagons")
    assert package.SHAPES.names() == ["hexagon", "square"]


@pytest.mark.parametrize("by", ["orcu", "another plugin", "itself"])
def test_a_name_that_is_taken_is_told_and_stays_with_who_had_it(by, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"shapes_taken_by_{by.replace(' ', '_')}"
    package = package_of(tmp_path, name, {"square": REGISTERS.format("square")})
    start = f"from {name} import SHAPES\n"
    twice = start + "@SHAPES.register('{0}')\ndef other():\n    return 'another'\n"
    first = f"first_of_{name}"
    if by == "orcu":
        plugin(tmp_path, name, first, twice.format("square"))
        taken, holder, taker = "square", f"{name}.square.square", f"{first}.other"
    elif by == "itself":
        plugin(tmp_path, name, first, start + REGISTERS.format("hexagon") + twice.format("hexagon"))
        taken, holder, taker = "hexagon", f"{first}.hexagon", f"{first}.other"
    else:
        modules = {first: start + REGISTERS.format("hexagon"), f"second_of_{name}": twice.format("hexagon")}
        distribution(tmp_path, "two", {name: {module: module for module in modules}}, modules)
        taken, holder, taker = "hexagon", f"{first}.hexagon", f"second_of_{name}.other"
    says = (
        rf"fails to load \(InputError: shape '{taken}' is registered twice, by {holder} and by {taker}; choose another"
    )
    with pytest.warns(PluginWarning, match=says):
        assert taken in package.SHAPES.names()
    assert package.SHAPES.create(taken) == taken
    assert package.SHAPES.create("square") == "square"


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


def test_options_that_a_class_hands_on_are_known(shapes):
    class Shape:
        def __init__(self, *, filled=False, edge):
            self.filled, self.edge = filled, edge

    @shapes.register("star")
    class Star(Shape):
        def __init__(self, *, points=5, **common):
            super().__init__(**common)
            self.points = points

    star = shapes.create("star", filled=True, edge=2)
    assert (star.points, star.filled, star.edge) == (5, True, 2)
    with pytest.raises(UnknownNameError, match="Did you mean 'filled'"):
        shapes.create("star", filed=True, edge=2)
    with pytest.raises(InputError, match="shape 'star' needs the option 'edge'"):
        shapes.create("star")
