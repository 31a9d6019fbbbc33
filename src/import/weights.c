/* Sources of parameters of weights.h. */
#include "weights.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pt2.h"
#include "safetensors.h"
#include "file_view.h"

enum source_kind { SOURCE_NONE, SOURCE_SAFETENSORS, SOURCE_PT2, SOURCE_INDEX };

struct weights_source {
	enum source_kind kind;
	struct safetensors safetensors;
	struct pt2 pt2;
};

static const char *source_name(const struct weights_source *s)
{
	return s->kind == SOURCE_PT2 ? s->pt2.archive.file.name : s->safetensors.file.name;
}

bool weights_hold(const struct weights *w, const char *path)
{
	for (uint32_t i = 0; i < w->sources.count; i++)
		if (file_same(path, source_name(w->sources.items[i])))
			return true;
	return false;
}

/* --- the list of all sources --- */

struct wanted { const struct weights *weights; const char *name; };

static bool same_name(const void *context, uint32_t index)
{
	const struct wanted *w = context;
	return strcmp(w->weights->list.items[index].name, w->name) == 0;
}

static uint32_t find_index(const struct weights *w, const char *name)
{
	struct wanted wanted = { w, name };
	return hash_find(&w->by_name, hash_string(name), same_name, &wanted);
}

/* What has no data gives way to what has; a program's constants to a file of weights. */
static int precedence(const struct weight *t)
{
	if (t->state != WEIGHT_READABLE)
		return 0;
	return t->source->kind == SOURCE_PT2 && ((const struct pt2_tensor *)t->entry)->is_constant ? 1 : 2;
}

static enum fs_status add_weight(struct weights *w, struct weight new, struct diag *d)
{
	uint32_t at = find_index(w, new.name);
	if (at == UINT32_MAX) {
		hash_insert(&w->by_name, hash_string(new.name), w->list.count);
		*vec_push(&w->list) = new;
		return FS_OK;
	}
	struct weight *there = &w->list.items[at];
	int old_rank = precedence(there), new_rank = precedence(&new);
	if (new_rank > old_rank)
		*there = new;
	else if (new_rank == old_rank && new_rank > 0)
		return diag_set(d, FS_INVALID, "'%.200s' is in %s and in %s: pass only one of them", new.name,
				source_name(there->source), source_name(new.source));
	return FS_OK;
}

static enum fs_status add_safetensors_entry(struct weights *w, const struct weights_source *s,
					    const struct safetensors_entry *e, struct diag *d)
{
	return add_weight(w, (struct weight){
		.name = e->name, .dtype = e->dtype, .rank = e->rank, .dims = e->dims, .source = s, .entry = e,
		.state = e->dtype == DT_NONE ? WEIGHT_UNREADABLE : WEIGHT_READABLE }, d);
}

static enum fs_status add_pt2_tensor(struct weights *w, const struct weights_source *s,
				     const struct pt2_tensor *t, struct diag *d)
{
	return add_weight(w, (struct weight){
		.name = t->name, .dtype = t->view.dtype, .rank = t->view.rank, .dims = t->view.dims,
		.source = s, .entry = t,
		.state = t->state == PT2_HAS_DATA ? WEIGHT_READABLE :
			 t->state == PT2_NO_DATA ? WEIGHT_NO_DATA : WEIGHT_UNREADABLE }, d);
}

static struct weights_source *new_source(struct weights *w, enum source_kind kind)
{
	struct weights_source *s = arena_alloc(&w->arena, sizeof(*s));
	*s = (struct weights_source){ .kind = kind, .safetensors.file.fd = -1, .pt2.archive.file.fd = -1 };
	*vec_push(&w->sources) = s;
	return s;
}

/* --- one source each; these take over the open file --- */

static enum fs_status add_safetensors(struct weights *w, struct file *file, struct diag *d)
{
	struct weights_source *s = new_source(w, SOURCE_SAFETENSORS);
	TRY(safetensors_open_take(&s->safetensors, file, d));
	for (uint32_t i = 0; i < s->safetensors.count; i++)
		TRY(add_safetensors_entry(w, s, &s->safetensors.entries[i], d));
	return FS_OK;
}

static enum fs_status add_pt2(struct weights *w, struct file *file, struct diag *d)
{
	struct weights_source *s = new_source(w, SOURCE_PT2);
	TRY(pt2_open_take(&s->pt2, file, NULL, d));
	for (uint32_t i = 0; i < s->pt2.count; i++)
		TRY(add_pt2_tensor(w, s, &s->pt2.tensors[i], d));
	return FS_OK;
}

