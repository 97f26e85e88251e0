"""Schema of the saved state of a tally."""

from typing import Annotated

from pydantic import AliasChoices, Field

from orcu.io.schema import NumClasses, Schema


class TallySchema(Schema):
    """Result of `orcu.Tally.to_dict`; the second alias of a field is its name in files of orcu 0.2."""

    state_version: int
    num_classes: NumClasses
    n_bins: int = Field(ge=1, validation_alias=AliasChoices("n_bins", "bins"))
    rows: int = Field(ge=0)
    metrics: list[str] | None = None  # not named by orcu 0.2
    row_scores: list[str] = Field(validation_alias=AliasChoices("row_scores", "scores"))
    state: list[list[Annotated[int, Field(gt=-(2**63), lt=2**63)]]] = Field(
        validation_alias=AliasChoices("state", "limbs")
    )
