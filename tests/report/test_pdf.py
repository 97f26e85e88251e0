"""Tests of PDF output."""

import os
import stat

import pytest
from browser import CHROMIUM, MARKS

from orcu.errors import InputError
from orcu.report.pdf import browser, is_pdf, write_page

PAGE = "<!doctype html><title>t</title><p>größer than 80 %</p>"


def test_write_page_suffix_selects_the_format(tmp_path):
    assert [is_pdf(name) for name in ("a.pdf", "a.PDF", "a.html", "pdf")] == [True, True, False, False]
    write_page(PAGE, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == PAGE


def test_write_page_without_a_browser_raises_and_keeps_the_file(tmp_path, monkeypatch):
    monkeypatch.delenv("ORCU_BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    target = tmp_path / "page.pdf"
    target.write_bytes(b"before")
    with pytest.raises(InputError, match="Chromium.*apt-get install"):
        write_page(PAGE, target)
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.pdf"]


def test_browser_unknown_program_raises(monkeypatch):
    monkeypatch.setenv("ORCU_BROWSER", "no-such-browser")
    with pytest.raises(InputError, match="ORCU_BROWSER.*'no-such-browser'"):
        browser()


@pytest.mark.skipif(os.name == "nt", reason="a script that stands for a browser needs a Unix shell")
def test_write_page_browser_without_output_raises_with_its_message(tmp_path, monkeypatch):
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho 'out of paper' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ORCU_BROWSER", str(fake))
    with pytest.raises(InputError, match="out of paper"):
        write_page(PAGE, tmp_path / "page.pdf")
    assert not (tmp_path / "page.pdf").exists()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason=MARKS[1].kwargs["reason"])
def test_write_page_prints_on_a4(tmp_path):
    write_page("<style>@page { size: A4 }</style>" + PAGE, tmp_path / "page.pdf")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert b"/MediaBox [0 0 594" in printed or b"/MediaBox [0 0 595" in printed  # points: 210 mm
