"""Data sets: cards and readers, preparation, evaluation protocols, image cache and batches.

``names()`` lists the data sets, ``card(name)`` describes one, ``prepare(name, root)`` checks its files and writes a
manifest, ``load(name)`` opens a prepared data set.
"""

from collections.abc import Mapping
from typing import Any

from orcu.data.base import DATASETS, Card, Dataset, Row
from orcu.data.manifest import Manifest
from orcu.data.prepare import prepare
from orcu.data.store import PreparedData, load

__all__ = ["DATASETS", "Card", "Dataset", "Manifest", "PreparedData", "Row"]
__all__ += ["card", "create", "load", "names", "prepare"]

names = DATASETS.names


def create(spec: str | Mapping[str, Any], /, **options: Any) -> Dataset:
    """Create a data set from a name, or from a mapping with its name and options.

    Raises:
        UnknownNameError: if the name or an option does not exist.

    Example:
        >>> create("diamonds", target="color").classes
        ('J', 'I', 'H', 'G', 'F', 'E', 'D')
    """
    dataset: Dataset = DATASETS.create(spec, **options)
    return dataset


def card(name: str) -> Card:
    """The card of a data set.

    Example:
        >>> card("limuc").classes
        ('Mayo 0', 'Mayo 1', 'Mayo 2', 'Mayo 3')
    """
    return DATASETS.get(name).card
