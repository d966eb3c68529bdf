# The targets; most are one line over `adanorm COMMAND`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
comma := ,

VENV ?= .venv
BIN := $(VENV)/bin
NORM ?= adanorm
MODEL ?=
SEEDS ?= 1
GPUS ?= 1
LAUNCHER ?= local
PLACEMENT ?=
SET ?=
STUDY ?= table4
NORMS ?= layernorm,adanorm
WHAT ?= gradients
# Without TASK, the quick demonstration: real images that come with the suite.
ifeq ($(origin TASK),undefined)
TASK := mnist
ifeq ($(origin SCALE),undefined)
SCALE := mini
DEMONSTRATION := scale mini: no TASK was named; 5,000 MNIST images that come with the suite, about a minute
endif
RUNS ?= runs
else
SCALE ?= auto
endif

# A task with another model than the paper's is a task of its own.
CHOSEN = $(TASK)$(if $(MODEL),-$(MODEL))

# The first Python that fairseq has wheels for; or else the first that everything else works with.
PYTHON ?= $(shell for newest in 12 99; do for p in python3 python3.12 python3.11 python3.13; do \
	$$p -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $$newest))" 2>/dev/null \
	&& echo $$p && break 2; done; done)

# Returning memory to the system after every step would cost a third of a small model's time on CPU.
export MALLOC_TRIM_THRESHOLD_ ?= 1000000000
export MALLOC_MMAP_THRESHOLD_ ?= 1000000000

ADANORM := $(BIN)/python -P -m adanorm
# It prints each package: without a word, a slow index looks like a standstill.
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar on -c constraints.txt
BENCHMARKS := updates translation attention recurrent parsing
# A folder may have any characters in its name.
quoted = '$(subst ','\'',$1)'
# SET may have several settings, each one word.
SETTINGS = $(foreach setting,$(SET),$(call quoted,$(setting)))
CHOICE = $(if $(PLACEMENT),norm.placement=$(call quoted,$(PLACEMENT))) $(if $(RUNS),runs=$(call quoted,$(RUNS))) $(SETTINGS)

# A norm that is checked or tried is named: the default is for training.
NAMED_NORM = $(if $(filter command% environment%,$(origin NORM)),norm=$(call quoted,$(NORM)))

# A variable on make's command line must be one of this file, or belong to other programs (CUDA_VISIBLE_DEVICES).
VARIABLES := VENV PYTHON TASK MODEL NORM NORMS SCALE SEEDS GPUS LAUNCHER WORKERS PLACEMENT SET STUDY \
	WHAT INPUT OUTPUT RUNS FILE BUDGET OPTIMIZER
written := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
unknown := $(foreach name,$(filter-out $(VARIABLES) MAKE%,$(written)),$(if $(findstring _,$(name)),,$(name)))
ifneq ($(unknown),)
$(error $(firstword $(unknown)): no such variable; choose from $(VARIABLES))
endif
# Recipes use these paths and numbers unquoted, so their characters are checked.
a_path := ^[A-Za-z0-9_./~+@%:=-]*$$
a_number := ^[1-9][0-9]*$$
odd = $(shell [[ $(call quoted,$1) =~ $2 ]] || echo odd)
$(foreach name,VENV PYTHON,$(if $(call odd,$($(name)),$(a_path)),$(error $(name)=$($(name)): write a path without spaces and signs of the shell)))
$(foreach name,GPUS WORKERS,$(if $($(name)),$(if $(call odd,$($(name)),$(a_number)),$(error $(name)=$($(name)): must be a whole number of at least 1))))
ifneq ($(and $(filter PLACEMENT,$(written)),$(filter study status tables figures report compare,$(MAKECMDGOALS))),)
$(error PLACEMENT=$(PLACEMENT): is of one run; a study says where the norms of its rows sit)
endif

# Passed on only if the user set it: a study has its own seeds and scale.
given = $(if $(filter command% environment%,$(origin $1)),$2=$(call quoted,$($1)))
GRID = $(call given,TASK,task) $(call given,SEEDS,seeds) $(call given,SCALE,scale) $(call given,RUNS,runs) $(call given,WORKERS,workers)

.PHONY: help reproduce data plan list study status analyse tables figures report predict compare check-norm trial arena verify contribute merge bench bench-norms gpu-check docs check format test test-records test-processors nightly mutation clean

