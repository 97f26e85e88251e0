"""Schema of a day in a monitoring log."""

from typing import Annotated, Any

from pydantic import AliasChoices, Field

from orcu.io.schema import ClassNames, Schema

Occasion = Annotated[int, Field(ge=0, lt=2**31)]


class SubgroupSchema(Schema):
    """Sums of a subgroup."""

    rows: int = Field(ge=0)
    unlabelled: int = Field(ge=0)
    top: list[list[float]]


class BetsSchema(Schema):
    """Result of `orcu.monitoring.bets.Bets.to_dict`."""

    populations: list[str]
    cells: list[list[float | int]]


class MonitoredDaySchema(Schema):
    """Result of `orcu.monitoring.log.Day.to_dict`."""

    monitored_day: int
    day: str
    classes: ClassNames
    unlabelled: int = Field(ge=0, validation_alias=AliasChoices("unlabelled", "waiting"))  # waiting: orcu 0.2
    ids: list[str] | None
    unlabelled_ids: list[str] | None = Field(validation_alias=AliasChoices("unlabelled_ids", "waiting_ids"))
    sources: list[dict[str, str]]
    tally: dict[str, Any]  # validated by `orcu.Tally.from_dict`
    # Since version 2; orcu 0.2 wrote version 1.
    digests: list[str] = Field(default_factory=list)
    weighted: bool = False
    subgroups: dict[str, SubgroupSchema] | None = None
    clusters: dict[str, list[Occasion]] | None = None
    bets: BetsSchema | None = None
    squares: float | None = Field(default=None, ge=0)
    sha256: str | None = None
