"""Chromium without a window, for the tests that look at a page as a reader does."""

import html
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (Debian: apt-get install chromium)"),
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--no-first-run",
]


def chromium(*arguments):
    return subprocess.run([CHROMIUM, *FLAGS, *arguments], capture_output=True, text=True, check=True, timeout=600)


def dom_with(name, address, *arguments):
    """The page's DOM once it has an element of this id, however long that takes in real time.

    What a page reads from files comes when it comes: the browser's virtual time, by which ``--dump-dom`` waits, knows
    nothing of it. So the browser is asked over its debugging pipe until the element is there.
    """
    # a browser that is told to stop may still be writing its profile
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_browser, from_browser = os.pipe(), os.pipe()
        ends = (to_browser[0], from_browser[1])

        def as_files_3_and_4():  # which is where the browser looks for them
            copies = [os.dup(end) for end in ends]
            for number, copy in zip((3, 4), copies, strict=True):
                os.dup2(copy, number)

        command = [CHROMIUM, *FLAGS, *arguments, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, pass_fds=(3, 4), preexec_fn=as_files_3_and_4, **quiet) as browser:
            for end in ends:
                os.close(end)
            with os.fdopen(to_browser[1], "wb") as orders, os.fdopen(from_browser[0], "rb") as answers:
                try:
                    return _asked(orders, answers, name, address)
                finally:
                    browser.kill()


def _asked(orders, answers, name, address, *, patience=600):
    numbers, rest = itertools.count(1), b""

    def ask(method, session=None, **params):
        nonlocal rest
        number = next(numbers)
        order = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        orders.write(json.dumps(order).encode() + b"\0")
        orders.flush()
        while True:
            while b"\0" not in rest:
                part = answers.read1(1 << 16)
                assert part, "the browser has ended"
                rest += part
            answer, rest = rest.split(b"\0", 1)
            answer = json.loads(answer)
            if answer.get("id") == number:
                return answer["result"]

    target = ask("Target.createTarget", url=address)["targetId"]
    session = ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    whole = f"document.getElementById({json.dumps(name)}) ? document.documentElement.outerHTML : null"
    until = time.monotonic() + patience
    while time.monotonic() < until:
        page = ask("Runtime.evaluate", session, expression=whole, returnByValue=True)["result"].get("value")
        if page is not None:
            return page
        time.sleep(0.05)
    raise AssertionError(f"the page has had no element {name!r} for {patience} seconds")


def without_policy(page):
    """The page with its policy taken off, so that a test may add a script."""
    return re.sub(r"<meta http-equiv.*?>", "", page)


def told(page, name="probe"):
    """What a script of the test wrote into the page, as JSON in a ``pre``."""
    written = re.search(rf'<pre id="{name}">(.*?)</pre>', page, re.DOTALL)[1]
    return json.loads(html.unescape(written))
