"""How large each extra is: the table in docs/install.md.

    python tools/extras.py            # print it
    python tools/extras.py --write    # and put it into the page

Each extra is installed by uv into a folder of its own that is removed again, with the versions of constraints.txt, and
what its files take is added up. It needs a package index, or uv's cache.
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
PLACE = re.compile("(<!-- begin extras -->\n).*?(<!-- end extras -->)", re.DOTALL)
PURPOSE = {
    "": "judging, calibrating, sets, reports, figures, the estimators' contract; no torch",
    "train": "losses, `OrdinalClassifier`, training on tables",
    "vision": "`train`, and image backbones (torchvision, timm)",
    "text": "`train`, and text encoders (transformers)",
    "weights": "pretrained weights that pip can bring",
    "boosting": "`OrdinalBoosting` (LightGBM)",
    "figures": "`vision`, and Grad-CAM (captum)",
    "onnx": "`train`, and models as ONNX graphs, checked",
    "ray": "runs across machines",
    "inspect": "grades in logs of Inspect",
    "data": "packages that carry open data sets",
    "docs": "building this site (Sphinx)",
    "all": "all but `inspect`",
}
GPU = ("nvidia-", "cuda-", "triton")  # libraries that torch brings on Linux, for graphics cards


def sizes(extra: str) -> dict[str, int]:
    """The bytes of each package that ``pip install 'orcu[extra]'`` brings, orcu included."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{ROOT}[{extra}]" if extra else str(ROOT)
        uv = Path(sys.executable).with_name("uv")
        pins = ["-c", ROOT / "constraints.txt"] if extra != "inspect" else []  # which needs older versions of some
        subprocess.run([uv, "pip", "install", "--quiet", "--target", folder, *pins, target], check=True)
        return {
            one.name: sum(size(Path(str(file.locate()))) for file in one.files or ())
            for one in importlib.metadata.distributions(path=[folder])
        }


def size(file: Path) -> int:
    """Its bytes; 0 for what a record names and an installer leaves out."""
    return file.stat().st_size if file.is_file() else 0


def table() -> str:
    """Markdown, with a line for each extra."""
    lines = ["| install | for | packages | MB on disk | and for GPUs |", "|---|---|---:|---:|---:|"]
    for extra, purpose in PURPOSE.items():
        parts = sizes(extra)
        gpu = sum(one for name, one in parts.items() if name.startswith(GPU))
        print(f"{extra or 'orcu'}: {len(parts)} packages", file=sys.stderr)
        name = f"orcu[{extra}]" if extra else "orcu"
        both = f"{megabytes(sum(parts.values()) - gpu)} | {megabytes(gpu) if gpu else ''}"
        lines.append(f"| `{name}` | {purpose} | {len(parts)} | {both} |")
    where = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    day = datetime.date.today().isoformat()
    return "\n".join([*lines, "", f"Measured on {day} ({where}) by `python tools/extras.py --write`.", ""])


def megabytes(count: int) -> str:
    """Whole megabytes.

    Example:
        >>> megabytes(1_234_567_890)
        '1,235'
    """
    return f"{count / 1e6:,.0f}"


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/install.md")
    write = parser.parse_args().write
    text = table()
    print(text)
    if write:
        page = PLACE.sub(lambda place: place[1] + text + place[2], PAGE.read_text(encoding="utf-8"))
        with atomic_write(PAGE) as fresh:
            fresh.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
