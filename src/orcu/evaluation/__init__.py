"""Evaluation of predictions: sums, intervals, references, comparisons and gates."""
