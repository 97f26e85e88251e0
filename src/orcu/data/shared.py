"""Preparation of the user's data for a training, with results that later trainings on the same files reuse.

Unchanged files, by name, size and time, are not read again. Decoded images and features are in the store, shared by
all data sets with the same rows.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import orcu
from orcu.data.base import DATASETS, IMAGES
from orcu.data.cache import Progress
from orcu.data.prepare import PrepareReport, prepare
from orcu.data.store import FOLDS, MANIFEST, SHARED, PreparedData, store_folder
from orcu.errors import InputError
from orcu.io.files import atomic_write

REPORT = "findings.json"


def prepare_user_data(
    name: str,
    root: Path | None,
    output: Path,
    *,
    options: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    size: int | None = None,
    progress: Progress | None = None,
) -> tuple[PreparedData, PrepareReport]:
    """Prepare data in ``output`` as `orcu.data.prepare` does, without reading image files that have not changed.

    The arguments are those of `orcu.data.prepare`; images that have to be read are decoded to ``size``.
    """
    has_images = DATASETS.create(name, **(options or {})).card.kind == IMAGES
    read_files = partial(prepare, name, root, output=output, options=options, skip_bad=skip_bad, shared=True)
    if not has_images:
        return read_files()
    if root is None or not root.is_dir():
        return read_files(size=size, progress=progress)
    scan = store_folder() / SHARED / "scans" / _fingerprint(name, root, options, skip_bad)
    report = _load_report(scan)
    if report is None:
        prepared, report = read_files(size=size, progress=progress)
        _save_scan(scan, prepared, report)
        return prepared, report
    output.mkdir(parents=True, exist_ok=True)
    _copy_files(scan, output)
    return PreparedData(output, shared=True), report


def _fingerprint(name: str, root: Path, options: Mapping[str, Any] | None, skip_bad: bool) -> str:
    """Hash of the options and of the names, sizes and times of all files in a folder; links are followed."""
    digest = sha256(json.dumps([orcu.__version__, name, str(root.resolve()), dict(options or {}), skip_bad]).encode())
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()
        for path in (Path(folder) / file for file in sorted(files)):
            status = path.stat() if path.exists() else path.lstat()
            digest.update(f"{path.relative_to(root)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _load_report(scan: Path) -> PrepareReport | None:
    """The report of an earlier scan, or ``None`` if there is none or it is incomplete."""
    try:
        entries = json.loads((scan / REPORT).read_text(encoding="utf-8"))
        PreparedData(scan)
        return PrepareReport(**entries | {"classes": tuple(entries["classes"])})
    except (OSError, ValueError, TypeError, KeyError, InputError):
        return None


def _save_scan(scan: Path, prepared: PreparedData, report: PrepareReport) -> None:
    """Save a scan; if the store cannot be written, the next training reads the files again."""
    try:
        scan.mkdir(parents=True, exist_ok=True)
        _copy_files(prepared.folder, scan)
        with atomic_write(scan / REPORT) as temporary:
            Path(temporary).write_text(json.dumps(asdict(report), default=dict), encoding="utf-8")
    except OSError:
        return


def _copy_files(source: Path, target: Path) -> None:
    for file in (FOLDS, MANIFEST):  # the manifest last: a folder with a manifest counts as prepared
        with atomic_write(target / file) as temporary:
            Path(temporary).write_bytes((source / file).read_bytes())
