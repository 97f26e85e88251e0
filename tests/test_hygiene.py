"""The file hygiene check of ``make check``."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import hygiene  # noqa: E402


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.txt", "no newline", "no newline"),
        ("a.txt", "space \n", "trailing space"),
        ("a.txt", "one\r\n", "carriage"),
        ("uv.lock", "\n", "lock file"),
        ("constraints.txt", "torch @ https" + "://example.org/torch.whl\n", "URL in the pins"),
        ("Makefile", "pip install --extra-" + "index-url there\n", "index option"),
        ("a.md", "https" + "://example.org/" + "simple\n", "registry address"),
        ("a.md", "see /home" + "/ada/orcu\n", "home directory"),
        ("a.bin", "x" * 1025 * 1024, "1025 KiB"),
    ],
)
def test_faults_reports_the_problem(name, content, fault):
    assert any(fault in message for message in hygiene.faults(Path(name), content.encode()))


def test_faults_of_a_clean_file_are_empty():
    assert hygiene.faults(Path("a.py"), b"x = 1\n") == []
    assert hygiene.faults(Path("constraints.txt"), b"torch==2.15.0\n") == []
