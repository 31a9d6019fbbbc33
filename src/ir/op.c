/* Look-ups in ops.def and attrs.def. */
#include "infer.h"

#include <pthread.h>
#include <string.h>

static const struct row {
	const char *text, *stages, *cost, *lower, *attrs;
	int least, most;
	bool source, pointwise;
} rows[OP_COUNT] = {
	[OP_NONE] = { "none", "", "", "", "", 0, 0, false, false },
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) \
	[OP_##name] = { text, stages, #cost, #lower, attrs, least, most, \
			__builtin_strcmp(#rule, "rule_source") == 0, __builtin_strcmp(#lower, "pointwise") == 0 },
#include "ops.def"
#undef OP
};

static const struct attr_row {
	const char *text;
	enum attr_kind kind;
} attr_rows[ATTR_COUNT] = {
	[ATTR_NONE] = { "none", AK_INT },
#define ATTR(name, text, kind) [ATTR_##name] = { text, AK_##kind },
#include "attrs.def"
#undef ATTR
};

_Static_assert(ATTR_COUNT <= 64, "attribute sets are masks of 64 bits");

/* --- by name: open addressing over the rows, filled once; 0 is a free slot --- */

#define OP_SLOTS 512
#define ATTR_SLOTS 128
_Static_assert(OP_COUNT * 2 < OP_SLOTS && ATTR_COUNT * 2 < ATTR_SLOTS, "room for the names");

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint16_t op_slots[OP_SLOTS], attr_slots[ATTR_SLOTS];
static struct attr_set attr_sets[OP_COUNT];

static uint32_t find_op(const char *s)
{
	uint32_t at = (uint32_t)hash_string(s) % OP_SLOTS;
	while (op_slots[at] != 0 && strcmp(rows[op_slots[at]].text, s) != 0)
		at = (at + 1) % OP_SLOTS;
	return at;
}

static uint32_t find_attr(const char *s)
{
	uint32_t at = (uint32_t)hash_string(s) % ATTR_SLOTS;
	while (attr_slots[at] != 0 && strcmp(attr_rows[attr_slots[at]].text, s) != 0)
		at = (at + 1) % ATTR_SLOTS;
	return at;
}

/* One word of an attrs column: "step?". */
static void add_attr(struct attr_set *set, const char *word, size_t size)
{
	char name[32];
	bool wanted = word[size - 1] == '?';
	size -= wanted;
	BUG_ON(size >= sizeof(name));
	memcpy(name, word, size);
	name[size] = '\0';
	enum attr_key k = (enum attr_key)attr_slots[find_attr(name)];
	if (k == ATTR_NONE)
		BUG("ops.def: no attribute '%s'", name);
	set->may |= (uint64_t)1 << k;
	if (!wanted)
		set->must |= (uint64_t)1 << k;
}

static struct attr_set parse_attrs(const char *words)
{
	struct attr_set set = { 0, 0 };
	for (size_t size; *words != '\0'; words += size + (words[size] == ' ')) {
		size = strcspn(words, " ");
		add_attr(&set, words, size);
	}
	return set;
}

static void fill(void)
{
	for (int k = 1; k < ATTR_COUNT; k++)
		attr_slots[find_attr(attr_rows[k].text)] = (uint16_t)k;
	for (int op = 1; op < OP_COUNT; op++) {
		op_slots[find_op(rows[op].text)] = (uint16_t)op;
		attr_sets[op] = parse_attrs(rows[op].attrs);
	}
}

enum op op_from_text(const char *s)
{
	pthread_once(&once, fill);
	return (enum op)op_slots[find_op(s)];
}

enum attr_key attr_from_text(const char *s)
{
	pthread_once(&once, fill);
	return (enum attr_key)attr_slots[find_attr(s)];
}

struct attr_set op_attrs(enum op op)
{
	pthread_once(&once, fill);
	return attr_sets[op];
}

/* --- by number --- */

const char *op_text(enum op op)
{
	return rows[op].text;
}

void op_arity(enum op op, int *least, int *most)
{
	*least = rows[op].least;
	*most = rows[op].most;
}

bool op_in_stage(enum op op, enum stage s)
{
	return strchr(rows[op].stages, "gplf"[s]) != NULL;
}

bool op_is_pointwise(enum op op)
{
	return rows[op].pointwise;
}

bool op_is_view(enum op op)
{
	return strcmp(rows[op].cost, "FREE") == 0 && strcmp(rows[op].lower, "copy") == 0;
}

bool op_is_source(enum op op)
{
	return rows[op].source;
}

bool op_is_collective(enum op op)
{
	return strcmp(rows[op].lower, "collective") == 0;
}

const char *attr_text(enum attr_key k)
{
	return attr_rows[k].text;
}

enum attr_kind attr_kind(enum attr_key k)
{
	return attr_rows[k].kind;
}

const char *stage_text(enum stage s)
{
	static const char *const text[STAGE_COUNT] = { "global", "placed", "local", "fp8" };
	return text[s];
}
