import subprocess
import sys

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


def test_threads_wait_for_discovery():
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from orcu import losses\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    made = pool.map(lambda _: losses.create('cdw_ce', num_classes=5), range(4))\n"
        "    print([loss.alpha for loss in made])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[5.0, 5.0, 5.0, 5.0]", result.stderr


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
    package = tmp_path / "shapes_that_ask"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from orcu.registry import Registry\nSHAPES = Registry('shape', package=__name__)\n"
    )
    (package / "square.py").write_text(
        "from shapes_that_ask import SHAPES\n@SHAPES.register('square')\ndef square():\n    return 4\n"
        "SIDES = SHAPES.create('square')\n"
    )
    (package / "triangle.py").write_text(
        "from shapes_that_ask import SHAPES\n@SHAPES.register('triangle')\ndef triangle():\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import shapes_that_ask

    assert shapes_that_ask.SHAPES.names() == ["square", "triangle"]