/* The source of this shard of the index, opened at its first use. */
static enum fs_status open_shard(struct weights *w, const char *folder, const char *name, uint32_t first,
				 const struct weights_source **out, struct diag *d)
{
	struct arena *a = &w->arena;
	const char *path = *folder != '\0' ? arena_printf(a, "%s/%s", folder, name) : arena_strdup(a, name);
	for (uint32_t i = first; i < w->sources.count; i++)
		if (strcmp(source_name(w->sources.items[i]), path) == 0) {
			*out = w->sources.items[i];
			return FS_OK;
		}
	struct weights_source *s = new_source(w, SOURCE_SAFETENSORS);
	*out = s;
	return safetensors_open(&s->safetensors, path, d);
}

static enum fs_status add_mapped(struct weights *w, const char *index, const char *folder, const char *name,
				 const json_t *file, uint32_t first, struct diag *d)
{
	const struct weights_source *s = NULL;
	if (!json_is_string(file) || !name_is_plain(json_string_value(file)))
		return diag_set(d, FS_INVALID, "%s: weight_map: the file of '%.200s' is not a name in the index's "
				"own folder: refused", index, name);
	TRY(open_shard(w, folder, json_string_value(file), first, &s, d));
	const struct safetensors_entry *e = safetensors_find(&s->safetensors, name);
	if (e == NULL)
		return diag_set(d, FS_INVALID, "%s: weight_map: '%.200s' is not in %s: index and files do not "
				"belong together", index, name, json_string_value(file));
	return add_safetensors_entry(w, s, e, d);
}

