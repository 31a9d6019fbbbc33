/* .pt2 archives of pt2.h. */
#include "pt2.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define RESAVE "re-save it with a newer torch, or pass --weights x.safetensors"

static const char *file_name(const struct pt2 *p)
{
	return p->archive.file.name;
}

static enum fs_status damaged(const struct pt2 *p, const char *name, const char *what, struct diag *d)
{
	return diag_set(d, FS_INVALID, "%s: tensor '%.200s': %s: the file is damaged", file_name(p), name, what);
}

/* --- which program --- */

/* The <name> of models/<name>.json, or NULL. */
static const char *program_name(struct pt2 *p, const struct archive_record *r)
{
	size_t n = strlen(r->name);
	if (n <= 12 || strncmp(r->name, "models/", 7) != 0 || strcmp(r->name + n - 5, ".json") != 0)
		return NULL;
	char *name = arena_printf(&p->arena, "%.*s", (int)(n - 12), r->name + 7);
	return name_is_plain(name) ? name : NULL;
}

static const struct older { const char *record, *what; } older[] = {
	{ "serialized_exported_program.json", "an exported program of an older torch" },
	{ "data.pkl", "a file of torch.save or TorchScript, not of torch.export.save" },
};

static enum fs_status no_program(const struct pt2 *p, const char *model, struct diag *d)
{
	if (model != NULL)
		return diag_set(d, FS_INVALID, "%s: holds no program 'models/%.200s.json'", file_name(p), model);
	for (size_t i = 0; i < sizeof(older) / sizeof(older[0]); i++)
		if (archive_find(&p->archive, older[i].record) != NULL)
			return diag_set(d, FS_UNSUPPORTED, "%s: is %s: save the model with torch.export.save of "
					"a newer torch", file_name(p), older[i].what);
	return diag_set(d, FS_INVALID, "%s: holds no models/*.json: not an archive of torch.export.save",
			file_name(p));
}

static enum fs_status choose_program(struct pt2 *p, const char *model, struct diag *d)
{
	char names[400] = "";
	int found = 0;
	for (uint32_t i = 0; i < p->archive.count; i++) {
		const char *name = program_name(p, &p->archive.records[i]);
		if (name == NULL || (model != NULL && strcmp(name, model) != 0))
			continue;
		size_t used = strlen(names);
		snprintf(names + used, sizeof(names) - used, "%s%s", found++ > 0 ? ", " : "", name);
		p->program = &p->archive.records[i];
		p->model = name;
	}
	if (found == 0)
		return no_program(p, model, d);
	if (found > 1)
		return diag_set(d, FS_UNSUPPORTED, "%s: holds %d programs (%s): save each in a file of its own",
				file_name(p), found, names);
	return FS_OK;
}

static enum fs_status check_byte_order(const struct pt2 *p, struct diag *d)
{
	const struct archive_record *r = archive_find(&p->archive, "byteorder");
	char *text = NULL;
	if (r == NULL)
		return FS_OK;
	TRY(archive_read_text(&p->archive, r, &text, d));
	bool little = strncmp(text, "little", 6) == 0;
	free(text);
	return little ? FS_OK : diag_set(d, FS_UNSUPPORTED, "%s: its byte order is not 'little': save it on a "
					 "little-endian machine", file_name(p));
}

/* --- one tensor: its meta as JSON, its view --- */

static bool parse_ints(struct pt2 *p, const json_t *list, int rank, const int64_t **out)
{
	int64_t *values = arena_array(&p->arena, (size_t)rank, sizeof(*values));
	if (!json_is_array(list) || json_array_size(list) != (size_t)rank)
		return false;
	for (int i = 0; i < rank; i++) {
		const json_t *n = json_object_get(json_array_get(list, (size_t)i), "as_int");
		if (!json_is_integer(n) || json_integer_value(n) < 0)
			return false;
		values[i] = json_integer_value(n);
	}
	*out = values;
	return true;
}

static enum fs_status parse_meta(struct pt2 *p, struct pt2_tensor *t, const json_t *meta, int64_t *first,
				 struct diag *d)
{
	const json_t *sizes = json_object_get(meta, "sizes"), *type = json_object_get(meta, "dtype");
	const json_t *offset = json_object_get(json_object_get(meta, "storage_offset"), "as_int");
	if (!json_is_integer(type) || !json_is_array(sizes) || !json_is_integer(offset) ||
	    json_integer_value(offset) < 0)
		return damaged(p, t->name, "its tensor_meta lacks dtype, sizes or storage_offset", d);
	if (json_array_size(sizes) > FILE_VIEW_MAX_RANK)
		return diag_set(d, FS_UNSUPPORTED, "%s: tensor '%.200s' has %zu dims; at most %d can be read",
				file_name(p), t->name, json_array_size(sizes), FILE_VIEW_MAX_RANK);
	t->view.rank = (int)json_array_size(sizes);
	t->view.dtype = dtype_from_torch(json_integer_value(type));
	*first = json_integer_value(offset);
	if (!parse_ints(p, sizes, t->view.rank, &t->view.dims) ||
	    !parse_ints(p, json_object_get(meta, "strides"), t->view.rank, &t->view.strides))
		return damaged(p, t->name, "its sizes and strides are not lists of as_int", d);
	return FS_OK;
}

