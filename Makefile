# Every command of the project. A fresh machine needs Python 3.11+ and make; the rest installs itself into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# uv unpacks torch's gigabytes many times quicker than pip; where it is missing, pip brings it into the .venv.
UV     := $(or $(shell command -v uv 2>/dev/null),$(BIN)/uv)

.PHONY: help setup demo test test-slow coverage check format bench gallery docs results wheel pins clean
.DEFAULT_GOAL := help
# What one process of the tests has compiled, the next need not compile again.
unexport PYTHONDONTWRITEBYTECODE

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make .venv with the pinned dependencies (the other targets do it by themselves)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "orcu needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(UV) || $(BIN)/python -m pip install --quiet -c constraints.txt uv
	$(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## what people do today, the paper's loss and our default on two real data sets, and a report of it (minutes)
	@ORCU_DATA=build/data ORCU_RESULTS=build $(BIN)/orcu bench run configs/demo.toml
	@ORCU_DATA=build/data ORCU_RESULTS=build $(BIN)/orcu bench table configs/demo.toml
	@ORCU_DATA=build/data ORCU_RESULTS=build $(BIN)/orcu bench report configs/demo.toml

# The tests run side by side: one thread each.
test test-slow coverage: export OMP_NUM_THREADS := 1

test: $(READY)  ## the tests, README and docstring examples included (minutes)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(READY)  ## the tests marked slow, browser, ray, examples or docs
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'slow or browser or ray or examples or docs'

coverage: $(READY)  ## the branches that the tests do not reach, file by file (minutes)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist loadfile
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: $(READY)  ## formatting, lint, types, file hygiene
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/hygiene.py

format: $(READY)  ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## time losses, metrics, calibrators, data, training and the estimator beside plain references and peers
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/commands.py
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/metrics.py
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/calibrators.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/few_rows.py --fits 100
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/folder.py
	$(BIN)/python benchmarks/partial.py
	$(BIN)/python benchmarks/estimator.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/boosting.py

gallery: $(READY)  ## thumbnails of all figures into docs/_static/figures, from five small benchmarks
	for spec in configs/quick_losses.toml docs/gallery/*.toml; do ORCU_DATA=build/data ORCU_RESULTS=build $(BIN)/orcu bench run $$spec || exit 1; done
	ORCU_DATA=build/data $(BIN)/python tools/gallery.py build/quick_losses $(patsubst docs/gallery/%.toml,build/%,$(wildcard docs/gallery/*.toml))

docs: $(READY)  ## build the documentation site into build/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "wrote build/docs/index.html"

RESULTS ?= results
TABLES ?= tables
JUDGES ?= judges
results: $(READY)  ## the runs behind docs/results.md (hours; folders RESULTS, TABLES of UCI's tables, JUDGES of graded answers), then its tables
	for spec in tables images retina text raters two_stage ablation scale sensitivity converged converged_ablation finetuned heads; do ORCU_RESULTS=$(RESULTS) $(BIN)/orcu bench run results_$$spec || exit 1; done
	$(BIN)/python benchmarks/rater_study.py --results $(RESULTS) --write $(RESULTS)
	if [ -d "$(JUDGES)" ]; then $(BIN)/python benchmarks/judges.py --data $(JUDGES) --results $(RESULTS)/judges.csv; else echo "judges: $(JUDGES) is not there, what was kept stays"; fi
	$(BIN)/python benchmarks/defaults.py --tables $(TABLES) --results $(RESULTS)/defaults
	$(BIN)/python benchmarks/defaults.py --results $(RESULTS)/defaults --write $(RESULTS)/defaults
	$(BIN)/python tools/results.py collect --results $(RESULTS)
	$(BIN)/python tools/results.py write
	$(BIN)/python tools/run_statistics.py --results $(RESULTS)
	$(BIN)/python tools/claims.py collect --results $(RESULTS)
	$(BIN)/python tools/claims.py write

wheel: $(READY)  ## dist/orcu-*.whl and the source archive
	rm -rf dist
	$(BIN)/python -m build --quiet

pins: $(READY)  ## resolve pyproject.toml anew into constraints.txt
	$(UV) pip compile pyproject.toml --extra dev --extra all --universal --upgrade --no-header --no-annotate --quiet -o constraints.txt

clean:  ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
