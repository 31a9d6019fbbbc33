# fp8shard.  `make demo` runs the main job, `make check` all tests; see README.md.
#   CC=clang, SANITIZE=address,undefined or thread, WERROR=1, BUILD=dir

CC      ?= gcc
BUILD   ?= build
CFLAGS  ?= -O2 -g
CFLAGS  += -std=c11 -D_GNU_SOURCE -ffp-contract=off -Wall -Wextra -Wmissing-prototypes \
           -Wstrict-prototypes -Wvla -fvisibility=hidden -fPIC -pthread -MMD -MP
CPPFLAGS += -Iinclude -Isrc/ir -Isrc/import -Isrc/passes -Isrc/runtime -Ikernels -Itools/lib
LDLIBS  := -ljansson -lminizip -lz -ldl -lm -pthread
ifdef WERROR
CFLAGS  += -Werror
endif
ifdef SANITIZE
CFLAGS  += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
LDFLAGS += -fsanitize=$(SANITIZE)
endif

sources  = $(wildcard $(1)/*.c)
objects  = $(patsubst %.c,$(BUILD)/%.o,$(call sources,$(1)))
LIB_OBJS = $(foreach d,src/ir src/import src/passes src/runtime kernels/cpu,$(call objects,$(d)))
LIB      = $(BUILD)/libfp8shard.a
TOOLS    = $(patsubst tools/%.c,$(BUILD)/%,$(wildcard tools/*.c))
UNIT     = $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/check_*.c))

.PHONY: all unit clean
all: $(TOOLS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(LIB): $(LIB_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

# What mains share; of an archive a program takes what it names.
$(BUILD)/libcli.a: $(call objects,tools/lib)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%: $(BUILD)/tools/%.o $(BUILD)/libcli.a $(LIB)
	$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

# Unit tests: one program a file, tests/unit/check_NAME.c, on Check.
$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ -lcheck -lsubunit -lrt $(LDLIBS) -o $@

unit: $(UNIT)
	@for t in $^; do $$t || exit 1; done

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.SECONDARY:
