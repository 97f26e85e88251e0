"""Figures: one file each, a function that turns results into plain data, and ``draw(ax, data)``.

Those of the registry ``orcu.figures.base.FIGURES`` are whole figures of the paper's kinds, made by
``orcu.figures.base.make`` and ``orcu figure``.
"""
