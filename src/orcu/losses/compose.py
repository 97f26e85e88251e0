"""Any anchor with any regularizer, and the specs that name a loss in TOML and on the command line."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Tensor

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_positive
from orcu.kernels.soft_targets import distances
from orcu.kernels.terms import ClassFirst, Term
from orcu.losses.base import IGNORED, LOSSES, REGULARIZERS, OrdinalLoss
from orcu.losses.closed_form import ClosedFormLoss

COMPOSED_KEYS = ("anchor", "regularizer", "strength")


class Composed(ClosedFormLoss):
    """anchor + strength * regularizer.

    Args:
        anchor: a loss that says where the mass belongs, such as `SORDLoss`.
        regularizer: a loss or penalty on the same logits, such as `LogBarrier`.
        strength: the factor of the regularizer, above 0; by default the one its authors use
            (0.1 for ``mbls`` and ``acls``, else 1).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``; those of the two terms are not used.
        weight: one weight per class, or ``None``; those of the two terms are not used.
        ignore_index: samples with this label do not count.

    Raises:
        InputError: if the terms disagree on the number of classes, or an argument cannot be used.

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
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
    ) -> None:
        for name, term in (("anchor", anchor), ("regularizer", regularizer)):
            if not isinstance(term, OrdinalLoss):
                raise InputError(f"{name}: expected a loss of orcu, got {type(term).__name__}.")
            if term.needs_head:
                raise InputError(f"{name}: {term.term} needs its own head and cannot be part of a sum.")
            if term.batch_statistic and reduction == "none":
                raise InputError(f"reduction: {term.term} has no per-sample values; use 'mean' or 'sum'.")
        if anchor.num_classes != regularizer.num_classes:
            raise InputError(
                f"regularizer: made for {regularizer.num_classes} classes, the anchor for "
                f"{anchor.num_classes}; both must agree."
            )
        super().__init__(anchor.num_classes, reduction=reduction, weight=weight, ignore_index=ignore_index)
        self.anchor: OrdinalLoss = anchor
        self.regularizer: OrdinalLoss = regularizer
        if strength is None:
            strength = regularizer.default_strength
        self.strength = as_positive(strength, name="strength")
        self.batch_statistic = anchor.batch_statistic or regularizer.batch_statistic
        self.soft_labels = anchor.soft_labels and regularizer.soft_labels
        self.dense = self.closed = all(
            isinstance(term, ClosedFormLoss) and term.closed for term in (anchor, regularizer)
        )

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Those of the anchor, and those of the regularizer times the strength."""
        anchor, regularizer = (cast(ClosedFormLoss, self.anchor), cast(ClosedFormLoss, self.regularizer))
        terms = dict(anchor.terms(batch, y))
        for name, term in regularizer.terms(batch, y).items():
            terms[_unused(name, terms)] = term._replace(factor=self.strength * term.factor)
        return terms

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The sum of the two reduced terms: in one node if both know their gradient."""
        if self.closed:
            return super().evaluate(logits, y, weight, reduction)
        anchor = self.anchor.evaluate(logits, y, weight, reduction)
        regularizer = self.strength * self.regularizer.evaluate(logits, y, weight, reduction)
        parts = {self.anchor.term: anchor}
        parts[_unused(self.regularizer.term, parts)] = regularizer
        self.record(parts)
        return anchor + regularizer


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    """The name, or with a number behind it if it is taken: two terms of a kind both count."""
    unused, number = name, 2
    while unused in taken:
        unused, number = f"{name}_{number}", number + 1
    return unused


def create(spec: str | Mapping[str, Any], /, *, num_classes: int, **options: Any) -> OrdinalLoss:
    """Make a loss from a short spec, as TOML files and the command line give it.

    Args:
        spec: a name (``"orcu"``); a table of a name and options (``{"name": "orcu", "scale": 3.0}``);
            a table of an anchor and a regularizer (``{"anchor": "huber", "regularizer": "softplus"}``,
            optionally with ``"strength"``), where the anchor is a distance of the soft targets or
            a loss and either may be a table; or such a table as TOML text
            (``'{anchor = "huber", regularizer = "softplus"}'``).
        num_classes: how many classes, C.
        options: further options of the loss, such as ``reduction`` and ``weight``.

    Raises:
        InputError: if a name, a key or an option is unknown, or the text is no table.

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
        raise InputError("loss: num_classes is given by the data, not in the table of a loss.")
    if isinstance(spec, Mapping) and "name" not in spec:
        return _compose(spec, num_classes, options)
    loss: OrdinalLoss = LOSSES.create(spec, num_classes=num_classes, **options)
    return loss


def _parse(text: str) -> Mapping[str, Any]:
    try:
        table: Mapping[str, Any] = tomllib.loads(f"spec = {text}")["spec"]
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f'loss: {text!r} is no TOML table ({error}). Write it as {{name = "orcu", scale = 3.0}}.'
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
    if name in distances.names():
        first = LOSSES.create("sord", num_classes=num_classes, distance=anchor)
    elif name in LOSSES.names():
        first = LOSSES.create(anchor, num_classes=num_classes)
    else:
        raise UnknownNameError("anchor", name, [*distances.names(), *LOSSES.names()])
    second = REGULARIZERS.create(spec["regularizer"], num_classes=num_classes)
    for option in options:
        if option not in ("reduction", "strength", "weight", "ignore_index"):
            raise UnknownNameError("option of a sum", option, ("reduction", "strength", "weight", "ignore_index"))
    return Composed(first, second, **(options | {k: spec[k] for k in ("strength",) if k in spec}))
