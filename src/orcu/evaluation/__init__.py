"""Judging predictions: sums, intervals, references, comparisons and gates over the metrics."""
