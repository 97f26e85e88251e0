"""Schema of the metadata that `Predictions.write` stores in a Parquet file."""

from typing import Any, Literal

from pydantic import Field, ValidationError

from orcu.errors import InputError
from orcu.io.schema import ClassNames, Schema, first_fault
from orcu.predictions.predictions import SCHEMA_VERSION


class Metadata(Schema):
    """Metadata of a Parquet file of predictions, under the key "orcu"."""

    schema_version: int = Field(ge=1, le=SCHEMA_VERSION)
    kind: Literal["probs", "logits"]
    classes: ClassNames
    history: list[dict[str, Any]] = Field(default_factory=list)
    # Roles of the columns of a user's file; a file of `Predictions.write` has the columns that it lists.
    columns: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Metadata":
        """Parse metadata from JSON."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InputError(f"the metadata are invalid ({first_fault(error)}).") from None
