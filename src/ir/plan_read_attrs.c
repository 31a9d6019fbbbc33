/* Attributes of a plan's nodes, each by its kind in attrs.def. */
#include "plan_read.h"
#include "text.h"

#include <math.h>
#include <string.h>

typedef enum fs_status read_attr(struct reader *r, json_t *from, enum attr_key key, struct attrs *out);

static enum fs_status wrong(struct reader *r, enum attr_key key, const char *what)
{
	return plan_error(r, "attribute '%s' must be %s", attr_text(key), what);
}

static enum fs_status attr_int(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	if (!json_is_integer(from))
		return wrong(r, key, "a whole number");
	attrs_int(out, key, json_integer_value(from));
	return FS_OK;
}

static enum fs_status attr_float(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	static const struct { const char *text; double value; } special[] = {
		{ "inf", INFINITY }, { "-inf", -INFINITY }, { "nan", NAN },
	};
	const char *text = json_string_value(from);
	for (int i = 0; text != NULL && i < 3; i++)
		if (strcmp(text, special[i].text) == 0) {
			attrs_float(out, key, special[i].value);
			return FS_OK;
		}
	if (!json_is_number(from))
		return wrong(r, key, "a number");
	attrs_float(out, key, json_number_value(from));
	return FS_OK;
}

static enum fs_status attr_string(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	if (!json_is_string(from))
		return wrong(r, key, "a string");
	attrs_string(out, key, json_string_value(from));
	return FS_OK;
}

/* At most MAX_RANK: lists are shapes and dims. */
static enum fs_status read_ints(struct reader *r, json_t *from, enum attr_key key, int64_t list[MAX_RANK], int *count)
{
	json_t *value;
	size_t i;
	if (!json_is_array(from) || json_array_size(from) > MAX_RANK)
		return wrong(r, key, "a list of up to 8 numbers");
	json_array_foreach(from, i, value) {
		if (!json_is_integer(value))
			return wrong(r, key, "a list of whole numbers");
		list[i] = json_integer_value(value);
	}
	*count = (int)json_array_size(from);
	return FS_OK;
}

static enum fs_status attr_ints(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	int64_t list[MAX_RANK];
	int count;
	TRY(read_ints(r, from, key, list, &count));
	attrs_ints(out, key, arena_copy(&r->scratch, list, sizeof(list[0]) * (size_t)count), count);
	return FS_OK;
}

static enum fs_status attr_dtype(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	enum dtype dtype = json_is_string(from) ? dtype_from_text(json_string_value(from)) : DT_NONE;
	if (dtype == DT_NONE)
		return wrong(r, key, "an element type");
	attrs_int(out, key, dtype);
	return FS_OK;
}

static enum fs_status attr_axes(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	int64_t axes = 0;
	json_t *value;
	size_t i;
	json_array_foreach(from, i, value) {
		int axis = json_is_string(value) ? mesh_find(context_mesh(r->context), json_string_value(value)) : -1;
		if (axis < 0 || axes >> axis & 1)
			return wrong(r, key, "a list of axes of the mesh, each once");
		axes |= (int64_t)1 << axis;
	}
	if (!json_is_array(from))
		return wrong(r, key, "a list of axes");
	attrs_int(out, key, axes);
	return FS_OK;
}

static enum fs_status attr_placement(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	struct placement place;
	const char *text = json_string_value(from);
	if (text == NULL)
		return wrong(r, key, "a placement");
	if (placement_parse(&place, context_mesh(r->context), MAX_RANK, text, r->diag) != FS_OK)
		return diag_prefix(r->diag, "%s: node %u", r->file, r->number);
	attrs_placement(out, arena_copy(&r->scratch, &place, sizeof(place)));
	return FS_OK;
}

/* Bytes of a dense tensor, no more than `most`; -1 where they are. */
static int64_t tensor_bytes(const struct tensor *t, int64_t most)
{
	int64_t bytes = dtype_size((enum dtype)t->dtype);
	for (int i = 0; i < t->rank; i++)
		if (t->dim[i] < 0 || !mul_size(bytes, t->dim[i], &bytes))
			return -1;
	return bytes <= most ? bytes : -1;
}

static enum fs_status attr_tensor(struct reader *r, json_t *from, enum attr_key key, struct attrs *out)
{
	struct arena *arena = context_arena(r->context);
	struct tensor *t = arena_alloc(arena, sizeof(*t));
	const char *dtype, *data;
	int rank;
	TRY(plan_string(r, from, "dtype", &dtype));
	TRY(plan_string(r, from, "data", &data));
	TRY(read_ints(r, json_object_get(from, "shape"), key, t->dim, &rank));
	t->dtype = (uint8_t)dtype_from_text(dtype);
	t->rank = (uint8_t)rank;
	size_t length = json_string_length(json_object_get(from, "data"));
	int64_t bytes = tensor_bytes(t, (int64_t)length); /* base64 is longer than what it holds */
	if (t->dtype == DT_NONE || bytes < 0)
		return wrong(r, key, "a tensor whose data fill its shape");
	void *to = arena_alloc(arena, (size_t)bytes);
	if (!base64_parse(data, length, to, (size_t)bytes))
		return wrong(r, key, "a tensor whose data fill its shape, in base64");
	t->data = to;
	attrs_tensor(out, t);
	return FS_OK;
}

static read_attr *const kinds[] = {
	[AK_INT] = attr_int,	 [AK_FLOAT] = attr_float, [AK_STRING] = attr_string,	   [AK_INTS] = attr_ints,
	[AK_DTYPE] = attr_dtype, [AK_AXES] = attr_axes,	  [AK_PLACEMENT] = attr_placement, [AK_TENSOR] = attr_tensor,
};

/* Which attribute has which op the verifier knows. */
enum fs_status plan_attrs(struct reader *r, json_t *from, struct attrs *out)
{
	const char *text;
	json_t *value;
	if (from != NULL && !json_is_object(from))
		return plan_error(r, "'attrs' must be an object");
	if (json_object_size(from) > MAX_ATTRS)
		return plan_error(r, "more than %d attributes", MAX_ATTRS);
	json_object_foreach(from, text, value) {
		enum attr_key key = attr_from_text(text);
		if (key == ATTR_NONE)
			return plan_error(r, "'%.40s' is no attribute", text);
		TRY(kinds[attr_kind(key)](r, value, key, out));
	}
	return FS_OK;
}
