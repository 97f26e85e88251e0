"""Losses of a user's Python file."""

import json

import pytest
import torch
from torch import nn

from orcu import bench, losses
from orcu.bench.jobs import jobs
from orcu.bench.spec import load_spec
from orcu.errors import InputError, UnknownNameError

SOURCE = """
import torch
from torch import nn

from orcu.losses import OrdinalLoss


class Plain(nn.Module):
    def __init__(self, gamma=1.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, y):
        return self.gamma * nn.functional.cross_entropy(logits, y)


class Counted(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes

    def forward(self, logits, y):
        return logits.new_tensor(float(self.num_classes)) + 0 * logits.sum()


class Ours(OrdinalLoss):
    def __init__(self, num_classes, *, strength=1.0, **common):
        super().__init__(num_classes, **common)
        self.strength = strength

    def per_sample(self, logits, y):
        return self.strength * nn.functional.cross_entropy(logits, y, reduction="none")


class Rows(nn.Module):
    def forward(self, logits, y):
        return nn.functional.cross_entropy(logits, y, reduction="none")


class Broken(nn.Module):
    def forward(self, logits, y):
        return logits @ y


class Infinite(nn.Module):
    def forward(self, logits, y):
        return logits.sum() / 0.0


class NotALoss:
    pass
"""


@pytest.fixture
def loss_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_loss.py"
    path.write_text(SOURCE)
    return path


def test_create_takes_modules_and_ordinal_losses_of_a_file(loss_file):
    logits, y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, 0, 1])
    expected = nn.functional.cross_entropy(logits, y)
    assert torch.allclose(losses.create("my_loss.py:Plain", num_classes=4)(logits, y), expected)
    doubled = losses.create({"name": "my_loss.py:Plain", "gamma": 2.0}, num_classes=4)
    assert torch.allclose(doubled(logits, y), 2 * expected)
    assert losses.create("my_loss.py:Counted", num_classes=4)(logits, y).item() == 4
    ours = losses.create({"name": "my_loss.py:Ours", "strength": 3.0}, num_classes=4, reduction="sum")
    assert torch.allclose(ours(logits, y), 18 * expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert doubled(logits.bfloat16(), y).dtype is torch.float32
    with pytest.raises(InputError, match=r"^y: "):  # the input checks of every loss
        doubled(logits, y + 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.py:Plain", r"^loss: absent\.py: file not found"),
        ("my_loss.py:Plane", "class of my_loss.py 'Plane'. Did you mean 'Plain'"),
        ("my_loss.py:NotALoss", "NotALoss of my_loss.py is not a loss; derive"),
        ("syntax.py:Plain", r"^loss: syntax\.py: line 2: SyntaxError"),
        ("raises.py:Plain", r"^loss: raises\.py: line 3: ZeroDivisionError"),
    ],
)
def test_create_from_a_bad_file_raises_a_clear_error(name, message, loss_file):
    loss_file.with_name("syntax.py").write_text("\nclass Plain(:\n")
    loss_file.with_name("raises.py").write_text("\n\n1 / 0\n")
    with pytest.raises(InputError, match=message):
        losses.create(name, num_classes=4)


def test_create_from_a_file_refuses_unknown_options_and_weights(loss_file):
    with pytest.raises(UnknownNameError, match="option of loss 'Plain' 'gama'. Did you mean 'gamma'"):
        losses.create({"name": "my_loss.py:Plain", "gama": 1.0}, num_classes=4)
    with pytest.raises(InputError, match="Plain takes no sample weights"):
        losses.create("my_loss.py:Plain", num_classes=4)(
            torch.zeros(2, 4), torch.tensor([0, 1]), sample_weight=torch.ones(2)
        )


@pytest.fixture
def loss_spec(spec_file):
    """The small spec with the losses of a file in a subfolder."""

    def write(*entries):
        (spec_file.parent / "mine").mkdir(exist_ok=True)
        (spec_file.parent / "mine" / "my_loss.py").write_text(SOURCE)
        text = spec_file.read_text().partition("losses = ")
        rest = text[2].partition("\n")[2]
        spec_file.write_text(f"{text[0]}losses = [{', '.join(entries)}]\n{rest}")
        return spec_file

    return write


def test_spec_loads_a_file_beside_it_and_runs_it(loss_spec, tmp_path):
    path = loss_spec('"ce"', '"mine/my_loss.py:Plain"', '{ label = "x2", name = "mine/my_loss.py:Plain", gamma = 2.0 }')
    spec = load_spec(path)
    assert spec.row_names == ["ce", "Plain", "x2"]
    assert load_spec(spec).losses == spec.losses  # a loaded spec is complete
    summary = bench.run(path, results=tmp_path / "results", jobs=1)
    assert summary.outcomes == {"done": 6}
    records = {
        (r["loss"], r["fold"]): r["accuracy"] for r in bench.status(path, results=tmp_path / "results").records()
    }
    assert records["Plain", 0] == records["ce", 0]
    (written,) = {
        path.parent.name
        for path in (tmp_path / "results").glob("runs/*/result.json")
        if json.loads(path.read_text())["job"]["loss"] == "ce" and json.loads(path.read_text())["job"]["fold"] == 0
    }
    assert (tmp_path / "results" / "runs" / written / "test.parquet").exists()
    assert "nn.functional" not in bench.report(path, results=tmp_path / "results").read_text()


def test_run_id_depends_on_the_text_of_the_file_not_on_its_place(loss_spec, tmp_path):
    path = loss_spec('"mine/my_loss.py:Plain"')

    def ids(spec):
        return [job.id("rows") for job in jobs(load_spec(spec))]

    first = ids(path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "renamed.py").write_text(SOURCE)
    moved = tmp_path / "elsewhere" / "spec.toml"
    moved.write_text(path.read_text().replace("mine/my_loss.py", "renamed.py"))
    assert ids(moved) == first
    (tmp_path / "mine" / "my_loss.py").write_text(SOURCE + "\n# changed\n")
    assert set(ids(path)).isdisjoint(first)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('"mine/absent.py:Plain"', r"^losses: .*absent\.py: file not found; a path is relative to the spec"),
        ('"mine/my_loss.py:Rows"', r"Rows must return a scalar, the mean over the batch; got shape \(4,\)"),
        ('"mine/my_loss.py:Broken"', r"^losses: my_loss\.py:Broken: RuntimeError"),
        ('"mine/my_loss.py:Infinite"', r"^losses: my_loss\.py:Infinite: .*not finite"),
        ('{ cv = 2, losses = ["mine/my_loss.py:Ours"] }', "an ensemble takes registered losses only"),
        ('"mine/my_loss.py:Plain", "mine/my_loss.py:Plain"', "duplicate 'Plain'; give it another label"),
    ],
)
def test_plan_refuses_a_bad_loss_of_a_file(entry, message, loss_spec, tmp_path):
    with pytest.raises(InputError, match=message):
        bench.plan(loss_spec(entry), results=tmp_path)


def test_edited_file_replaces_the_losses_that_it_registers(loss_file):
    source = SOURCE + (
        "\nfrom orcu.losses.base import LossCard, register_loss\n"
        "register_loss(LossCard('of_a_file', 't', 'nominal', 'p', 'f'))(Ours)\n"
    )
    try:
        for text in (source, source + "# edited\n"):
            assert losses.create({"name": "my_loss.py:Ours", "source": text}, num_classes=3).num_classes == 3
    finally:
        losses.base.LOSSES._components.pop("of_a_file", None)
