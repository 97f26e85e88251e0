"""The explorer without a browser: a self-contained file, and the checks of the command."""

import base64
import hashlib
import html
import json
import re
import sys
import webbrowser

import pytest

from orcu import cli, explore
from orcu.errors import InputError
from orcu.kernels.soft_targets import distances
from orcu.losses.base import REGULARIZERS


@pytest.fixture
def command(monkeypatch, capsys):
    """``orcu explore ARGUMENTS`` in this process, with a browser that only records the address."""
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["orcu", "explore", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code, out, err

    run.opened = opened
    return run


def start_of(text):
    return json.loads(re.search(r'<script type="application/json" id="start">(.*?)</script>', text)[1])


def test_page_is_one_file_without_external_resources():
    text = explore.page()
    assert len(text.encode()) < 200_000
    code = re.sub(r"(?m)//( |$).*|'sha256-[^']*'", "", text)  # a digest may contain two slashes
    assert "//" not in code, "an address, or a comment after code"
    assert re.findall(r"(?i)<(?:link|img|iframe|object|embed|source)\b[^>]*>", text) == [
        '<link rel="icon" href="data:,">'
    ]
    assert not re.search(r"(?i)\ssrc=|@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|import\(", text)
    assert not re.search(r"\son\w+=|\sstyle=|\beval\(|innerHTML", text)


def test_page_content_security_policy_allows_only_its_scripts():
    text = explore.page()
    policy = html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)[1])
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert parts["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(scripts) == len(explore.SCRIPTS) == 10


def test_page_default_true_class_is_the_middle_class():
    for num_classes, middle in ((2, 0), (3, 1), (5, 2), (12, 5)):
        assert start_of(explore.page(num_classes=num_classes))["true_class"] == middle


def test_write_failure_raises_and_names_the_file(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("orcu.explore.atomic_write", fail)
    with pytest.raises(InputError, match=r"page\.html: .*Permission denied"):
        explore.write(tmp_path / "page.html")


def test_page_same_options_give_the_same_bytes():
    assert explore.page(scale=0.5) == explore.page(scale=0.5)


def test_page_choices_are_registered_in_the_library():
    assert set(explore.DISTANCES) <= set(distances.names())
    assert set(explore.REGULARIZERS) - {"none"} <= set(REGULARIZERS.names())
    text = explore.page()
    assert re.findall(r'name="distance" value="(\w+)"', text) == list(explore.DISTANCES)
    assert re.findall(r'name="regularizer" value="(\w+)"', text) == list(explore.REGULARIZERS)


def test_page_every_control_has_a_label():
    text = explore.page()
    for name in re.findall(r'<input type="range" id="([\w-]+)"', text):
        assert f'<label for="{name}"' in text or f'<label class="row" for="{name}"' in text
    for name in re.findall(r'<(?:select|textarea|input type="file")[^>]* id="([\w-]+)"', text):
        assert f'for="{name}"' in text
    ids = re.findall(r'\sid="([\w-]+)"', re.sub(r"(?s)<script>.*?</script>", "", text))
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_classes": 1}, r"^num_classes: .*2\.\.12, got 1\."),
        ({"num_classes": 13}, r"^num_classes: .*2\.\.12, got 13\."),
        ({"true_class": 5}, r"^true_class: .*0\.\.4 .*got 5\."),
        ({"true_class": -1}, r"^true_class: .*0\.\.4 .*got -1\."),
        ({"scale": 0.0}, r"^scale: .*0\.05 and 50, got 0\."),
        ({"scale": float("nan")}, r"^scale: .*, got nan\."),
        ({"scale": float("inf")}, r"^scale: .*, got inf\."),
        ({"distance": "sqared"}, "distance 'sqared'.*'squared'"),
        ({"distance": "</script><script>alert(1)</script>"}, "distance"),
        ({"regularizer": "mdca"}, "regularizer 'mdca'"),
        ({"tab": "evaluat"}, "tab 'evaluat'.*'evaluate'"),
        ({"logits": [0.0, 1.0]}, r"^logits: .*5 .*got 2\."),
        ({"logits": [0, 0, 0, 0, float("nan")]}, r"^logits: .*, got nan for class 4\."),
        ({"logits": [0, 0, 1e9, 0, 0]}, r"^logits: .*, got 1e\+09 for class 2\."),
    ],
)
def test_page_invalid_option_raises_and_names_it(options, message):
    with pytest.raises(InputError, match=message):
        explore.page(**options)


def test_write_invalid_option_creates_no_file(tmp_path):
    with pytest.raises(InputError):
        explore.write(tmp_path / "page.html", true_class=9)
    assert list(tmp_path.iterdir()) == []


def test_command_writes_opens_and_prints_the_path(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command()
    assert (code, out, err) == (0, "orcu-explore.html\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["orcu-explore.html"]
    assert (tmp_path / "orcu-explore.html").read_text("utf-8") == explore.page()
    assert command.opened == [(tmp_path / "orcu-explore.html").as_uri()]


def test_command_options_set_the_initial_state(command, tmp_path):
    target = tmp_path / "my page.html"
    code, out, _ = command(
        "-o",
        target,
        "--no-open",
        "--num-classes",
        3,
        "--true-class",
        0,
        "--scale",
        0.5,
        "--distance",
        "huber",
        "--regularizer",
        "hinge",
        "--logits",
        "-1, 2.5 3",
        "--tab",
        "evaluate",
    )
    assert code == 0
    assert out.replace("\n", "") == str(target)
    assert start_of(target.read_text("utf-8")) == {
        "num_classes": 3,
        "true_class": 0,
        "scale": 0.5,
        "distance": "huber",
        "regularizer": "hinge",
        "logits": [-1.0, 2.5, 3.0],
        "tab": "evaluate",
    }
    assert command.opened == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--true-class", 9], "true_class:"),
        (["--num-classes", 99], "num_classes:"),
        (["--scale", 0], "scale:"),
        (["--logits", "1,two,3,4,5"], "--logits:"),
        (["--logits", "1,2"], "logits:"),
        (["--distance", "<b>"], "'<b>'"),
        (["--tab", "report"], "'report'"),
        (["--regularizer", "mbls"], "'mbls'"),
        (["-o", "no/such/folder/page.html"], "no/such/folder"),
        (["-o", "."], "folder"),
        (["-o", "x.txt"], "'x.txt'"),
    ],
)
def test_command_invalid_option_is_a_usage_error(command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*arguments)
    assert code == 2
    assert out == ""
    assert "Usage: orcu explore" in err
    assert message in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []
    assert command.opened == []


def test_command_without_a_browser_prints_a_hint(command, tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    code, _, err = command("-o", tmp_path / "page.html")
    assert code == 0
    assert "browser" in err
