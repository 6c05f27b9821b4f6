# Needs Python 3.10 to 3.14, git and make. The rest is set up in .venv, at the first call and when the lock has changed.
#
#   make decode ARGS="--quick"      ARGS goes to the command behind lab, decode, test, oldest, soak, notebooks, bench, lock
#   make decode PYTHON=python3.12   the Python that .venv is made with
#   make decode TORCH_INDEX=URL     one more index to take PyTorch from, read when .venv is set up: its CPU-only build
#   make lab WHEELHOUSE=FOLDER      set up .venv without a network, from what make wheelhouse has put together

PYTHON = python3
VENV = .venv
LOCK = requirements.lock
ARGS =
TORCH_INDEX =
WHEELHOUSE =

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
SOURCES = $(if $(WHEELHOUSE),--no-index --find-links "$(WHEELHOUSE)") \
    $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)")

help:
	@echo "make lab        open the notebooks in JupyterLab"
	@echo "make decode     train the decoder on the embedded session and show how well it reads the hand"
	@echo "make test       check everything: style, unit tests, notebooks"
	@echo "make oldest     the same tests with the oldest versions that pyproject.toml allows (Python 3.10 or 3.11)"
	@echo "make soak       the attacks of tests/reliability at length: many more cases and other seeds, for two hours"
	@echo "make audit      compare the versions in requirements.lock with the known security advisories (needs a network)"
	@echo "make notebooks  run all notebooks anew and keep their outputs"
	@echo "make site       the course as web pages, in site/_build/html"
	@echo "make slides     the chapters as slides, in site/_build/slides"
	@echo "make wheelhouse  what a room without a network needs, to carry on a stick"
	@echo "make bench      measure what the README claims, beside its limits, and write BENCHMARKS.md (40 minutes)"
	@echo "make lock       pin the versions in requirements.lock (newer ones: ARGS=--upgrade)"
	@echo "make clean      remove .venv and caches; runs/ and data/recordings/ stay"

