"""Time the explorer's second tab: a CSV read and judged in Chromium, each time in a browser that has just started.

    python benchmarks/explore.py [--rounds 5]

From the bytes of the file to all figures of the page (its text, cells, columns, labels, checks, metrics and tables),
without the drawing. Numbers are written with all their digits, as pandas does.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from orcu import explore

SIZES = ((1_000, 5), (50_000, 5), (500_000, 5))
TIMED = """<script type="text/plain" id="csv">%s</script>
<script>
const bytes = new TextEncoder().encode(document.getElementById('csv').textContent).buffer;
const started = performance.now();
const table = orcuTable.read(orcuTable.textOf(bytes, 'preds.csv'), 'preds.csv');
const { choice } = orcuPredictions.propose(table);
const predictions = orcuPredictions.read(table, choice);
const read = performance.now();
const result = orcuJudge.judge({ ...predictions, classes: predictions.classes.length });
const done = performance.now();
document.body.replaceChildren(`TIMES ${read - started} ${done - read} ${bytes.byteLength} ${result.metrics.ece}`);
</script>"""


def csv(rows: int, classes: int) -> str:
    """Predictions as pandas writes them."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(classes), rows)
    labels = rng.integers(classes, size=rows)
    header = ",".join(["label", *(f"p_{k}" for k in range(classes))])
    lines = [",".join([str(y), *map(repr, row)]) for y, row in zip(labels.tolist(), probs.tolist(), strict=True)]
    return "\n".join([header, *lines])


def timed(browser: str, page: Path) -> tuple[float, float, float]:
    """Milliseconds to read and to judge, and the megabytes of the file."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    shown = subprocess.run(  # noqa: S603
        [browser, *flags, "--timeout=60000", "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True
    )
    times = re.search(r"TIMES ([\d.]+) ([\d.]+) (\d+) [\d.]+", shown.stdout)
    if times is None:
        raise SystemExit("the page has not answered")
    return float(times[1]), float(times[2]), int(times[3]) / 1e6


def main() -> None:
    """Print a line for each size: the median of some rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no chromium on this machine")
    with tempfile.TemporaryDirectory() as folder:
        for rows, classes in SIZES:
            page = Path(folder) / "page.html"
            text = re.sub(r"<meta http-equiv.*?>", "", explore.page())  # the policy would refuse the script that times
            page.write_text(text.replace("</body>", TIMED % csv(rows, classes) + "</body>"), encoding="utf-8")
            read, judge, size = np.median([timed(browser, page) for _ in range(options.rounds)], axis=0)
            print(f"{rows:,} x {classes} ({size:.1f} MB): {read:.0f} ms to read, {judge:.0f} ms to judge", flush=True)


if __name__ == "__main__":
    main()
