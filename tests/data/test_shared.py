"""Data of a training: unchanged files are checked and decoded once."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from orcu.data import shared
from orcu.data.store import MANIFEST, SHARED, store_folder
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


def count_decoded_images(monkeypatch):
    opened = []
    real = Image.open
    monkeypatch.setattr(
        Image, "open", lambda file, *args, **options: opened.append(file) or real(file, *args, **options)
    )
    return opened


def count_prepare_calls(monkeypatch):
    calls = []
    real = shared.prepare
    monkeypatch.setattr(shared, "prepare", lambda *a, **k: (calls.append(a), real(*a, **k))[1])
    return calls


def test_prepare_user_data_unchanged_files_are_not_read_again(images, tmp_path, monkeypatch):
    calls = count_prepare_calls(monkeypatch)
    first, report = shared.prepare_user_data("folder", images, tmp_path / "a", options=OPTIONS)
    first.decode(8)
    second, again = shared.prepare_user_data("folder", images, tmp_path / "b", options=OPTIONS)
    assert len(calls) == 1
    assert again == report
    assert again.lines() == report.lines()
    assert second.manifest.digest == first.manifest.digest
    assert second.folder == tmp_path / "b"
    assert (second.folder / MANIFEST).exists()
    assert (second.cache(8).images == first.cache(8).images).all()
    assert not list((tmp_path / "b").glob("cache_*"))
    assert second.split("five_folds", 0)["test"].tolist() == first.split("five_folds", 0)["test"].tolist()
    shutil.rmtree(store_folder())  # shared files are only a cache
    third, _ = shared.prepare_user_data("folder", images, tmp_path / "c", options=OPTIONS)
    third.decode(8)
    assert len(calls) == 2


def test_prepare_user_data_with_size_decodes_each_image_once(images, tmp_path, monkeypatch):
    (images / "low" / "bad.png").write_text("not an image")
    opened = count_decoded_images(monkeypatch)
    options = {"options": OPTIONS, "skip_bad": True, "size": 8}
    prepared, report = shared.prepare_user_data("folder", images, tmp_path / "a", **options)
    prepared.decode(8)
    assert len(report.bad_images) == 1
    assert len(opened) == 25
    pixels = np.array(prepared.cache(8).images)
    prepared.cache(8).verify()
    shutil.rmtree(prepared.derived)
    again, _ = shared.prepare_user_data("folder", images, tmp_path / "b", **options)
    again.decode(8)
    assert len(opened) == 25 + 24  # the scan is reused, the images are decoded again
    assert (again.cache(8).images == pixels).all()
    assert not list((store_folder() / SHARED).glob(".decoding_*"))


def test_prepare_user_data_reads_changed_files_and_other_options(images, tmp_path, monkeypatch):
    calls = count_prepare_calls(monkeypatch)
    first, _ = shared.prepare_user_data("folder", images, tmp_path / "a", options=OPTIONS)
    shared.prepare_user_data("folder", images, tmp_path / "b", options={"classes": "high,low"})
    os.utime(images / "low" / "0.png", ns=(1, 1))
    same, _ = shared.prepare_user_data("folder", images, tmp_path / "c", options=OPTIONS)
    assert same.derived == first.derived  # the content is the same
    (images / "low" / "0.png").write_bytes((images / "low" / "2.png").read_bytes())
    other, report = shared.prepare_user_data("folder", images, tmp_path / "d", options=OPTIONS)
    assert other.derived != first.derived
    assert report.duplicates == 1
    assert len(calls) == 4


def test_prepare_user_data_follows_links(images, tmp_path, monkeypatch):
    calls = count_prepare_calls(monkeypatch)
    (tmp_path / "linked").mkdir()
    for grade in ("low", "high"):
        (tmp_path / "linked" / grade).symlink_to(images / grade)
    shared.prepare_user_data("folder", tmp_path / "linked", tmp_path / "a", options=OPTIONS)
    (images / "low" / "0.png").rename(images / "high" / "0.png")  # another label
    other, _ = shared.prepare_user_data("folder", tmp_path / "linked", tmp_path / "b", options=OPTIONS)
    assert len(calls) == 2
    assert other.manifest.counts() == [11, 13]


def test_prepare_user_data_repeats_damaged_scans_and_errors(images, tmp_path, monkeypatch):
    calls = count_prepare_calls(monkeypatch)
    shared.prepare_user_data("folder", images, tmp_path / "a", options=OPTIONS)
    (scan,) = (store_folder() / SHARED / "scans").iterdir()
    (scan / MANIFEST).write_bytes(b"half")
    shared.prepare_user_data("folder", images, tmp_path / "b", options=OPTIONS)
    assert len(calls) == 2
    (images / "low" / "bad.png").write_text("not an image")
    for _ in range(2):
        with pytest.raises(InputError, match="bad.png"):
            shared.prepare_user_data("folder", images, tmp_path / "c", options=OPTIONS)
    _, report = shared.prepare_user_data("folder", images, tmp_path / "d", options=OPTIONS, skip_bad=True)
    assert len(report.bad_images) == 1
