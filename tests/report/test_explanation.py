"""Pictures of explanations, and the section of a report."""

import re

import numpy as np
import pytest
from looking import faults
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from orcu import OrdinalLogistic, Predictions, evaluate, explain
from orcu.figures.panels import contributions, importance, partial_dependence


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(300, 9)), rng.integers(2, size=300)])
    y = np.digitize(x[:, 0] + x[:, 9] + rng.logistic(size=300), [-1, 1])
    return OrdinalLogistic().fit(x, y), x, y


def drawn(draw, result, height=3.0):
    figure = Figure(figsize=(4.6, height), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.add_subplot(), result)
    figure.canvas.draw()
    return figure


def test_panels_of_explanations_have_no_faults(fitted):
    model, x, y = fitted
    result = explain.permutation_importance(model, x, y, n_repeats=2)
    assert not faults(drawn(importance.draw, result, importance.height(result)))
    curve = explain.partial_dependence(model, x, 0, max_rows=50)
    figure = drawn(partial_dependence.draw_thresholds, curve)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["≥ 1", "≥ 2"]
    mean = drawn(partial_dependence.draw, curve).axes[0].lines[-1]
    np.testing.assert_allclose(mean.get_ydata(), curve.expected_grade)
    row = model.explain_row(x[0])
    figure = drawn(contributions.draw, row, contributions.height(row))
    assert not faults(figure)
    assert figure.axes[0].get_yticklabels()[-1].get_text() == "2 other columns"
    # The last bar ends at the expected grade of the row.
    bar = figure.axes[0].patches[-1]
    ends = {bar.get_x(), bar.get_x() + bar.get_width()}
    assert any(end == pytest.approx(row.expected_grade) for end in ends)


def test_report_with_an_explanation_has_a_section_of_columns(fitted):
    model, x, y = fitted
    evaluation = evaluate(Predictions(probs=model.predict_proba(x), y=y), n_resamples=0)
    names = ["<i>dose</i>", *(f"b{k}" for k in range(8)), "site"]
    explanation = explain.explain_model(model, x, y, feature_names=names)
    html = evaluation.to_html(explanation=explanation)
    section = html[html.index('<section id="columns">') : html.index('<section id="examples">')]
    assert "The predictions depend most on" in section
    assert "<i>dose" not in section
    assert "The expected grade counts 0 as 0 and 2 as 2." in re.sub(r"\s+", " ", section)
    assert section.count("<svg") == 1 + 2 * len(explanation.dependence)
    assert 'id="columns"' not in evaluation.to_html()
    identifiers = re.findall(r'\bid="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))
