"""Preparing: what is found is told, what is wrong is refused, nothing is left half-written."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from orcu import data
from orcu.data import cache as cache_module
from orcu.data import manifest as manifest_module
from orcu.data.cache import BLOCK, ImageCache, build
from orcu.data.images import BadImageError, read_image
from orcu.data.kinds import kind_of
from orcu.errors import InputError, UnknownNameError


def test_a_prepared_set_tells_rows_folds_and_statistics(class_folders, tmp_path):
    prepared, found = data.prepare("folder", class_folders, out=tmp_path / "out", size=24)
    assert found.lines()[0] == "60 rows: 0_none 20, 1_mild 20, 2_severe 20"
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
    with pytest.raises(InputError, match="folds 0..4, got 5"):
        again.split("five_folds", 5)
    with pytest.raises(InputError, match="there is no image cache"):
        again.cache(32)


def test_the_digest_is_of_the_rows_not_of_the_place(class_folders, tmp_path):
    one, _ = data.prepare("folder", class_folders, out=tmp_path / "one")
    shutil.copytree(class_folders, tmp_path / "elsewhere")
    two, _ = data.prepare("folder", tmp_path / "elsewhere", out=tmp_path / "two")
    assert one.manifest.digest == two.manifest.digest
    (tmp_path / "elsewhere" / "0_none" / "patient00_0.png").unlink()
    three, _ = data.prepare("folder", tmp_path / "elsewhere", out=tmp_path / "three")
    assert three.manifest.digest != one.manifest.digest


def damage(folder):
    """One truncated image, one that is none, one listed file that is empty."""
    image = next((folder / "0_none").iterdir())
    whole = image.read_bytes()
    image.write_bytes(whole[: len(whole) // 2])
    (folder / "1_mild" / "text.png").write_text("no image")
    (folder / "2_severe" / "empty.jpg").touch()
    return image.name


def test_bad_images_are_named_and_can_be_skipped(class_folders, tmp_path):
    name = damage(class_folders)
    with pytest.raises(InputError, match="3 of 62 images are missing or cannot be decoded") as error:
        data.prepare("folder", class_folders, out=tmp_path / "out")
    assert f"0_none/{name}" in str(error.value)
    assert "--skip-bad" in str(error.value)
    assert not (tmp_path / "out").exists()
    prepared, found = data.prepare("folder", class_folders, out=tmp_path / "out", skip_bad=True)
    assert len(prepared.manifest) == 59
    assert len(found.bad) == 3
    assert any(line.startswith("3 bad images left out") for line in found.lines())


def test_truncated_jpegs_are_found(tmp_path):
    (tmp_path / "images" / "0").mkdir(parents=True)
    (tmp_path / "images" / "1").mkdir()
    path = tmp_path / "images" / "0" / "a.jpg"
    rng = np.random.default_rng(0)
    for target in (path, tmp_path / "images" / "1" / "b.jpg"):
        Image.fromarray(rng.integers(256, size=(200, 200, 3), dtype=np.uint8)).save(target)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(InputError, match=r"1 of 2 images .* 0/a.jpg: cannot be decoded"):
        data.prepare("folder", tmp_path / "images", out=tmp_path / "out")


def test_missing_files_say_the_layout_and_the_way(tmp_path):
    with pytest.raises(InputError, match=r"fold_0_data.txt: there is no such file .* Register on the Adience"):
        data.prepare("adience", tmp_path)
    with pytest.raises(InputError, match="say where its files are"):
        data.prepare("adience")
    with pytest.raises(InputError, match="there is no such folder"):
        data.prepare("adience", tmp_path / "absent")
    (tmp_path / "0").mkdir()
    with pytest.raises(InputError, match="no rows found. Expected layout: <class>/<image>"):
        data.prepare("folder", tmp_path, out=tmp_path / "out")
    with pytest.raises(InputError, match="not prepared in"):
        data.load("nothing")


def test_ids_must_be_different(tmp_path):
    (tmp_path / "t.csv").write_text("name,x,grade\na,1,0\na,2,1\n")
    with pytest.raises(InputError, match="the id 'a' stands twice"):
        data.prepare("table", tmp_path, out=tmp_path / "out", options={"label": "grade", "id": "name"})
    with pytest.raises(InputError, match="size: table has no images"):
        data.prepare("table", tmp_path, out=tmp_path / "o2", options={"label": "grade"}, size=32)


def test_doubles_and_conflicts_are_told(class_folders, tmp_path):
    first = class_folders / "0_none" / "patient00_0.png"
    shutil.copy(first, class_folders / "0_none" / "copy.png")
    shutil.copy(first, class_folders / "2_severe" / "other_label.png")
    prepared, found = data.prepare("folder", class_folders, out=tmp_path / "out")
    assert found.doubles == 2
    assert found.conflicts == [["0_none/copy.png", "0_none/patient00_0.png", "2_severe/other_label.png"]]
    rows = [prepared.manifest.ids.index(name) for name in found.conflicts[0]]
    for fold in range(5):
        sides = [set(rows) & set(part.tolist()) for part in prepared.split("five_folds", fold).values()]
        assert sorted(map(len, sides)) == [0, 0, 3]


def test_a_tampered_manifest_is_refused(class_folders, tmp_path):
    prepared, _ = data.prepare("folder", class_folders, out=tmp_path / "out")
    path = prepared.folder / "manifest.parquet"
    table = pq.read_table(path)
    labels = [2 - label for label in table.column("label").to_pylist()]
    changed = table.set_column(1, "label", [labels])
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputError, match="rows are not those it was written with"):
        data.load(prepared.folder)
    path.write_text("nonsense")
    with pytest.raises(InputError, match="no manifest of orcu"):
        data.load(prepared.folder)


def test_rows_are_hashed_once_for_each_content_of_a_file(tmp_path, monkeypatch):
    prepared, _ = data.prepare("lev", out=tmp_path / "lev")
    hashed = []
    real = manifest_module.sha256
    monkeypatch.setattr(manifest_module, "sha256", lambda content: hashed.append(1) or real(content))
    for _ in range(3):
        assert data.load(prepared.folder).manifest.digest == prepared.manifest.digest
    assert not hashed  # it was read when it had been written
    path = prepared.folder / "manifest.parquet"
    path.write_bytes(path.read_bytes())
    for _ in range(2):
        assert data.load(prepared.folder).manifest.digest == prepared.manifest.digest
    assert len(hashed) == 1


def test_a_kind_of_data_that_there_is_not_is_told():
    assert kind_of("images").has_images
    with pytest.raises(UnknownNameError, match="unknown kind of data 'image'. Did you mean 'images'"):
        kind_of("image")


@pytest.fixture
def many(tmp_path, image):
    """A manifest of more images than a block of the cache holds."""
    for number in range(BLOCK + 40):
        image(tmp_path / "images" / str(number % 2) / f"{number}.png", size=(8, 8))
    prepared, _ = data.prepare("folder", tmp_path / "images", out=tmp_path / "out")
    return prepared


def test_a_cache_that_was_cut_off_is_finished(many, tmp_path, monkeypatch):
    target = tmp_path / "cache_8"
    decoded = []
    real = cache_module.resized

    def failing(image, size):
        decoded.append(1)
        if len(decoded) > BLOCK + 5:
            raise KeyboardInterrupt
        return real(image, size)

    monkeypatch.setattr(cache_module, "resized", failing)
    with pytest.raises(KeyboardInterrupt):
        build(many.manifest, target, 8, workers=1)
    assert not target.exists()
    decoded.clear()
    monkeypatch.setattr(cache_module, "resized", lambda image, size: decoded.append(1) or real(image, size))
    found = build(many.manifest, target, 8, workers=1)
    assert len(decoded) == 40  # the first block was there
    whole = build(many.manifest, tmp_path / "anew", 8)
    assert (found.images == whole.images).all()
    assert (found.sums == whole.sums).all()
    found.verify()
    assert not list(tmp_path.glob(".cache*.part"))


def test_a_finished_block_that_was_damaged_is_done_again(many, tmp_path, monkeypatch):
    target = tmp_path / "cache_8"
    real = cache_module.resized
    calls = []

    def failing(image, size):
        calls.append(1)
        if len(calls) > BLOCK:
            raise OSError(28, "No space left on device")
        return real(image, size)

    monkeypatch.setattr(cache_module, "resized", failing)
    with pytest.raises(InputError, match=r"No space left on device. What is decoded is kept"):
        build(many.manifest, target, 8, workers=1)
    monkeypatch.setattr(cache_module, "resized", real)
    pixels = tmp_path / ".cache_8.part" / "images.u8"
    content = bytearray(pixels.read_bytes())
    content[10] ^= 255
    pixels.write_bytes(content)
    build(many.manifest, target, 8).verify()
    whole = build(many.manifest, tmp_path / "anew", 8)
    assert (ImageCache(target, many.manifest).images == whole.images).all()


def test_caches_are_checked_against_manifest_size_and_checksums(many, class_folders, tmp_path):
    found = build(many.manifest, tmp_path / "cache_8", 8)
    other, _ = data.prepare(
        "folder",
        class_folders.parent / "images",
        out=tmp_path / "o",
        skip_bad=True,
        options={"classes": ["0", "1", "0_none", "1_mild", "2_severe"]},
    )
    with pytest.raises(InputError, match="made from another manifest"):
        ImageCache(found.folder, other.manifest)
    pixels = found.folder / "images.u8"
    content = bytearray(pixels.read_bytes())
    content[-1] ^= 255
    pixels.write_bytes(content)
    with pytest.raises(InputError, match=rf"images {BLOCK} to {BLOCK + 39} are not as they were written"):
        ImageCache(found.folder, many.manifest).verify()
    pixels.write_bytes(content[:-1])
    with pytest.raises(InputError, match="the cache is cut off"):
        ImageCache(found.folder, many.manifest)
    index = json.loads((found.folder / "index.json").read_text())
    assert index["size"] == 8


def test_a_full_disk_is_told_before_the_work(many, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(InputError, match="GB are needed and 0.0 GB are free"):
        build(many.manifest, tmp_path / "cache_8", 8)


def test_images_of_every_kind_become_rgb(tmp_path):
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1024
    Image.fromarray(values).save(tmp_path / "deep.png")
    deep = np.asarray(read_image(tmp_path, "deep.png"))
    assert deep.shape == (8, 8, 3)
    assert (deep[..., 0] == values >> 8).all()
    Image.fromarray(np.zeros((4, 6), dtype=np.uint8)).save(tmp_path / "grey.png")
    assert read_image(tmp_path, "grey.png").mode == "RGB"
    turned = Image.fromarray(np.zeros((4, 6, 3), dtype=np.uint8))
    exif = turned.getexif()
    exif[0x0112] = 6  # the camera was held upright
    turned.save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path, "turned.jpg").size == (4, 6)
    with pytest.raises(BadImageError, match="there is no such file"):
        read_image(tmp_path, "absent.png")


def test_features_may_be_called_like_our_own_columns(tmp_path):
    lines = "".join(f"{7},{i % 2},s,{i % 3},{i}\n" for i in range(30))
    (tmp_path / "t.csv").write_text("id,label,split,grade,x\n" + lines)
    prepared, _ = data.prepare("table", tmp_path, out=tmp_path / "out", options={"label": "grade"})
    assert prepared.manifest.labels.tolist() == [i % 3 for i in range(30)]
    assert len(set(prepared.manifest.ids)) == 30
    assert prepared.manifest.feature("label") == [float(i % 2) for i in range(30)]


def test_your_own_subjects_stay_on_one_side(class_folders, tmp_path):
    prepared, _ = data.prepare("folder", class_folders, out=tmp_path / "out", options={"subject": r"(patient\d+)_"})
    subjects = prepared.manifest.column("subject")
    for fold in range(5):
        people = [{subjects[row] for row in rows} for rows in prepared.split("five_folds", fold).values()]
        assert not people[0] & people[1]
        assert not (people[0] | people[1]) & people[2]


@pytest.mark.parametrize("name", ["index.json", "images.u8", "sums.npy"])
def test_a_damaged_cache_is_made_again(name, class_folders, tmp_path):
    prepared, _ = data.prepare("folder", class_folders, out=tmp_path / "out", size=16)
    whole = np.array(prepared.cache(16).images)
    for damage in ("gone", "junk"):
        path = prepared.folder / "cache_16" / name
        path.unlink()
        if damage == "junk":
            path.write_text("{")
        with pytest.raises(InputError, match=r"the cache is (damaged|cut off)"):
            prepared.cache(16)
        again, _ = data.prepare("folder", class_folders, out=tmp_path / "out", size=16)
        assert (again.cache(16).images == whole).all()


def test_one_process_at_a_time_writes_a_cache(many, tmp_path):
    from orcu.io.files import locked

    with locked(tmp_path / ".cache_8.lock"), pytest.raises(InputError, match="another process"):
        build(many.manifest, tmp_path / "cache_8", 8)
    build(many.manifest, tmp_path / "cache_8", 8)


def test_too_little_data_is_told(tmp_path, image):
    for number in range(3):
        image(tmp_path / "images" / str(number % 2) / f"{number}.png")
    (tmp_path / "images" / "2").mkdir()
    _, found = data.prepare("folder", tmp_path / "images", out=tmp_path / "out", size=8)
    assert "WARNING: no row has class 2" in found.lines()
    assert any("has no rows for" in line for line in found.lines())
    shutil.rmtree(tmp_path / "images" / "1")
    with pytest.raises(InputError, match="all rows have the class '0'"):
        data.prepare("folder", tmp_path / "images", out=tmp_path / "o2")


def test_mistakes_leave_nothing_behind(tmp_path, class_folders):
    for call, message in (
        (lambda: data.prepare("lev", out=tmp_path / "o", size=32), "size: lev has no images"),
        (lambda: data.prepare("folder", class_folders, out=tmp_path / "o", size=0), "size: expected"),
        (lambda: data.prepare("table", tmp_path, out=tmp_path / "o"), "needs the option 'label'"),
        (lambda: data.prepare("lev", tmp_path, out=tmp_path / "o"), "comes with the package skordinal"),
        (
            lambda: data.prepare("folder", class_folders / "0_none" / "patient00_0.png"),
            "is a file, expected its folder",
        ),
    ):
        with pytest.raises(InputError, match=message):
            call()
        assert not (tmp_path / "o").exists()
    (tmp_path / "occupied").touch()
    with pytest.raises(InputError, match="occupied: cannot be written"):
        data.prepare("lev", out=tmp_path / "occupied")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "retinamnist.npz").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        data.prepare("retinamnist", tmp_path / "bad", out=tmp_path / "o")


def test_images_that_cannot_be_understood_are_bad(tmp_path):
    for name, mode in (("deep.tif", np.int32), ("float.tif", np.float32)):
        Image.fromarray(np.full((8, 8), 7, dtype=mode)).save(tmp_path / name)
        with pytest.raises(BadImageError, match="32 bits a pixel"):
            read_image(tmp_path, name)
    (tmp_path / "text.png").write_text("nothing")
    with pytest.raises(BadImageError, match=r"text.png: is no image$"):
        read_image(tmp_path, "text.png")


def test_tables_with_gaps_and_yes_or_no(tmp_path):
    (tmp_path / "T.CSV").write_text("site,who,sick\nn,A,true\n,,false\ns,,true\n")
    options = {"label": "sick", "subject": "who"}
    manifest = data.prepare("table", tmp_path, out=tmp_path / "out", options=options)[0].manifest
    assert manifest.classes == ("0", "1")
    assert manifest.labels.tolist() == [1, 0, 1]
    assert manifest.feature("site") == ["n", None, "s"]
    assert manifest.column("subject") == ["A", None, None]
    (tmp_path / "T.CSV").write_text("x,x,y\n1,2,0\n1,2,1\n")
    with pytest.raises(InputError, match="'x' stands twice"):
        data.prepare("table", tmp_path, options={"label": "y"})
    (tmp_path / "T.CSV").write_text("x,y\n1,low\n2,hgih\n")
    with pytest.raises(InputError, match=r"T.CSV: column 'y'"):
        data.prepare("table", tmp_path, options={"label": "y", "classes": "low,high"})
    (tmp_path / "T.CSV").write_text("name,x,y\na,1,0\n,2,1\n")
    with pytest.raises(InputError, match="row 2 has no id"):
        data.prepare("table", tmp_path, options={"label": "y", "id": "name"})


def test_broken_links_and_equal_numbers_are_told(class_folders, tmp_path):
    (class_folders / "1_mild" / "broken.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(InputError, match=r"1_mild/broken.png: there is no such file"):
        data.prepare("folder", class_folders, out=tmp_path / "out")
    (class_folders / "1_other").mkdir()
    with pytest.raises(InputError, match="cannot be told from the alphabet"):
        list(data.create("folder").rows(class_folders))
    with pytest.raises(InputError, match="stands twice"):
        data.create("folder", classes="a,b,a")
