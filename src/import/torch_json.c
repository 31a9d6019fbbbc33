/* Unions and scalars of the exported-program schema, in its current style and in that of 2023. */
#include "torch_impl.h"

#include <math.h>
#include <string.h>

/* Most frequent first. */
static const struct { const char *key; enum tag tag; } tags[] = {
	{ "as_tensor", TAG_TENSOR },
	{ "as_int", TAG_INT },
	{ "as_ints", TAG_INTS },
	{ "as_float", TAG_FLOAT },
	{ "as_bool", TAG_BOOL },
	{ "as_scalar_type", TAG_SCALAR_TYPE },
	{ "as_tensors", TAG_TENSORS },
	{ "as_none", TAG_NONE },
	{ "as_device", TAG_DEVICE },
	{ "as_layout", TAG_LAYOUT },
	{ "as_memory_format", TAG_MEMORY_FORMAT },
	{ "as_string", TAG_STRING },
	{ "as_sym_int", TAG_SYM_INT },
	{ "as_sym_ints", TAG_SYM_INTS },
	{ "as_optional_tensor", TAG_OPTIONAL_TENSOR },
	{ "as_optional_tensors", TAG_OPTIONAL_TENSORS },
	{ "as_graph", TAG_GRAPH },
	{ "as_sym_bool", TAG_SYM_BOOL },
	{ "as_sym_float", TAG_SYM_FLOAT },
	{ "as_floats", TAG_FLOATS },
	{ "as_bools", TAG_BOOLS },
	{ "as_strings", TAG_STRINGS },
	{ "as_name", TAG_NAME },
	{ "as_expr", TAG_EXPR },
};

static enum tag tag_of(const char *key)
{
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (strcmp(tags[i].key, key) == 0)
			return tags[i].tag;
	return TAG_OTHER;
}

bool union_get(const json_t *u, enum tag *tag, const json_t **value)
{
	*tag = TAG_NONE;
	*value = NULL;
	if (!json_is_object(u))
		return false;
	json_t *object = (json_t *)(uintptr_t)u; /* jansson iterates over what is not const */
	for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
		const json_t *v = json_object_iter_value(i);
		if (json_is_null(v))
			continue;
		*tag = tag_of(json_object_iter_key(i));
		*value = v;
		return true;
	}
	return true;
}

const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

bool real_of(const json_t *v, double *out)
{
	static const struct { const char *text; double value; } words[] = {
		{ "Infinity", INFINITY }, { "-Infinity", -INFINITY }, { "NaN", NAN },
	};
	if (json_is_number(v)) {
		*out = json_number_value(v);
		return true;
	}
	const char *s = json_string_value(v);
	for (size_t i = 0; s != NULL && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].text, s) == 0) {
			*out = words[i].value;
			return true;
		}
	return false;
}
