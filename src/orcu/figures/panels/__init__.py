"""Figures, one module each: ``data`` converts results to arrays, and ``draw(ax, ...)`` draws one panel.

Figures of the paper also register a `Figure` class under the name of the module; the others are parts of reports.
"""
