"""A page as PDF: printed by a browser where there is one, refused with the way on where there is none."""

import os
import stat

import pytest
from browser import CHROMIUM, MARKS

from orcu.errors import InputError
from orcu.report.pdf import browser, is_pdf, write_page

PAGE = "<!doctype html><title>t</title><p>größer than 80 %</p>"


def test_the_ending_says_what_is_written(tmp_path):
    assert [is_pdf(name) for name in ("a.pdf", "a.PDF", "a.html", "pdf")] == [True, True, False, False]
    write_page(PAGE, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == PAGE


def test_without_a_browser_it_says_what_to_install_and_leaves_what_was_there(tmp_path, monkeypatch):
    monkeypatch.delenv("ORCU_BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    target = tmp_path / "page.pdf"
    target.write_bytes(b"before")
    with pytest.raises(InputError, match="no Chromium, Chrome or Edge is here. Install one"):
        write_page(PAGE, target)
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.pdf"]


def test_a_browser_that_is_named_and_not_there_is_told(monkeypatch):
    monkeypatch.setenv("ORCU_BROWSER", "no-such-browser")
    with pytest.raises(InputError, match="ORCU_BROWSER is 'no-such-browser'"):
        browser()


@pytest.mark.skipif(os.name == "nt", reason="a script that stands for a browser needs a Unix shell")
def test_a_browser_that_prints_nothing_is_told_with_its_last_words(tmp_path, monkeypatch):
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho 'out of paper' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ORCU_BROWSER", str(fake))
    with pytest.raises(InputError, match=r"printed no PDF \(out of paper\)"):
        write_page(PAGE, tmp_path / "page.pdf")
    assert not (tmp_path / "page.pdf").exists()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason=MARKS[1].kwargs["reason"])
def test_a_browser_prints_the_page_on_a4(tmp_path):
    write_page("<style>@page { size: A4 }</style>" + PAGE, tmp_path / "page.pdf")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert b"/MediaBox [0 0 594" in printed or b"/MediaBox [0 0 595" in printed  # points: 210 mm
