"""Preparation of data sets: reports, refusals and atomic files."""

import dataclasses
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from orcu import data
from orcu.data import cache as cache_module
from orcu.data import manifest as manifest_module
from orcu.data.cache import BLOCK, ImageCache, build_cache
from orcu.data.images import BadImageError, read_image
from orcu.data.store import PreparedData
from orcu.errors import InputError, UnknownNameError
from orcu.io.files import file_lock


def test_prepare_writes_manifest_folds_and_image_cache(class_folders, tmp_path):
    prepared, report = data.prepare("folder", class_folders, output=tmp_path / "out", size=24)
    assert report.lines()[0] == "60 rows: 0_none 20, 1_mild 20, 2_severe 20"
    again = data.load(tmp_path / "out")
    assert again.manifest.digest == prepared.manifest.digest
    split = again.split("five_folds", 2)
    assert [len(rows) for rows in split.values()] == [36, 12, 12]
    images = again.cache(24).images
    assert images.shape == (60, 3, 24, 24)
    mean, std = again.cache(24).mean_and_std(split["train"])
    assert mean == pytest.approx(images[split["train"]].mean(axis=(0, 2, 3)) / 255, abs=1e-12)
    assert std == pytest.approx(images[split["train"]].std(axis=(0, 2, 3)) / 255, abs=1e-9)
    with pytest.raises(InputError, match="Did you mean 'five_folds'"):
        again.split("five_fold", 0)
    with pytest.raises(InputError, match=r"^fold: five_folds.*0\.\.4, got 5"):
        again.split("five_folds", 5)
    with pytest.raises(InputError, match="cache_32"):
        again.cache(32)


def test_manifest_digest_does_not_depend_on_location(class_folders, tmp_path):
    first, _ = data.prepare("folder", class_folders, output=tmp_path / "first")
    shutil.copytree(class_folders, tmp_path / "elsewhere")
    moved, _ = data.prepare("folder", tmp_path / "elsewhere", output=tmp_path / "moved")
    assert first.manifest.digest == moved.manifest.digest
    (tmp_path / "elsewhere" / "0_none" / "patient00_0.png").unlink()
    smaller, _ = data.prepare("folder", tmp_path / "elsewhere", output=tmp_path / "smaller")
    assert smaller.manifest.digest != first.manifest.digest


