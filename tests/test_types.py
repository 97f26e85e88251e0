"""The types of the installed wheel, as mypy and pyright see them in a user's project."""

import json
import re
import sys
from pathlib import Path

import pytest
from wheels import build, installed, run

import orcu

# What a user writes; every type that is named here is checked.
SCRIPT = """\
from pathlib import Path
from typing import assert_type

import torch
from torch import Tensor

import orcu
from orcu import ORCULoss, OrdinalBoosting, OrdinalClassifier, Predictions, Tally
from orcu import calibrators, data, evaluate, losses, metrics
from orcu.calibrators import Calibrator
from orcu.data import Card, Dataset, PreparedData
from orcu.losses import OrdinalLoss
from orcu.registry import Registry
from orcu.testing import check_loss, loss_checks

loss = ORCULoss(num_classes=5, scale=3.0)
assert_type(loss, ORCULoss)
assert_type(ORCULoss(5, reduction="sum", weight=[1.0] * 5, ignore_index=None), ORCULoss)
assert_type(loss(torch.zeros(2, 5), torch.tensor([0, 1])), Tensor)
assert_type(losses.create("orcu", num_classes=5), OrdinalLoss)
assert_type(losses.create("ce", num_classes=5)(torch.zeros(2, 5), torch.tensor([0, 1])), Tensor)
assert_type(losses.names(), list[str])
assert_type(losses.regularizers, Registry[type[OrdinalLoss]])
assert_type(metrics.sce([[0.5, 0.5]], [0]), float)
assert_type(evaluate(probs=[[0.5, 0.5]], y=[0]), orcu.Evaluation)
assert_type(evaluate(probs=[[0.5, 0.5]], y=[0])["sce"].value, float)
assert_type(evaluate(probs=[[0.5, 0.5]], y=[0]).to_markdown(), str)
assert_type(OrdinalClassifier(loss="orcu").fit([[0.0], [1.0]], [0, 1]), OrdinalClassifier)
assert_type(OrdinalBoosting().fit([[0.0], [1.0]], [0, 1]), OrdinalBoosting)
assert_type(Tally(3).merge(Tally(3)).compute(), dict[str, float])
assert_type(Predictions(probs=[[0.5, 0.5]]).classes, tuple[str, ...])
assert_type(calibrators.create("gap"), Calibrator)
assert_type(calibrators.TemperatureScaling().fit([[0.0, 1.0]], [0]), calibrators.TemperatureScaling)
assert_type(calibrators.load(Path("c.json")), Calibrator)
assert_type(data.create("esl"), Dataset)
assert_type(data.card("esl"), Card)
assert_type(data.load("esl"), PreparedData)
assert_type(orcu.suggest_scale(5), orcu.ScaleSuggestion)
check_loss("orcu", num_classes=3)
print(loss_checks("orcu").keys())
"""

# Each line has one mistake, and stands for a kind of them.
WRONG = """\
import orcu
orcu.ORCULos
orcu.ORCULoss(num_clases=5)
orcu.ORCULoss(num_classes=5, reductoin="sum")
orcu.ORCULoss(num_classes=5, reduction=None)
orcu.metrics.sce()
orcu.metrics.sec
orcu.Tally("three", bin=15)
orcu.losses.create("orcu")
orcu.evaluate(probs=[[0.5, 0.5]], y=[0]).to_markdwon()
from orcu.testing import check_lose
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder of a user's, with an environment that has the wheel and torch."""
    folder = tmp_path_factory.mktemp("project")
    installed(build(tmp_path_factory.mktemp("dist")), folder, "[train]")
    return folder


def mypy(project, text):
    """The line, the severity and the text of each message."""
    (project / "script.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", project / "env" / "bin" / "python"]
    done = run(*command, "--cache-dir", project / "cache", "script.py", cwd=project, check=False)
    form = re.compile(r"^script\.py:(\d+): (\w+): (.*)$", re.MULTILINE)
    return [(int(line), severity, message) for line, severity, message in form.findall(done.stdout)]


def pyright(project, text):
    (project / "script.py").write_text(text)
    command = [Path(sys.executable).with_name("pyright"), "--pythonpath", project / "env" / "bin" / "python"]
    done = run(*command, "--outputjson", "script.py", cwd=project, check=False)
    messages = json.loads(done.stdout)["generalDiagnostics"]
    return [(one["range"]["start"]["line"] + 1, one["severity"], one["message"]) for one in messages]


CHECKERS = pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)


@pytest.mark.slow
@CHECKERS
def test_a_script_of_a_user_has_its_types(checker, project):
    messages = [one for one in checker(project, SCRIPT) if one[1] == "error"]
    assert messages == []


@pytest.mark.slow
@CHECKERS
def test_mistakes_are_reported(checker, project):
    lines = {line for line, severity, _ in checker(project, WRONG) if severity == "error"}
    assert lines == set(range(2, len(WRONG.splitlines()) + 1))


@pytest.mark.slow
@CHECKERS
def test_every_public_name_has_a_type(checker, project):
    text = "import orcu\n" + "".join(f"reveal_type(orcu.{name})\n" for name in orcu.__all__)
    revealed = {line: message for line, severity, message in checker(project, text) if severity != "error"}
    assert len(revealed) == len(orcu.__all__)
    for line, name in enumerate(orcu.__all__, 2):
        assert not re.search(r"\b(Any|Unknown)\b\W*$", revealed[line]), (name, revealed[line])
