"""`parse_dates`: notations, detection from all rows, ambiguity."""

from datetime import date, datetime

import pytest

from orcu import InputError
from orcu.io.dates import parse_date, parse_dates

DAY = date(2026, 12, 31)


def parse(*texts, **options):
    return list(parse_dates({text: row for row, text in enumerate(texts, 1)}, name="column 'day'", **options).values())


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-31",
        " 2026-12-31 ",
        "2026-12-31T23:59:59",
        "2026-12-31 23:59:59.123456789",
        "2026-12-31T23:59:59Z",
        "2026-12-31 23:59:59+02:00",
        "2026/12/31",
        "31.12.2026",
        "31.12.2026 08:15",
        "31/12/2026",
        "12/31/2026 8:15 PM",
        "31-12-2026",
    ],
)
def test_parse_dates_usual_notations(text):
    assert parse(text) == [DAY]
    assert parse_date(text) == DAY


def test_parse_dates_german_dates_are_unambiguous():
    assert parse("1.2.2026", "01.02.2027") == [date(2026, 2, 1), date(2027, 2, 1)]


def test_parse_dates_order_follows_from_all_rows():
    assert parse("01/02/2026", "03/04/2026", "31/01/2026") == [date(2026, 2, 1), date(2026, 4, 3), date(2026, 1, 31)]
    assert parse("01/02/2026", "01/31/2026") == [date(2026, 1, 2), date(2026, 1, 31)]
    assert parse("03/03/2026") == [date(2026, 3, 3)]  # both orders agree


def test_parse_dates_ambiguous_order_raises_with_both_formats():
    with pytest.raises(
        InputError, match=r"column 'day', row 2: '01/02/2026' is ambiguous.*--date-format %d/%m/%Y"
    ) as error:
        parse("03/03/2026", "01/02/2026")
    assert "--date-format %m/%d/%Y" in str(error.value)
    assert parse("01/02/2026", date_format="%m/%d/%Y") == [date(2026, 1, 2)]
    with pytest.raises(InputError, match="^--since: '01/02/2026' is ambiguous"):
        parse_date("01/02/2026", name="--since")


def test_parse_dates_mixed_formats_raise_with_the_row():
    with pytest.raises(InputError, match=r"row 3: '01.11.2026' is not a date in the format of other rows.*1 of 3"):
        parse("2026-11-01", "2026-11-02", "01.11.2026")
    with pytest.raises(InputError, match=r"row 1: 'n/a' is not a date in the format of other rows, such as '2026"):
        parse("n/a", "2026-11-02")
    with pytest.raises(InputError, match="row 2"):
        parse("31/12/2026", "12/31/2026")


@pytest.mark.parametrize(
    "text",
    ["tomorrow", "2026-13-01", "20261231", "45992", "31.12.26", "12.31.2026", "2026-12-31 99:99", "0000-01-01", ""],
)
def test_parse_dates_other_texts_raise(text):
    with pytest.raises(InputError, match="expected a date such as 2026-12-31 or 31.12.2026.*--date-format"):
        parse(text)


def test_parse_dates_given_format():
    assert parse("20261231", "20260101", date_format="%Y%m%d") == [DAY, date(2026, 1, 1)]
    assert parse("31.12.26 10:00", date_format="%d.%m.%y") == [DAY]
    with pytest.raises(InputError, match="row 2: '2026-12-31' does not match the date format '%d.%m.%Y'"):
        parse("31.12.2026", "2026-12-31", date_format="%d.%m.%Y")


@pytest.mark.parametrize("date_format", ["%Y-%m", "day", "", "%", "%d.%m."])
def test_parse_dates_incomplete_format_raises(date_format):
    with pytest.raises(InputError, match="^date_format: expected a format with day, month and year"):
        parse("2026-12-31", date_format=date_format)


def test_parse_date_accepts_dates():
    assert parse_date(datetime(2026, 12, 31, 8)) == DAY
    assert parse_date(DAY) == DAY
