"""One spelling per concept, in all public signatures and on the command line."""

import contextlib
import importlib
import inspect
import pkgutil
import re
import types
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import orcu
from orcu.calibrators.base import CALIBRATORS
from orcu.cli import app
from orcu.data.base import DATASETS
from orcu.figures.base import FIGURES
from orcu.losses.base import LOSSES, REGULARIZERS
from orcu.registry import accepted_parameters


@dataclass(frozen=True)
class Concept:
    """A concept: its spelling in Python, its option ("" if it is the same), and the synonyms that are not allowed."""

    python: str
    synonyms: tuple[str, ...]
    option: str = ""


CONCEPTS = (
    Concept("sample_weight", ("weight", "weights", "sample_weights", "row_weight", "w")),
    Concept("cluster", ("subject", "subjects", "patient", "patients")),
    Concept("subgroup", ("group", "group_by", "segment", "slice", "stratum")),
    Concept("uncertainty", ("doubt", "refer_by")),
    Concept("n_bins", ("bins", "num_bins", "nbins", "B")),
    Concept("n_resamples", ("bootstrap", "resamples", "n_bootstrap", "n_boot")),
    Concept("rule", ("decide", "by", "cost", "costs", "decision_rule")),
    Concept("calibrator", ("method", "calibrator_name")),
    Concept("calibrator_file", ("calibrator_path",)),
    Concept("cv", ("folds", "n_folds", "num_folds", "splitter")),
    Concept("estimators", ("members", "learners", "kinds")),
    Concept("time_limit", ("budget", "timeout", "max_time", "time_budget")),
    Concept("hidden_layer_sizes", ("hidden", "hidden_sizes", "hidden_units", "layers")),
    Concept("alpha", ("miscoverage", "error_rate", "significance")),
    Concept("confidence_level", ("level", "ci")),
    Concept("max_error", ("error", "error_bound")),
    Concept("output", ("out", "outfile", "output_path", "destination")),
    Concept("classes", ("class_names", "class_order", "categories")),
    Concept("num_classes", ("n_classes", "C", "K")),
    Concept("true_class", ("label_index",)),
    Concept("probs", ("probabilities", "proba", "p", "y_proba", "y_prob")),
    Concept("logits", ("raw_scores", "z")),
    Concept("y", ("labels", "y_true", "target", "targets")),
    Concept("escape_formulas", ("no_formulas",)),
    Concept("class_conditional", ("conditional", "mondrian")),
    Concept("levels", ("grade_scale",)),
    Concept("human_file", ("humans",)),
    Concept("number_words", ("words",)),
    Concept("extra", ("more", "with_", "with")),
    Concept("baseline", ("against", "relative_to")),
    Concept("paper", ("with_paper",)),
    Concept("overwrite", ("replace",)),
    Concept("append", ()),
    Concept("set_", ("option", "setting", "opt"), option="set"),
    Concept("training", ("recipe", "train_settings")),
    Concept("scheduler", ("schedule", "lr_schedule")),
    Concept("callback", ("watcher", "listener")),
    Concept("random_state", (), option="seed"),
)
# The random seed is called seed in specs and configurations, which are stored, and random_state elsewhere.
SEED_PLACES = r"orcu\.(bench|data|training|models|figures\.sources)\."
# scikit-learn's name for clusters is allowed where scikit-learn calls the function or users expect its signature.
GROUPS_PLACES = (
    r".*\.(fit|split|score|cross_val_predict|cross_fit_folds|stratified_folds|train_calibration_split|first_rows"
    r"|hold_out)$"
)

