"""Closed forms of losses and soft targets in numpy, shared by the torch losses and the boosting objectives."""
