/* The front of all readers: what a file is shows in its first bytes, and of JSON in its first keys. */
#include "import.h"
#include "file.h"
#include "graph_json.h"
#include "pt2.h"
#include "torch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LOOKED_FOR "a torch.export archive (.pt2) or its JSON, a JSON graph (\"fp8shard\": \"graph\") or the text form"

enum kind {
	KIND_UNKNOWN, KIND_TEXT, KIND_ZIP, KIND_GZIP, KIND_WEIGHTS, KIND_TORCH, KIND_GRAPH, KIND_PLAN, KIND_JSON,
};

struct source {
	const char *path;
	struct file file;
	const struct import_options *options;
	const struct mesh *mesh; /* of the command line, or NULL */
	struct diag *diag;
};

/* --- telling JSON apart: the keys of the outermost object, without parsing all of it --- */

struct scan { const char *at, *end; };

static char skip_blanks(struct scan *s)
{
	while (s->at < s->end && isspace((unsigned char)*s->at))
		s->at++;
	return s->at < s->end ? *s->at : '\0';
}

/* From a quote to behind the one that closes it; what is between, escapes and all. */
static void skip_string(struct scan *s, const char **text, size_t *size)
{
	*text = ++s->at;
	while (s->at < s->end && *s->at != '"')
		s->at += *s->at == '\\' && s->end - s->at > 1 ? 2 : 1;
	*size = (size_t)(s->at - *text);
	s->at += s->at < s->end;
}

/* A value, up to the comma or brace behind it. */
static void skip_value(struct scan *s)
{
	const char *text;
	size_t size;
	for (int depth = 0; s->at < s->end; s->at++) {
		while (s->at < s->end && *s->at == '"')
			skip_string(s, &text, &size);
		if (s->at == s->end)
			return;
		char c = *s->at;
		if (depth == 0 && (c == ',' || c == '}'))
			return;
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
	}
}

static bool is_word(const char *text, size_t size, const char *word)
{
	return size == strlen(word) && memcmp(text, word, size) == 0;
}

static enum kind our_kind(struct scan *s)
{
	const char *text = "";
	size_t size = 0;
	if (skip_blanks(s) == '"')
		skip_string(s, &text, &size);
	return is_word(text, size, "plan") ? KIND_PLAN : KIND_GRAPH;
}

static enum kind json_kind(const char *bytes, size_t size)
{
	struct scan s = { bytes, bytes + size };
	const char *key;
	size_t length;
	for (skip_blanks(&s), s.at++; skip_blanks(&s) == '"'; s.at++) {
		skip_string(&s, &key, &length);
		if (skip_blanks(&s) != ':')
			break;
		s.at++;
		if (is_word(key, length, "graph_module"))
			return KIND_TORCH;
		if (is_word(key, length, "fp8shard"))
			return our_kind(&s);
		skip_value(&s);
		if (s.at >= s.end || *s.at != ',')
			break;
	}
	return KIND_JSON;
}

/* --- telling files apart --- */

static bool starts(const char *head, size_t size, const char *magic, size_t length)
{
	return size >= length && memcmp(head, magic, length) == 0;
}

/* A comment, or one of the words with which the text form begins. */
static bool is_text_form(const char *head, size_t size)
{
	static const char *const words[] = { "mesh", "stage", "graph" };
	struct scan s = { head, head + size };
	char c = skip_blanks(&s);
	for (int i = 0; i < 3; i++)
		if (starts(s.at, (size_t)(s.end - s.at), words[i], strlen(words[i])))
			return true;
	return c == '#';
}

/* KIND_JSON stands for any JSON: a look at more of the file says which. */
static enum kind head_kind(const char *head, size_t size)
{
	struct scan s = { head, head + size };
	if (starts(head, size, "PK\3\4", 4))
		return KIND_ZIP;
	if (starts(head, size, "\x1f\x8b", 2))
		return KIND_GZIP;
	if (size > 9 && head[8] == '{' && memchr(head, '\0', 8) != NULL)
		return KIND_WEIGHTS;
	if (skip_blanks(&s) == '{')
		return KIND_JSON;
	return is_text_form(head, size) ? KIND_TEXT : KIND_UNKNOWN;
}

static enum fs_status refuse(const struct source *s, enum kind kind)
{
	const char *why = "is none of what can be read: " LOOKED_FOR;
	if (kind == KIND_GZIP)
		why = "is compressed; gunzip it first";
	if (kind == KIND_WEIGHTS)
		why = "holds weights (safetensors), not a graph; give it to fp8shard-run --weights";
	if (kind == KIND_PLAN)
		why = "is a plan, not a graph; fp8shard-run runs it, fp8shard show shows it";
	if (kind == KIND_JSON)
		why = "is JSON, but neither of torch.export (\"graph_module\") nor a graph (\"fp8shard\": \"graph\")";
	return diag_set(s->diag, FS_INVALID, "%s: %s", s->path, why);
}

