# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: test check quick lint demo docs figures bench golden results clean

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0 -c constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

test: $(INSTALLED)  ## install, then check everything
	$(MAKE) --no-print-directory check

check: lint  ## formatting, lint, types, all tests; no install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --durations=40  # one thread each: two workers that share two cores would wait for each other

quick: lint  ## the same without the tests that are marked slow, and with fewer random cases: about a minute
	HYPOTHESIS_PROFILE=quick OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "not slow"

lint:  ## formatting, lint, types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

demo: $(INSTALLED)  ## the whole line on a small maze: collect, stitch, train, evaluate, report
	$(BIN)/python -m scots.demo runs/demo

docs: $(INSTALLED)  ## the documentation site, in build/site; any warning or broken link fails. The tests build it too
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo "open build/site/index.html"

figures: $(INSTALLED)  ## the moving picture of the README and the pictures of the site's first page, by the models of the demo
	$(BIN)/python -m scots.figures runs/demo docs/images

bench: $(INSTALLED)  ## speed as ratios, each measured within one run; --smoke runs one of them in seconds
	$(BIN)/python benchmarks/collection.py
	$(BIN)/python benchmarks/stitching.py
	$(BIN)/python benchmarks/refinement.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/composition.py
	$(BIN)/python benchmarks/navigation.py
	$(BIN)/python benchmarks/app.py

golden: $(INSTALLED)  ## record new golden values; say why in the commit
	$(BIN)/python tests/golden/test_golden.py

results: $(INSTALLED)  ## make docs/results.md and the README's table from the rows in results/
	$(BIN)/python -m scots.reporting.results_page results docs/results.md README.md

clean:
	rm -rf .venv runs build dist
