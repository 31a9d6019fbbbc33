/* Writing of safetensors.h. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"
#include "file_view.h"

static json_t *shape_json(const struct safetensors_item *t)
{
	json_t *shape = json_array();
	for (int i = 0; i < t->rank; i++)
		json_array_append_new(shape, json_integer(t->dims[i]));
	return shape;
}

static enum fs_status add_item(json_t *header, const struct safetensors_item *t, int64_t *end, struct diag *d)
{
	int64_t bytes, begin = *end;
	if (json_object_get(header, t->name) != NULL)
		return diag_set(d, FS_INVALID, "tensor '%.200s' is there twice", t->name);
	if (!file_view_dense_bytes(t->dtype, t->dims, t->rank, &bytes) || !add_size(begin, bytes, end))
		return diag_set(d, FS_INVALID, "tensor '%.200s' is too large", t->name);
	json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_safetensors(t->dtype), "shape",
				  shape_json(t), "data_offsets", (json_int_t)begin, (json_int_t)*end);
	if (entry == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	if (json_object_set_new(header, t->name, entry) != 0)
		return diag_set(d, FS_INVALID, "tensor '%.200s': the name is not UTF-8", t->name);
	return FS_OK;
}

static enum fs_status add_metadata(json_t *header, const struct safetensors_pair *pairs, uint32_t count,
				   struct diag *d)
{
	json_t *metadata = json_object();
	bool ok = metadata != NULL;
	for (uint32_t i = 0; i < count; i++)
		ok = ok && json_object_set_new(metadata, pairs[i].key, json_string(pairs[i].value)) == 0;
	if (json_object_set_new(header, "__metadata__", metadata) != 0 || !ok)
		return diag_set(d, FS_INVALID, "the metadata are not UTF-8");
	return FS_OK;
}

/* The header as text, its length made a multiple of 8 by spaces. */
static enum fs_status header_text(const json_t *header, char **text, size_t *size, struct diag *d)
{
	char *s = json_dumps(header, JSON_COMPACT);
	size_t length = s != NULL ? strlen(s) : 0, padded = (length + 7) & ~(size_t)7;
	*text = malloc(padded + 1);
	*size = padded;
	if (s == NULL || *text == NULL) {
		free(s);
		free(*text);
		return diag_set(d, FS_NOMEM, "out of memory");
	}
	memset(*text, ' ', padded);
	memcpy(*text, s, length);
	free(s);
	return FS_OK;
}

static enum fs_status make_header(const struct safetensors_item *items, uint32_t count,
				  const struct safetensors_pair *metadata, uint32_t metadata_count, char **text,
				  size_t *size, struct diag *d)
{
	json_t *header = json_object();
	int64_t end = 0;
	enum fs_status status = FS_OK;
	if (metadata_count > 0)
		status = add_metadata(header, metadata, metadata_count, d);
	for (uint32_t i = 0; i < count && status == FS_OK; i++)
		status = add_item(header, &items[i], &end, d);
	if (status == FS_OK)
		status = header_text(header, text, size, d);
	json_decref(header);
	return status;
}

static enum fs_status write_header(struct file_writer *w, const char *path, const char *header, size_t size, struct diag *d)
{
	unsigned char length[8];
	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)((uint64_t)size >> 8 * i);
	TRY(file_writer_open(w, path, d));
	TRY(file_writer_add(w, length, sizeof(length), d));
	return file_writer_add(w, header, size, d);
}

enum fs_status safetensors_begin(struct file_writer *w, const char *path, const struct safetensors_item *items, uint32_t count,
				 const struct safetensors_pair *metadata, uint32_t metadata_count, struct diag *d)
{
	char *header = NULL;
	size_t size = 0;
	enum fs_status status = make_header(items, count, metadata, metadata_count, &header, &size, d);
	if (status != FS_OK) {
		diag_prefix(d, "%s", path);
		return status;
	}
	status = write_header(w, path, header, size, d);
	free(header);
	return status;
}

enum fs_status safetensors_add(struct file_writer *w, const struct safetensors_item *item, struct diag *d)
{
	int64_t bytes = 0;
	file_view_dense_bytes(item->dtype, item->dims, item->rank, &bytes);
	return file_writer_add(w, item->data, (size_t)bytes, d);
}

enum fs_status safetensors_write(const char *path, const struct safetensors_item *items, uint32_t count,
				 const struct safetensors_pair *metadata, uint32_t metadata_count,
				 struct diag *d)
{
	struct file_writer w;
	TRY(safetensors_begin(&w, path, items, count, metadata, metadata_count, d));
	for (uint32_t i = 0; i < count; i++)
		TRY(safetensors_add(&w, &items[i], d));
	return file_writer_commit(&w, d);
}
