"""Run the Python snippets of README and docs as tests."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md"],
).pytest()
