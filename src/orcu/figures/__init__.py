"""Figures: one file each, a function that turns results into plain data, and ``draw(ax, data)``."""
