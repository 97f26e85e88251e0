"""Preparing a data set: scan, check, hash, and write manifest, folds and image cache."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from orcu.data.base import DATASETS, Dataset, Row
from orcu.data.cache import Progress
from orcu.data.images import SUFFIXES, BadImageError
from orcu.data.kinds import kind_of
from orcu.data.manifest import About, Manifest, manifest_of
from orcu.data.store import MANIFEST, Prepared, store_folder, write_folds
from orcu.errors import InputError
from orcu.inputs import as_count

SHOWN = 5  # examples in a message


@dataclass(frozen=True)
class Findings:
    """What a scan has found, for the user to read."""

    counts: list[int]
    expected: tuple[int, ...] | None
    classes: tuple[str, ...]
    bad: list[str]
    extra: list[str]
    doubles: int
    conflicts: list[list[str]]
    left_out: Mapping[str, int]
    holes: list[str]
    notes: str

    def lines(self, *, folds: bool = True) -> list[str]:
        """One sentence for each finding; what is as expected is said too.

        Args:
            folds: whether the set's own folds are of interest.
        """
        lines = [f"{sum(self.counts):,} rows: {_counted(self.classes, self.counts)}"]
        if self.expected is not None:
            lines.append(_compared(self.classes, self.counts, self.expected))
        empty = [name for name, count in zip(self.classes, self.counts, strict=True) if count == 0]
        if empty:
            lines.append(f"WARNING: no row has class {', '.join(empty)}")
        lines += [f"WARNING: {hole}" for hole in self.holes if folds]
        if self.notes:
            lines.append(f"note: {self.notes}")
        if self.bad:
            lines.append(f"{len(self.bad):,} bad images left out: {_some(self.bad)}")
        if self.extra:
            lines.append(f"{len(self.extra):,} images that no row names: {_some(self.extra)}")
        if self.doubles:
            lines.append(f"{self.doubles:,} rows are doubles of another; they stay on one side of a split")
        if self.conflicts:
            pairs = [" = ".join(ids) for ids in self.conflicts]
            lines.append(f"{len(pairs):,} groups of doubles have different labels: {_some(pairs)}")
        for protocol, rows in self.left_out.items():
            if rows and folds:
                lines.append(
                    f"protocol {protocol}: {rows:,} rows left out of training or validation, whose doubles the "
                    "publisher holds out"
                )
        return lines


def prepare(
    name: str,
    root: str | Path | None = None,
    *,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[Prepared, Findings]:
    """Scan a data set's files, check them against its card, and write what training needs.

    Args:
        name: a registered data set.
        root: the folder of its files; not needed where a package carries them.
        out: where to write; by default a folder of that name in the store.
        options: of the data set.
        size: also decode all images to squares of this side.
        skip_bad: go on without images that are missing or cannot be decoded.
        seed: of the folds.
        workers: threads; as many as there are cores by default.
        progress: called with the stage, how much is done, and how much there is.

    Raises:
        InputError: if files are missing or say something unexpected.
    """
    dataset: Dataset = DATASETS.create(name, **(options or {}))
    kind = kind_of(dataset.card.kind)
    if root is not None and dataset.card.package and not kind.package_has_files:
        raise InputError(f"root: {name} comes with the package {dataset.card.package}; leave it out.")
    base = Path(root).resolve() if root is not None else dataset.root()
    if base is None:
        raise InputError(
            f"{name}: say where its files are (--root DIR). {dataset.card.obtain} Layout: {dataset.card.layout}"
        )
    if not base.is_dir():
        raise InputError(f"{base}: {'is a file, expected its folder' if base.exists() else 'there is no such folder'}.")
    if size is not None:
        as_count(size, name="size", minimum=8)
        if not kind.has_images:
            raise InputError(f"size: {name} has no images.")
    try:
        rows = _checked(dataset, list(_counting(dataset.rows(base), progress)), base)
    except (UnicodeDecodeError, BadZipFile, csv.Error, OSError) as error:
        raise InputError(f"{base}: its files cannot be read ({error}).") from None
    contents = kind.contents(rows, base, workers=workers, progress=progress)
    rows, digests, bad = _usable(rows, contents, base, skip_bad)
    features = list(rows[0].features or {})
    about = About(name, dict(options or {}), dataset.card.kind, list(dataset.classes), str(base), features)
    manifest = manifest_of(rows, digests, about)
    folder = store_folder() / name if out is None else Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        left_out = write_folds(folder, manifest, dataset.protocols, seed)
        manifest.write(folder / MANIFEST)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror or error}).") from None
    prepared = Prepared(folder)
    if size is not None:
        prepared.decode(size, workers=workers, progress=progress, verify=True)
    doubles, conflicts = _doubles(manifest)
    findings = Findings(
        manifest.counts(),
        dataset.counts,
        dataset.classes,
        bad,
        _extra(rows, base),
        doubles,
        conflicts,
        left_out,
        _holes(prepared),
        dataset.notes,
    )
    return prepared, findings


def _counting(rows: Iterable[Row], progress: Progress | None) -> Iterable[Row]:
    for number, row in enumerate(rows, 1):
        if progress is not None and number % 1000 == 0:
            progress("scan", number, 0)
        yield row


def _checked(dataset: Dataset, rows: list[Row], root: Path) -> list[Row]:
    if not rows:
        raise InputError(f"{root}: no rows found. Expected layout: {dataset.card.layout}")
    ids: set[str] = set()
    for row in rows:
        if row.id in ids:
            raise InputError(f"{root}: the id {row.id!r} stands twice; ids must be different.")
        ids.add(row.id)
        if not 0 <= row.label < len(dataset.classes):
            raise InputError(f"{root}: {row.id} has label {row.label}, expected 0..{len(dataset.classes) - 1}.")
    if len({row.label for row in rows}) < 2:
        raise InputError(f"{root}: all rows have the class {dataset.classes[rows[0].label]!r}; two or more are needed.")
    return rows


def _usable(
    rows: list[Row], contents: Sequence[str | BadImageError | None], root: Path, skip_bad: bool
) -> tuple[list[Row], list[str | None], list[str]]:
    """The rows that can be used, the digest of each one's bytes, and what is wrong with the others."""
    bad = [str(content) for content in contents if isinstance(content, BadImageError)]
    if bad and not skip_bad:
        raise InputError(
            f"{root}: {len(bad):,} of {len(rows):,} images are missing or cannot be decoded: {_some(bad)}. "
            "Repair them, or go on without them with --skip-bad."
        )
    good = [
        (row, content) for row, content in zip(rows, contents, strict=True) if not isinstance(content, BadImageError)
    ]
    if not good:
        raise InputError(f"{root}: no image can be used: {_some(bad)}.")
    return [row for row, _ in good], [content for _, content in good], bad


