"""Schema of a day in a monitoring log."""

from typing import Any

from pydantic import AliasChoices, Field

from orcu.io.schema import ClassNames, Schema


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
