"""`TableEncoder`: which columns are numbers, which are categories, and which are refused."""

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orcu import OrdinalBoosting, OrdinalClassifier
from orcu.data.catalog.table import UserTable
from orcu.errors import InputError
from orcu.io.frames import columns_from_frame
from orcu.preprocessing import TableEncoder

DAY = datetime.date(2024, 3, 1)
NUMBERS = {
    "int": ([1, 2, None], [1.0, 2.0, np.nan]),
    "float": ([1.5, np.nan, np.float32(2)], [1.5, np.nan, 2.0]),
    "Decimal": ([Decimal("1.5"), None, Decimal("2")], [1.5, np.nan, 2.0]),
    "Fraction": ([Fraction(1, 2), Fraction(2), None], [0.5, 2.0, np.nan]),
    "bool": ([True, False, None], [1.0, 0.0, np.nan]),
    "NA": ([1, pd.NA, 3], [1.0, np.nan, 3.0]),
    "text": (["1.5", " 2 ", "-3e2"], [1.5, 2.0, -300.0]),
    "text with gaps": (["1.5", "", "NaN"], [1.5, np.nan, np.nan]),
    "mixed": ([1, "2", Decimal(3)], [1.0, 2.0, 3.0]),
}
DATES = {
    "date": [DAY, DAY, None],
    "datetime": [datetime.datetime(2024, 1, 1, 12)] * 3,
    "time": [datetime.time(12)] * 3,
    "timedelta": [datetime.timedelta(1)] * 3,
    "Timestamp": [pd.Timestamp("2024-01-01")] * 3,
    "Period": [pd.Period("2024-01"), pd.Period("2024-02"), None],
    "datetime64": [np.datetime64("2024-01-01")] * 3,
    "text": ["2024-01-01", "2024-01-02", None],
    "text with time": ["2024-01-01 12:30:00"] * 3,
    "text with slashes": ["1/2/2024", "13/2/2024", "4/12/2024"],
}


def objects(values):
    cells = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        cells[row] = value
    return cells


@pytest.mark.parametrize("kind", NUMBERS)
def test_encoder_reads_objects_and_texts_that_are_all_numbers_as_numbers(kind):
    values, expected = NUMBERS[kind]
    encoder = TableEncoder.fit({"x": objects(values)})
    assert encoder.columns[0].categories is None
    assert np.array_equal(encoder.encode({"x": values}).codes[:, 0], expected, equal_nan=True)
    frame = columns_from_frame(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert np.array_equal(TableEncoder.fit(frame).encode(frame).codes[:, 0], expected, equal_nan=True)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 2, None], dtype="Int64"),
        pd.Series([1.0, 2.0, None], dtype="Float64"),
        pd.Series(["1", "2", None], dtype="string"),
        pd.Series([Decimal(1), Decimal(2), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        pd.Series([1, 2, None], dtype=pd.ArrowDtype(pa.int64())),
    ],
    ids=lambda column: str(column.dtype),
)
def test_columns_from_frame_of_nullable_types_are_numbers(column):
    frame = columns_from_frame(pd.DataFrame({"x": column}))
    codes = TableEncoder.fit(frame).encode(frame).codes[:, 0]
    assert np.array_equal(codes, [1.0, 2.0, np.nan], equal_nan=True)


def test_columns_from_frame_of_polars_numbers_and_text():
    frame = columns_from_frame(
        pl.DataFrame({"n": [Decimal("1.5"), None], "t": ["2", "3"], "b": [True, None], "c": ["n", "s"]})
    )
    encoder = TableEncoder.fit(frame)
    assert encoder.categorical == [3]
    expected = [[1.5, 2.0, 1.0, 0.0], [np.nan, 3.0, np.nan, 1.0]]
    assert np.array_equal(encoder.encode(frame).codes, expected, equal_nan=True)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": pd.Categorical(["1", "2", "1"])}),
        pd.DataFrame({"x": pd.Categorical([1.0, 2.0, 1.0])}),
        pl.DataFrame({"x": pl.Series(["1", "2", "1"], dtype=pl.Categorical)}),
        pl.DataFrame({"x": pl.Series(["1", "2", "1"], dtype=pl.Enum(["1", "2"]))}),
        pd.DataFrame({"x": ["01", "02", "01"]}),
    ],
    ids=["pandas", "pandas floats", "polars", "polars Enum", "leading zeros"],
)
def test_encoder_keeps_categorical_types_and_leading_zeros_as_categories(frame):
    table = columns_from_frame(frame)
    encoder = TableEncoder.fit(table)
    assert [name[-1] for name in encoder.columns[0].categories] == ["1", "2"]
    assert encoder.encode(table).codes[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert encoder.unseen(table) == []


@pytest.mark.parametrize("kind", DATES)
def test_encoder_refuses_dates_times_and_durations(kind):
    with pytest.raises(InputError, match="^column 'day': holds dates"):
        TableEncoder.fit({"day": objects(DATES[kind])})


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([DAY]),
        pl.Series([datetime.timedelta(1)]),
        pl.Series([datetime.time(1)]),
        pd.Series(pd.to_timedelta([1])),
        pd.Series(pd.period_range("2024", periods=1)),
        pd.Series([DAY], dtype=pd.ArrowDtype(pa.date32())),
        pd.Series(pd.to_datetime(["2024-01-01"], utc=True)),
    ],
    ids=lambda column: str(column.dtype),
)
def test_columns_from_frame_of_dates_are_refused(column):
    frame = pd.DataFrame({"day": column}) if isinstance(column, pd.Series) else pl.DataFrame({"day": column})
    with pytest.raises(InputError, match="^column 'day': holds dates"):
        TableEncoder.fit(columns_from_frame(frame))