def _doubles(manifest: Manifest) -> tuple[int, list[list[str]]]:
    """How many rows are copies of an earlier one, and the groups of copies whose labels differ."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, content in enumerate(manifest.column("content")):
        if content is not None:
            groups[content].append(row)
    several = [rows for rows in groups.values() if len(rows) > 1]
    conflicts = [
        [manifest.ids[row] for row in rows] for rows in several if len({int(manifest.labels[row]) for row in rows}) > 1
    ]
    return sum(len(rows) - 1 for rows in several), conflicts


def _holes(prepared: Prepared) -> list[str]:
    """Splits without rows, the first of each protocol."""
    holes = []
    for protocol, folds in prepared.protocols().items():
        for fold in range(folds):
            none = [name for name, rows in prepared.split(protocol, fold).items() if len(rows) == 0]
            if none:
                holes.append(f"protocol {protocol}, fold {fold} has no rows for {', '.join(none)}: too few in all")
                break
    return holes


def _extra(rows: list[Row], root: Path) -> list[str]:
    """Images in the folders of the rows that no row names."""
    named = {root / row.path for row in rows if row.path is not None and "#" not in row.path}
    return sorted(
        str(file.relative_to(root) if file.is_relative_to(root) else file)
        for folder in {path.parent for path in named}
        for file in folder.iterdir()
        if file.suffix.lower() in SUFFIXES and file not in named
    )


def _counted(classes: tuple[str, ...], counts: Iterable[int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in zip(classes, counts, strict=True))


def _compared(classes: tuple[str, ...], counts: list[int], expected: tuple[int, ...]) -> str:
    differences = [
        f"{name} {count - wanted:+,}"
        for name, count, wanted in zip(classes, counts, expected, strict=True)
        if count != wanted
    ]
    if not differences:
        return "counts as on the card"
    return f"against the card's {sum(expected):,}: {', '.join(differences)}"


def _some(items: list[str]) -> str:
    more = f" and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    return "; ".join(items[:SHOWN]) + more
