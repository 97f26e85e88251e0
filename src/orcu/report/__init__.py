"""Reports: self-contained HTML pages, PDF, notebook cards and text tables."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcu.report.page import build, write

__all__ = ["build", "write"]


def __getattr__(name: str) -> Any:  # a notebook card needs no figures: the page is imported on first use
    if name in __all__:
        from orcu.report import page

        return getattr(page, name)
    raise AttributeError(f"module 'orcu.report' has no attribute {name!r}")
