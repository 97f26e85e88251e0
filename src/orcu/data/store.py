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

from orcu.data.cache import ImageCache, build
from orcu.data.folds import SPLITS, Protocol
from orcu.data.kinds import Kind, kind_of
from orcu.data.manifest import Manifest
from orcu.errors import InputError, UnknownNameError
from orcu.io.writing import write_table

MANIFEST, FOLDS = "manifest.parquet", "folds.parquet"


def store_folder() -> Path:
    """Where prepared data sets are kept: ``$ORCU_DATA``, or ``orcu_data`` in the current folder."""
    return Path(os.environ.get("ORCU_DATA", "orcu_data"))


def prepared_names() -> list[str]:
    """The data sets that have been prepared here."""
    return sorted(path.parent.name for path in store_folder().glob(f"*/{MANIFEST}"))


def load(name: str | os.PathLike[str]) -> "Prepared":
    """A prepared data set, by its name in the store or its folder.

    Raises:
        InputError: if it has not been prepared.
    """
    folder = Path(name) if (Path(name) / MANIFEST).exists() else store_folder() / name
    if not (folder / MANIFEST).exists():
        raise InputError(f"{name}: not prepared in {store_folder()}; run `orcu data prepare {name}` first.")
    return Prepared(folder)


class Prepared:
    """A prepared data set.

    Args:
        folder: what `orcu.data.prepare` has written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.derived = self.folder  # where decoded images and features are
        self.manifest = Manifest.read(self.folder / MANIFEST)

    @property
    def name(self) -> str:
        """What it is called in the store."""
        return self.folder.name

    @property
    def kind(self) -> Kind:
        """What its rows are: images, texts, or rows of a table."""
        return kind_of(self.manifest.about.kind)

    def __repr__(self) -> str:
        return f"Prepared({self.name}: {len(self.manifest):,} rows)"

    @cached_property
    def folds(self) -> pa.Table:
        """Columns protocol, fold, split and id.

        Raises:
            InputError: if they are of another manifest.
        """
        path = self.folder / FOLDS
        try:
            table = pq.read_table(path)
            digest = json.loads(table.schema.metadata[b"orcu"])["manifest"]
        except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
            digest = None
        if digest != self.manifest.digest:
            raise InputError(
                f"{path}: missing, damaged, or made for other rows; make it anew with `orcu data folds "
                f"{self.name} --seed 0`."
            )
        return table

    def protocols(self) -> dict[str, int]:
        """The protocols and their numbers of folds."""
        last = self.folds.group_by("protocol", use_threads=False).aggregate([("fold", "max")])  # in their order
        return {row["protocol"]: row["fold_max"] + 1 for row in last.to_pylist()}

    def split(self, protocol: str, fold: int) -> dict[str, npt.NDArray[np.intp]]:
        """The manifest's row numbers of train, validation and test.

        Raises:
            InputError: if there is no such protocol or fold.
        """
        known = self.protocols()
        if protocol not in known:
            raise UnknownNameError(f"protocol of {self.name}", protocol, known)
        if not 0 <= fold < known[protocol]:
            raise InputError(f"fold: {protocol} has folds 0..{known[protocol] - 1}, got {fold}.")
        chosen = pc.and_(pc.equal(self.folds.column("protocol"), protocol), pc.equal(self.folds.column("fold"), fold))
        part = self.folds.filter(chosen)
        rows = pc.index_in(part.column("id"), self.manifest.table.column("id")).to_numpy().astype(np.intp)
        splits = part.column("split")
        return {name: np.sort(rows[pc.equal(splits, name).to_numpy()]) for name in SPLITS}

    def used_counts(self, protocol: str) -> list[int] | None:
        """The rows of each class that a protocol uses; ``None`` if the set has no such protocol."""
        if protocol not in self.protocols():
            return None
        rows = np.concatenate(list(self.split(protocol, 0).values()))
        counts: list[int] = np.bincount(self.manifest.labels[rows], minlength=len(self.manifest.classes)).tolist()
        return counts

    def cache(self, size: int) -> ImageCache:
        """The images at one size.

        Raises:
            InputError: if they were not prepared at this size.
        """
        return ImageCache(cache_folder(self.derived, size), self.manifest)

    def decode(self, size: int, **options: Any) -> None:
        """Decode all images to squares of one size, if there are any; options as for `orcu.data.cache.build`."""
        if self.kind.has_images:
            self.derived.mkdir(parents=True, exist_ok=True)
            build(self.manifest, cache_folder(self.derived, size), size, **options)


def cache_folder(folder: Path, size: int) -> Path:
    """Where the images of one size are."""
    return folder / f"cache_{size}"


def write_folds(folder: Path, manifest: Manifest, protocols: Mapping[str, Protocol], seed: int) -> dict[str, int]:
    """Divide the rows by every protocol and write them; rows left out as doubles, by protocol."""
    cases, left_out = manifest.cases(), {}
    ids = np.array(manifest.ids, dtype=object)
    columns: dict[str, list[npt.NDArray[np.generic]]] = {n: [] for n in ("protocol", "fold", "split", "id")}
    for name, protocol in protocols.items():
        folds, left_out[name] = protocol.folds(cases, seed)
        for fold, splits in enumerate(folds):
            for code, split in enumerate(SPLITS):
                chosen = ids[splits == code]
                columns["protocol"].append(np.full(len(chosen), name, dtype=object))
                columns["fold"].append(np.full(len(chosen), fold, dtype=np.int16))
                columns["split"].append(np.full(len(chosen), split, dtype=object))
                columns["id"].append(chosen)
    about = {"manifest": manifest.digest, "seed": seed, "left_out": left_out}
    table = pa.table({name: pa.array(np.concatenate(parts)) for name, parts in columns.items()})
    write_table(table.replace_schema_metadata({"orcu": json.dumps(about)}), folder / FOLDS)
    return left_out
