"""Layout of the explorer at a page width: overflow, overlaps and cut text."""

from browser import chromium, probe_result, without_policy

from orcu import explore

LAYOUT = """<script>
window.addEventListener('load', () => {
  %s
  const visible = path => [...document.querySelectorAll(path)].filter(e => e.getClientRects().length);
  const texts = visible('svg text').filter(t => t.textContent);
  const overlaps = [];
  for (const svg of visible('.chart svg')) {
    const axis = [...svg.querySelectorAll('text')].map(t => ({ box: t.getBoundingClientRect(), text: t.textContent }));
    axis.forEach((a, i) => axis.slice(i + 1).forEach(b => {
      const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (wide > 1 && high > 4) overlaps.push([svg.id, a.text, b.text]);
    }));
  }
  const layout = {
    width: document.documentElement.clientWidth, content: document.documentElement.scrollWidth, overlaps,
    charts: visible('.chart svg').map(s => {
      const box = s.getBoundingClientRect(); return [box.width, box.height, box.left, box.right]; }),
    outside: texts.filter(t => { const box = t.getBoundingClientRect();
      return box.left < 0 || box.right > document.documentElement.clientWidth; }).map(t => t.textContent),
    cut: visible('button, .tile b, .choice span, select').filter(e => e.scrollWidth > e.clientWidth + 1)
      .map(e => e.textContent),
    smallest: Math.min(...texts.map(t => t.getBoundingClientRect().height)),
    targets: Math.min(...visible('button').map(b => b.getBoundingClientRect().height)),
    background: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(texts[0]).fill,
    touch: getComputedStyle(document.querySelector('.handle')).touchAction,
  };
  parent.postMessage(layout, '*');
});
</script>"""

FRAME = """<body style="margin:0"><iframe width="%d" height="1200" style="border:0" src="framed.html%s"></iframe>
<script>addEventListener('message', event => { const out = document.createElement('pre'); out.id = 'probe';
out.textContent = JSON.stringify(event.data); document.body.append(out); })</script></body>"""


def measure_layout(folder, width, view="", *flags, script=""):
    """Measure the layout at a width after a script; an iframe can be narrower than Chromium's smallest window."""
    text = without_policy(explore.page()).replace("</body>", LAYOUT % script + "</body>")
    (folder / "framed.html").write_text(text, encoding="utf-8")
    outer = folder / "outer.html"
    outer.write_text(FRAME % (width, view.replace("&", "&amp;")), encoding="utf-8")
    process = chromium("--window-size=1500,1300", "--virtual-time-budget=5000", *flags, "--dump-dom", outer.as_uri())
    return probe_result(process.stdout)