help: ## Print this help
	@echo "AdaNorm reproduction suite: make TARGET [NAME=VALUE ...]"
	@echo
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	  | awk -F'|' '{ printf "  %-15s %s\n", $$1, $$2 }'
	@echo
	@echo "  TASK=mnist|rt|sst5|de-en|en-de|en-vi|enwik8|ptb|gaussian|cifar10"
	@echo "  NORM=adanorm|layernorm|batchnorm|...   (make list has them all)"
	@echo "  MODEL=lstm|gru|rnn: another model for enwik8"
	@echo "  SEEDS=1,2,3"
	@echo "  SCALE=auto|paper|open|small|mini|smoke PLACEMENT=all|final"
	@echo "  SET=\"norm.params.k=0.2\""
	@echo "  STUDY=table4|ablation-k|fair|...  LAUNCHER=local|ray|slurm  WORKERS=2  GPUS=1"
	@echo "  BUDGET=20min OPTIMIZER=adam|muon (trial)"
	@echo "  WHAT=gradients|activations|invariance|covariate-shift|landscape|..."
	@echo "    (analyse; it has its own tasks and norms; SET=\"steps=100 every=10\")"
	@echo "  INPUT=FILE OUTPUT=FILE (predict)   NORMS=layernorm,adanorm (compare)"
	@echo "  RUNS=FOLDER: records go there; runs that only results/ has are repeated"
	@echo "  FILE=FILE (merge; make contribute writes it)"
	@echo
	@echo "Start with: make reproduce"

reproduce: $(VENV)/installed ## Train TASK with NORM, and print the score beside the paper's
	@$(if $(DEMONSTRATION),echo "$(DEMONSTRATION)")
	@$(ADANORM) run $(if $(findstring $(comma),$(SEEDS)$(NORM)$(TASK)),-m) $(if $(filter-out 1,$(GPUS)),gpus=$(call quoted,$(GPUS))) task=$(call quoted,$(CHOSEN)) norm=$(call quoted,$(NORM)) scale=$(call quoted,$(SCALE)) seed=$(call quoted,$(SEEDS)) $(CHOICE)

data: $(VENV)/installed ## Download and verify the data of TASK
	@$(ADANORM) data task=$(call quoted,$(CHOSEN)) scale=$(call quoted,$(SCALE)) $(SETTINGS)

plan: $(VENV)/installed ## Print what a run (or STUDY) needs: downloads, disk, hours
	@$(ADANORM) plan $(if $(filter-out 1,$(GPUS)),gpus=$(call quoted,$(GPUS))) $(if $(filter command%,$(origin STUDY)),study=$(call quoted,$(STUDY)) $(GRID) $(SETTINGS),task=$(call quoted,$(CHOSEN)) norm=$(call quoted,$(NORM)) scale=$(call quoted,$(SCALE)) $(CHOICE))

list: $(VENV)/installed ## Show tasks, norms, scales, studies, and what is done
	@$(ADANORM) list

study: $(VENV)/installed ## Make the missing runs of STUDY, WORKERS at a time; a table
	@$(ADANORM) study $(call quoted,$(STUDY)) launcher=$(call quoted,$(LAUNCHER)) gpus=$(call quoted,$(GPUS)) $(GRID) $(SETTINGS)

status: $(VENV)/installed ## Show which runs of each study (or STUDY) are done; time left
	@$(ADANORM) status $(if $(filter command% environment%,$(origin STUDY)),$(call quoted,$(STUDY))) $(GRID) $(SETTINGS)

analyse: $(VENV)/installed ## Observe WHAT while TASK trains with NORMS; a table and figures
	@$(ADANORM) analyze $(call quoted,$(WHAT)) $(call given,TASK,task) $(call given,NORMS,norm) $(call given,SCALE,scale) $(call given,SEEDS,seeds) $(call given,RUNS,runs) $(SETTINGS)

tables: $(VENV)/installed ## Write results/tables from the records
	@$(ADANORM) tables

figures: $(VENV)/installed ## Write results/figures from the records
	@$(ADANORM) figures

report: $(VENV)/installed ## Write results/report/index.html from the records
	@$(ADANORM) report $(call given,RUNS,runs)

predict: $(VENV)/installed ## Translate, parse or continue INPUT with the weights of a run
	@$(ADANORM) predict task=$(call quoted,$(CHOSEN)) norm=$(call quoted,$(NORM)) scale=$(call quoted,$(SCALE)) seed=$(call quoted,$(SEEDS)) $(CHOICE) $(if $(INPUT),input=$(call quoted,$(INPUT))) $(if $(OUTPUT),output=$(call quoted,$(OUTPUT)))

compare: $(VENV)/installed ## Compare NORMS on the same test examples
	@$(ADANORM) compare task=$(call quoted,$(CHOSEN)) norm=$(call quoted,$(NORMS)) scale=$(call quoted,$(SCALE)) $(call given,SEEDS,seed) $(CHOICE)

check-norm: $(VENV)/installed ## Test whether NORM keeps the contract of a norm
	@$(ADANORM) check-norm $(NAMED_NORM) $(SETTINGS)

