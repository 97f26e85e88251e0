import pytest

SPEC = """
name = "small"
losses = ["ce", { label = "ours", name = "orcu", scale = 3.0 }]
calibrators = ["none", "temperature"]
columns = ["accuracy", "sce", "unimodality"]

[[data]]
set = "lev"
folds = [0, 1]
hidden = [16]
recipe = { epochs = 2 }
"""


@pytest.fixture
def spec_file(tmp_path, monkeypatch):
    """A spec of four quick runs, with data and results in a folder of their own."""
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.toml"
    path.write_text(SPEC)
    return path
