"""Run the examples of README and docs as tests; see tests/docs_examples.py."""

from importlib.util import find_spec

import docs_examples
import pytest
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import SkipParser

# Adapters to packages that are not in the extra dev, because they hold other packages back.
ADAPTERS = {"inspect": "inspect_ai", "deepeval": "deepeval"}
collect_ignore = [
    f"src/orcu/integrations/{name}.py" for name, package in ADAPTERS.items() if find_spec(package) is None
]


@pytest.fixture
def page_folder(request, monkeypatch, tmp_path_factory):
    """Run the examples of a page in a folder of the page, not in the work tree."""
    page = request.node.path.relative_to(docs_examples.ROOT)
    folder = tmp_path_factory.getbasetemp() / "docs" / "_".join(page.with_suffix("").parts)
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("ORCU_DATA", str(folder / "data"))
    monkeypatch.chdir(folder)


pytest_collect_file = Sybil(
    parsers=[docs_examples.parse_examples, SkipParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/guides/*.md"],
    fixtures=["page_folder"],
).pytest()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Give the slow examples of pages the marker of the slow documentation tests."""
    for item in items:
        if isinstance(item, SybilItem) and item.example.region.lexemes.get("slow"):
            item.add_marker(pytest.mark.docs)