lab: $(VENV)/.installed
	$(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 notebooks $(ARGS)

decode: $(VENV)/.installed
	$(BIN)/possm-lite decode $(ARGS)

# ARGS goes to the unit tests: make test ARGS="-k streaming". Those in a browser need make site, and a process of their
# own: Playwright takes Ctrl-C for itself, with which the checks of exercises end an endless loop.
test: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(TESTS)

# All but the style, whose rules are those of one version of ruff.
define TESTS
$(PYTEST) --dist worksteal tests --ignore tests/browser $(ARGS)
@if [ -n "$$(find notebooks -name '*.ipynb' -not -path '*/.*')" ]; then set -x; \
    $(PYTEST) --dist loadfile --nbval-lax --nbval-current-env --nbval-cell-timeout=120 notebooks; \
else echo "no notebooks to test"; fi
endef

# A process for each core, up to four, since each takes a gigabyte. One thread in each, or they wait for each other. To see
# what a test prints, or to stop in it, take one process: make test ARGS="-k streaming -n 0 -s"
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest -n logical --maxprocesses 4

# The same with the oldest versions that pyproject.toml allows, in an environment of their own. The newest Python that all
# of them have builds for is 3.11: make oldest PYTHON=python3.11
oldest: BIN = .venv-oldest/bin
oldest:
	@$(MAKE) --no-print-directory VENV=.venv-oldest LOCK=requirements-oldest.lock NEWEST=11 .venv-oldest/.installed
	$(TESTS)

# What make test does for a minute, at length.
soak: $(VENV)/.installed
	POSSM_SOAK=1 $(BIN)/pytest tests/reliability $(ARGS)

# Not part of make test: the advisories are elsewhere, and change by themselves. No answer is said, and no failure.
audit: $(VENV)/.installed
	@test -x $(BIN)/pip-audit || $(PIP) install --quiet pip-audit 2>/dev/null || true
	@$(BIN)/pip-audit --disable-pip --no-deps -r requirements.lock --progress-spinner off --timeout 20 --format json $(ARGS) \
	    2>/dev/null | $(BIN)/python -c "$$SAY_AUDIT"

define SAY_AUDIT
import json, sys
try:
    told = json.load(sys.stdin)['dependencies']
except ValueError:  # pip-audit is not here, or got no answer at all
    told = []
known = [one for one in told if 'skip_reason' not in one]
bad = [(one, flaw) for one in known for flaw in one['vulns']]
for one, flaw in bad:
    print(one['name'], one['version'], flaw['id'], 'mended in', ', '.join(flaw['fix_versions']) or 'no version yet')
if known:
    print('make audit:', len(known), 'of', len(told), 'versions compared with the advisories,', len(bad), 'flaws known')
else:
    print('make audit: nothing was compared: the advisory service cannot be reached from here, or knows none of the versions')
sys.exit(bool(bad))
endef
export SAY_AUDIT

notebooks: $(VENV)/.installed
	$(BIN)/python -m possm_lite.classroom.execute $(ARGS) $$(find notebooks -name '*.ipynb' -not -path '*/.*' | sort)

# Every chapter as a web page that needs no kernel and no network: site/_build/html/index.html
site: $(VENV)/.site
	$(BIN)/python site/prepare.py site/_build/source
	$(BIN)/sphinx-build -q -W --keep-going -c site site/_build/source site/_build/html

# Every chapter as slides that need no network either: site/_build/slides/NN_topic.slides.html
slides: $(VENV)/.site
	$(BIN)/python site/slides.py site/_build/slides

# For a room without a network: all that .venv needs on machines with this system and this Python, in one folder.
wheelhouse: $(VENV)/.installed
	$(PIP) download --quiet --only-binary :all: $(SOURCES) -r requirements.lock -d wheelhouse
	@echo "wheelhouse: $$(ls wheelhouse | wc -l) wheels, $$(du -sh wheelhouse | cut -f 1). There: make lab WHEELHOUSE=$(CURDIR)/wheelhouse"

# Some sections only: make bench ARGS="latency training". Without torch_brain it says that POYO is skipped.
bench: $(VENV)/.installed
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "make bench: torch_brain could not be installed"
	$(BIN)/python -m tests.benchmarks $(ARGS)

# .ci/lock.toml says why torch gets settings of its own. Versions already in the lock stay, unless ARGS says otherwise.
lock:
	$(READY_VENV)
	@test -x $(BIN)/uv || $(PIP) install --quiet uv
	$(COMPILE) --extra lab --extra recordings --extra test -o requirements.lock pyproject.toml $(ARGS)
	$(COMPILE) --extra site --extra browser -c requirements.lock -o requirements-site.lock pyproject.toml $(ARGS)
	$(subst lock.toml,oldest.toml,$(COMPILE)) --resolution lowest-direct --extra lab --extra recordings --extra test \
	    -o requirements-oldest.lock pyproject.toml $(ARGS)
	$(COMPILE) --extra bench -c requirements.lock -c requirements-site.lock -o requirements-bench.lock pyproject.toml $(ARGS)

COMPILE = $(BIN)/uv pip compile --config-file .ci/lock.toml --universal --python-version 3.10 --quiet \
    --annotation-style line --custom-compile-command "make lock"

clean:
	rm -rf .venv .venv-oldest build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find possm_lite tests notebooks -name __pycache__ -prune -exec rm -rf {} +
	find notebooks -name .ipynb_checkpoints -prune -exec rm -rf {} +

# The stamp comes last, so that a set-up that failed is done again, and bears the time of the start, so that a lock that
# changes meanwhile is newer.
$(VENV)/.installed: $(LOCK) pyproject.toml
	@rm -f $@
	$(READY_VENV)
	@touch $(VENV)/.installing
	$(PIP) install --quiet $(SOURCES) "pip>=22.3"
	$(PIP) install $(QUIET_LATER) $(SOURCES) -r $(LOCK)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@mv -f $(VENV)/.installing $@

# What only the web pages and their tests need.
$(VENV)/.site: $(VENV)/.installed requirements-site.lock
	$(PIP) install --quiet -r requirements-site.lock
	@touch $@

# torch_brain, with what it needs, in the versions that the other two locks have.
$(VENV)/.bench: $(VENV)/.installed requirements-bench.lock
	$(PIP) install --quiet $(SOURCES) -r requirements-bench.lock
	@touch $@

# The first time, pip shows how far the downloads are.
QUIET_LATER = $(if $(wildcard $(VENV)/lib/python*/site-packages/torch),--quiet)

# A .venv that works stays, whoever made it; anything else in its place is made anew.
READY_VENV = @{ $(BIN)/python -c "$$CHECK_PYTHON" && $(PIP) --version; } >/dev/null 2>&1 \
    || { $(PYTHON) -c "$$CHECK_PYTHON" && $(PYTHON) -m venv --clear $(VENV); }

# The newest Python is the last for which everything in the lock has a build.
NEWEST = 14
define CHECK_PYTHON
import platform, sys
here = 'Python ' + platform.python_version() + ' (' + sys.executable + ')'
if not (3, 10) <= sys.version_info[:2] <= (3, $(NEWEST)):
    sys.exit('possm-lite is set up with Python 3.10 to 3.$(NEWEST), not with ' + here + '. Name one: make PYTHON=python3.11 ...')
if (platform.system(), platform.machine()) == ('Darwin', 'x86_64'):
    sys.exit('PyTorch has no pip build for Intel Macs any more, and this is ' + here + '. Take the conda way: environment.yml')
try:
    import ensurepip, venv
except ImportError:
    sys.exit(here + ' lacks the venv module. On Debian and Ubuntu: sudo apt install python3-venv')
endef
export CHECK_PYTHON

.PHONY: help lab decode test oldest soak audit notebooks site slides wheelhouse bench lock clean
