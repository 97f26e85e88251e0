import pytest

from orcu import data


@pytest.fixture(scope="session")
def lev(tmp_path_factory):
    """LEV, prepared: a thousand rows, five classes."""
    return data.prepare("lev", out=tmp_path_factory.mktemp("lev") / "lev")[0]


@pytest.fixture(autouse=True)
def every_epoch_is_saved(monkeypatch):
    """Epochs take milliseconds here; resuming is tested all the same."""
    monkeypatch.setattr("orcu.training.loop.SAVE_EVERY", 0.0)
