"""Installed size of each extra: the table in docs/install.md.

    python tools/extras.py            # print the table
    python tools/extras.py --write    # also write it to the page

Each extra is installed by uv into a temporary folder with the versions of constraints.txt, and the sizes of its files
are added. It needs a package index or uv's cache.
"""

import argparse
import datetime
import importlib.metadata
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from orcu.io.files import atomic_write

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "install.md"
BLOCK = re.compile("(<!-- begin extras -->\n).*?(<!-- end extras -->)", re.DOTALL)
PURPOSE = {
    "": "evaluation, calibration, prediction sets, reports, figures, estimator checks; no torch",
    "train": "losses, `OrdinalClassifier`, training on tables",
    "vision": "`train` and image backbones (torchvision, timm)",
    "text": "`train` and text encoders (transformers)",
    "weights": "pretrained weights from packages",
    "boosting": "`OrdinalBoosting` (LightGBM)",
    "explain": "SHAP values (shap, which brings numba)",
    "figures": "`vision` and Grad-CAM (captum)",
    "onnx": "`train` and ONNX export with a check",
    "ray": "runs on several machines",
    "inspect": "grades from Inspect logs, calibrated scorer for Inspect",
    "mlflow": "alignment of MLflow judges by calibration",
    "deepeval": "calibrated metric for DeepEval",
    "data": "packages with open data sets",
    "docs": "building the documentation (Sphinx)",
    "all": "everything except `inspect`, `mlflow` and `deepeval`",
}
UNPINNED = ("inspect", "deepeval")  # need other versions of some packages than constraints.txt has
GPU = ("nvidia-", "cuda-", "triton")  # GPU libraries that torch depends on under Linux


def sizes(extra: str) -> dict[str, int]:
    """Size in bytes of each package that ``pip install 'orcu[extra]'`` installs, including orcu."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{ROOT}[{extra}]" if extra else str(ROOT)
        uv = Path(sys.executable).with_name("uv")
        pins = [] if extra in UNPINNED else ["-c", ROOT / "constraints.txt"]
        subprocess.run([uv, "pip", "install", "--quiet", "--target", folder, *pins, target], check=True)
        return {
            package.name: sum(size(Path(str(file.locate()))) for file in package.files or ())
            for package in importlib.metadata.distributions(path=[folder])
        }


def size(file: Path) -> int:
    """Size of a file in bytes; 0 if it is not installed."""
    return file.stat().st_size if file.is_file() else 0


def table() -> str:
    """Markdown table with a line for each extra."""
    lines = ["| install | for | packages | MB on disk | and for GPUs |", "|---|---|---:|---:|---:|"]
    for extra, purpose in PURPOSE.items():
        parts = sizes(extra)
        gpu = sum(bytes_ for name, bytes_ in parts.items() if name.startswith(GPU))
        print(f"{extra or 'orcu'}: {len(parts)} packages", file=sys.stderr)
        name = f"orcu[{extra}]" if extra else "orcu"
        columns = f"{megabytes(sum(parts.values()) - gpu)} | {megabytes(gpu) if gpu else ''}"
        lines.append(f"| `{name}` | {purpose} | {len(parts)} | {columns} |")
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    day = datetime.date.today().isoformat()
    return "\n".join([*lines, "", f"Measured on {day} ({system}) by `python tools/extras.py --write`.", ""])


def megabytes(count: int) -> str:
    """Megabytes without decimals.

    Example:
        >>> megabytes(1_234_567_890)
        '1,235'
    """
    return f"{count / 1e6:,.0f}"


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table to docs/install.md")
    write = parser.parse_args().write
    text = table()
    print(text)
    if write:
        page = BLOCK.sub(lambda match: match[1] + text + match[2], PAGE.read_text(encoding="utf-8"))
        with atomic_write(PAGE) as fresh:
            fresh.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
