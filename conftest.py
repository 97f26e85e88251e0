"""Run the Python snippets of README and docs as tests."""

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


@pytest.fixture
def data_store(monkeypatch, tmp_path, tmp_path_factory):
    """What a snippet prepares or writes goes into folders of its own, not into the work tree."""
    monkeypatch.setenv("ORCU_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path_factory.getbasetemp())


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/guides/*.md"],
    fixtures=["data_store"],
).pytest()
