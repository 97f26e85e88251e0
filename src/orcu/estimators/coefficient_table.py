"""Table of the coefficients of a regression: odds ratios, intervals and p-values, as text, HTML and Arrow."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtr, ndtri

from orcu.inputs import FloatArray

CONFIDENCE_LEVEL = 0.95
_Z = float(ndtri((1 + CONFIDENCE_LEVEL) / 2))


@dataclass(frozen=True)
class CoefficientTable:
    """Coefficients and thresholds of a cumulative logit model with Wald statistics.

    Attributes:
        names: name of each coefficient.
        coef: coefficients, (P,): the log odds ratio of a higher class for one unit more.
        std_error: standard errors, (P,); NaN where the columns separate the classes.
        threshold_names: "a | b" for the threshold between the classes a and b.
        thresholds: thresholds, (C - 1,).
        threshold_std_error: standard errors of the thresholds, (C - 1,).
        about: rows, log-likelihood and kind of standard errors, in words.
    """

    names: tuple[str, ...]
    coef: FloatArray
    std_error: FloatArray
    threshold_names: tuple[str, ...]
    thresholds: FloatArray
    threshold_std_error: FloatArray
    about: str

    @property
    def odds_ratio(self) -> FloatArray:
        """exp(coef): factor of the odds of a higher class for one unit more, (P,)."""
        return _exp(self.coef)

    @property
    def low(self) -> FloatArray:
        """Lower end of the odds ratio's 95 % interval, (P,)."""
        return _exp(self.coef - _Z * self.std_error)

    @property
    def high(self) -> FloatArray:
        """Upper end of the odds ratio's 95 % interval, (P,)."""
        return _exp(self.coef + _Z * self.std_error)

    @property
    def p_value(self) -> FloatArray:
        """Two-sided p-value of Wald's test of coef = 0, (P,)."""
        p_value: FloatArray = 2 * ndtr(-np.abs(self.coef / self.std_error))
        return p_value

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: a list of coefficients and one of thresholds; ``None`` where a number is not defined."""
        coefs = _records(
            name=self.names,
            coef=self.coef,
            std_error=self.std_error,
            odds_ratio=self.odds_ratio,
            low=self.low,
            high=self.high,
            p_value=self.p_value,
        )
        thresholds = _records(name=self.threshold_names, threshold=self.thresholds, std_error=self.threshold_std_error)
        return {"about": self.about, "coefficients": coefs, "thresholds": thresholds}

    def to_arrow(self) -> pa.Table:
        """The coefficients as a pyarrow table with a row each."""
        return pa.Table.from_pylist(self.to_dict()["coefficients"])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of the printed table."""
        headings = ["", "coef", "std. error", "odds ratio", "95 % interval", "p-value"]
        rows = [
            [
                name,
                _number(coef),
                _number(error),
                _number(ratio),
                "–" if np.isnan(low) else f"{_number(low)} to {_number(high)}",
                "–" if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}",
            ]
            for name, coef, error, ratio, low, high, p in zip(
                self.names, self.coef, self.std_error, self.odds_ratio, self.low, self.high, self.p_value, strict=True
            )
        ]
        rows += [
            [name, _number(value), _number(error), "", "", ""]
            for name, value, error in zip(self.threshold_names, self.thresholds, self.threshold_std_error, strict=True)
        ]
        return headings, rows

    def __str__(self) -> str:
        headings, rows = self._cells()
        # Names come from the user's table: no control characters in the terminal.
        rows = [["".join(c if c.isprintable() else "?" for c in row[0]), *row[1:]] for row in rows]
        lines = [headings, *rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(headings))]
        texts = [
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        return "\n".join([*(text.rstrip() for text in texts), "", self.about])

    def _repr_html_(self) -> str:
        from orcu.report.text_tables import HTML, html

        return f"{html(*self._cells())}<p>{HTML.cells([self.about])[0]}</p>"


def _exp(values: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.exp(values)


def _number(value: float) -> str:
    """A number with four significant digits, without an exponent where it is readable."""
    if np.isnan(value):
        return "–"
    return f"{value:.3f}" if value == 0 or 0.01 <= abs(value) < 1000 else f"{value:.3g}"


def _records(**columns: Any) -> list[dict[str, Any]]:
    return [
        {
            key: value if isinstance(value, str) else float(value) if np.isfinite(value) else None
            for key, value in zip(columns, values, strict=True)
        }
        for values in zip(*columns.values(), strict=True)
    ]
