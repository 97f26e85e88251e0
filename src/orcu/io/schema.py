"""Validation of orcu's JSON files and metadata with pydantic.

Importing pydantic is slow, so readers import their schemas when a file is read.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orcu.errors import InputError

MAX_CLASSES = 100_000
NumClasses = Annotated[int, Field(ge=2, le=MAX_CLASSES)]
ClassNames = Annotated[list[str], Field(min_length=2, max_length=MAX_CLASSES)]


class Schema(BaseModel):
    """Base class: fields have exactly their declared types, and numbers are finite."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


SchemaT = TypeVar("SchemaT", bound=Schema)


class UsedRowsSchema(Schema):
    """Result of `orcu.predictions.used_rows.UsedRows.to_dict`."""

    count: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    ids: list[str] | None = None

    @model_validator(mode="after")
    def _check_count(self) -> "UsedRowsSchema":
        if self.ids is not None and len(self.ids) != self.count:
            raise ValueError(f"{len(self.ids)} ids for {self.count} rows")
        return self


def validate(schema: type[SchemaT], state: Mapping[str, Any], name: str, *, fix: str = "Fit again.") -> SchemaT:
    """Validate plain data; an InputError names the data, the first invalid field and how to fix it."""
    try:
        return schema.model_validate(dict(state))
    except ValidationError as error:
        raise InputError(f"{name} are damaged ({first_fault(error)}). {fix}") from None


def first_fault(error: ValidationError) -> str:
    """Return the first invalid field and the reason."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else str(first["msg"])
