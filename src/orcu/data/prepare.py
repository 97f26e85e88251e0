"""Preparation of a data set: read and check its rows, write manifest, folds and image cache."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile

from orcu.data.base import DATASETS, IMAGES, TABLE, TEXTS, Dataset, Row
from orcu.data.cache import DecodedImages, Progress
from orcu.data.images import SUFFIXES, BadImageError, hash_image, read_and_hash
from orcu.data.manifest import About, Manifest, build_manifest
from orcu.data.store import MANIFEST, SHARED, PreparedData, cache_folder, store_folder, write_folds
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_count

MAX_EXAMPLES = 5  # in a message
ContentHash = str | BadImageError | None


@dataclass(frozen=True)
class PrepareReport:
    """Results of the checks of a data set.

    Args:
        counts: number of rows per class.
        expected: number of rows per class on the card, or ``None``.
        classes: class names.
        bad_images: messages about images that were skipped.
        unlisted_images: image files that do not belong to a row.
        duplicates: number of rows whose content equals that of another row.
        conflicts: ids of duplicates with different labels.
        dropped: number of rows that each protocol drops, because a duplicate is in a later published split.
        empty_splits: messages about splits without rows.
        notes: remarks of the data set.
    """

    counts: list[int]
    expected: tuple[int, ...] | None
    classes: tuple[str, ...]
    bad_images: list[str]
    unlisted_images: list[str]
    duplicates: int
    conflicts: list[list[str]]
    dropped: Mapping[str, int]
    empty_splits: list[str]
    notes: str

    def lines(self, *, folds: bool = True) -> list[str]:
        """The results as text, one line each, with or without those about the folds of the data set."""
        counts = list(zip(self.classes, self.counts, strict=True))
        lines = [f"{sum(self.counts):,} rows: {', '.join(f'{name} {count:,}' for name, count in counts)}"]
        if self.expected is not None:
            lines.append(self._compare_counts(self.expected))
        empty = [name for name, count in counts if count == 0]
        lines += [f"WARNING: no rows of class {', '.join(empty)}"] if empty else []
        lines += [f"WARNING: {message}" for message in self.empty_splits] if folds else []
        lines += [f"note: {self.notes}"] if self.notes else []
        for items, title in (
            (self.bad_images, "bad images skipped"),
            (self.unlisted_images, "image files that do not belong to a row"),
            ([" = ".join(ids) for ids in self.conflicts], "groups of duplicates have different labels"),
        ):
            lines += [f"{len(items):,} {title}: {_examples(items)}"] if items else []
        if self.duplicates:
            lines.append(f"{self.duplicates:,} rows are duplicates of another row; they are kept in the same split")
        for protocol, rows in self.dropped.items():
            if rows and folds:
                lines.append(f"protocol {protocol}: {rows:,} rows dropped, because a duplicate is in a later split")
        return lines

    def _compare_counts(self, expected: tuple[int, ...]) -> str:
        differences = [count - published for count, published in zip(self.counts, expected, strict=True)]
        if not any(differences):
            return "class counts match the card"
        listed = [
            f"{name} {difference:+,}" for name, difference in zip(self.classes, differences, strict=True) if difference
        ]
        return f"differences from the {sum(expected):,} rows on the card: {', '.join(listed)}"


def prepare(
    name: str,
    root: str | Path | None = None,
    *,
    output: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    shared: bool = False,
) -> tuple[PreparedData, PrepareReport]:
    """Read the files of a data set, check them against its card, and write what training needs.

    Args:
        name: name of a registered data set.
        root: folder of its files; not needed if a package contains them.
        output: target folder; by default the folder of that name in the store.
        options: options of the data set.
        size: side in pixels to which images are decoded; ``None`` to check them only.
        skip_bad: whether to skip images that are missing or cannot be decoded.
        seed: seed of the folds.
        workers: number of threads; by default the number of cores.
        progress: called with the stage, the number of finished items, and the number of all items (0 if unknown).
        shared: whether data sets with the same rows share the decoded images, as for `PreparedData`.

    Raises:
        InputError: if files are missing or have unexpected content.
    """
    dataset: Dataset = DATASETS.create(name, **(options or {}))
    base = _root_folder(name, dataset, root)
    if size is not None:
        as_count(size, name="size", minimum=8)
        if dataset.card.kind != IMAGES:
            raise InputError(f"size: {name} has no images; leave it out.")
    try:
        rows = _check_rows(dataset, list(_count_rows(dataset.rows(base), progress)), base)
    except (UnicodeDecodeError, BadZipFile, csv.Error, OSError) as error:
        raise InputError(f"{base}: the files cannot be read ({error}).") from None
    folder = store_folder() / name if output is None else Path(output)
    must_decode = size is not None and (shared or not cache_folder(folder, size).exists())
    parent = store_folder() / SHARED if shared else folder.parent
    with _temporary_folder(parent) if must_decode else nullcontext() as scratch:
        decoded = None if size is None or scratch is None else DecodedImages(scratch, len(rows), size, dataset)
        if dataset.card.kind == IMAGES:
            hashes = _hash_images(rows, base, workers, progress, decoded)
        else:  # equal rows of a table are not duplicates
            hashes = [None if row.text is None else sha256(row.text.encode()).hexdigest() for row in rows]
        contents, bad = _separate_bad_images(hashes, base, skip_bad)
        if decoded is not None:
            decoded.select(list(contents))
        rows = [rows[number] for number in contents]
        features = list(rows[0].features or {})
        about = About(name, dict(options or {}), dataset.card.kind, list(dataset.classes), str(base), features)
        manifest = build_manifest(rows, list(contents.values()), about)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            dropped = write_folds(folder, manifest, dataset.protocols, seed)
            manifest.write(folder / MANIFEST)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror or error}).") from None
        prepared = PreparedData(folder, shared=shared)
        if size is not None:
            prepared.decode(size, workers=workers, progress=progress, verify=not shared, wait=shared, decoded=decoded)
    duplicates, conflicts = _find_duplicates(manifest)
    unlisted, empty_splits = _find_unlisted_images(rows, base), _find_empty_splits(prepared)
    counts = manifest.counts(), dataset.counts, dataset.classes
    return prepared, PrepareReport(*counts, bad, unlisted, duplicates, conflicts, dropped, empty_splits, dataset.notes)


def _root_folder(name: str, dataset: Dataset, root: str | Path | None) -> Path:
    card = dataset.card
    if card.kind not in (IMAGES, TEXTS, TABLE):
        raise UnknownNameError("kind of data", card.kind, (IMAGES, TEXTS, TABLE))
    if root is not None and card.package and card.kind == TABLE:
        raise InputError(f"root: {name} is part of the package {card.package}; leave it out.")
    base = Path(root).resolve() if root is not None else dataset.root()
    if base is None:
        raise InputError(f"{name}: the folder of its files is needed (--root DIR). {card.obtain} Layout: {card.layout}")
    if not base.is_dir():
        if not base.exists():
            raise InputError(f"{base}: folder not found.")
        option = "" if card.kind == IMAGES else f" --set file={base.name}"
        raise InputError(f"{base}: is a file, expected its folder: --root {base.parent}{option}.")
    return base


def _temporary_folder(parent: Path) -> TemporaryDirectory[str]:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(dir=parent, prefix=".decoding_")
    except OSError as error:
        raise InputError(f"{parent}: cannot be written ({error.strerror or error}).") from None


def _count_rows(rows: Iterable[Row], progress: Progress | None) -> Iterable[Row]:
    for number, row in enumerate(rows, 1):
        if progress is not None and number % 1000 == 0:
            progress("scan", number, 0)
        yield row


def _check_rows(dataset: Dataset, rows: list[Row], root: Path) -> list[Row]:
    if not rows:
        raise InputError(f"{root}: no rows found. Expected layout: {dataset.card.layout}")
    ids: set[str] = set()
    for row in rows:
        if row.id in ids:
            raise InputError(f"{root}: duplicate id {row.id!r}; ids must be unique.")
        ids.add(row.id)
        if not 0 <= row.label < len(dataset.classes):
            raise InputError(f"{root}: {row.id} has label {row.label}, expected 0..{len(dataset.classes) - 1}.")
    if len({row.label for row in rows}) < 2:
        raise InputError(f"{root}: all rows have class {dataset.classes[rows[0].label]!r}; at least two are needed.")
    return rows


def _hash_images(
    rows: Sequence[Row], root: Path, workers: int | None, progress: Progress | None, decoded: DecodedImages | None
) -> list[ContentHash]:
    """Hash of each image's content, to find duplicates, or its error; ``decoded`` stores the images."""

    def check(number: int) -> ContentHash:
        try:
            if decoded is None:
                return hash_image(root, str(rows[number].path))
            image, digest = read_and_hash(root, str(rows[number].path))
        except BadImageError as error:
            return error
        decoded.add(number, image)
        return digest

    hashes: list[ContentHash] = []
    with ThreadPoolExecutor(workers) as pool:
        for digest in pool.map(check, range(len(rows))):
            hashes.append(digest)
            if progress is not None:
                progress("check" if decoded is None else "decode", len(hashes), len(rows))
    return hashes