/* Checks that the view lies in the record, and makes its offset count from the file's start. */
static enum fs_status place_view(struct pt2 *p, struct pt2_tensor *t, const struct archive_record *r,
				 int64_t first, struct diag *d)
{
	int64_t numel, span, skip;
	if (!file_view_numel(t->view.dims, t->view.rank, &numel))
		return damaged(p, t->name, "it has more elements than can be", d);
	if (r->size == 0 || numel == 0) {
		t->state = numel > 0 ? PT2_NO_DATA : PT2_HAS_DATA;
		return FS_OK;
	}
	if (!file_view_span(&t->view, &span) || !mul_size(first, dtype_size(t->view.dtype), &skip) ||
	    skip > r->size || span > r->size - skip)
		return diag_set(d, FS_INVALID, "%s: tensor '%.200s': %s ends behind the %lld bytes of record '%s': "
				"the file is damaged", file_name(p), t->name,
				file_view_describe(dtype_text(t->view.dtype), t->view.dims, t->view.rank).s,
				(long long)r->size, r->name);
	t->view.offset = r->offset + skip;
	t->storage = r->offset;
	t->record = r;
	return FS_OK;
}

static enum fs_status find_data(struct pt2 *p, struct pt2_tensor *t, const json_t *path, int64_t first,
				struct diag *d)
{
	const char *folder = t->is_constant ? "data/constants" : "data/weights";
	if (!json_is_string(path) || !name_is_plain(json_string_value(path)))
		return damaged(p, t->name, "its path_name is not the name of a record", d);
	const char *name = arena_printf(&p->arena, "%s/%s", folder, json_string_value(path));
	const struct archive_record *r = archive_find(&p->archive, name);
	if (r == NULL)
		return diag_set(d, FS_INVALID, "%s: tensor '%.200s': there is no record '%.200s': "
				"the file is damaged", file_name(p), t->name, name);
	return place_view(p, t, r, first, d);
}

static enum fs_status parse_tensor(struct pt2 *p, struct pt2_tensor *t, const json_t *entry, struct diag *d)
{
	const json_t *meta = json_object_get(entry, "tensor_meta");
	int64_t first = 0;
	if (!json_is_object(entry))
		return damaged(p, t->name, "its entry is not an object", d);
	t->is_param = json_is_true(json_object_get(entry, "is_param"));
	if (json_is_true(json_object_get(entry, "use_pickle"))) {
		t->state = PT2_PICKLED;
		return json_is_object(meta) ? parse_meta(p, t, meta, &first, d) : FS_OK;
	}
	if (!json_is_object(meta))
		return damaged(p, t->name, "it has no tensor_meta", d);
	TRY(parse_meta(p, t, meta, &first, d));
	if (t->view.dtype == DT_NONE) {
		t->state = PT2_UNKNOWN_TYPE;
		return FS_OK;
	}
	return find_data(p, t, json_object_get(entry, "path_name"), first, d);
}

/* --- the two lists of tensors --- */

static enum fs_status add_tensor(struct pt2 *p, const char *name, const json_t *entry, bool constant,
				 struct diag *d)
{
	struct pt2_tensor *t = &p->tensors[p->count];
	if (!name_is_printable(name))
		return diag_set(d, FS_INVALID, "%s: a tensor's name is empty or has control characters",
				file_name(p));
	if (pt2_find(p, name) != NULL)
		return damaged(p, name, "it is both a weight and a constant", d);
	*t = (struct pt2_tensor){ .name = arena_strdup(&p->arena, name), .is_constant = constant, .storage = -1 };
	TRY(parse_tensor(p, t, entry, d));
	hash_insert(&p->by_name, hash_string(name), p->count++);
	return FS_OK;
}

static enum fs_status add_tensors(struct pt2 *p, json_t *list, bool constant, struct diag *d)
{
	const char *name;
	json_t *entry;
	size_t count = json_object_size(list) + p->count;
	struct pt2_tensor *grown = arena_array(&p->arena, count, sizeof(*grown));
	if (p->count > 0)
		memcpy(grown, p->tensors, p->count * sizeof(*grown));
	p->tensors = grown;
	json_object_foreach(list, name, entry)
		TRY(add_tensor(p, name, entry, constant, d));
	return FS_OK;
}

