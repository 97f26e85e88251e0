"""The methods of an evaluation in a paragraph, for a paper or a regulatory file."""

import math

import orcu
from orcu.evaluation.evaluation import Evaluation, format_metric, format_metric_interval
from orcu.evaluation.findings import findings
from orcu.metrics.base import METRICS

STATED = ("accuracy", "qwk", "rps", "ece", "sce", "overconfidence")


def methods_paragraph(evaluation: Evaluation) -> str:
    """Sentences that state data, metrics, intervals and tests with the numbers of an evaluation.

    Example:
        >>> probs = [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
        >>> methods_paragraph(orcu.evaluate(probs=probs, y=[0, 1, 2, 1], n_resamples=100)).split(".")[0]
        'The model was evaluated on 4 rows with 3 ordered classes (0, 1, 2)'
    """
    clusters = "" if evaluation.clusters is None else f" of {evaluation.clusters:,} clusters"
    weighted = ", with sample weights" if evaluation.weighted else ""
    sentences = [
        f"The model was evaluated on {evaluation.rows:,} rows{clusters} with {len(evaluation.classes)} ordered classes "
        f"({', '.join(evaluation.classes)}){weighted}"
    ]
    values = []
    for name in STATED:
        metric = METRICS.get(name)
        ends = evaluation.metrics[name]
        interval = "" if math.isnan(ends.low) else f" ({format_metric_interval(evaluation, metric)})"
        values.append(f"{metric.title} {format_metric(evaluation, metric)}{interval}")
    sentences.append(f"The values are: {'; '.join(values)}")
    if evaluation.n_resamples:
        units = "rows" if evaluation.clusters is None else "clusters, with a correction for few clusters"
        sentences.append(
            f"Intervals in brackets are 95 % bootstrap intervals ({evaluation.n_resamples:,} resamples of {units}); "
            f"those of calibration errors ({evaluation.n_bins} bins) are corrected for sampling noise"
        )
    results = findings(evaluation)
    if results.enough_rows and evaluation.n_resamples:
        verb = "is" if results.is_miscalibrated else "is not"
        sentences.append(
            "Over-confidence, ECE, SCE and the error of the thresholds were compared with a perfectly calibrated "
            f"model, adjusted by the method of Holm at the level of 5 %: the miscalibration {verb} significant "
            f"(smallest adjusted p = {_p_text(results.smallest_p_value)})"
        )
    if results.calibrators:
        sentences.append(f"The probabilities had been calibrated on other rows ({', '.join(results.calibrators)})")
    sentences.append(f"Computed with orcu {orcu.__version__}, random seed {evaluation.random_state}")
    return ". ".join(sentences) + "."


def _p_text(p_value: float) -> str:
    return "below 0.001" if p_value < 0.001 else f"{p_value:.3f}"