def _separate_bad_images(
    hashes: list[ContentHash], root: Path, skip_bad: bool
) -> tuple[dict[int, str | None], list[str]]:
    """Content hashes by row number of the usable rows, and messages about the others."""
    bad = [str(content) for content in hashes if isinstance(content, BadImageError)]
    if bad and not skip_bad:
        raise InputError(
            f"{root}: {len(bad):,} of {len(hashes):,} images are missing or cannot be decoded: {_examples(bad)}. "
            "Repair them, or skip them with --skip-bad."
        )
    if len(bad) == len(hashes):
        raise InputError(f"{root}: none of the images can be decoded: {_examples(bad)}.")
    return {row: content for row, content in enumerate(hashes) if not isinstance(content, BadImageError)}, bad


def _find_duplicates(manifest: Manifest) -> tuple[int, list[list[str]]]:
    """Number of rows that duplicate an earlier one, and the ids of duplicates with different labels."""
    rows_by_content: dict[str, list[int]] = defaultdict(list)
    for row, content in enumerate(manifest.column("content")):
        if content is not None:
            rows_by_content[content].append(row)
    groups = [rows for rows in rows_by_content.values() if len(rows) > 1]
    conflicts = [[manifest.ids[row] for row in rows] for rows in groups if len(set(manifest.labels[rows].tolist())) > 1]
    return sum(len(rows) - 1 for rows in groups), conflicts


def _find_empty_splits(prepared: PreparedData) -> list[str]:
    """Messages about the first fold of each protocol that has a split without rows."""
    messages = []
    for protocol, folds in prepared.protocols().items():
        for fold in range(folds):
            empty = [name for name, rows in prepared.split(protocol, fold).items() if len(rows) == 0]
            if empty:
                messages.append(f"protocol {protocol}, fold {fold} has no rows for {', '.join(empty)}: too few rows")
                break
    return messages


def _find_unlisted_images(rows: list[Row], root: Path) -> list[str]:
    """Image files in the folders of the rows that do not belong to a row."""
    listed = {root / row.path for row in rows if row.path is not None and "#" not in row.path}
    return sorted(
        str(file.relative_to(root) if file.is_relative_to(root) else file)
        for folder in {path.parent for path in listed}
        for file in folder.iterdir()
        if file.suffix.lower() in SUFFIXES and file not in listed
    )


def _examples(items: list[str]) -> str:
    more = f" and {len(items) - MAX_EXAMPLES:,} more" if len(items) > MAX_EXAMPLES else ""
    return "; ".join(items[:MAX_EXAMPLES]) + more
