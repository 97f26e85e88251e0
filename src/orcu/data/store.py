"""Prepared data sets on disk: manifest, folds and image caches."""

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orcu.data.base import IMAGES
from orcu.data.cache import ImageCache, build_cache
from orcu.data.folds import SPLITS, Protocol
from orcu.data.manifest import Manifest
from orcu.errors import InputError, UnknownNameError
from orcu.io.writing import write_table

MANIFEST, FOLDS = "manifest.parquet", "folds.parquet"
SHARED = ".shared"  # folder of the store for results that data sets with the same rows share


def store_folder() -> Path:
    """Folder of prepared data sets: ``$ORCU_DATA``, or ``orcu_data`` in the current folder."""
    return Path(os.environ.get("ORCU_DATA", "orcu_data"))


def prepared_names() -> list[str]:
    """Names of the prepared data sets in the store."""
    return sorted(path.parent.name for path in store_folder().glob(f"*/{MANIFEST}"))


def load(name: str | os.PathLike[str]) -> "PreparedData":
    """Open a prepared data set by its name in the store or by its folder."""
    folder = Path(name) if (Path(name) / MANIFEST).exists() else store_folder() / name
    if not (folder / MANIFEST).exists():
        raise InputError(f"{name}: not prepared in {store_folder()}; run `orcu data prepare {name}` first.")
    return PreparedData(folder)


class PreparedData:
    """A prepared data set.

    Args:
        folder: folder that `orcu.data.prepare` has written.
        shared: whether decoded images and features are in a folder of the store that all data sets with the same rows
            share, instead of ``folder``.
    """

    def __init__(self, folder: str | os.PathLike[str], *, shared: bool = False) -> None:
        self.folder = Path(folder)
        self.manifest = Manifest.read(self.folder / MANIFEST)
        self.derived = store_folder() / SHARED / self.manifest.digest[:16] if shared else self.folder

    @property
    def name(self) -> str:
        """Name in the store."""
        return self.folder.name

    @property
    def has_images(self) -> bool:
        """Whether the rows are images."""
        return self.manifest.about.kind == IMAGES

    def __repr__(self) -> str:
        return f"PreparedData({self.name}: {len(self.manifest):,} rows)"

    @cached_property
    def folds(self) -> pa.Table:
        """The folds, with columns protocol, fold, split and id."""
        path = self.folder / FOLDS
        try:
            table = pq.read_table(path)
            digest = json.loads(table.schema.metadata[b"orcu"])["manifest"]
        except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
            digest = None
        if digest != self.manifest.digest:
            raise InputError(
                f"{path}: missing, damaged, or written for other rows; write it again with `orcu data folds "
                f"{self.name} --seed 0`."
            )
        return table

    def protocols(self) -> dict[str, int]:
        """Names of the protocols and their numbers of folds."""
        last = self.folds.group_by("protocol", use_threads=False).aggregate([("fold", "max")])  # in their order
        return {row["protocol"]: row["fold_max"] + 1 for row in last.to_pylist()}

    def split(self, protocol: str, fold: int) -> dict[str, npt.NDArray[np.intp]]:
        """Row numbers of train, validation and test in a fold.

        Raises:
            InputError: if there is no such protocol or fold.
        """
        protocols = self.protocols()
        if protocol not in protocols:
            raise UnknownNameError(f"protocol of {self.name}", protocol, protocols)
        if not 0 <= fold < protocols[protocol]:
            raise InputError(f"fold: {protocol} has folds 0..{protocols[protocol] - 1}, got {fold}.")
        mask = pc.and_(pc.equal(self.folds.column("protocol"), protocol), pc.equal(self.folds.column("fold"), fold))
        part = self.folds.filter(mask)
        rows = pc.index_in(part.column("id"), self.manifest.table.column("id")).to_numpy().astype(np.intp)
        splits = part.column("split")
        return {name: np.sort(rows[pc.equal(splits, name).to_numpy()]) for name in SPLITS}

    def used_counts(self, protocol: str) -> list[int] | None:
        """Number of rows per class that a protocol uses; ``None`` if there is no such protocol."""
        if protocol not in self.protocols():
            return None
        rows = np.concatenate(list(self.split(protocol, 0).values()))
        counts: list[int] = np.bincount(self.manifest.labels[rows], minlength=len(self.manifest.classes)).tolist()
        return counts

    def cache(self, size: int) -> ImageCache:
        """The images of one size, which must have been decoded to it."""
        return ImageCache(cache_folder(self.derived, size), self.manifest)

    def decode(self, size: int, **options: Any) -> None:
        """Decode all images, if there are any, to squares; options as for `orcu.data.cache.build_cache`."""
        if self.has_images:
            self.derived.mkdir(parents=True, exist_ok=True)
            build_cache(self.manifest, cache_folder(self.derived, size), size, **options)


def cache_folder(folder: Path, size: int) -> Path:
    """Folder of the images of one size."""
    return folder / f"cache_{size}"


def write_folds(folder: Path, manifest: Manifest, protocols: Mapping[str, Protocol], seed: int) -> dict[str, int]:
    """Write the folds of all protocols; returns the number of rows dropped as duplicates, by protocol."""
    samples, dropped = manifest.samples(), {}
    ids = np.array(manifest.ids, dtype=object)
    columns: dict[str, list[npt.NDArray[np.generic]]] = {n: [] for n in ("protocol", "fold", "split", "id")}
    for name, protocol in protocols.items():
        folds, dropped[name] = protocol.split(samples, seed)
        for fold, splits in enumerate(folds):
            for code, split in enumerate(SPLITS):
                members = ids[splits == code]
                columns["protocol"].append(np.full(len(members), name, dtype=object))
                columns["fold"].append(np.full(len(members), fold, dtype=np.int16))
                columns["split"].append(np.full(len(members), split, dtype=object))
                columns["id"].append(members)
    about = {"manifest": manifest.digest, "seed": seed, "left_out": dropped}
    table = pa.table({name: pa.array(np.concatenate(parts)) for name, parts in columns.items()})
    write_table(table.replace_schema_metadata({"orcu": json.dumps(about)}), folder / FOLDS)
    return dropped