def damage(folder):
    """A truncated image, a file that is not an image, and an empty file; returns the name of the first."""
    image = next((folder / "0_none").iterdir())
    content = image.read_bytes()
    image.write_bytes(content[: len(content) // 2])
    (folder / "1_mild" / "text.png").write_text("not an image")
    (folder / "2_severe" / "empty.jpg").touch()
    return image.name


@pytest.mark.parametrize("size", [None, 16])
def test_prepare_bad_images_are_named_or_skipped(class_folders, tmp_path, size):
    name = damage(class_folders)
    with pytest.raises(InputError, match="3 of 62 images") as error:
        data.prepare("folder", class_folders, output=tmp_path / "out", size=size)
    assert f"0_none/{name}" in str(error.value)
    assert "--skip-bad" in str(error.value)
    assert not (tmp_path / "out").exists()
    prepared, report = data.prepare("folder", class_folders, output=tmp_path / "out", skip_bad=True, size=size)
    assert len(prepared.manifest) == 59
    assert len(report.bad_images) == 3
    assert any(line.startswith("3 bad images") for line in report.lines())
    if size is not None:
        cache = build_cache(prepared.manifest, tmp_path / "from_files", size)
        assert (prepared.cache(size).images == cache.images).all()
        assert (prepared.cache(size).sums == cache.sums).all()


def test_prepare_truncated_jpeg_is_refused(tmp_path):
    (tmp_path / "images" / "0").mkdir(parents=True)
    (tmp_path / "images" / "1").mkdir()
    path = tmp_path / "images" / "0" / "a.jpg"
    rng = np.random.default_rng(0)
    for target in (path, tmp_path / "images" / "1" / "b.jpg"):
        Image.fromarray(rng.integers(256, size=(200, 200, 3), dtype=np.uint8)).save(target)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(InputError, match=r"1 of 2 images .* 0/a\.jpg"):
        data.prepare("folder", tmp_path / "images", output=tmp_path / "out")


def test_prepare_missing_files_message_has_layout_and_source(tmp_path):
    with pytest.raises(InputError, match=r"fold_0_data\.txt: .* Register on the Adience"):
        data.prepare("adience", tmp_path)
    with pytest.raises(InputError, match="^adience: .*--root"):
        data.prepare("adience")
    with pytest.raises(InputError, match=f"^{tmp_path / 'absent'}:"):
        data.prepare("adience", tmp_path / "absent")
    (tmp_path / "0").mkdir()
    with pytest.raises(InputError, match=f"^{tmp_path}: .*<class>/<image>"):
        data.prepare("folder", tmp_path, output=tmp_path / "out")
    with pytest.raises(InputError, match="^nothing: "):
        data.load("nothing")


def test_prepare_duplicate_ids_and_size_of_a_table_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("name,x,grade\na,1,0\na,2,1\n")
    with pytest.raises(InputError, match="duplicate id 'a'"):
        data.prepare("table", tmp_path, output=tmp_path / "out", options={"label": "grade", "id": "name"})
    with pytest.raises(InputError, match="^size: table"):
        data.prepare("table", tmp_path, output=tmp_path / "o2", options={"label": "grade"}, size=32)


def test_prepare_reports_duplicates_and_conflicting_labels(class_folders, tmp_path):
    first = class_folders / "0_none" / "patient00_0.png"
    shutil.copy(first, class_folders / "0_none" / "copy.png")
    shutil.copy(first, class_folders / "2_severe" / "other_label.png")
    prepared, report = data.prepare("folder", class_folders, output=tmp_path / "out")
    assert report.duplicates == 2
    assert report.conflicts == [["0_none/copy.png", "0_none/patient00_0.png", "2_severe/other_label.png"]]
    rows = [prepared.manifest.ids.index(name) for name in report.conflicts[0]]
    for fold in range(5):
        members = [set(rows) & set(part.tolist()) for part in prepared.split("five_folds", fold).values()]
        assert sorted(map(len, members)) == [0, 0, 3]


def test_prepare_with_size_decodes_each_image_once(class_folders, tmp_path, monkeypatch):
    opened = []
    real = Image.open
    monkeypatch.setattr(Image, "open", lambda file, *args, **options: opened.append(1) or real(file, *args, **options))
    prepared, _ = data.prepare("folder", class_folders, output=tmp_path / "out", size=16)
    assert len(opened) == 60
    assert PreparedData(prepared.folder).cache(16).images.shape == (60, 3, 16, 16)
    data.prepare("folder", class_folders, output=tmp_path / "out", size=16)
    assert len(opened) == 120  # an existing cache is verified, and each image checked once
    assert not list(tmp_path.glob(".decoding_*"))


def test_load_changed_manifest_is_refused(class_folders, tmp_path):
    prepared, _ = data.prepare("folder", class_folders, output=tmp_path / "out")
    path = prepared.folder / "manifest.parquet"
    table = pq.read_table(path)
    labels = [2 - label for label in table.column("label").to_pylist()]
    changed = table.set_column(1, "label", [labels])
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputError, match=r"manifest\.parquet: the rows"):
        data.load(prepared.folder)
    path.write_text("nonsense")
    with pytest.raises(InputError, match=r"manifest\.parquet: not a manifest"):
        data.load(prepared.folder)


def test_load_unchanged_manifest_is_hashed_once(tmp_path, monkeypatch):
    prepared, _ = data.prepare("lev", output=tmp_path / "lev")
    hashed = []
    real = manifest_module.sha256
    monkeypatch.setattr(manifest_module, "sha256", lambda content: hashed.append(1) or real(content))
    for _ in range(3):
        assert data.load(prepared.folder).manifest.digest == prepared.manifest.digest
    assert not hashed  # it was read after it was written
    path = prepared.folder / "manifest.parquet"
    path.write_bytes(path.read_bytes())
    for _ in range(2):
        assert data.load(prepared.folder).manifest.digest == prepared.manifest.digest
    assert len(hashed) == 1


def test_prepare_unknown_kind_of_data_is_refused(monkeypatch, tmp_path):
    cls = data.DATASETS.get("lev")
    monkeypatch.setattr(cls, "card", dataclasses.replace(cls.card, kind="image"))
    with pytest.raises(UnknownNameError, match="kind of data 'image'. Did you mean 'images'"):
        data.prepare("lev", output=tmp_path / "lev")


@pytest.fixture
def many(tmp_path, image):
    """Prepared data with more images than a block of the cache."""
    for number in range(BLOCK + 40):
        image(tmp_path / "images" / str(number % 2) / f"{number}.png", size=(8, 8))
    prepared, _ = data.prepare("folder", tmp_path / "images", output=tmp_path / "out")
    return prepared


def test_build_cache_completes_an_interrupted_cache(many, tmp_path, monkeypatch):
    target = tmp_path / "cache_8"
    decoded = []
    real = cache_module.resize_image

    def failing(image, size):
        decoded.append(1)
        if len(decoded) > BLOCK + 5:
            raise KeyboardInterrupt
        return real(image, size)

    monkeypatch.setattr(cache_module, "resize_image", failing)
    with pytest.raises(KeyboardInterrupt):
        build_cache(many.manifest, target, 8, workers=1)
    assert not target.exists()
    decoded.clear()
    monkeypatch.setattr(cache_module, "resize_image", lambda image, size: decoded.append(1) or real(image, size))
    cache = build_cache(many.manifest, target, 8, workers=1)
    assert len(decoded) == 40  # the first block was complete
    expected = build_cache(many.manifest, tmp_path / "expected", 8)
    assert (cache.images == expected.images).all()
    assert (cache.sums == expected.sums).all()
    cache.verify()
    assert not list(tmp_path.glob(".cache*.part"))


def test_build_cache_repeats_a_damaged_block(many, tmp_path, monkeypatch):
    target = tmp_path / "cache_8"
    real = cache_module.resize_image
    calls = []

    def failing(image, size):
        calls.append(1)
        if len(calls) > BLOCK:
            raise OSError(28, "No space left on device")
        return real(image, size)

    monkeypatch.setattr(cache_module, "resize_image", failing)
    with pytest.raises(InputError, match=r"No space left on device"):
        build_cache(many.manifest, target, 8, workers=1)
    monkeypatch.setattr(cache_module, "resize_image", real)
    pixels = tmp_path / ".cache_8.part" / "images.u8"
    content = bytearray(pixels.read_bytes())
    content[10] ^= 255
    pixels.write_bytes(content)
    build_cache(many.manifest, target, 8).verify()
    expected = build_cache(many.manifest, tmp_path / "expected", 8)
    assert (ImageCache(target, many.manifest).images == expected.images).all()


def test_image_cache_checks_manifest_size_and_checksums(many, class_folders, tmp_path):
    cache = build_cache(many.manifest, tmp_path / "cache_8", 8)
    other, _ = data.prepare(
        "folder",
        class_folders.parent / "images",
        output=tmp_path / "o",
        skip_bad=True,
        options={"classes": ["0", "1", "0_none", "1_mild", "2_severe"]},
    )
    with pytest.raises(InputError, match="cache_8: .*another manifest"):
        ImageCache(cache.folder, other.manifest)
    pixels = cache.folder / "images.u8"
    content = bytearray(pixels.read_bytes())
    content[-1] ^= 255
    pixels.write_bytes(content)
    with pytest.raises(InputError, match=rf"images {BLOCK} to {BLOCK + 39} "):
        ImageCache(cache.folder, many.manifest).verify()
    pixels.write_bytes(content[:-1])
    with pytest.raises(InputError, match="cache_8: .*truncated"):
        ImageCache(cache.folder, many.manifest)
    index = json.loads((cache.folder / "index.json").read_text())
    assert index["size"] == 8


def test_build_cache_too_little_disk_space_is_refused(many, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(InputError, match=r"0\.0 GB are free"):
        build_cache(many.manifest, tmp_path / "cache_8", 8)


def test_read_image_converts_to_rgb_and_applies_orientation(tmp_path):
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1024
    Image.fromarray(values).save(tmp_path / "deep.png")
    deep = np.asarray(read_image(tmp_path, "deep.png"))
    assert deep.shape == (8, 8, 3)
    assert (deep[..., 0] == values >> 8).all()
    Image.fromarray(np.zeros((4, 6), dtype=np.uint8)).save(tmp_path / "grey.png")
    assert read_image(tmp_path, "grey.png").mode == "RGB"
    turned = Image.fromarray(np.zeros((4, 6, 3), dtype=np.uint8))
    exif = turned.getexif()
    exif[0x0112] = 6  # rotated by 90 degrees
    turned.save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path, "turned.jpg").size == (4, 6)
    with pytest.raises(BadImageError, match=r"^absent\.png:"):
        read_image(tmp_path, "absent.png")


def test_manifest_features_may_have_names_of_other_columns(tmp_path):
    lines = "".join(f"{7},{i % 2},s,{i % 3},{i % 7}\n" for i in range(30))
    (tmp_path / "t.csv").write_text("id,label,split,grade,x\n" + lines)
    prepared, _ = data.prepare("table", tmp_path, output=tmp_path / "out", options={"label": "grade"})
    assert prepared.manifest.labels.tolist() == [i % 3 for i in range(30)]
    assert len(set(prepared.manifest.ids)) == 30
    assert prepared.manifest.feature("label") == [float(i % 2) for i in range(30)]


def test_prepare_folder_clusters_stay_in_one_split(class_folders, tmp_path):
    prepared, _ = data.prepare("folder", class_folders, output=tmp_path / "out", options={"cluster": r"(patient\d+)_"})
    clusters = prepared.manifest.column("cluster")
    for fold in range(5):
        members = [{clusters[row] for row in rows} for rows in prepared.split("five_folds", fold).values()]
        assert not members[0] & members[1]
        assert not (members[0] | members[1]) & members[2]


@pytest.mark.parametrize("name", ["index.json", "images.u8", "sums.npy"])
def test_prepare_rebuilds_a_damaged_cache(name, class_folders, tmp_path):
    prepared, _ = data.prepare("folder", class_folders, output=tmp_path / "out", size=16)
    expected = np.array(prepared.cache(16).images)
    for damage in ("gone", "junk"):
        path = prepared.folder / "cache_16" / name
        path.unlink()
        if damage == "junk":
            path.write_text("{")
        with pytest.raises(InputError, match=r"the cache is (damaged|truncated)"):
            prepared.cache(16)
        again, _ = data.prepare("folder", class_folders, output=tmp_path / "out", size=16)
        assert (again.cache(16).images == expected).all()


def test_build_cache_locked_by_another_process_is_refused(many, tmp_path):
    with file_lock(tmp_path / ".cache_8.lock"), pytest.raises(InputError, match=r"\.cache_8\.lock: "):
        build_cache(many.manifest, tmp_path / "cache_8", 8)
    build_cache(many.manifest, tmp_path / "cache_8", 8)


def test_prepare_reports_empty_classes_and_splits(tmp_path, image):
    for number in range(3):
        image(tmp_path / "images" / str(number % 2) / f"{number}.png")
    (tmp_path / "images" / "2").mkdir()
    _, report = data.prepare("folder", tmp_path / "images", output=tmp_path / "out", size=8)
    assert report.counts == [2, 1, 0]
    assert report.empty_splits
    warnings = [line for line in report.lines() if line.startswith("WARNING")]
    assert len(warnings) == 1 + len(report.empty_splits)
    shutil.rmtree(tmp_path / "images" / "1")
    with pytest.raises(InputError, match="class '0'"):
        data.prepare("folder", tmp_path / "images", output=tmp_path / "o2")


def test_prepare_errors_leave_no_files(tmp_path, class_folders):
    for call, message in (
        (lambda: data.prepare("lev", output=tmp_path / "o", size=32), "^size: lev"),
        (lambda: data.prepare("folder", class_folders, output=tmp_path / "o", size=0), "^size: "),
        (lambda: data.prepare("table", tmp_path, output=tmp_path / "o"), "'table'.*'label'"),
        (lambda: data.prepare("lev", tmp_path, output=tmp_path / "o"), "^root: .*skordinal"),
        (lambda: data.prepare("folder", class_folders / "0_none" / "patient00_0.png"), "patient00_0.png: is a file"),
    ):
        with pytest.raises(InputError, match=message):
            call()
        assert not (tmp_path / "o").exists()
    (tmp_path / "occupied").touch()
    with pytest.raises(InputError, match="occupied: "):
        data.prepare("lev", output=tmp_path / "occupied")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "retinamnist.npz").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(InputError, match=f"^{tmp_path / 'bad'}: "):
        data.prepare("retinamnist", tmp_path / "bad", output=tmp_path / "o")


