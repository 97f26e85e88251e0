import pytest

from orcu import data


@pytest.fixture(scope="session")
def lev(tmp_path_factory):
    """The prepared data set LEV: 1,000 rows, five classes."""
    return data.prepare("lev", output=tmp_path_factory.mktemp("lev") / "lev")[0]


@pytest.fixture(autouse=True)
def checkpoint_every_epoch(monkeypatch):
    """Write a checkpoint after every epoch, although epochs take milliseconds here."""
    monkeypatch.setattr("orcu.training.loop.CHECKPOINT_SECONDS", 0.0)
