"""One's own data, looked at once: scanned by the names, sizes and times of files, decoded and embedded by content.

A data set that is prepared inside a result's folder has its decoded images and features here, in the store, under the
digest of its rows; another training on the same files starts where the first had come to.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import orcu
from orcu.data.base import DATASETS
from orcu.data.kinds import kind_of
from orcu.data.prepare import Findings, prepare
from orcu.data.store import FOLDS, MANIFEST, Prepared, store_folder
from orcu.errors import InputError
from orcu.io.files import atomic_write

SHARED = ".shared"
FINDINGS = "findings.json"


def prepare_own(
    name: str, root: Path | None, out: Path, *, options: Mapping[str, Any] | None = None, skip_bad: bool = False
) -> tuple[Prepared, Findings]:
    """As `orcu.data.prepare`, into ``out``; files that were scanned before and have not been touched are not read.

    Args:
        name: a registered data set.
        root: the folder of its files, or ``None`` where a package carries them.
        out: where to write manifest and folds.
        options: of the data set.
        skip_bad: go on without images that are missing or cannot be decoded.

    Raises:
        InputError: if files are missing or say something unexpected.
    """
    kind = kind_of(DATASETS.create(name, **(options or {})).card.kind)
    if root is None or not root.is_dir() or not kind.has_images:  # the scan of a table is as quick as asking for it
        fresh = prepare(name, root, out=out, options=options, skip_bad=skip_bad)[1]
        return shared(out), fresh
    scan = store_folder() / SHARED / "scans" / _fingerprint(name, root, options, skip_bad)
    findings = _known(scan)
    if findings is None:
        prepared, findings = prepare(name, root, out=out, options=options, skip_bad=skip_bad)
        _keep(scan, prepared, findings)
    else:
        out.mkdir(parents=True, exist_ok=True)
        for file in (FOLDS, MANIFEST):  # the manifest last: with it the folder counts as prepared
            with atomic_write(out / file) as temporary:
                Path(temporary).write_bytes((scan / file).read_bytes())
    return shared(out), findings


def shared(folder: Path) -> Prepared:
    """Prepared data whose decoded images and features are shared by all that have the same rows."""
    prepared = Prepared(folder)
    prepared.derived = store_folder() / SHARED / prepared.manifest.digest[:16]
    return prepared


def _fingerprint(name: str, root: Path, options: Mapping[str, Any] | None, skip_bad: bool) -> str:
    """Of all files below a folder, through links too: their names, sizes and times; and of how they are to be read."""
    digest = sha256(json.dumps([orcu.__version__, name, str(root.resolve()), dict(options or {}), skip_bad]).encode())
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()
        for path in (Path(folder) / file for file in sorted(files)):
            status = path.stat() if path.exists() else path.lstat()
            digest.update(f"{path.relative_to(root)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _known(scan: Path) -> Findings | None:
    """The findings of a scan, if it is whole."""
    try:
        entries = json.loads((scan / FINDINGS).read_text(encoding="utf-8"))
        Prepared(scan)
        return Findings(**entries | {"classes": tuple(entries["classes"])})
    except (OSError, ValueError, TypeError, KeyError, InputError):
        return None


def _keep(scan: Path, prepared: Prepared, findings: Findings) -> None:
    """Keep a scan; where the store cannot be written the next one reads the files again."""
    try:
        scan.mkdir(parents=True, exist_ok=True)
        for file in (FOLDS, MANIFEST):
            with atomic_write(scan / file) as temporary:
                Path(temporary).write_bytes((prepared.folder / file).read_bytes())
        with atomic_write(scan / FINDINGS) as temporary:
            Path(temporary).write_text(json.dumps(asdict(findings), default=dict), encoding="utf-8")
    except OSError:
        return