def test_encoder_warns_where_most_values_of_a_column_of_categories_are_numbers():
    with pytest.warns(UserWarning, match="column 'age': 3 of 4 values are numbers, .* such as 'old'"):
        encoder = TableEncoder.fit({"age": [30, "40", 50.0, "old", None]})
    assert encoder.columns[0].categories == ("30", "40", "50", "old", "(missing)")
    assert encoder.encode({"age": ["30", 50, 40.0, 99]}).codes[:3, 0].tolist() == [0.0, 2.0, 1.0]
    with pytest.warns(UserWarning, match="column 'tags': has cells of type list"):
        TableEncoder.fit({"tags": objects([["a"], ["b", "c"], None])})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder.fit({"size": ["S", "M", "L", "10"], "site": ["n", None, "s", "n"]})


def test_encoder_of_numbers_refuses_text_and_infinity_with_the_row():
    encoder = TableEncoder.fit({"x": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="^column 'x': row 1 .from 0. has 'many', expected a number"):
        encoder.encode({"x": [1.0, "many"]})
    with pytest.raises(InputError, match="^column 'x': row 0 .from 0. has datetime"):
        encoder.encode({"x": [DAY]})
    for infinite in ([1.0, float("inf")], ["1", "inf"], [1, 10**400], np.array([0.0, -np.inf])):
        with pytest.raises(InputError, match="^column 'x': row 1 .from 0. is -?inf, expected a finite"):
            encoder.encode({"x": infinite})
    single = TableEncoder.fit({"x": [1.0, 2.0, 3.0]}, robust=False)
    with (
        pytest.warns(UserWarning, match="far outside"),
        pytest.raises(InputError, match=r"^column 'x': row 1 .from 0. is 1e\+300, which is too far"),
    ):
        single.encode({"x": [2.0, 1e300]})


def test_fit_of_object_arrays_equals_fit_of_the_numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)).round(2)
    y = np.digitize(x[:, 0] + 0.5 * rng.normal(size=200), [-0.5, 0.5])
    model = OrdinalBoosting(n_estimators=10, cv=2, random_state=0)
    expected = model.fit(x, y).predict_proba(x)
    decimals = np.vectorize(lambda value: Decimal(str(value)), otypes=[object])(x)
    for same in (x.astype(object), x.astype(str), decimals, pd.DataFrame(x.astype(str)), x.astype(str).tolist()):
        assert (model.fit(same, y).predict_proba(same) == expected).all()
    words = np.where(x[:, :1] > 0, "up", "down")
    model.fit(np.hstack([words, x[:, 1:].astype(str)]), y)
    assert model.encoder_.categorical == [0]
    for dates in (np.full((200, 2), DAY), np.full((200, 2), np.datetime64("2024-01-01", "ns"))):
        with pytest.raises(InputError, match="holds dates"):
            OrdinalClassifier().fit(dates, y)


def test_user_table_refuses_dates_and_names_the_option(tmp_path):
    (tmp_path / "t.csv").write_text("y,day,x\n1,2024-01-01,1\n2,2024-01-02,2\n")
    with pytest.raises(InputError, match="^column 'day': holds dates.*drop=day"):
        list(UserTable(label="y").rows(tmp_path))
    rows = list(UserTable(label="y", drop="day").rows(tmp_path))
    assert [row.features for row in rows] == [{"x": 1.0}, {"x": 2.0}]
    (tmp_path / "t.csv").unlink()
    pq.write_table(pa.table({"y": [1, 2], "d": pa.array([1, 2], pa.duration("s"))}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="^column 'd': holds dates"):
        list(UserTable(label="y").rows(tmp_path))


@pytest.mark.parametrize(
    "values",
    [
        np.arange(50.0),
        np.random.default_rng(0).permutation(50).astype(float),
        np.random.default_rng(0).permutation(80)[:50].astype(float),
        np.arange(50.0)[::-1] ** 3,
        [f"patient {k}" for k in range(50)],
        [str(1000 + k) for k in range(50)],
    ],
    ids=["counter", "permutation", "part of a permutation", "decreasing", "names", "texts"],
)
def test_encoder_fit_warns_of_ids(values):
    with pytest.warns(UserWarning, match="^column 'key': every row has another value"):
        TableEncoder.fit({"key": values, "x": np.random.default_rng(0).normal(size=50)})


def test_encoder_fit_does_not_warn_of_other_columns():
    rng = np.random.default_rng(0)
    table = {
        "number": rng.normal(size=50),
        "sorted": np.sort(rng.normal(size=50)),
        "count": rng.integers(50, size=50).astype(float),
        "income": rng.integers(10**6, size=50).astype(float),
        "name": [f"site {k % 40}" for k in range(50)],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder.fit(table)
        TableEncoder.fit({"few": np.arange(10.0)})


def test_unseen_notes_categories_that_did_not_occur_in_training():
    encoder = TableEncoder.fit({"x": np.random.default_rng(0).normal(size=50), "site": ["n", "s"] * 25})
    assert encoder.unseen({"x": np.array([0.0, 30.0]), "site": ["n", "s"]}) == []
    notes = encoder.unseen({"x": np.array([0.0, 1.0]), "site": ["w", None]})
    assert notes == ["column 'site': 1 of 2 values did not occur in training, such as 'w'"]
