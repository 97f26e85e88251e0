"""Prepared data sets on disk: manifest, folds, image caches, and the statistics of each fold."""

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orcu.data.cache import ImageCache
from orcu.data.folds import SPLITS, Protocol
from orcu.data.manifest import Manifest
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray
from orcu.tables.writing import write_table

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
        self.manifest = Manifest.read(self.folder / MANIFEST)

    @property
    def name(self) -> str:
        """What it is called in the store."""
        return self.folder.name

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
            made_for = json.loads(table.schema.metadata[b"orcu"])["manifest"]
        except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
            made_for = None
        if made_for != self.manifest.digest:
            raise InputError(
                f"{path}: missing, damaged, or made for other rows; make it anew with `orcu data folds "
                f"{self.name} --seed 0`."
            )
        return table

    def protocols(self) -> dict[str, int]:
        """The protocols and their numbers of folds."""
        names = self.folds.column("protocol").to_pylist()
        folds = self.folds.column("fold").to_pylist()
        found: dict[str, int] = {}
        for name, fold in zip(names, folds, strict=True):
            found[name] = max(found.get(name, 0), fold + 1)
        return found

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
        row_of = {name: row for row, name in enumerate(self.manifest.ids)}
        rows = np.array([row_of[name] for name in part.column("id").to_pylist()])
        splits = np.array(part.column("split").to_pylist())
        return {name: np.sort(rows[splits == name]) for name in SPLITS}

    def cache(self, size: int) -> ImageCache:
        """The images at one size.

        Raises:
            InputError: if they were not prepared at this size.
        """
        return ImageCache(cache_folder(self.folder, size), self.manifest)

    def mean_and_std(self, protocol: str, fold: int, size: int) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each colour over the fold's training images, in [0, 1].

        Raises:
            InputError: if they were not prepared.
        """
        self.split(protocol, fold)  # says what is wrong with them
        path = self.folder / f"normalization_{size}.parquet"
        if not path.exists():
            self.cache(size)  # says what to do if there is no cache either
            write_normalization(self, size)
        table = pq.read_table(path)
        for row in table.to_pylist():
            if (row["protocol"], row["fold"]) == (protocol, fold):
                return np.array(row["mean"]), np.array(row["std"])
        raise InputError(f"{path}: no fold {fold} of {protocol}; run `orcu data prepare` again.")


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
    for stale in folder.glob("normalization_*.parquet"):
        stale.unlink()
    return left_out


def write_normalization(prepared: Prepared, size: int) -> None:
    """Write the colour statistics of every fold's training images."""
    cache, rows = prepared.cache(size), []
    for protocol, folds in prepared.protocols().items():
        for fold in range(folds):
            train = prepared.split(protocol, fold)["train"]
            if len(train) == 0:
                continue
            mean, std = cache.mean_and_std(train)
            rows.append({"protocol": protocol, "fold": fold, "mean": mean.tolist(), "std": std.tolist()})
    write_table(pa.Table.from_pylist(rows), prepared.folder / f"normalization_{size}.parquet")