/* --- torch --- */

static enum fs_status torch_text(const struct source *s, const char *text, size_t size, const struct import_options *o,
				 struct context **context, struct graph **out)
{
	static const struct mesh none;
	struct context *c = context_create(s->mesh != NULL ? s->mesh : &none);
	enum fs_status status = torch_import(text, size, s->path, o, c, out, s->diag);
	if (status == FS_OK) {
		*context = c;
		return FS_OK;
	}
	if (o->notes != NULL) /* they live in the context */
		vec_release(&o->notes->line);
	context_destroy(c);
	return status;
}

/* Tensors that are the same view of the same storage have one name: the first in the file. */
struct ties { const struct pt2 *archive; struct hash_table table; struct arena read; };

static bool same_dims(const int64_t *a, const int64_t *b, int rank)
{
	if (a == NULL || b == NULL)
		return a == b;
	return rank == 0 || memcmp(a, b, sizeof(*a) * (size_t)rank) == 0;
}

struct tie_key { const struct pt2 *archive; const struct pt2_tensor *t; };

static bool same_view(const void *key, uint32_t i)
{
	const struct tie_key *k = key;
	const struct pt2_tensor *t = &k->archive->tensors[i];
	const struct file_view *a = &t->view, *b = &k->t->view;
	return t->storage == k->t->storage && a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset &&
	       same_dims(a->dims, b->dims, a->rank) && same_dims(a->strides, b->strides, a->rank);
}

static uint64_t tie_hash(const struct pt2_tensor *t)
{
	return hash_bytes(&t->storage, sizeof(t->storage), 0);
}

static uint32_t tie_find(const struct ties *t, const struct pt2_tensor *tensor)
{
	struct tie_key key = { t->archive, tensor };
	return hash_find(&t->table, tie_hash(tensor), same_view, &key);
}

static void ties_init(struct ties *t, const struct pt2 *archive)
{
	*t = (struct ties){ .archive = archive };
	for (uint32_t i = 0; i < archive->count; i++) {
		const struct pt2_tensor *tensor = &archive->tensors[i];
		if (tensor->storage >= 0 && tie_find(t, tensor) == UINT32_MAX)
			hash_insert(&t->table, tie_hash(tensor), i);
	}
}

static const char *tied_name(void *context, const char *name)
{
	const struct ties *t = context;
	const struct pt2_tensor *tensor = pt2_find(t->archive, name);
	if (tensor == NULL || tensor->storage < 0)
		return NULL;
	uint32_t i = tie_find(t, tensor);
	return i == UINT32_MAX ? NULL : t->archive->tensors[i].name;
}

#define SMALL_CONSTANT 4096 /* elements */

/* A constant of the archive, if it is small and can be read. */
static const struct tensor *small_constant(void *context, const char *name)
{
	struct ties *t = context;
	const struct pt2_tensor *tensor = pt2_find(t->archive, name);
	const int64_t start[MAX_RANK] = { 0 };
	struct diag ignored = { 0 };
	int64_t count;
	if (tensor == NULL || !tensor->is_constant || tensor->state != PT2_HAS_DATA || tensor->view.rank > MAX_RANK ||
	    !file_view_numel(tensor->view.dims, tensor->view.rank, &count) || count > SMALL_CONSTANT)
		return NULL;
	struct tensor *out = arena_alloc(&t->read, sizeof(*out));
	void *data = arena_array(&t->read, (size_t)count + 1, (size_t)dtype_size(tensor->view.dtype));
	if (pt2_read_slice(t->archive, tensor, start, tensor->view.dims, data, &ignored) != FS_OK)
		return NULL;
	*out = (struct tensor){ .dtype = (uint8_t)tensor->view.dtype, .rank = (uint8_t)tensor->view.rank, .data = data };
	for (int i = 0; i < out->rank; i++)
		out->dim[i] = tensor->view.dims[i];
	return out;
}

static enum fs_status torch_archive(const struct source *s, const struct pt2 *archive, struct context **context,
				    struct graph **out)
{
	char *text;
	size_t size;
	struct ties ties;
	struct import_options o = *s->options;
	TRY(pt2_read_program(archive, &text, &size, s->diag));
	ties_init(&ties, archive);
	o.tied = tied_name;
	o.tied_context = &ties;
	o.constant = small_constant;
	o.constant_context = &ties;
	enum fs_status status = torch_text(s, text, size, &o, context, out);
	hash_release(&ties.table);
	arena_release(&ties.read);
	free(text);
	return status;
}

/* Takes over the open file. */
static enum fs_status read_archive(struct source *s, struct context **context, struct graph **out)
{
	struct pt2 archive;
	struct file file = s->file;
	s->file = (struct file){ .fd = -1 };
	TRY(pt2_open_take(&archive, &file, NULL, s->diag));
	enum fs_status status = torch_archive(s, &archive, context, out);
	pt2_close(&archive);
	return status;
}