def test_read_image_unknown_range_or_no_image_is_refused(tmp_path):
    for name, mode in (("deep.tif", np.int32), ("float.tif", np.float32)):
        Image.fromarray(np.full((8, 8), 7, dtype=mode)).save(tmp_path / name)
        with pytest.raises(BadImageError, match=f"^{name}: .*32 bits"):
            read_image(tmp_path, name)
    (tmp_path / "text.png").write_text("text")
    with pytest.raises(BadImageError, match=r"^text\.png: not an image$"):
        read_image(tmp_path, "text.png")


def test_prepare_table_ids_and_clusters_with_leading_zeros_stay_text(tmp_path):
    (tmp_path / "t.csv").write_text("case,who,x,y\n007,01,1,0\n7,1,2,1\n08,,3,1\n")
    options = {"label": "y", "cluster": "who", "id": "case"}
    manifest = data.prepare("table", tmp_path, output=tmp_path / "out", options=options)[0].manifest
    assert list(manifest.ids) == ["007", "7", "08"]
    assert manifest.column("cluster") == ["01", "1", None]
    assert manifest.feature("x") == [1.0, 2.0, 3.0]


def test_prepare_table_with_missing_values_and_booleans(tmp_path):
    (tmp_path / "T.CSV").write_text("site,who,sick\nn,A,true\n,,false\ns,,true\n")
    options = {"label": "sick", "cluster": "who"}
    manifest = data.prepare("table", tmp_path, output=tmp_path / "out", options=options)[0].manifest
    assert manifest.classes == ("0", "1")
    assert manifest.labels.tolist() == [1, 0, 1]
    assert manifest.feature("site") == ["n", None, "s"]
    assert manifest.column("cluster") == ["A", None, None]
    (tmp_path / "T.CSV").write_text("x,x,y\n1,2,0\n1,2,1\n")
    with pytest.raises(InputError, match="'x'"):
        data.prepare("table", tmp_path, options={"label": "y"})
    (tmp_path / "T.CSV").write_text("x,y\n1,low\n2,hgih\n")
    with pytest.raises(InputError, match=r"T.CSV: column 'y'"):
        data.prepare("table", tmp_path, options={"label": "y", "classes": "low,high"})
    (tmp_path / "T.CSV").write_text("name,x,y\na,1,0\n,2,1\n")
    with pytest.raises(InputError, match="row 2 "):
        data.prepare("table", tmp_path, options={"label": "y", "id": "name"})


def test_folder_broken_links_and_ambiguous_order_are_refused(class_folders, tmp_path):
    (class_folders / "1_mild" / "broken.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(InputError, match=r"1_mild/broken\.png: file not found"):
        data.prepare("folder", class_folders, output=tmp_path / "out")
    (class_folders / "1_other").mkdir()
    with pytest.raises(InputError, match="^classes: "):
        list(data.create("folder").rows(class_folders))
    with pytest.raises(InputError, match="^classes: duplicate"):
        data.create("folder", classes="a,b,a")
