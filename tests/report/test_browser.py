"""Tests of the HTML report in a real browser."""

import http.server
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from browser import MARKS, chromium, probe_result, without_policy

from orcu import Predictions, evaluate
from orcu.report.page import Provenance, write

pytestmark = MARKS

# Appended to a copy of the page, without its policy, to look at it from inside.
PROBE = """<script>
window.addEventListener('load', () => {
  const figures = [...document.querySelectorAll('figure svg')].map(s => {
    const box = s.getBoundingClientRect(); return [box.width, box.height, box.left, box.right];
  });
  const found = {
    figures, width: document.documentElement.clientWidth, content: document.documentElement.scrollWidth,
    resources: performance.getEntriesByType('resource').map(e => e.name),
    text: document.body.innerText.length,
    smallest: Math.min(
      ...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)),
    background: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.querySelector('svg text')).fill,
  };
  const out = document.createElement('pre'); out.id = 'probe'; out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    classes = ["none", "mild", "moderate", "severe", "proliferative"]
    logits = -((np.arange(5) - rng.normal(1.5, 1.6, size=(1500, 1))) ** 2) / 1.5
    logits += rng.normal(scale=0.35, size=logits.shape)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(1500)[:, None] > np.cumsum(probs, 1)[:, :-1]).sum(1)
    sharp = Predictions(
        logits=1.6 * logits, y=y, classes=classes, subgroup=rng.choice(["north", "south", "east"], 1500)
    )
    calm = Predictions(logits=logits, y=y, classes=classes)
    evaluation = evaluate(sharp, compare={"calm": calm}, name="sharp", n_resamples=200)
    folder = tmp_path_factory.mktemp("page")
    write(
        evaluation, folder / "report.html", provenance=Provenance([("p.csv", "0" * 64)], "2026-01-02", "orcu evaluate")
    )
    text = (folder / "report.html").read_text()
    (folder / "probed.html").write_text(without_policy(text).replace("</body>", PROBE + "</body>"))
    return folder


def probe(folder, width, *flags):
    shown = chromium(f"--window-size={width},1000", *flags, "--dump-dom", (folder / "probed.html").as_uri())
    return probe_result(shown.stdout)


@pytest.mark.parametrize("width", [1280, 820, 500])  # headless Chromium opens no narrower window
def test_report_figures_are_visible_and_nothing_overflows(page, width):
    layout = probe(page, width)
    assert len(layout["figures"]) > 25
    for figure_width, height, left, right in layout["figures"]:
        assert figure_width > 150
        assert height > 60
        assert left >= 0
        assert right <= layout["width"]
    assert layout["content"] <= layout["width"]
    assert layout["smallest"] > 7
    assert layout["resources"] == []


def test_report_on_a_phone_shows_figures_in_full_width(page):
    # an iframe of 360 pixels is a phone: media queries and layout use its width
    frame = page / "phone.html"
    frame.write_text(
        f"<iframe id=f width=360 height=800 style='border:0' src='{(page / 'probed.html').name}'></iframe>"
        "<script>f.onload = () => setTimeout(() => { const p = document.createElement('pre');"
        " p.id = 'probe'; p.textContent = f.contentDocument.getElementById('probe').textContent;"
        " document.body.append(p); }, 200)</script>"
    )
    handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *a: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: handler(*a, directory=str(page)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/phone.html"
        shown = chromium("--virtual-time-budget=5000", "--dump-dom", address).stdout
    finally:
        server.shutdown()
        server.server_close()
    layout = probe_result(shown)
    assert layout["width"] == 360
    assert layout["content"] <= 360
    assert min(width for width, *_ in layout["figures"]) > 280


def test_report_dark_and_light_differ(page):
    light = probe(page, 1000)
    dark = probe(page, 1000, "--blink-settings=preferredColorScheme=0")
    assert light["background"] == "rgb(255, 255, 255)"
    assert dark["background"] == "rgb(18, 23, 29)"
    assert light["ink"] != dark["ink"]


def test_report_writes_nothing_to_the_console(page):
    shown = chromium("--enable-logging=stderr", "--v=0", "--dump-dom", (page / "report.html").as_uri())
    assert "CONSOLE" not in shown.stderr, shown.stderr


def test_report_prints_on_a4(page):
    out = page / "report.pdf"
    chromium("--no-pdf-header-footer", f"--print-to-pdf={out}", (page / "report.html").as_uri())
    content = out.read_bytes()
    assert content.startswith(b"%PDF")
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", content)
    assert box is not None
    assert [round(float(side)) for side in box.groups()] in ([595, 842], [596, 842], [594, 841])
    pages = len(re.findall(rb"/Type ?/Page\b", content))
    assert 3 <= pages <= 12


def test_probe_detects_requests_and_overflow(page):
    broken = page / "broken.html"
    text = (page / "probed.html").read_text()
    broken.write_text(
        text.replace("<body>", "<body><img src='http://127.0.0.1:9/x'><div style='width:3000px'>wide</div>", 1)
    )
    layout = probe_result(chromium("--window-size=800,800", "--dump-dom", Path(broken).as_uri()).stdout)
    assert layout["resources"] != []
    assert layout["content"] > layout["width"]