/* --- the text form: its mesh is part of it --- */

static bool same_mesh(const struct mesh *a, const struct mesh *b)
{
	if (a->count != b->count)
		return false;
	for (int i = 0; i < a->count; i++)
		if (strcmp(a->axis[i].name, b->axis[i].name) != 0 || a->axis[i].size != b->axis[i].size)
			return false;
	return true;
}

static void mesh_text(const struct mesh *m, char *out, size_t size)
{
	size_t used = 0;
	out[0] = '\0';
	for (int i = 0; i < m->count && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s=%d", i > 0 ? "," : "", m->axis[i].name,
					 (int)m->axis[i].size);
}

/* Parsed without a mesh, it is read once more below a line that gives one. */
static enum fs_status parse_with_mesh(const struct source *s, const char *text, size_t size, struct context **context,
				      struct graph **out)
{
	char line[MAX_AXES * 32];
	mesh_text(s->mesh, line, sizeof(line));
	char *longer = malloc(size + sizeof(line) + 8);
	if (longer == NULL)
		return diag_set(s->diag, FS_NOMEM, "%s: out of memory", s->path);
	int head = sprintf(longer, "mesh %s\n", line);
	memcpy(longer + head, text, size);
	longer[(size_t)head + size] = '\0';
	enum fs_status status = graph_parse(longer, (size_t)head + size, s->path, context, out, s->diag);
	free(longer);
	return status;
}

static void drop(struct context *context, struct graph *graph)
{
	graph_destroy(graph);
	context_destroy(context);
}

static enum fs_status give_mesh(const struct source *s, const char *text, size_t size, struct context **context,
				struct graph **out)
{
	char has[MAX_AXES * 32];
	const struct mesh *own = context_mesh(*context);
	if (s->mesh == NULL || same_mesh(own, s->mesh))
		return FS_OK;
	bool none = own->count == 0;
	mesh_text(own, has, sizeof(has));
	drop(*context, *out);
	if (none)
		return parse_with_mesh(s, text, size, context, out);
	return diag_set(s->diag, FS_INVALID, "--mesh: %s is a graph for the mesh %s", s->path, has);
}

static enum fs_status read_text_form(const struct source *s, const char *text, size_t size, struct context **context,
				     struct graph **out)
{
	if (s->options->dim_count > 0)
		return diag_set(s->diag, FS_INVALID, "--dim %s: the text form has no named dims", s->options->dims[0].name);
	TRY(graph_parse(text, size, s->path, context, out, s->diag));
	TRY(give_mesh(s, text, size, context, out));
	if (graph_verify(*out, s->diag) == FS_OK)
		return FS_OK;
	drop(*context, *out);
	return diag_prefix(s->diag, "%s", s->path);
}

/* --- the interface --- */

static enum fs_status read_bytes(const struct source *s, const char *text, size_t size, enum kind kind,
				 struct context **context, struct graph **out)
{
	if (kind == KIND_TEXT || (kind == KIND_UNKNOWN && s->options->text_form))
		return read_text_form(s, text, size, context, out);
	kind = json_kind(text, size);
	if (kind == KIND_TORCH)
		return torch_text(s, text, size, s->options, context, out);
	if (kind == KIND_GRAPH)
		return graph_json_import(text, size, s->path, s->options, s->mesh, context, out, s->diag);
	return refuse(s, kind);
}

static enum fs_status read_source(struct source *s, struct context **context, struct graph **out)
{
	char head[256], *text;
	size_t size = s->file.size < (int64_t)sizeof(head) ? (size_t)s->file.size : sizeof(head);
	TRY(file_read(&s->file, 0, (int64_t)size, head, s->diag));
	enum kind kind = head_kind(head, size);
	bool text_like = kind == KIND_JSON || kind == KIND_TEXT || (kind == KIND_UNKNOWN && s->options->text_form);
	if (kind == KIND_ZIP)
		return read_archive(s, context, out);
	if (!text_like)
		return refuse(s, kind);
	TRY(file_read_text(&s->file, 0, s->file.size, &text, s->diag));
	enum fs_status status = read_bytes(s, text, (size_t)s->file.size, kind, context, out);
	free(text);
	return status;
}

enum fs_status import_file(const char *path, const struct import_options *o, const struct mesh *mesh,
			   struct context **context, struct graph **out, struct diag *d)
{
	static const struct import_options none;
	struct source s = { .path = path, .options = o != NULL ? o : &none, .mesh = mesh, .diag = d };
	struct context *c; /* what a reader frees when it fails does not reach the caller */
	struct graph *g;
	TRY(file_open(&s.file, path, d));
	enum fs_status status = read_source(&s, &c, &g);
	file_close(&s.file);
	if (status == FS_OK) {
		*context = c;
		*out = g;
	}
	return status;
}