trial: $(VENV)/installed ## Put NORM on trial beside LayerNorm within BUDGET: one answer
	@$(ADANORM) trial $(NAMED_NORM) $(call given,BUDGET,budget) $(call given,OPTIMIZER,optimizer) $(call given,RUNS,runs) $(call given,WORKERS,workers) $(SETTINGS)

arena: $(VENV)/installed ## Print the table of norms that have been on trial
	@$(ADANORM) arena $(call given,RUNS,runs)

verify: $(VENV)/installed ## Repeat a recorded run; say whether this machine reproduces it
	@$(ADANORM) verify task=$(call quoted,$(CHOSEN)) norm=$(call quoted,$(NORM)) $(if $(filter-out auto,$(SCALE)),scale=$(call quoted,$(SCALE))) $(call given,SEEDS,seed) $(call given,RUNS,runs) $(if $(PLACEMENT),norm.placement=$(call quoted,$(PLACEMENT))) $(SETTINGS)

contribute: $(VENV)/installed ## Write the runs in RUNS into one file, OUTPUT, to be merged
	@$(ADANORM) contribute $(call quoted,$(RUNS)) $(if $(OUTPUT),output=$(call quoted,$(OUTPUT))) $(SETTINGS)

merge: $(VENV)/installed ## Check the contribution in FILE, show it beside ours, add it
	@$(ADANORM) merge $(call quoted,$(FILE)) $(call given,RUNS,runs) $(SETTINGS)

bench: $(VENV)/installed ## Compare the speed of our code with plain versions and fairseq
	@for name in $(BENCHMARKS); do echo "$$name"; $(BIN)/python -m scripts.benchmarks.$$name $(SETTINGS); done

bench-norms: $(VENV)/installed ## Compare time and memory of every norm with torch's LayerNorm
	@$(BIN)/python -m scripts.benchmarks.norms $(SETTINGS)

gpu-check: $(VENV)/installed ## Check a GPU machine: equality, speed, processes; half an hour
	@$(BIN)/python -m scripts.gpu_check $(SETTINGS)

docs: $(VENV)/installed-docs ## Build the documentation as a site in outputs/site
	@$(BIN)/python -m sphinx -q -W --keep-going -c docs -d outputs/site-doctrees . outputs/site
	@echo "outputs/site/index.html"

check: $(VENV)/installed-dev ## Check format, lint, types, import direction and locks
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.locks check

format: $(VENV)/installed-dev ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

PYTEST := $(BIN)/python -m pytest --numprocesses $(or $(WORKERS),auto) --maxprocesses 8 --dist worksteal

test: $(VENV)/installed-dev ## Run the tests, WORKERS at a time
	$(PYTEST)

test-records: $(VENV)/installed-dev ## Compare the tables, figures and pages here with the records
	$(PYTEST) -m records

# Other instruction sets and libraries of products, on this machine: what a processor of another kind would choose.
PROCESSORS := ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
	MKL_ENABLE_INSTRUCTIONS=AVX2 MKL_CBWR=COMPATIBLE ADANORM_PRODUCTS=mkl ADANORM_PRODUCTS=onednn
NUMERICAL_TESTS := tests/analyses tests/models tests/norms tests/stats tests/tasks/test_bleu.py tests/training tests/reporting/figures

test-processors: $(VENV)/installed-dev ## Test the arithmetic under other instruction sets
	@failed=; for setting in $(PROCESSORS); do echo "$$setting"; \
	  env $$setting $(PYTEST) -m 'not nightly' $(NUMERICAL_TESTS) \
	  || failed="$$failed $$setting"; done; test -z "$$failed" || { echo "error: tests fail under$$failed" >&2; exit 1; }

nightly: $(VENV)/installed-dev test-processors ## Test hundreds of faults: killed runs, damaged files, bad input
	$(PYTEST) -m nightly

mutation: $(VENV)/installed-mutation ## Change the code step by step; list changes that no test sees
	$(BIN)/mutmut run $(call given,WORKERS,--max-children)
	$(BIN)/mutmut results

clean: ## Remove downloads, weights, caches and .venv; records stay
	rm -rf $(VENV) data outputs mutants wandb build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache src/*.egg-info
	$(if $(wildcard results),find results -name '*.pt' -delete -o -name '*.safetensors' -delete -o -name '*.lock' -delete -o -name '*.tmp' -delete)
	find $(wildcard src scripts tests) -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: needs Python 3.11 or newer; name one with PYTHON=" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV): a minute or two"
	$(INSTALL) -e .[translation]
	@$(BIN)/python -c 'from importlib.util import find_spec; find_spec("fairseq") or print("translation tasks are left out: \
	fairseq has wheels for Linux on x86_64 with Python 3.11 and 3.12")'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(INSTALL) -e .[dev]
	@touch $@

$(VENV)/installed-mutation: $(VENV)/installed
	$(INSTALL) -e .[mutation]
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(INSTALL) -e .[docs]
	@touch $@