# (regular expression of the place, name, reason)
EXCEPTIONS = [
    (r"orcu\.(estimators\.)?OrdinalLogistic", "C", "the inverse penalty, as in scikit-learn's LogisticRegression"),
    (r"orcu (train|two-stage|bench run|bench plan)", "weights", "weights of a backbone, as in torchvision and Keras"),
    (r"orcu\.bench\.run", "weights", "weights of a backbone, as in torchvision and Keras"),
    (r"orcu\.(models|training)\..*", "weights", "weights of a network or of the members of an ensemble"),
    (r"orcu\.(ORCULoss|losses\.\w+)(\.\w+)?", "weight", "class weights, as in torch.nn.CrossEntropyLoss"),
    (r"orcu\.integrations\.torchmetrics\..*\.update", "target", "signature of torchmetrics"),
    (r"orcu\.integrations\.skorch\..*\.forward", "target", "signature of torch losses"),
    (r"orcu\.model_selection\.cross_val_predict", "method", "signature of scikit-learn's cross_val_predict"),
    (r"orcu\.(model_selection|training\.networks)\..*", "folds", "the folds themselves, not their number"),
    (r"orcu\.models\.kinds\.ModelConfig", "folds", "key of model files"),
    (r"orcu\.(decisions\.disagreement|models\.ensemble)\..*", "members", "fitted members, not estimators to fit"),
    (r"orcu\.decisions\.schemas\..*", "conditional", "key of files of prediction sets"),
    (r"orcu\.decisions\.schemas\..*", "weights", "key of files of prediction sets"),
    (r"orcu\.(geometry|boosting\.Objective)\..*", "z", "logits as the paper writes them"),
    (r"(loss|regularizer) \w+", "weight", "class weights, as in torch.nn.CrossEntropyLoss"),
    (r"orcu\..*(PredictionSets|Conformal|predict_sets|check_target)\w*", "target", "what prediction sets cover"),
    (r"orcu sets fit", "target", "what prediction sets cover"),
    (r"data set diamonds", "target", "name of the column to predict"),
    (r"orcu\.io\.schema\.first_fault", "error", "an exception"),
    (r"orcu\.models\.kinds\.matrix_batches", "labels", "labels of the rows of all splits"),
]


def public_modules():
    """Yield the public modules: those that list their names, and all parts of a package that does not."""
    for name in orcu.__all__:
        module = getattr(orcu, name)
        if isinstance(module, types.ModuleType):
            yield module
            if not hasattr(module, "__all__"):
                for part in pkgutil.walk_packages(getattr(module, "__path__", []), f"{module.__name__}."):
                    if re.match(r"orcu\.figures\.(panels|bands|style|svg|typical)", part.name):  # drawn by name
                        continue
                    with contextlib.suppress(ImportError):  # an integration whose package is not installed
                        yield importlib.import_module(part.name)


def public_callables():
    """Yield the dotted name and the object of each public function and class."""
    for name in orcu.__all__:
        if callable(value := getattr(orcu, name)):
            yield f"orcu.{name}", value
    for module in public_modules():
        own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
        for name in getattr(module, "__all__", own):
            if not name.startswith("_") and callable(value := getattr(module, name)):
                yield f"{module.__name__}.{name}", value


def signatures():
    """Yield the dotted name and the parameter names of each public function, constructor and method of orcu."""
    for place, value in dict(public_callables()).items():
        if inspect.isclass(value):
            yield place, parameter_names(value)
            for name, method in inspect.getmembers(value, callable):
                if not name.startswith("_") and str(getattr(method, "__module__", "")).startswith("orcu"):
                    yield f"{place}.{name}", parameter_names(method)
        else:
            yield place, parameter_names(value)


def registered_options():
    """Yield the options of everything that specs, `create` functions and ``--set`` choose by name."""
    for registry in (LOSSES, REGULARIZERS, CALIBRATORS, DATASETS):
        for name in registry.names():
            yield f"{registry.kind} {name}", list(accepted_parameters(registry.get(name)))
    for name in FIGURES.names():
        yield f"figure {name}", list(FIGURES.get(name).options())


def parameter_names(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # exception classes and other built-in constructors
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind not in variadic and parameter.name != "self"]


def command_options(application=app):
    """Yield each command and the names of its long options, with underscores."""
    todo = [("orcu", get_command(application))]
    while todo:
        place, command = todo.pop()
        options = (option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts))
        yield place, [option[2:].replace("-", "_") for option in options if option.startswith("--")]
        todo += [(f"{place} {name}", child) for name, child in getattr(command, "commands", {}).items()]


