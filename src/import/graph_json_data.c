/* Inline tensors of a JSON graph: numbers, nested as their shape or flat, or base64. */
#include "graph_json_impl.h"
#include "text.h"

#include <string.h>

struct filler {
	struct json_reader *r;
	struct json_place at;
	enum dtype dtype;
	unsigned char *bytes;
	int64_t done, count;
};

/* The shape that nested lists have along their first elements. */
static enum fs_status nested_shape(struct json_reader *r, struct json_place at, const json_t *v, int64_t dim[MAX_RANK],
				   int *rank)
{
	for (*rank = 0; json_is_array(v); v = json_array_get(v, 0)) {
		if (*rank == MAX_RANK)
			return json_fail(r, at, "data is nested more than %d deep", MAX_RANK);
		dim[(*rank)++] = (int64_t)json_array_size(v);
	}
	return FS_OK;
}

static bool element_json_text(const json_t *v, char out[32])
{
	if (json_is_boolean(v))
		snprintf(out, 32, "%s", json_is_true(v) ? "true" : "false");
	else if (json_is_integer(v))
		snprintf(out, 32, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		snprintf(out, 32, "%.17g", json_real_value(v));
	else if (json_is_string(v) && json_string_length(v) < 32)
		snprintf(out, 32, "%s", json_string_value(v));
	else
		return false;
	return true;
}

static bool special(const json_t *v)
{
	const char *s = json_string_value(v);
	return s == NULL || strcmp(s, "inf") == 0 || strcmp(s, "-inf") == 0 || strcmp(s, "nan") == 0;
}

static enum fs_status add_element(struct filler *f, const json_t *v)
{
	char text[32];
	if (f->done == f->count)
		return json_fail(f->r, f->at, "data has more than the %lld elements of its shape", (long long)f->count);
	if (!special(v) || !element_json_text(v, text) ||
	    !element_parse(f->dtype, text, f->bytes + f->done * dtype_size(f->dtype)))
		return json_fail(f->r, f->at, "element %lld is none of type %s", (long long)f->done, dtype_text(f->dtype));
	f->done++;
	return FS_OK;
}

/* `dim` NULL: a flat list. */
static enum fs_status add_list(struct filler *f, const json_t *v, const int64_t *dim, int rank)
{
	size_t i;
	const json_t *item;
	if (!json_is_array(v) && rank == 0)
		return add_element(f, v);
	if (!json_is_array(v) || rank == 0 || (dim != NULL && (int64_t)json_array_size(v) != dim[0]))
		return json_fail(f->r, f->at, "data is not nested as its shape says");
	json_array_foreach(v, i, item)
		TRY(add_list(f, item, dim != NULL ? dim + 1 : NULL, rank - 1));
	return FS_OK;
}

static enum fs_status add_base64(struct filler *f, const char *text)
{
	int64_t bytes = f->count * dtype_size(f->dtype);
	if (strncmp(text, "b64:", 4) != 0 || !base64_parse(text + 4, strlen(text + 4), f->bytes, (size_t)bytes))
		return json_fail(f->r, f->at, "data is not b64: and base64 of %lld bytes", (long long)bytes);
	f->done = f->count;
	return FS_OK;
}

/* How many elements the JSON can hold at most, so that a shape alone makes no memory. */
static size_t elements_within(const json_t *v)
{
	size_t i, n = 0;
	const json_t *item;
	if (json_is_string(v))
		return json_string_length(v);
	if (!json_is_array(v))
		return 1;
	json_array_foreach(v, i, item)
		n += json_is_array(item) ? elements_within(item) : 1;
	return n;
}

static enum fs_status fill(struct filler *f, const json_t *data, const int64_t *dim, int rank)
{
	bool flat = json_is_array(data) && !json_is_array(json_array_get(data, 0)) && rank > 1;
	if (json_is_string(data) && special(data) == false)
		return add_base64(f, json_string_value(data));
	TRY(add_list(f, data, flat ? NULL : dim, flat ? 1 : rank));
	if (f->done == f->count)
		return FS_OK;
	return json_fail(f->r, f->at, "data has %lld elements, its shape %lld", (long long)f->done, (long long)f->count);
}

enum fs_status json_constant(struct json_reader *r, struct json_place at, const json_t *v, struct tensor *out)
{
	struct filler f = { .r = r, .at = at, .count = 1 };
	const json_t *data = json_object_get(v, "data"), *shape = json_object_get(v, "shape");
	int rank;
	TRY(json_check_keys(r, at, v, "dtype shape data"));
	if (data == NULL)
		return json_fail(r, at, "has no data");
	TRY(json_dtype(r, at, json_object_get(v, "dtype"), &f.dtype));
	*out = (struct tensor){ .dtype = (uint8_t)f.dtype };
	TRY(shape != NULL ? json_shape(r, at, shape, 0, out->dim, &rank) : nested_shape(r, at, data, out->dim, &rank));
	out->rank = (uint8_t)rank;
	for (int i = 0; i < rank; i++)
		if (!mul_size(f.count, out->dim[i], &f.count))
			return json_fail(r, at, "has too many elements");
	if (f.count > (int64_t)elements_within(data))
		return json_fail(r, at, "data has fewer than the %lld elements of its shape", (long long)f.count);
	f.bytes = arena_array(context_arena(r->context), (size_t)f.count + 1, (size_t)dtype_size(f.dtype));
	out->data = f.bytes;
	return fill(&f, data, out->dim, rank);
}
