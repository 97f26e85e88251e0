"""Registries: lookup, options, discovery of modules and plugins, and name conflicts."""

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


def test_registry_names_are_sorted_and_create_passes_options(shapes):
    assert shapes.names() == ["circle", "square"]
    assert shapes.create("circle", radius=2.0) == ("circle", 2.0, False)


def test_create_from_a_table_takes_precedence_over_keywords(shapes):
    spec = {"name": "circle", "radius": 3.0}
    assert shapes.create(spec, radius=1.0, filled=True) == ("circle", 3.0, True)
    assert spec == {"name": "circle", "radius": 3.0}  # the caller's table is not changed


def test_get_and_create_unknown_name_suggests_the_closest(shapes):
    with pytest.raises(UnknownNameError, match=r"unknown shape 'circel'. Did you mean 'circle'\?"):
        shapes.get("circel")
    with pytest.raises(UnknownNameError, match=r"option of shape 'circle' 'radios'. Did you mean 'radius'"):
        shapes.create("circle", radios=2)
    with pytest.raises(UnknownNameError, match="unknown shape 'zzz'.*circle, square"):
        shapes.get("zzz")


def test_create_from_a_table_without_a_name_raises(shapes):
    with pytest.raises(InputError, match="^shape: .*'name'"):
        shapes.create({"radius": 1})


def package_of(folder, name, modules):
    """Make a package with a registry SHAPES, and modules that fill it."""
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text(
        f"from orcu.registry import Registry\nSHAPES = Registry('shape', package=__name__, plugins='{name}')\n"
    )
    for module, code in modules.items():
        (package / f"{module}.py").write_text(f"from {name} import SHAPES\n{code}\n")
    return importlib.import_module(name)


REGISTERS = "@SHAPES.register('{0}')\ndef {0}():\n    return '{0}'\n"


def test_create_in_threads_waits_for_discovery(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    started, proceed = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "started", started, raising=False)  # where the imported module finds them
    monkeypatch.setattr(threading, "proceed", proceed, raising=False)
    slow = "import threading\nthreading.started.set()\nassert threading.proceed.wait(60)\n"
    package = package_of(
        tmp_path,
        "shapes_that_wait",
        {"circle": slow + REGISTERS.format("circle"), "square": REGISTERS.format("square")},
    )
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(package.SHAPES.create, "square")
        assert started.wait(60)  # the first thread is in the middle of its discovery
        others = [pool.submit(package.SHAPES.create, "square") for _ in range(3)]
        early = wait([first, *others], timeout=0.2).done  # an incomplete registry that answers does so at once
        proceed.set()
        assert [future.result(60) for future in (first, *others)] == ["square"] * 4
    assert not early


def test_discovery_imports_a_failed_module_again(tmp_path, monkeypatch):
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
    """Make a distribution with one module, which is an entry point of a group."""
    distribution(folder, name, {group: {name: name}}, {name: code})


