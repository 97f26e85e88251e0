import pytest

from orcu import data


@pytest.fixture(scope="session")
def lev(tmp_path_factory):
    """LEV, prepared: a thousand rows, five classes."""
    return data.prepare("lev", out=tmp_path_factory.mktemp("lev") / "lev")[0]
