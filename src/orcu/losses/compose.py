"""Sums of an anchor and a regularizer, and the specs of losses in TOML files and on the command line."""

import tomllib
from collections.abc import Mapping
from typing import Any, Unpack, cast

from torch import Tensor

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_positive
from orcu.kernels.soft_targets import target_names
from orcu.kernels.terms import ClassFirst, Term
from orcu.losses.base import LOSSES, REGULARIZERS, LossOptions, OrdinalLoss
from orcu.losses.closed_form import ClosedFormLoss
from orcu.losses.from_dlordinal import create_from_dlordinal, is_dlordinal
from orcu.losses.from_file import create_from_file
from orcu.registry import file_and_class

COMPOSED_KEYS = ("anchor", "regularizer", "strength")
COMPOSED_OPTIONS = ("strength", *LossOptions.__annotations__)


class Composed(ClosedFormLoss):
    """anchor + strength * regularizer.

    Args:
        anchor: loss that attracts the probability mass, such as `SORDLoss`.
        regularizer: loss or penalty on the same logits, such as `LogBarrier`.
        strength: factor of the regularizer, above 0; by default that of its authors (0.1 for ``mbls`` and ``acls``,
            else 1).

    The reduction, weight and ignore_index of the two terms are not used.

    Raises:
        InputError: if the terms have different numbers of classes, or an argument has an invalid value.

    Example:
        >>> import torch
        >>> from orcu.losses.gap_regularizers import GapHinge
        >>> from orcu.losses.sord import SORDLoss
        >>> loss = Composed(SORDLoss(3), GapHinge(3, scale=2.0))
        >>> round(loss(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.9753
        >>> {term: round(value.item(), 4) for term, value in loss.parts.items()}
        {'softce': 0.9753, 'hinge': 0.0}
    """

    def __init__(
        self,
        anchor: OrdinalLoss,
        regularizer: OrdinalLoss,
        *,
        strength: float | None = None,
        **common: Unpack[LossOptions],
    ) -> None:
        for name, term in (("anchor", anchor), ("regularizer", regularizer)):
            if not isinstance(term, OrdinalLoss):
                raise InputError(f"{name}: expected an orcu.losses.OrdinalLoss, got {type(term).__name__}.")
            if term.needs_head:
                raise InputError(
                    f"{name}: {term.term} takes the output of the head {term.head!r}, expected a loss of logits."
                )
            if term.batch_statistic and common.get("reduction") == "none":
                raise InputError(f"reduction: {term.term} has no per-sample values; use 'mean' or 'sum'.")
        if anchor.num_classes != regularizer.num_classes:
            raise InputError(
                f"regularizer: has {regularizer.num_classes} classes, expected {anchor.num_classes} as the anchor has."
            )
        super().__init__(anchor.num_classes, **common)
        self.anchor: OrdinalLoss = anchor
        self.regularizer: OrdinalLoss = regularizer
        if strength is None:
            strength = regularizer.default_strength
        self.strength = as_positive(strength, name="strength")
        self.batch_statistic = anchor.batch_statistic or regularizer.batch_statistic
        self.soft_labels = anchor.soft_labels and regularizer.soft_labels
        self.dense = self.has_closed_form = all(
            isinstance(term, ClosedFormLoss) and term.has_closed_form for term in (anchor, regularizer)
        )

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Terms of the anchor, and of the regularizer times the strength."""
        anchor, regularizer = (cast(ClosedFormLoss, self.anchor), cast(ClosedFormLoss, self.regularizer))
        terms = dict(anchor.terms(batch, y))
        for name, term in regularizer.terms(batch, y).items():
            terms[_unique_name(name, terms)] = term._replace(factor=self.strength * term.factor)
        return terms

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """Compute the sum of the two reduced terms, in a single autograd node if both have a closed form."""
        if self.has_closed_form:
            return super().evaluate(logits, y, weight, reduction)
        anchor = self.anchor.evaluate(logits, y, weight, reduction)
        regularizer = self.strength * self.regularizer.evaluate(logits, y, weight, reduction)
        parts = {self.anchor.term: anchor}
        parts[_unique_name(self.regularizer.term, parts)] = regularizer
        self.record(parts)
        return anchor + regularizer


def _unique_name(name: str, names: Mapping[str, Any]) -> str:
    """Append a number to the name of a term if both terms of a sum have the same one."""
    unique, number = name, 2
    while unique in names:
        unique, number = f"{name}_{number}", number + 1
    return unique


def create(spec: str | Mapping[str, Any], /, *, num_classes: int, **options: Any) -> OrdinalLoss:
    """Create a loss from a name or a table.

    Args:
        spec: a name (``"orcu"``); a table of a name and options (``{"name": "orcu", "scale": 3.0}``);
            a table of an anchor and a regularizer (``{"anchor": "huber", "regularizer": "softplus"}``,
            optionally with ``"strength"``), where the anchor is a distance or distribution of the
            soft targets, or a loss, and either may be a table; or such a table as TOML text
            (``'{anchor = "huber", regularizer = "softplus"}'``). A name may be a class of a Python file, which is
            executed (``"my_loss.py:MyLoss"``); the table may have the file's text as ``"source"``. It may be a class of
            dlordinal (``"dlordinal:WKLoss"``).
        num_classes: number of classes, C.
        options: further options of the loss, such as ``reduction`` and ``weight``.

    Raises:
        InputError: if a name, a key or an option is unknown, or the text is not a TOML table.

    Example:
        >>> create("cdw_ce", num_classes=5, alpha=5).alpha
        5.0
        >>> loss = create({"anchor": "huber", "regularizer": "softplus"}, num_classes=5)
        >>> loss.anchor.distance, loss.regularizer.term
        ('huber', 'softplus')
    """
    if isinstance(spec, str) and spec.lstrip().startswith("{"):
        spec = _parse(spec)
    if isinstance(spec, Mapping) and "num_classes" in spec:
        raise InputError(
            "loss: the table has the key num_classes; remove it, the number of classes comes from the data."
        )
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if is_dlordinal(name):
        return create_from_dlordinal(spec, num_classes, options)
    if file_and_class(name):
        return create_from_file(spec, num_classes, options)
    if isinstance(spec, Mapping) and "name" not in spec:
        return _compose(spec, num_classes, options)
    return LOSSES.create(spec, num_classes=num_classes, **options)


def _parse(text: str) -> Mapping[str, Any]:
    try:
        table: Mapping[str, Any] = tomllib.loads(f"spec = {text}")["spec"]
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f'loss: {text!r} is not a TOML table ({error}). Example: {{name = "orcu", scale = 3.0}}.'
        ) from error
    return table


def _compose(spec: Mapping[str, Any], num_classes: int, options: dict[str, Any]) -> Composed:
    for key in spec:
        if key not in COMPOSED_KEYS:
            raise UnknownNameError("key of a loss", key, ("name", *COMPOSED_KEYS))
    if "anchor" not in spec or "regularizer" not in spec:
        raise InputError(f"loss: the table {dict(spec)!r} needs a 'name', or an 'anchor' and a 'regularizer'.")
    anchor = spec["anchor"]
    name = anchor.get("name") if isinstance(anchor, Mapping) else anchor
    if name in target_names():
        first = LOSSES.create("sord", num_classes=num_classes, distance=anchor)
    elif name in LOSSES.names():
        first = LOSSES.create(anchor, num_classes=num_classes)
    else:
        raise UnknownNameError("anchor", name, [*target_names(), *LOSSES.names()])
    second = REGULARIZERS.create(spec["regularizer"], num_classes=num_classes)
    for option in options:
        if option not in COMPOSED_OPTIONS:
            raise UnknownNameError("option of a sum", option, COMPOSED_OPTIONS)
    return Composed(first, second, **(options | {k: spec[k] for k in ("strength",) if k in spec}))