static enum fs_status parse_config(struct pt2 *p, const struct archive_record *r, const char *text,
				   bool constant, struct diag *d)
{
	json_error_t error;
	json_t *config = json_loadb(text, (size_t)r->size, JSON_REJECT_DUPLICATES, &error);
	if (config == NULL)
		return diag_set(d, FS_INVALID, "%s: record '%s', line %d: %s: the file is damaged", file_name(p),
				r->name, error.line, error.text);
	json_t *list = json_object_get(config, "config");
	enum fs_status status;
	if (json_is_object(list))
		status = add_tensors(p, list, constant, d);
	else
		status = diag_set(d, FS_INVALID, "%s: record '%s' has no object 'config': the file is damaged",
				  file_name(p), r->name);
	json_decref(config);
	return status;
}

static enum fs_status load_config(struct pt2 *p, const char *kind, bool constant, struct diag *d)
{
	char *text = NULL;
	const char *name = arena_printf(&p->arena, "data/%s/%s_%s_config.json", kind, p->model, kind);
	const struct archive_record *r = archive_find(&p->archive, name);
	if (r == NULL) {
		const char *pickle = arena_printf(&p->arena, "data/%s/%s.pt", kind, p->model);
		p->pickled_weights |= archive_find(&p->archive, pickle) != NULL;
		return FS_OK;
	}
	TRY(archive_read_text(&p->archive, r, &text, d));
	enum fs_status status = parse_config(p, r, text, constant, d);
	free(text);
	return status;
}

static enum fs_status load(struct pt2 *p, const char *model, struct diag *d)
{
	TRY(choose_program(p, model, d));
	TRY(check_byte_order(p, d));
	TRY(load_config(p, "weights", false, d));
	return load_config(p, "constants", true, d);
}

/* --- the interface --- */

enum fs_status pt2_open_take(struct pt2 *p, struct file *file, const char *model, struct diag *d)
{
	*p = (struct pt2){ .archive.file.fd = -1 };
	TRY(archive_open_take(&p->archive, file, d));
	enum fs_status status = load(p, model, d);
	if (status != FS_OK)
		pt2_close(p);
	return status;
}

enum fs_status pt2_open(struct pt2 *p, const char *path, const char *model, struct diag *d)
{
	struct file file;
	*p = (struct pt2){ .archive.file.fd = -1 };
	TRY(file_open(&file, path, d));
	return pt2_open_take(p, &file, model, d);
}

void pt2_close(struct pt2 *p)
{
	archive_close(&p->archive);
	arena_release(&p->arena);
	hash_release(&p->by_name);
	*p = (struct pt2){ .archive.file.fd = -1 };
}

enum fs_status pt2_read_program(const struct pt2 *p, char **text, size_t *size, struct diag *d)
{
	*size = (size_t)p->program->size;
	return archive_read_text(&p->archive, p->program, text, d);
}

struct wanted { const struct pt2 *file; const char *name; };

static bool same_name(const void *context, uint32_t index)
{
	const struct wanted *w = context;
	return strcmp(w->file->tensors[index].name, w->name) == 0;
}

const struct pt2_tensor *pt2_find(const struct pt2 *p, const char *name)
{
	struct wanted w = { p, name };
	uint32_t i = hash_find(&p->by_name, hash_string(name), same_name, &w);
	return i == UINT32_MAX ? NULL : &p->tensors[i];
}

enum fs_status pt2_read_slice(const struct pt2 *p, const struct pt2_tensor *t, const int64_t *start,
			      const int64_t *extent, void *dst, struct diag *d)
{
	switch (t->state) {
	case PT2_HAS_DATA:
		if (t->record != NULL)
			TRY(archive_check(&p->archive, t->record, d));
		return file_view_read(&p->archive.file, &t->view, start, extent, dst, d);
	case PT2_NO_DATA:
		return diag_set(d, FS_INVALID, "%s holds no data for '%.200s': pass --weights", file_name(p),
				t->name);
	case PT2_PICKLED:
		return diag_set(d, FS_UNSUPPORTED, "%s: '%.200s' is kept as a pickle: " RESAVE, file_name(p),
				t->name);
	case PT2_UNKNOWN_TYPE:
		return diag_set(d, FS_UNSUPPORTED, "%s: '%.200s' has elements of a type that cannot be read",
				file_name(p), t->name);
	}
	BUG("state %d", (int)t->state);
}