def test_plugins_are_loaded_from_entry_points(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_with_plugins", {"square": REGISTERS.format("square")})
    code = "from shapes_with_plugins import SHAPES\n" + REGISTERS.format("hexagon")
    plugin(tmp_path, "shapes_with_plugins", "hexagons", code)
    assert package.SHAPES.names() == ["hexagon", "square"]


def test_plugin_that_raises_warns_and_the_rest_works(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_and_a_fault", {"square": REGISTERS.format("square")})
    plugin(tmp_path, "shapes_and_a_fault", "pentagons", "raise RuntimeError('five is right out')")
    with pytest.warns(
        PluginWarning, match=r"plugin pentagons of the package pentagons .*RuntimeError: five is right out"
    ):
        assert package.SHAPES.names() == ["square"]


def test_plugin_with_a_missing_module_or_attribute_warns(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_and_a_slip", {"square": REGISTERS.format("square")})
    distribution(tmp_path, "slip", {"shapes_and_a_slip": {"one": "shapes_and_a_slip.absent", "two": "math:absent"}})
    with pytest.warns(PluginWarning) as issued:
        assert package.SHAPES.names() == ["square"]
    texts = sorted(str(warning.message) for warning in issued)
    for text, value, error in zip(
        texts, ("math:absent", "shapes_and_a_slip.absent"), ("AttributeError", "ModuleNotFoundError"), strict=True
    ):
        assert f"plugin {value} of the package slip" in text
        assert error in text


def test_plugin_that_registers_nothing_warns_once(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_and_nothing", {"square": REGISTERS.format("square")})
    plugin(tmp_path, "shapes_and_nothing", "idle_shapes", "import math")
    message = "plugin idle_shapes of the package idle_shapes registers nothing.*group shapes_and_nothing"
    with pytest.warns(PluginWarning, match=message):
        assert package.SHAPES.names() == ["square"]
    again = Registry("shape", plugins="shapes_and_nothing")  # the second registry repeats no warning
    assert again.names() == []


def test_plugin_that_was_imported_before_does_not_warn(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = package_of(tmp_path, "shapes_known_before", {"square": REGISTERS.format("square")})
    code = "from shapes_known_before import SHAPES\n" + REGISTERS.format("hexagon")
    plugin(tmp_path, "shapes_known_before", "early_hexagons", code)
    importlib.import_module("early_hexagons")
    assert package.SHAPES.names() == ["hexagon", "square"]


@pytest.mark.parametrize("by", ["orcu", "another plugin", "itself"])
def test_plugin_with_a_duplicate_name_warns_and_keeps_the_first_definition(by, tmp_path, monkeypatch):
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
    message = rf"InputError: .*shape '{taken}', registered by {holder} and by {taker}"
    with pytest.warns(PluginWarning, match=message):
        assert taken in package.SHAPES.names()
    assert package.SHAPES.create(taken) == taken
    assert package.SHAPES.create("square") == "square"


def test_register_duplicate_name_raises_unless_it_is_the_same_definition(shapes):
    with pytest.raises(InputError, match="shape 'circle', registered by"):
        shapes.register("circle")(lambda: None)

    def cell(sides):
        def triangle():
            return sides

        return shapes.register("triangle")(triangle)

    cell(3)
    cell(4)  # a notebook cell that is run again after an edit
    assert shapes.create("triangle") == 4


def test_create_works_inside_a_module_that_is_being_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    looks_up = REGISTERS.format("square") + "assert SHAPES.create('square') == 'square'\n"
    package = package_of(tmp_path, "shapes_that_ask", {"square": looks_up, "triangle": REGISTERS.format("triangle")})
    assert package.SHAPES.names() == ["square", "triangle"]


def test_create_accepts_options_of_the_base_class(shapes):
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
    with pytest.raises(InputError, match="shape 'star' .*'edge'"):
        shapes.create("star")


def test_discovery_does_not_import_modules_with_an_underscore(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    modules = {"square": REGISTERS.format("square"), "_schemas": "raise RuntimeError('imported')"}
    assert package_of(tmp_path, "shapes_with_private_module", modules).SHAPES.names() == ["square"]


@pytest.mark.parametrize(("end", "reason"), [("sys.exit(3)", "SystemExit: 3"), ("raise OSError('no GPU')", "OSError")])
def test_plugin_that_ends_or_raises_is_skipped_and_fails_only_by_name(end, reason, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"shapes_beside_{reason[:3].lower()}"
    package = package_of(tmp_path, name, {"square": REGISTERS.format("square")})
    code = f"import sys\nfrom {name} import SHAPES\n{end}\n"
    plugin(tmp_path, name, f"{name}_plugin", code)
    with pytest.warns(PluginWarning, match=rf"the plugin {name}_plugin .* cannot be loaded \({reason}"):
        assert package.SHAPES.names() == ["square"]
    assert package.SHAPES.create("square") == "square"
    with pytest.raises(InputError, match=rf"shape '{name}_plugin': the plugin .*{reason}"):
        package.SHAPES.get(f"{name}_plugin")
