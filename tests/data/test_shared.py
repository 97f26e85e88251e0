"""One's own data: scanned once, decoded once, whatever is trained on them."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from orcu.data import shared
from orcu.data.store import MANIFEST, store_folder
from orcu.errors import InputError

OPTIONS = {"classes": "low,high"}


@pytest.fixture
def images(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "store"))
    rng = np.random.default_rng(0)
    for number in range(24):
        folder = tmp_path / "scans" / ("low", "high")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, size=(12, 12, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return tmp_path / "scans"


def counted(monkeypatch):
    calls = []
    real = shared.prepare
    monkeypatch.setattr(shared, "prepare", lambda *a, **k: (calls.append(a), real(*a, **k))[1])
    return calls


def test_untouched_files_are_scanned_and_decoded_once(images, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    first, findings = shared.prepare_own("folder", images, tmp_path / "a", options=OPTIONS)
    first.decode(8)
    second, again = shared.prepare_own("folder", images, tmp_path / "b", options=OPTIONS)
    assert len(calls) == 1
    assert again == findings
    assert again.lines() == findings.lines()
    assert second.manifest.digest == first.manifest.digest
    assert second.folder == tmp_path / "b"
    assert (second.folder / MANIFEST).exists()
    assert (second.cache(8).images == first.cache(8).images).all()
    assert not list((tmp_path / "b").glob("cache_*"))
    assert second.split("five_folds", 0)["test"].tolist() == first.split("five_folds", 0)["test"].tolist()
    shutil.rmtree(store_folder())  # what is shared can be made again
    third, _ = shared.prepare_own("folder", images, tmp_path / "c", options=OPTIONS)
    third.decode(8)
    assert len(calls) == 2


def test_another_file_another_time_and_other_options_are_looked_at(images, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    first, _ = shared.prepare_own("folder", images, tmp_path / "a", options=OPTIONS)
    shared.prepare_own("folder", images, tmp_path / "b", options={"classes": "high,low"})
    os.utime(images / "low" / "0.png", ns=(1, 1))
    same, _ = shared.prepare_own("folder", images, tmp_path / "c", options=OPTIONS)
    assert same.derived == first.derived  # by content it is the same
    (images / "low" / "0.png").write_bytes((images / "low" / "2.png").read_bytes())
    other, findings = shared.prepare_own("folder", images, tmp_path / "d", options=OPTIONS)
    assert other.derived != first.derived
    assert findings.doubles == 1
    assert len(calls) == 4


def test_files_behind_a_link_are_looked_at(images, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    (tmp_path / "linked").mkdir()
    for grade in ("low", "high"):
        (tmp_path / "linked" / grade).symlink_to(images / grade)
    shared.prepare_own("folder", tmp_path / "linked", tmp_path / "a", options=OPTIONS)
    (images / "low" / "0.png").rename(images / "high" / "0.png")  # another label
    other, _ = shared.prepare_own("folder", tmp_path / "linked", tmp_path / "b", options=OPTIONS)
    assert len(calls) == 2
    assert other.manifest.counts() == [11, 13]


def test_a_scan_that_is_not_whole_is_made_again_and_mistakes_are_told_anew(images, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    shared.prepare_own("folder", images, tmp_path / "a", options=OPTIONS)
    (scan,) = (store_folder() / shared.SHARED / "scans").iterdir()
    (scan / MANIFEST).write_bytes(b"half")
    shared.prepare_own("folder", images, tmp_path / "b", options=OPTIONS)
    assert len(calls) == 2
    (images / "low" / "bad.png").write_text("no image")
    for _ in range(2):
        with pytest.raises(InputError, match="bad.png"):
            shared.prepare_own("folder", images, tmp_path / "c", options=OPTIONS)
    _, findings = shared.prepare_own("folder", images, tmp_path / "d", options=OPTIONS, skip_bad=True)
    assert len(findings.bad) == 1
