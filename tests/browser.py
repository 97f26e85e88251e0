"""Chromium without a window, for the tests that look at a page as a reader does."""

import html
import json
import re
import shutil
import subprocess

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


def without_policy(page):
    """The page with its policy taken off, so that a test may add a script."""
    return re.sub(r"<meta http-equiv.*?>", "", page)


def told(page, name="probe"):
    """What a script of the test wrote into the page, as JSON in a ``pre``."""
    written = re.search(rf'<pre id="{name}">(.*?)</pre>', page, re.DOTALL)[1]
    return json.loads(html.unescape(written))