def violations(names, *, command_line=False):
    """Return a message for each name that is a second spelling of a concept."""
    messages = []
    for place, parameters in names:
        for name in parameters:
            for concept in CONCEPTS:
                spelling = concept.option or concept.python if command_line else concept.python
                wrong = {*concept.synonyms, *((concept.python, concept.option) if concept.option else ())} - {spelling}
                if name in wrong:
                    messages.append((place, name, f"{place}: {name} is a second spelling of {spelling}"))
            if name == "groups" and (command_line or not re.match(GROUPS_PLACES, place)):
                messages.append((place, name, f"{place}: groups is a second spelling of cluster"))
    if not command_line:
        messages = [(p, n, text) for p, n, text in messages if not (n == "seed" and re.match(SEED_PLACES, p))]
    return messages


def is_exception(place, name):
    return any(re.fullmatch(pattern, place) and name == other for pattern, other, _ in EXCEPTIONS)


def test_registered_options_have_one_spelling_per_concept():
    messages = [text for place, name, text in violations(registered_options()) if not is_exception(place, name)]
    assert not messages, "\n" + "\n".join(messages)


def test_public_signatures_have_one_spelling_per_concept():
    messages = [text for place, name, text in violations(signatures()) if not is_exception(place, name)]
    assert not messages, "\n" + "\n".join(messages)


def test_command_line_options_have_one_spelling_per_concept():
    messages = [
        text for place, name, text in violations(command_options(), command_line=True) if not is_exception(place, name)
    ]
    assert not messages, "\n" + "\n".join(messages)


def test_exceptions_are_needed_and_have_a_reason():
    spellings = {(place, name) for place, name, _ in violations([*signatures(), *registered_options()])}
    spellings |= {(place, name) for place, name, _ in violations(command_options(), command_line=True)}
    for pattern, name, reason in EXCEPTIONS:
        assert reason
        assert any(re.fullmatch(pattern, place) and name == other for place, other in spellings), (pattern, name)


def test_walk_covers_the_public_api():
    places = dict(signatures())
    assert "sample_weight" in places["orcu.evaluate"]
    assert "cv" in places["orcu.OrdinalClassifier"]
    assert "X" in places["orcu.OrdinalClassifier.fit"]
    assert len(places) > 300
    commands = dict(command_options())
    assert "n_resamples" in commands["orcu evaluate"]
    assert "fine_tune" in commands["orcu train"]
    assert "levels" in commands["orcu judge fit"]
    assert len(commands) > 35


@pytest.mark.parametrize(
    "name", ["weight", "group", "subject", "doubt", "bins", "folds", "members", "budget", "hidden"]
)
def test_second_spelling_in_python_is_found(name):
    function = eval(f"lambda {name}=None: None")
    assert violations([("orcu.evaluate", parameter_names(function))])


@pytest.mark.parametrize(
    ("place", "name", "allowed"),
    [
        ("orcu.evaluate", "seed", False),
        ("orcu.training.RunConfig", "seed", True),
        ("orcu.evaluate", "groups", False),
        ("orcu.OrdinalClassifier.fit", "groups", True),
    ],
)
def test_spelling_depends_on_the_place(place, name, allowed):
    assert bool(violations([(place, [name])])) is not allowed


@pytest.mark.parametrize("name", ["method", "decide", "by", "cost", "out", "option", "no_formulas", "random_state"])
def test_second_spelling_on_the_command_line_is_found(name):
    application = typer.Typer()
    application.command()(lambda: None)
    application.command("other")(eval(f"lambda {name}='': None"))
    assert violations(command_options(application), command_line=True)


ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_have_the_options_they_are_shown_with(page):
    commands = {place: {*options, "help"} for place, options in command_options()}
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    if page.name == "changelog.md":  # includes CHANGELOG.md, which names removed options
        return
    for line in re.findall(r"(?:^\$ |`|&& )(orcu [^`\n]+)", text, flags=re.MULTILINE):
        for part in re.split(r"&&|\||;|#", line):
            words = part.split()
            places = [" ".join(words[:count]) for count in (3, 2) if " ".join(words[:count]) in commands]
            if places:
                used = {option.replace("-", "_") for option in re.findall(r"(?<!\S)--([a-z][a-z-]*)", part)}
                assert used <= commands[places[0]], part
