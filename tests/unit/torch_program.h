/* What the tests of the torch importer share: importing programs, and changing them first. */
#ifndef FS_TEST_TORCH_PROGRAM_H
#define FS_TEST_TORCH_PROGRAM_H

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "torch.h"

#define DATA "tests/data/torch/"

struct imported {
	struct context *context;
	struct graph *graph;
	struct import_notes notes;
	enum fs_status status;
	struct diag diag;
};

static inline struct imported import_bytes(const void *bytes, size_t size, const struct import_options *o)
{
	struct imported r = { .context = context_create(NULL) };
	struct import_options with = o ? *o : (struct import_options){ 0 };
	with.notes = &r.notes;
	r.status = torch_import(bytes, size, "m.json", &with, r.context, &r.graph, &r.diag);
	return r;
}

static inline void imported_release(struct imported *r)
{
	graph_destroy(r->graph);
	context_destroy(r->context);
	vec_release(&r->notes.line);
}

static inline char *read_data(const char *path, size_t *size)
{
	char *bytes = (char *)slurp(path, size);
	ck_assert_msg(bytes != NULL, "%s", path);
	return bytes;
}

static inline struct imported import_path(const char *path, const struct import_options *o)
{
	size_t size;
	char *bytes = read_data(path, &size);
	struct imported r = import_bytes(bytes, size, o);
	free(bytes);
	return r;
}

/* --- programs as JSON --- */

static inline json_t *load(const char *path)
{
	json_t *j = json_load_file(path, 0, NULL);
	ck_assert_ptr_nonnull(j);
	return j;
}

static inline struct imported import_json(const json_t *program)
{
	char *text = json_dumps(program, 0);
	struct imported r = import_bytes(text, strlen(text), NULL);
	free(text);
	return r;
}

static inline json_t *graph_of(const json_t *program)
{
	return json_object_get(json_object_get(program, "graph_module"), "graph");
}

static inline json_t *node_of(const json_t *program, size_t i)
{
	return json_array_get(json_object_get(graph_of(program), "nodes"), i);
}

static inline json_t *type_of(const json_t *program, const char *value)
{
	return json_object_get(json_object_get(graph_of(program), "tensor_values"), value);
}

#endif
