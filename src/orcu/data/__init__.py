"""Data sets: one file each with its card and its rows; folds as data; images decoded once.

``names()`` lists them, ``card(name)`` describes one, ``prepare(name, root)`` scans and checks its
files and writes a manifest, ``load(name)`` opens what was prepared.
"""

from collections.abc import Mapping
from typing import Any

from orcu.data.base import DATASETS, Card, Dataset, Row
from orcu.data.manifest import Manifest
from orcu.data.prepare import prepare
from orcu.data.store import Prepared, load

__all__ = ["DATASETS", "Card", "Dataset", "Manifest", "Prepared", "Row", "card", "create", "load", "names", "prepare"]

names = DATASETS.names


def create(spec: str | Mapping[str, Any], /, **options: Any) -> Dataset:
    """The data set of a name, or of a table of its name and options.

    Raises:
        UnknownNameError: if the name or an option does not exist.

    Example:
        >>> create("diamonds", target="color").classes
        ('J', 'I', 'H', 'G', 'F', 'E', 'D')
    """
    dataset: Dataset = DATASETS.create(spec, **options)
    return dataset


def card(name: str) -> Card:
    """What is known about a data set.

    Example:
        >>> card("limuc").classes
        ('Mayo 0', 'Mayo 1', 'Mayo 2', 'Mayo 3')
    """
    return DATASETS.get(name).card
