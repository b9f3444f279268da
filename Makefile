# Two commands start from a bare machine with Python 3.11+ and g++: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
# No secret or project setting of the caller's shell reaches the demo or the tests.
CLEAN_ENV := env -u OPENAI_API_KEY -u OPENAI_BASE_URL $(foreach v,$(filter AGENT_%,$(.VARIABLES)),-u $(v))

.PHONY: demo test test-all fuzz browser check diagnose server-test environment-test gpu-test clean

demo: $(STAMP)
	@$(CLEAN_ENV) $(BIN)/python -m agent.cli.demo

test: check browser
	$(CLEAN_ENV) $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Every kernel of the corpora in every mode; `test` runs each mechanism once and a sample.
test-all: check browser
	$(CLEAN_ENV) $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --all-kernels

# What a candidate's process might write, for ten minutes; `test` tries a sample.
fuzz: $(STAMP)
	$(CLEAN_ENV) $(BIN)/python -m pytest tests/harness/test_hostile_messages.py --fuzz-minutes 10

# The viewer is tested in Debian's Chromium; without it those tests are skipped, and with CI=true they fail.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { test "$$(id -u)" = 0 && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		chromium chromium-driver fonts-dejavu-core >/dev/null; } || \
		echo "make: no browser for the tests of agent view: apt-get install chromium chromium-driver" >&2

check: $(STAMP)
	$(BIN)/ruff check agent tests benchmarks
	$(BIN)/ruff format --check agent tests benchmarks
	$(BIN)/mypy
	$(BIN)/mypy benchmarks  # by itself: it knows tests.foreign by another name than the tests do
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m agent.contracts --check
	$(BIN)/python -m tests.docs.reference --check
	$(BIN)/python -m pytest tests/test_structure.py

# Scores the feedback on the labelled corpus and renders docs/diagnosis.md; `make diagnose ONLY=blind` one part.
diagnose: $(STAMP)
	$(CLEAN_ENV) $(BIN)/python -m tests.diagnosis.score $(if $(ONLY),--only $(ONLY))

# A real open-source server (transformers serve, offline, on the loopback) answers; installs its packages first.
server-test: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[server-test]'
	$(CLEAN_ENV) $(BIN)/python -m pytest tests/providers/test_real_server.py

# The real `verifiers` library with the environment of agent/doors/environment, in an environment of its own.
environment-test: $(STAMP)
	@test -x $(VENV)-environment/bin/python || $(PYTHON) -m venv $(VENV)-environment
	$(VENV)-environment/bin/python -m pip install --quiet --disable-pip-version-check \
		"$$(grep ^torch== constraints.txt)" './agent/doors/environment[example]'
	$(CLEAN_ENV) KERNELWRIGHT_ENVIRONMENT_PYTHON=$(CURDIR)/$(VENV)-environment/bin/python \
		$(BIN)/python -m pytest tests/doors/test_environment.py

# On a machine whose own Python holds torch and the other packages: make gpu-test GPU_PYTHON=python3
GPU_PYTHON ?= $(BIN)/python
gpu-test: $(if $(filter $(BIN)/python,$(GPU_PYTHON)),$(STAMP))
	$(GPU_PYTHON) -m tests.gpu.verify
	$(GPU_PYTHON) -m tests.gpu.corpus
	$(GPU_PYTHON) -m tests.gpu.planted
	$(GPU_PYTHON) -m tests.integrity.run --executor cuda --jobs 4 --resume
	$(GPU_PYTHON) -m tests.gpu.kernels
	$(GPU_PYTHON) -m pytest --on-gpu -k "not broken" tests/emulator/test_modern.py tests/emulator/test_modern_gemms.py tests/emulator/test_warpgroups.py \
		tests/emulator/test_im2col.py

clean:
	rm -rf $(VENV) $(VENV)-environment .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@command -v g++ >/dev/null || { echo "make: g++ is missing: apt-get install g++" >&2; exit 3; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: Python 3.11 or newer is needed; set PYTHON=..." >&2; exit 3; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "make: no venv module: apt-get install python3-venv" >&2; exit 3; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)
