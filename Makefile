# Set PYTHON to use another interpreter (3.11 or newer), ARGS to hand arguments to the study.
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed
TESTABLE := .venv/.testable

.PHONY: study test simulate test-long test-versions test-wandb-server lint docs dist evidence bench bench-quick gpu gpu-packages lock

study: $(INSTALLED)
	$(BIN)/python -m study.run $(ARGS)

# The tests, the documentation, and the examples in docstrings. Those of a file run in one process, in their order.
test: lint
	$(BIN)/pip check
	$(BIN)/python -m pytest -q -m "not long" -n 2 --dist loadfile --no-loadscope-reorder --doctest-modules \
		tests analysis docs/scripts records search_spaces study trainables

# A driver on a simulated machine, among faults that seeds from FIRST on draw, for as many SECONDS.
SECONDS := 60
FIRST := 0
simulate: $(TESTABLE)
	$(BIN)/python -m tests.simulation --seconds $(SECONDS) --first $(FIRST)

# What is slow and rare, in parts of at most half an hour on two cores: make test-long PART="faults files". Without PART
# all of them; -k goes on after a part that failed.
LONG.distribution := tests/test_distribution.py
LONG.encoders := tests/benchmarks/test_gpu.py tests/faults/test_exports.py
LONG.faults := tests/faults/test_cluster.py tests/faults/test_driver.py tests/faults/test_gpu.py tests/faults/test_leaks.py \
	tests/faults/test_sequential.py tests/faults/test_suite.py tests/faults/test_trials.py
LONG.files := tests/faults/test_damaged_files.py tests/faults/test_disk.py
LONG.real-data := tests/study/test_real_data.py
LONG.studies := tests/benchmarks/test_driver.py tests/benchmarks/test_savings.py tests/docs tests/examples \
	tests/trainables tests/study/config tests/study/execution tests/study/suites tests/study/utils tests/study/workflows \
	tests/study/test_curricula_end_to_end.py tests/study/test_encoder_study.py tests/study/test_requests_of_studies.py \
	tests/study/test_rerank.py
LONG.wandb := tests/analysis/readers tests/faults/test_wandb.py tests/study/tracking tests/study/wandb_sweeps
PARTS := distribution encoders faults files real-data studies wandb wandb-server
PART := $(PARTS)
test-long: $(PART:%=test-long-%)
test-long-%: $(TESTABLE)
	$(BIN)/python -m pytest -q -m long $(or $(LONG.$*),$(error PART: $*; expected some of $(PARTS)))

# Models and trainings with the lowest and the newest torch and transformers that pyproject.toml allows, all else as locked:
# one environment after the other, of 7 GB each. make test-versions ENDS=lowest tries one.
ENDS := lowest newest
AT.lowest := $(shell sed -nE 's/^ *"(torch|transformers)>=([0-9.]+),.*/\1==\2/p' pyproject.toml)
AT.newest := torch transformers
RELEASED := torch|transformers|huggingface_hub|hf-xet|safetensors|tokenizers|typer
test-versions: $(ENDS:%=test-versions-%)
test-versions-%:
	@$(PYTHON) -m venv --clear build/versions
	@grep -hivE "^(#|($(RELEASED))==)" requirements*.lock > build/versions.txt
	build/versions/bin/pip install -q --no-cache-dir -c build/versions.txt -e ".[test]" $(AT.$*)
	build/versions/bin/pip list | grep -E "^(torch|transformers) "
	build/versions/bin/python -m pytest -q -m "not long" -n 2 --dist loadfile \
		tests/test_private_interfaces.py tests/test_pinned.py tests/trainables tests/examples
	@rm -rf build/versions

# The tests of the loopback W&B server that other tests use.
test-long-wandb-server: test-wandb-server ;
test-wandb-server: $(TESTABLE)
	$(BIN)/python -m pytest -q wandb_server

lint: $(TESTABLE)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy

# The pages and the figures that are made from the code, then the site, in build/site. The variable silences a notice of the theme.
docs: $(TESTABLE)
	$(BIN)/python -m study.workflows.choices > docs/reference/choices.md
	$(BIN)/python -m docs.scripts.commands > docs/reference/commands.md
	$(BIN)/python -m docs.scripts.configuration > docs/reference/configuration.md
	$(BIN)/python -m docs.scripts.pacing > docs/images/pacing.svg
	$(BIN)/python -m docs.scripts.speed > docs/images/speed.svg
	NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict --site-dir build/site

# Tables of the results pages, from what is kept of their studies in docs/results/evidence.
evidence: $(INSTALLED)
	$(BIN)/python -m docs.scripts.evidence write
	$(BIN)/python -m docs.scripts.equal_rankers > docs/images/equal-rankers.svg

