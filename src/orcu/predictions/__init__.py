"""Predictions of any model, in memory (`Predictions`) or read from files in batches (`open_predictions`)."""

from orcu.predictions.predictions import Predictions, concatenate
from orcu.predictions.source import PredictionsSource, open_predictions

__all__ = ["Predictions", "PredictionsSource", "concatenate", "open_predictions"]
