# fp8shard.  `make demo` runs the main job, `make check` all tests; see README.md.
#
#   all            the programs                 bench   what is fast and what is not, as ratios
#   demo           a small model, end to end    soak    long fuzzing
#   suite          bytes sent against the best known placements
#   check          every test                   style   files, functions, layers
#   check-fast     those that take seconds      update-golden   rewrites tests/**/*.out, *.err and docs/passes.md
#
#   CC=clang, CFLAGS=-O3, SANITIZE=address,undefined or thread, WERROR=1, BUILD=dir

ifeq ($(origin CC),default)
CC       = gcc
endif
BUILD   ?= build
CFLAGS  ?= -O2 -g
FLAGS    = -std=c11 -D_GNU_SOURCE -ffp-contract=off -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes \
           -Wvla -fvisibility=hidden -fPIC -pthread
INCLUDES = -Iinclude -Isrc/ir -Isrc/import -Isrc/passes -Isrc/runtime -Ikernels -Itools/lib
LDLIBS   = -ljansson -lminizip -lz -ldl -lm -pthread
ifdef WERROR
FLAGS   += -Werror
endif
ifdef SANITIZE
FLAGS   += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
COMPILE  = $(CC) $(INCLUDES) $(CPPFLAGS) $(FLAGS) $(CFLAGS)
LINK     = $(CC) $(FLAGS) $(CFLAGS) $(LDFLAGS)

sources  = $(wildcard $(1)/*.c)
objects  = $(patsubst %.c,$(BUILD)/%.o,$(call sources,$(1)))
LIB_OBJS = $(foreach d,src/ir src/import src/passes src/runtime kernels/cpu,$(call objects,$(d)))
LIB      = $(BUILD)/libfp8shard.a
CLI      = $(BUILD)/libcli.a
TOOLS    = $(patsubst tools/%.c,$(BUILD)/%,$(wildcard tools/*.c))
UNIT     = $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/unit/check_*.c))
FUZZ     = $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/fuzz/*.c))
BENCH    = $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
MODELS   = $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/models/*.c))
SUITE    = $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/suite/*.c))
RANDOM   = $(BUILD)/run/check_random
EXAMPLES = $(patsubst %.c,$(BUILD)/%,$(wildcard examples/*.c))
PROGRAMS = $(TOOLS) $(UNIT) $(FUZZ) $(BENCH) $(MODELS) $(SUITE) $(RANDOM) $(EXAMPLES)

# Targets that install things start a second make, on all cores unless -j says otherwise.
AGAIN    = $(MAKE) --no-print-directory $(if $(findstring j,$(firstword -$(MAKEFLAGS))),,-j$(shell nproc))

.PHONY: all programs unit check check-fast demo bench soak suite style update-golden deps clean FORCE
all: $(TOOLS)
programs: $(PROGRAMS)

# Objects hang on the flags that made them.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(COMPILE) $(LINK)' | cmp -s - $@ || echo '$(COMPILE) $(LINK)' >$@

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE) -MMD -MP -c $< -o $@

$(LIB): $(LIB_OBJS)
$(CLI): $(call objects,tools/lib)
# Of an archive a program takes what it names.
$(LIB) $(CLI):
	@rm -f $@
	$(AR) rcs $@ $^

$(TOOLS): $(BUILD)/%: $(BUILD)/tools/%.o $(CLI) $(LIB)
	$(LINK) $^ $(LDLIBS) -o $@

$(UNIT) $(FUZZ) $(BENCH) $(MODELS) $(SUITE): $(BUILD)/%: $(BUILD)/tests/%.o $(LIB)
	@mkdir -p $(@D)
	$(LINK) $^ $(if $(filter $(UNIT),$@),-lcheck -lsubunit -lrt) $(LDLIBS) -o $@

$(RANDOM): $(call objects,tests/run) $(LIB)
	@mkdir -p $(@D)
	$(LINK) $^ $(LDLIBS) -o $@

$(EXAMPLES): $(BUILD)/%: $(BUILD)/%.o $(LIB)
	$(LINK) $^ $(LDLIBS) -o $@

unit: $(UNIT)
	@tests/check.sh $(BUILD) unit

deps:
	@tools/deps.sh

check: deps
	@$(AGAIN) programs
	@tests/check.sh $(BUILD) unit text cli run random models suite docs style fuzz

check-fast: programs
	@tests/check.sh $(BUILD) unit text cli

demo: deps
	@$(AGAIN) all $(EXAMPLES)
	@BUILD=$(BUILD) examples/demo.sh

bench: deps
	@$(AGAIN) all $(BENCH)
	@BUILD=$(BUILD) tests/bench/run.sh

soak: deps
	@$(AGAIN) all $(FUZZ) $(RANDOM)
	@FUZZ=1000000 RANDOM_PROGRAMS=100000 tests/check.sh $(BUILD) random fuzz

suite: $(TOOLS) $(SUITE)
	@BUILD=$(BUILD) tests/suite/run.sh

style:
	@tests/style.sh

update-golden: all
	@UPDATE=1 FP8SHARD=$(BUILD)/fp8shard tests/runtests.sh
	@$(BUILD)/fp8shard passes --markdown >docs/passes.md

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.SECONDARY:
