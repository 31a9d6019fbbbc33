/* Reading of safetensors.h: the header is checked in full before anything is used. */
#include "safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "file_view.h"

#define HEADER_LIMIT 100000000u /* bytes; the format's own limit */

static enum fs_status damaged(const struct safetensors *f, const char *name, const char *what, struct diag *d)
{
	return diag_set(d, FS_INVALID, "%s: tensor '%.200s': %s: the file is damaged", f->file.name, name, what);
}

/* --- the header --- */

static enum fs_status read_length(const struct safetensors *f, int64_t *length, struct diag *d)
{
	unsigned char b[8];
	uint64_t n = 0;
	if (f->file.size < 8)
		return diag_set(d, FS_INVALID, "%s: %lld bytes are too few for a safetensors file",
				f->file.name, (long long)f->file.size);
	TRY(file_read(&f->file, 0, 8, b, d));
	for (int i = 8; i-- > 0;)
		n = n << 8 | b[i];
	if (n > HEADER_LIMIT)
		return diag_set(d, FS_INVALID, "%s: the header would have %llu bytes, more than %u: "
				"not a safetensors file", f->file.name, (unsigned long long)n, HEADER_LIMIT);
	if ((int64_t)n > f->file.size - 8)
		return diag_set(d, FS_INVALID, "%s: the header has %llu bytes, the file %lld: it is cut short",
				f->file.name, (unsigned long long)n, (long long)f->file.size);
	*length = (int64_t)n;
	return FS_OK;
}

static enum fs_status read_header(const struct safetensors *f, json_t **header, int64_t *data, struct diag *d)
{
	int64_t length = 0;
	char *text = NULL;
	json_error_t error;
	TRY(read_length(f, &length, d));
	TRY(file_read_text(&f->file, 8, length, &text, d));
	*data = 8 + length;
	*header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
	free(text);
	if (*header == NULL)
		return diag_set(d, FS_INVALID, "%s: header, byte %d: %s: not a safetensors file, or damaged",
				f->file.name, error.position, error.text);
	if (!json_is_object(*header)) {
		json_decref(*header);
		return diag_set(d, FS_INVALID, "%s: the header is not a JSON object: not a safetensors file",
				f->file.name);
	}
	return FS_OK;
}

/* --- one entry --- */

static enum fs_status parse_shape(struct safetensors *f, struct safetensors_entry *e, const json_t *shape,
				  struct diag *d)
{
	if (!json_is_array(shape))
		return damaged(f, e->name, "it has no shape", d);
	size_t rank = json_array_size(shape);
	if (rank > FILE_VIEW_MAX_RANK)
		return diag_set(d, FS_UNSUPPORTED, "%s: tensor '%.200s' has %zu dims; at most %d can be read",
				f->file.name, e->name, rank, FILE_VIEW_MAX_RANK);
	int64_t *dims = arena_array(&f->arena, rank, sizeof(*dims));
	for (size_t i = 0; i < rank; i++) {
		const json_t *dim = json_array_get(shape, i);
		if (!json_is_integer(dim) || json_integer_value(dim) < 0)
			return damaged(f, e->name, "its shape is not a list of sizes", d);
		dims[i] = json_integer_value(dim);
	}
	e->rank = (int)rank;
	e->dims = dims;
	return FS_OK;
}

static enum fs_status parse_offsets(struct safetensors *f, struct safetensors_entry *e, const json_t *offsets,
				    struct diag *d)
{
	const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
	if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
		return damaged(f, e->name, "its data_offsets are not two numbers", d);
	int64_t a = json_integer_value(from), b = json_integer_value(to), bytes;
	if (a < 0 || b < a)
		return damaged(f, e->name, "its data_offsets are not in order", d);
	e->offset = a;
	e->bytes = b - a;
	if (e->dtype == DT_NONE || (file_view_dense_bytes(e->dtype, e->dims, e->rank, &bytes) && bytes == e->bytes))
		return FS_OK;
	const char *type = dtype_text(e->dtype);
	if (!file_view_dense_bytes(e->dtype, e->dims, e->rank, &bytes))
		return diag_set(d, FS_INVALID, "%s: tensor '%.200s': %s has more bytes than can be: "
				"the file is damaged", f->file.name, e->name,
				file_view_describe(type, e->dims, e->rank).s);
	return diag_set(d, FS_INVALID, "%s: tensor '%.200s': data_offsets [%lld, %lld] do not match %s "
			"(%lld bytes): the file is damaged", f->file.name, e->name, (long long)a, (long long)b,
			file_view_describe(type, e->dims, e->rank).s, (long long)bytes);
}

static enum fs_status parse_entry(struct safetensors *f, const char *name, const json_t *value, struct diag *d)
{
	struct safetensors_entry *e = &f->entries[f->count];
	if (!name_is_printable(name))
		return diag_set(d, FS_INVALID, "%s: a tensor's name is empty or has control characters",
				f->file.name);
	e->name = arena_strdup(&f->arena, name);
	const json_t *type = json_object_get(value, "dtype");
	if (!json_is_string(type))
		return damaged(f, name, "it has no dtype", d);
	e->type = arena_strdup(&f->arena, json_string_value(type));
	e->dtype = *e->type == '\0' ? DT_NONE : dtype_from_safetensors(e->type);
	TRY(parse_shape(f, e, json_object_get(value, "shape"), d));
	TRY(parse_offsets(f, e, json_object_get(value, "data_offsets"), d));
	f->count++;
	return FS_OK;
}

static enum fs_status parse_metadata(struct safetensors *f, json_t *metadata, struct diag *d)
{
	const char *key;
	json_t *value;
	if (!json_is_object(metadata))
		return diag_set(d, FS_INVALID, "%s: __metadata__ is not an object: the file is damaged",
				f->file.name);
	f->metadata = arena_array(&f->arena, json_object_size(metadata), sizeof(*f->metadata));
	json_object_foreach(metadata, key, value) {
		if (!json_is_string(value))
			return diag_set(d, FS_INVALID, "%s: __metadata__ '%.200s' is not a string: "
					"the file is damaged", f->file.name, key);
		f->metadata[f->metadata_count++] = (struct safetensors_pair){
			arena_strdup(&f->arena, key), arena_strdup(&f->arena, json_string_value(value)),
		};
	}
	return FS_OK;
}

static enum fs_status parse_header(struct safetensors *f, json_t *header, struct diag *d)
{
	const char *key;
	json_t *value;
	f->entries = arena_array(&f->arena, json_object_size(header), sizeof(*f->entries));
	json_object_foreach(header, key, value)
		TRY(strcmp(key, "__metadata__") == 0 ? parse_metadata(f, value, d) :
						       parse_entry(f, key, value, d));
	return FS_OK;
}

/* --- the entries together --- */

static int by_offset(const void *left, const void *right)
{
	const struct safetensors_entry *a = left, *b = right;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* Sorts the entries, and makes their offsets count from the start of the file. */
static enum fs_status place_entries(struct safetensors *f, int64_t data, struct diag *d)
{
	int64_t end = 0, size = f->file.size - data;
	if (f->count > 0)
		qsort(f->entries, f->count, sizeof(*f->entries), by_offset);
	for (uint32_t i = 0; i < f->count; i++) {
		struct safetensors_entry *e = &f->entries[i];
		if (e->offset != end)
			return damaged(f, e->name, e->offset < end ? "its data overlaps another tensor's" :
								     "unused bytes stand before its data", d);
		if (e->bytes > size - end)
			return damaged(f, e->name, "its data ends after the file does", d);
		end += e->bytes;
		e->offset += data;
		hash_insert(&f->by_name, hash_string(e->name), i);
	}
	if (end != size)
		return diag_set(d, FS_INVALID, "%s: its tensors have %lld bytes, but %lld follow the header: "
				"the file is damaged", f->file.name, (long long)end, (long long)size);
	return FS_OK;
}

static enum fs_status load(struct safetensors *f, struct diag *d)
{
	json_t *header = NULL;
	int64_t data = 0;
	TRY(read_header(f, &header, &data, d));
	enum fs_status status = parse_header(f, header, d);
	json_decref(header);
	return status != FS_OK ? status : place_entries(f, data, d);
}

enum fs_status safetensors_open_take(struct safetensors *f, struct file *file, struct diag *d)
{
	*f = (struct safetensors){ .file = *file };
	*file = (struct file){ .fd = -1 };
	enum fs_status status = load(f, d);
	if (status != FS_OK)
		safetensors_close(f);
	return status;
}

enum fs_status safetensors_open(struct safetensors *f, const char *path, struct diag *d)
{
	struct file file;
	*f = (struct safetensors){ .file.fd = -1 };
	TRY(file_open(&file, path, d));
	return safetensors_open_take(f, &file, d);
}

enum fs_status safetensors_open_memory(struct safetensors *f, const char *name, const void *bytes, size_t size,
				       struct diag *d)
{
	struct file file;
	*f = (struct safetensors){ .file.fd = -1 };
	TRY(file_open_memory(&file, name, bytes, size, d));
	return safetensors_open_take(f, &file, d);
}

void safetensors_close(struct safetensors *f)
{
	file_close(&f->file);
	arena_release(&f->arena);
	hash_release(&f->by_name);
	*f = (struct safetensors){ .file.fd = -1 };
}

/* --- looking up, reading --- */

struct wanted { const struct safetensors *file; const char *name; };

static bool same_name(const void *context, uint32_t index)
{
	const struct wanted *w = context;
	return strcmp(w->file->entries[index].name, w->name) == 0;
}

const struct safetensors_entry *safetensors_find(const struct safetensors *f, const char *name)
{
	struct wanted w = { f, name };
	uint32_t i = hash_find(&f->by_name, hash_string(name), same_name, &w);
	return i == UINT32_MAX ? NULL : &f->entries[i];
}

const char *safetensors_metadata(const struct safetensors *f, const char *key)
{
	for (uint32_t i = 0; i < f->metadata_count; i++)
		if (strcmp(f->metadata[i].key, key) == 0)
			return f->metadata[i].value;
	return NULL;
}

static enum fs_status check_readable(const struct safetensors *f, const struct safetensors_entry *e,
				     struct diag *d)
{
	if (e->dtype != DT_NONE)
		return FS_OK;
	return diag_set(d, FS_UNSUPPORTED, "%s: tensor '%.200s': elements of type '%.40s' cannot be read",
			f->file.name, e->name, e->type);
}

enum fs_status safetensors_read(const struct safetensors *f, const struct safetensors_entry *e, int64_t offset,
				int64_t size, void *dst, struct diag *d)
{
	BUG_ON(offset < 0 || size < 0 || offset > e->bytes || size > e->bytes - offset);
	TRY(check_readable(f, e, d));
	return file_read(&f->file, e->offset + offset, size, dst, d);
}

enum fs_status safetensors_read_slice(const struct safetensors *f, const struct safetensors_entry *e,
				      const int64_t *start, const int64_t *extent, void *dst, struct diag *d)
{
	struct file_view v = { .dtype = e->dtype, .rank = e->rank, .dims = e->dims, .offset = e->offset };
	TRY(check_readable(f, e, d));
	return file_view_read(&f->file, &v, start, extent, dst, d);
}
