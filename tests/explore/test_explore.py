"""The explorer without a browser: one file, nothing from outside, and what the command refuses."""

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
    """``orcu explore ARGUMENTS`` in this process, with a browser that only notes the address."""
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
    found = re.search(r'<script type="application/json" id="start">(.*?)</script>', text)
    return json.loads(found[1])


def test_the_page_is_one_file_that_loads_nothing():
    text = explore.page()
    assert len(text.encode()) < 200_000
    written = re.sub(r"(?m)//( |$).*|'sha256-[^']*'", "", text)  # a digest may hold two strokes by chance
    assert "//" not in written, "an address, or a comment after code"
    assert re.findall(r"(?i)<(?:link|img|iframe|object|embed|source)\b[^>]*>", text) == [
        '<link rel="icon" href="data:,">'
    ]
    assert not re.search(r"(?i)\ssrc=|@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|import\(", text)
    assert not re.search(r"\son\w+=|\sstyle=|\beval\(|innerHTML", text)


def test_the_policy_lets_only_these_scripts_run():
    text = explore.page()
    policy = html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)[1])
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert parts["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(scripts) == len(explore.SCRIPTS) == 10


def test_the_label_is_the_middle_class_by_default():
    for classes, middle in ((2, 0), (3, 1), (5, 2), (12, 5)):
        assert start_of(explore.page(classes=classes))["label"] == middle


def test_what_cannot_be_written_is_told(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("orcu.explore.atomic_write", refused)
    with pytest.raises(InputError, match=r"page\.html: cannot be written \(Permission denied\)"):
        explore.write(tmp_path / "page.html")


def test_the_same_options_give_the_same_bytes():
    assert explore.page(scale=0.5) == explore.page(scale=0.5)


def test_what_the_page_offers_is_what_the_library_has():
    assert set(explore.DISTANCES) <= set(distances.names())
    assert set(explore.REGULARIZERS) - {"none"} <= set(REGULARIZERS.names())
    text = explore.page()
    assert re.findall(r'name="distance" value="(\w+)"', text) == list(explore.DISTANCES)
    assert re.findall(r'name="regularizer" value="(\w+)"', text) == list(explore.REGULARIZERS)


def test_every_control_has_a_label():
    text = explore.page()
    for name in re.findall(r'<input type="range" id="(\w+)"', text):
        assert f'<label for="{name}"' in text or f'<label class="row" for="{name}"' in text
    for name in re.findall(r'<(?:select|textarea|input type="file")[^>]* id="([\w-]+)"', text):
        assert f'for="{name}"' in text
    ids = re.findall(r'\sid="([\w-]+)"', re.sub(r"(?s)<script>.*?</script>", "", text))
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, r"classes: expected 2..12, got 1\."),
        ({"classes": 13}, r"classes: expected 2..12, got 13\."),
        ({"label": 5}, r"label: expected 0..4 for 5 classes, got 5\."),
        ({"label": -1}, r"label: expected 0..4 for 5 classes, got -1\."),
        ({"scale": 0.0}, r"scale: expected a number between 0.05 and 50, got 0\."),
        ({"scale": float("nan")}, r"scale: expected .*, got nan\."),
        ({"scale": float("inf")}, r"scale: expected .*, got inf\."),
        ({"distance": "sqared"}, "Did you mean 'squared'"),
        ({"distance": "</script><script>alert(1)</script>"}, "unknown distance"),
        ({"regularizer": "mdca"}, "unknown regularizer 'mdca'"),
        ({"tab": "judg"}, "unknown tab 'judg'.*Did you mean 'judge'"),
        ({"logits": [0.0, 1.0]}, r"logits: expected 5 numbers, one per class, got 2\."),
        ({"logits": [0, 0, 0, 0, float("nan")]}, r"logits: .*, got nan for class 4\."),
        ({"logits": [0, 0, 1e9, 0, 0]}, r"logits: .*, got 1e\+09 for class 2\."),
    ],
)
def test_what_the_page_cannot_show_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        explore.page(**options)


def test_a_refused_option_leaves_no_file(tmp_path):
    with pytest.raises(InputError):
        explore.write(tmp_path / "page.html", label=9)
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_opens_and_prints_the_path(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command()
    assert (code, out, err) == (0, "orcu-explore.html\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["orcu-explore.html"]
    assert (tmp_path / "orcu-explore.html").read_text("utf-8") == explore.page()
    assert command.opened == [(tmp_path / "orcu-explore.html").as_uri()]


def test_the_command_starts_the_page_as_asked(command, tmp_path):
    target = tmp_path / "my page.html"
    code, out, _ = command(
        "-o",
        target,
        "--no-open",
        "--classes",
        3,
        "--label",
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
        "judge",
    )
    assert code == 0
    assert out.replace("\n", "") == str(target)
    assert start_of(target.read_text("utf-8")) == {
        "classes": 3,
        "label": 0,
        "scale": 0.5,
        "distance": "huber",
        "regularizer": "hinge",
        "logits": [-1.0, 2.5, 3.0],
        "tab": "judge",
    }
    assert command.opened == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", 9], "label: expected 0..4 for 5 classes, got 9."),
        (["--classes", 99], "classes: expected 2..12, got 99."),
        (["--scale", 0], "scale: expected a number between 0.05 and 50, got 0."),
        (["--logits", "1,two,3,4,5"], "logits: expected numbers with commas between them"),
        (["--logits", "1,2"], "logits: expected 5 numbers, one per class, got 2."),
        (["--distance", "<b>"], "unknown distance '<b>'."),
        (["--tab", "report"], "unknown tab 'report'."),
        (["--regularizer", "mbls"], "unknown regularizer 'mbls'."),
        (["-o", "no/such/folder/page.html"], "--output: there is no folder"),
        (["-o", "."], "--output: . is a folder"),
        (["-o", "x.txt"], "--output: expected a file that ends in .html, got 'x.txt'."),
    ],
)
def test_the_command_refuses_in_one_line(command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert command.opened == []


def test_without_a_browser_the_command_says_so(command, tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    code, _, err = command("-o", tmp_path / "page.html")
    assert code == 0
    assert "open the file yourself" in err