static char *folder_of(struct arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');
	if (slash == NULL)
		return arena_strdup(a, "");
	return arena_printf(a, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static enum fs_status add_map(struct weights *w, const char *index, json_t *map, struct diag *d)
{
	const char *name, *folder = folder_of(&w->arena, index);
	uint32_t first = w->sources.count;
	json_t *file;
	if (!json_is_object(map))
		return diag_set(d, FS_INVALID, "%s: JSON without 'weight_map': not an index of safetensors files",
				index);
	json_object_foreach(map, name, file)
		TRY(add_mapped(w, index, folder, name, file, first, d));
	return FS_OK;
}

static enum fs_status add_index(struct weights *w, struct file *file, struct diag *d)
{
	json_error_t error;
	char *text = NULL;
	enum fs_status status = file_read_text(file, 0, file->size, &text, d);
	if (status != FS_OK)
		goto out_close;
	json_t *index = json_loadb(text, (size_t)file->size, JSON_REJECT_DUPLICATES, &error);
	free(text);
	if (index == NULL)
		status = diag_set(d, FS_INVALID, "%s: line %d: %s", file->name, error.line, error.text);
	else
		status = add_map(w, file->name, json_object_get(index, "weight_map"), d);
	json_decref(index);
out_close:
	file_close(file);
	return status;
}

/* --- which it is --- */

static enum source_kind recognise(const struct file *f)
{
	unsigned char b[9] = { 0 }; /* the last stays 0 */
	struct diag d = { 0 };
	if (archive_is_zip(f))
		return SOURCE_PT2;
	if (file_read(f, 0, f->size < 8 ? f->size : 8, b, &d) != FS_OK)
		return SOURCE_NONE;
	/* A safetensors header is below 2^32 bytes, so its length ends in zeros; text does not. */
	if (f->size >= 8 && (b[4] | b[5] | b[6] | b[7]) == 0)
		return SOURCE_SAFETENSORS;
	size_t blank = strspn((const char *)b, " \t\r\n");
	return blank < 8 && b[blank] == '{' ? SOURCE_INDEX : SOURCE_NONE;
}

static enum fs_status add_file(struct weights *w, const char *path, struct diag *d)
{
	struct file file;
	TRY(file_open(&file, path, d));
	switch (recognise(&file)) {
	case SOURCE_SAFETENSORS:
		return add_safetensors(w, &file, d);
	case SOURCE_PT2:
		return add_pt2(w, &file, d);
	case SOURCE_INDEX:
		return add_index(w, &file, d);
	case SOURCE_NONE:
		break;
	}
	file_close(&file);
	return diag_set(d, FS_INVALID, "%s: neither a safetensors file, nor an index of such files, nor a .pt2",
			path);
}

static enum fs_status add_folder(struct weights *w, const char *path, struct diag *d)
{
	static const char *const names[] = { "model.safetensors", "model.safetensors.index.json" };
	struct stat st;
	for (int i = 0; i < 2; i++) {
		const char *file = arena_printf(&w->arena, "%s/%s", path, names[i]);
		if (stat(file, &st) == 0)
			return add_file(w, file, d);
	}
	return diag_set(d, FS_IO, "%s: a folder with neither %s nor %s", path, names[0], names[1]);
}

enum fs_status weights_add(struct weights *w, const char *path, struct diag *d)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return add_folder(w, path, d);
	return add_file(w, path, d);
}

void weights_release(struct weights *w)
{
	for (uint32_t i = 0; i < w->sources.count; i++) {
		safetensors_close(&w->sources.items[i]->safetensors);
		pt2_close(&w->sources.items[i]->pt2);
	}
	vec_release(&w->sources);
	vec_release(&w->list);
	hash_release(&w->by_name);
	arena_release(&w->arena);
}

/* --- looking up, reading --- */

const struct weight *weights_find(const struct weights *w, const char *name)
{
	uint32_t i = find_index(w, name);
	return i == UINT32_MAX ? NULL : &w->list.items[i];
}

static enum fs_status missing(const struct weights *w, const char *name, struct diag *d)
{
	if (w->sources.count == 0)
		return diag_set(d, FS_INVALID, "no weights for '%.200s': pass --weights", name);
	for (uint32_t i = 0; i < w->sources.count; i++)
		if (w->sources.items[i]->kind == SOURCE_PT2 && w->sources.items[i]->pt2.pickled_weights)
			return diag_set(d, FS_UNSUPPORTED, "%s keeps its weights as a pickle: re-save it with a "
					"newer torch, or pass --weights x.safetensors",
					source_name(w->sources.items[i]));
	return diag_set(d, FS_INVALID, "%s: no weight '%.200s'%s", source_name(w->sources.items[0]), name,
			w->sources.count > 1 ? ", nor in the other files" : "");
}

enum fs_status weights_require(const struct weights *w, const char *name, enum dtype dtype, int rank,
			       const int64_t *dims, const struct weight **out, struct diag *d)
{
	const struct weight *t = weights_find(w, name);
	if (t == NULL)
		return missing(w, name, d);
	if (t->state != WEIGHT_READABLE)
		return weights_read_slice(t, NULL, NULL, NULL, d);
	bool same = t->dtype == dtype && t->rank == rank;
	for (int i = 0; same && i < rank; i++)
		same = t->dims[i] == dims[i];
	if (!same)
		return diag_set(d, FS_INVALID, "%s: '%.200s' is %s, but the model has %s: these weights belong to "
				"another model", source_name(t->source), name,
				file_view_describe(dtype_text(t->dtype), t->dims, t->rank).s,
				file_view_describe(dtype_text(dtype), dims, rank).s);
	*out = t;
	return FS_OK;
}

enum fs_status weights_read_slice(const struct weight *t, const int64_t *start, const int64_t *extent,
				  void *dst, struct diag *d)
{
	if (t->source->kind == SOURCE_PT2)
		return pt2_read_slice(&t->source->pt2, t->entry, start, extent, dst, d);
	return safetensors_read_slice(&t->source->safetensors, t->entry, start, extent, dst, d);
}

enum fs_status weights_read(const struct weight *t, void *dst, struct diag *d)
{
	static const int64_t start[FILE_VIEW_MAX_RANK];
	return weights_read_slice(t, start, t->dims, dst, d);
}

static bool same_view(const struct file_view *a, const struct file_view *b)
{
	size_t size = (size_t)a->rank * sizeof(int64_t);
	return a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset &&
	       memcmp(a->dims, b->dims, size) == 0 && memcmp(a->strides, b->strides, size) == 0;
}

bool weights_tied(const struct weight *a, const struct weight *b)
{
	if (a->source != b->source)
		return false;
	if (a->source->kind != SOURCE_PT2)
		return a->entry == b->entry;
	const struct pt2_tensor *x = a->entry, *y = b->entry;
	return x == y || (x->storage >= 0 && x->storage == y->storage && same_view(&x->view, &y->view));
}
