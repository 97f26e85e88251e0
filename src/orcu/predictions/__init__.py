"""The waist: what a model said about some rows and, where it is known, what came true.

The training half writes `Predictions`, everything that judges reads only them. ``open_predictions`` opens a file,
a folder or a frame of any model's predictions.
"""

from orcu.predictions.predictions import Predictions, PredictionsSource, concatenated, open_predictions

__all__ = ["Predictions", "PredictionsSource", "concatenated", "open_predictions"]
