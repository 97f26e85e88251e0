"""Headless Chromium for tests of HTML pages."""

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
    """The page's DOM once it has an element of this id.

    Reading files takes real time, which the virtual time of ``--dump-dom`` does not wait for. The DOM is therefore
    polled over the debugging pipe until the element exists.
    """
    # a browser that is being stopped may still write its profile
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_browser, from_browser = os.pipe(), os.pipe()
        ends = (to_browser[0], from_browser[1])

        def as_files_3_and_4():  # the file descriptors of the debugging pipe
            copies = [os.dup(end) for end in ends]
            for number, copy in zip((3, 4), copies, strict=True):
                os.dup2(copy, number)

        command = [CHROMIUM, *FLAGS, *arguments, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, pass_fds=(3, 4), preexec_fn=as_files_3_and_4, **quiet) as browser:
            for end in ends:
                os.close(end)
            with os.fdopen(to_browser[1], "wb") as requests, os.fdopen(from_browser[0], "rb") as responses:
                try:
                    return _poll(requests, responses, name, address)
                finally:
                    browser.kill()


def _poll(requests, responses, name, address, *, timeout=600):
    numbers, rest = itertools.count(1), b""

    def call(method, session=None, **params):
        nonlocal rest
        number = next(numbers)
        request = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        requests.write(json.dumps(request).encode() + b"\0")
        requests.flush()
        while True:
            while b"\0" not in rest:
                part = responses.read1(1 << 16)
                assert part, "the browser has stopped"
                rest += part
            message, rest = rest.split(b"\0", 1)
            response = json.loads(message)
            if response.get("id") == number:
                return response["result"]

    target = call("Target.createTarget", url=address)["targetId"]
    session = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    expression = f"document.getElementById({json.dumps(name)}) ? document.documentElement.outerHTML : null"
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        page = call("Runtime.evaluate", session, expression=expression, returnByValue=True)["result"].get("value")
        if page is not None:
            return page
        time.sleep(0.05)
    raise AssertionError(f"the page has no element {name!r} after {timeout} seconds")


def without_policy(page):
    """The page without its content security policy, so that a test can add a script."""
    return re.sub(r"<meta http-equiv.*?>", "", page)


def probe_result(page, name="probe"):
    """The JSON that a script of the test has written to a ``pre`` element of the page."""
    text = re.search(rf'<pre id="{name}">(.*?)</pre>', page, re.DOTALL)[1]
    return json.loads(html.unescape(text))
