# `make figures` makes everything, `make test` runs all tests but those on SLURM and on a GPU; `make check` is its quick part. All first make the
# environment, once; tests and linters add their own packages to it.
# CORES: cores to use (default: all). ARGS: more arguments for Snakemake, e.g. ARGS="--configfile config/paper.yaml".
# TEST_ARGS: arguments for pytest, e.g. TEST_ARGS="-x tests/unit" for one process that stops at the first failure.

PYTHON ?= python3
VENV ?= .venv
CORES ?= all
ARGS ?=
TEST_ARGS ?= --numprocesses 2 --dist worksteal
GPU_PYTHON ?= $(VENV)/bin/python
READY := $(VENV)/.ready
TEST_READY := $(VENV)/.ready-for-tests
INSTALL := $(VENV)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps

.PHONY: figures lint check test test-gpu test-slurm environment test-environment benchmarks lock docs site

# On a terminal a bar of all work and one for each running job, else plain lines; results/logs/ has those of each job.
figures: $(READY)
	$(VENV)/bin/snakemake --cores $(CORES) $$([ -t 2 ] && echo --logger rich) --quiet rules $(ARGS)
	@echo "Done. Open results/index.html: every figure and table, with its numbers, code and record."

# The processes of pytest share the cores: threads of each besides would wait for one another, tests ten times as long.
PYTEST := OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest $(TEST_ARGS)

# Linters, formatters, types and the floors of the packages.
lint: $(TEST_READY)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/snakefmt --check Snakefile rules
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy
	$(VENV)/bin/snakemake --lint > /dev/null

# The quick unit tests, which need no run of Snakemake.
check: $(TEST_READY)
	$(PYTEST) --junitxml=.pytest_cache/check.xml -m "not study"

# The same, what the smoke study shows, made once, and other real runs.
test: $(TEST_READY)
	$(PYTEST) --junitxml=.pytest_cache/report.xml
	@echo "All tests passed. What each one shows is in its docstring under tests/; timings are in .pytest_cache/report.xml."

# The computation of each stage on a GPU beside the CPU, in about a minute; on the CPU alone
# where torch sees no GPU. Then the smoke study on both, which needs a GPU, snakemake and the sources.
# GPU_PYTHON: another interpreter, which has torch already; then nothing is installed.
test-gpu: $(if $(filter $(VENV)/bin/python,$(GPU_PYTHON)),$(TEST_READY))
	$(GPU_PYTHON) -m tests.gpu

# Tests on a SLURM of its own, for which it installs Debian's packages and needs root; elsewhere it says so and skips them.
test-slurm: $(TEST_READY)
	tests/slurm/install.sh || echo "SLURM cannot be installed here: its tests are skipped."
	$(VENV)/bin/python -m pytest tests/slurm

environment: $(READY)

test-environment: $(TEST_READY)

# The locks name all packages, so that pip resolves nothing. torch comes first: between the builds for CPUs and for CUDA, which
# have one version, pip then chooses as it is configured, not by whether it knows a file's digest before the download.
$(READY): requirements.lock requirements-cuda.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3" if sys.version_info < (3, 11) else 0)'
	@echo "Making the environment in $(VENV): a few minutes, once."
	$(PYTHON) -m venv $(VENV)
	awk '/^[^ ]/ { on = /^torch==/ } on' requirements.lock > $(VENV)/torch.lock
	$(VENV)/bin/python -m pip download --disable-pip-version-check --quiet --no-deps --dest $(VENV)/torch "$$(grep -o '^torch==[^ ]*' $(VENV)/torch.lock)"
	$(INSTALL) --require-hashes --no-index --find-links $(VENV)/torch --requirement $(VENV)/torch.lock
	rm -r $(VENV)/torch $(VENV)/torch.lock
	$(INSTALL) --require-hashes --requirement requirements.lock
	if grep -q '^Requires-Dist: nvidia' $(VENV)/lib/python*/site-packages/torch-*/METADATA; then \
	  $(INSTALL) --require-hashes --requirement requirements-cuda.lock; fi
	$(INSTALL) --no-build-isolation --editable .
	@# The library is installed; a checkout has the workflow's Python besides, for scripts and benchmarks.
	$(VENV)/bin/python -c 'import os, sysconfig; open(sysconfig.get_path("purelib") + "/checkout.pth", "w").write(os.getcwd() + "\n")'
	@touch $(READY)

$(TEST_READY): $(READY) requirements-dev.lock
	$(INSTALL) --require-hashes --requirement requirements-dev.lock
	@touch $(TEST_READY)

# The results as a folder for any host of static files, in TO.
TO ?= public
site: $(READY)
	$(VENV)/bin/isotropy site $(TO)

# The docs as a site, in SITE, made in an environment of its own; a broken link or anchor is an error. UV: another uv.
UV ?= $(VENV)/bin/uv
SITE ?= site
docs: $(if $(filter $(VENV)/bin/uv,$(UV)),$(TEST_READY))
	NO_MKDOCS_2_WARNING=1 $(UV) tool run --with-requirements docs/requirements.txt mkdocs build --strict --site-dir $(abspath $(SITE))

benchmarks: $(TEST_READY)
	$(VENV)/bin/python benchmarks/metrics.py
	$(VENV)/bin/python benchmarks/embed.py
	$(VENV)/bin/python benchmarks/loop.py
	$(VENV)/bin/python benchmarks/finetune.py
	$(VENV)/bin/python benchmarks/audit.py
	$(VENV)/bin/python benchmarks/graph.py

# Write the lock files from pyproject.toml; versions that fit stay, unless ARGS=--upgrade.
lock: $(TEST_READY)
	$(VENV)/bin/python -m tests.make_lock $(ARGS)
