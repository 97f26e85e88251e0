"""Time of the explorer's evaluate tab: a CSV is read and evaluated in a new Chromium process.

    python benchmarks/explore.py [--rounds 5]

Timed from the bytes of the file to all metrics and tables of the page, without drawing. Numbers have all digits, as
pandas writes them.
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
const result = orcuEvaluation.evaluate({ ...predictions, classes: predictions.classes.length });
const done = performance.now();
document.body.replaceChildren(`TIMES ${read - started} ${done - read} ${bytes.byteLength} ${result.metrics.ece}`);
</script>"""


def csv(rows: int, classes: int) -> str:
    """Predictions as CSV with all digits."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(classes), rows)
    labels = rng.integers(classes, size=rows)
    header = ",".join(["label", *(f"p_{k}" for k in range(classes))])
    lines = [",".join([str(y), *map(repr, row)]) for y, row in zip(labels.tolist(), probs.tolist(), strict=True)]
    return "\n".join([header, *lines])


def measure(browser: str, page: Path) -> tuple[float, float, float]:
    """Milliseconds to read and to evaluate, and the size of the file in megabytes."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    process = subprocess.run(  # noqa: S603
        [browser, *flags, "--timeout=60000", "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True
    )
    times = re.search(r"TIMES ([\d.]+) ([\d.]+) (\d+) [\d.]+", process.stdout)
    if times is None:
        raise SystemExit("the page has returned no times")
    return float(times[1]), float(times[2]), int(times[3]) / 1e6


def main() -> None:
    """Print a line for each size: the medians of several rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for rows, classes in SIZES:
            page = Path(folder) / "page.html"
            text = re.sub(r"<meta http-equiv.*?>", "", explore.page())  # allow the timing script
            page.write_text(text.replace("</body>", TIMED % csv(rows, classes) + "</body>"), encoding="utf-8")
            read, evaluate, size = np.median([measure(browser, page) for _ in range(options.rounds)], axis=0)
            print(f"{rows:,} x {classes} ({size:.1f} MB): read {read:.0f} ms, evaluate {evaluate:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
