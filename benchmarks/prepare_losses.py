"""Prepare the data of the spec `results_losses` that do not come with a package.

    python benchmarks/prepare_losses.py --data DIR

DIR contains the folders tabular (winequality-red.csv, winequality-white.csv, car_evaluation.csv and abalone.csv of
UCI), aptos2019, retinamnist, sst5 and vader. The data sets are written to the data store ($ORCU_DATA), where
`orcu bench run results_losses` finds them. Data sets in the store are not prepared again. The age classes of abalone
are those of `benchmarks/defaults.py`.
"""

import argparse
import tempfile
from pathlib import Path

import pandas as pd
from defaults import tasks

from orcu.bench.spec import load_spec
from orcu.data.prepare import prepare
from orcu.data.store import MANIFEST, store_folder

FOLDERS = {"table": "tabular", "wine_quality": "tabular"}  # folders of data sets that do not have their own


def write_abalone(tables: Path, folder: Path) -> None:
    """Write abalone.csv with the column "age", groups of the number of rings, in place of the rings."""
    frame, age = tasks(tables)["abalone"]()
    pd.DataFrame(frame).assign(age=age).to_csv(folder / "abalone.csv", index=False)


def main() -> None:
    """Prepare every data set of the spec whose folder exists."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    for entry in load_spec("results_losses").data:
        root, target = data / FOLDERS.get(entry.set, entry.set), store_folder() / entry.store
        if (target / MANIFEST).exists() or not root.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            if entry.store == "abalone":
                write_abalone(root, Path(folder))
                root = Path(folder)
            prepare(entry.set, root, output=target, options=entry.options)
        print(f"{entry.store}: prepared")


if __name__ == "__main__":
    main()