dist: $(TESTABLE)
	rm -rf build/dist
	$(BIN)/python -m build --outdir build/dist
	$(BIN)/twine check --strict build/dist/*

bench: $(TESTABLE)
	@$(BIN)/pip install -q --no-deps -r requirements-bench.lock
	$(BIN)/python -m benchmarks.savings
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.contrastive
	$(BIN)/python -m benchmarks.race
	$(BIN)/python -m benchmarks.preparation
	$(BIN)/python -m benchmarks.correlation
	$(BIN)/python -m benchmarks.driver
	$(BIN)/python -m benchmarks.statistics.levels 2000
	$(BIN)/python -m benchmarks.statistics.families 2000
	$(BIN)/python -m benchmarks.statistics.averages 500
	$(BIN)/python -m benchmarks.statistics.power 2000
	$(BIN)/python -m benchmarks.statistics.search_luck 2000
	$(BIN)/python -m benchmarks.statistics.planned
	$(BIN)/python -m benchmarks.statistics.sequential 300
	$(BIN)/python -m benchmarks.statistics.collapsed 200
	$(BIN)/python -m benchmarks.adapters
	$(BIN)/python -m benchmarks.gpu

# The main ratios, next to the last recorded ones of this kind of processor. ARGS=--record adds to those.
bench-quick: $(TESTABLE)
	@$(BIN)/pip install -q --no-deps -r requirements-bench.lock
	$(BIN)/python -m benchmarks.guard $(ARGS)

# Checks and measures a GPU; on another machine, runs the same code on a pretend one. Installs nothing: it uses PYTHON as it
# is, or .venv where there is one, with the packages of `make gpu-packages` where they are. ARGS="--parts memory,study"
# chooses, ARGS="--seconds 420" ends in time.
CARRIED := build/gpu-packages
GPU_PYTHON = $(if $(and $(filter file,$(origin PYTHON)),$(wildcard $(BIN)/python)),$(BIN)/python,$(PYTHON))
gpu:
	@"$(GPU_PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "this needs Python 3.11 or newer; name one: make gpu PYTHON=/path/to/python" >&2; exit 2; }
	@if [ ! -d $(CARRIED) ] && [ -f $(CARRIED).tar.xz ]; then $(GPU_PYTHON) -m tarfile -e $(CARRIED).tar.xz build; fi
	@PYTHONPATH=$(CURDIR):$(CURDIR)/$(CARRIED)/site-packages $(GPU_PYTHON) -m benchmarks.gpu $(ARGS)

# What `make gpu` needs beyond torch and transformers, to carry to a machine without a network: a folder, and the same as one
# archive. ARGS="--python 3.12" collects for another Python, ARGS=--only-missing for a machine that has more.
gpu-packages:
	@$(GPU_PYTHON) -m benchmarks.gpu.packages $(CARRIED) $(ARGS)

# What pyproject.toml needs, in a fresh environment, with the versions that the lock files have: to move a package to its
# newest version, delete its line first. A build's local version (torch's +cpu) belongs to one machine.
LOCKS := requirements.lock requirements-test.lock requirements-bench.lock
FREEZE := build/lock/bin/pip freeze --exclude-editable | sed 's/+[A-Za-z0-9.]*$$//'
lock:
	@echo "resolving pyproject.toml in a fresh environment (some minutes)"
	@$(PYTHON) -m venv --clear build/lock
	@grep -h == $(LOCKS) > build/locked.txt
	@build/lock/bin/pip install -q -c build/locked.txt -e ".[train]"
	@echo '# What the project needs, exactly; written by `make lock` from pyproject.toml in a fresh environment.' > build/lock.txt
	@$(FREEZE) >> build/lock.txt
	@build/lock/bin/pip install -q -c build/locked.txt -e ".[test]"
	@echo '# What tests, linters and documentation need beyond requirements.lock; written by `make lock`.' > build/test.txt
	@$(FREEZE) | grep -vxFf build/lock.txt >> build/test.txt
	@build/lock/bin/pip install -q -c build/locked.txt -e ".[bench]"
	@echo '# What the benchmarks need beyond the other two lock files; written by `make lock`.' > build/bench.txt
	@$(FREEZE) | grep -vxFf build/lock.txt | grep -vxFf build/test.txt >> build/bench.txt
	@mv build/lock.txt requirements.lock
	@mv build/test.txt requirements-test.lock
	@mv build/bench.txt requirements-bench.lock

$(INSTALLED): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; name one: make PYTHON=/path/to/python" >&2; exit 2; }
	@echo "1/3 environment in .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@echo "2/3 $$(grep -c == requirements.lock) packages of requirements.lock (some minutes)"
	@$(BIN)/pip install -q -r requirements.lock
	@echo "3/3 this project"
	@$(BIN)/pip install -q --no-deps -e .
	@touch $@

$(TESTABLE): $(INSTALLED) requirements-test.lock
	@echo "$$(grep -c == requirements-test.lock) packages of requirements-test.lock for the tests"
	@$(BIN)/pip install -q --no-deps -r requirements-test.lock
	@touch $@
