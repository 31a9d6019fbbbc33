#include "checkpoint.h"
#include "file.h"
#include "host.h"
#include "safetensors.h"
#include "train.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"
#define FOLDER "step-"
#define UNFINISHED ".unfinished-"
#define PATH_ROOM 4096

static enum fs_status failed(const char *path, const char *what, struct diag *d)
{
	return diag_set(d, FS_IO, "%s: %s: %s", path, what, strerror(errno));
}

static enum fs_status join(const char *dir, const char *name, char out[PATH_ROOM], struct diag *d)
{
	if (snprintf(out, PATH_ROOM, "%s/%s", dir, name) < PATH_ROOM)
		return FS_OK;
	return diag_set(d, FS_INVALID, "%s: the name is too long", dir);
}

/* --- folders --- */

/* The step of "step-00000100"; -1: it is none. */
static int64_t step_of(const char *name)
{
	char *end;
	size_t prefix = strlen(FOLDER);
	if (strncmp(name, FOLDER, prefix) != 0 || name[prefix] < '0' || name[prefix] > '9')
		return -1;
	errno = 0;
	long long step = strtoll(name + prefix, &end, 10);
	return *end == '\0' && errno == 0 ? step : -1;
}

/* All entries of a folder that `wanted` says yes to, to `act`. */
struct entries {
	bool (*wanted)(const char *name, int64_t limit);
	int64_t limit;
	enum fs_status (*act)(const char *path, struct diag *d);
};

static enum fs_status for_entries(const char *dir, const struct entries *x, struct diag *d)
{
	char path[PATH_ROOM];
	enum fs_status status = FS_OK;
	DIR *at = opendir(dir);
	if (at == NULL)
		return failed(dir, "cannot be read", d);
	for (struct dirent *e; status == FS_OK && (e = readdir(at)) != NULL;)
		if (x->wanted(e->d_name, x->limit)) {
			status = join(dir, e->d_name, path, d);
			if (status == FS_OK)
				status = x->act(path, d);
		}
	closedir(at);
	return status;
}

static bool is_inside(const char *name, int64_t limit)
{
	(void)limit;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_unfinished(const char *name, int64_t limit)
{
	(void)limit;
	return strncmp(name, UNFINISHED, strlen(UNFINISHED)) == 0;
}

static bool is_other_step(const char *name, int64_t limit)
{
	return step_of(name) >= 0 && step_of(name) != limit;
}

static enum fs_status remove_file(const char *path, struct diag *d)
{
	return unlink(path) == 0 ? FS_OK : failed(path, "cannot be removed", d);
}

/* A folder of files. */
static enum fs_status remove_folder(const char *path, struct diag *d)
{
	const struct entries all = { is_inside, 0, remove_file };
	TRY(for_entries(path, &all, d));
	return rmdir(path) == 0 ? FS_OK : failed(path, "cannot be removed", d);
}

/* The newest step of a folder; -1: there is none. */
static enum fs_status newest_step(const char *dir, int64_t *out, struct diag *d)
{
	DIR *at = opendir(dir);
	*out = -1;
	if (at == NULL)
		return failed(dir, "cannot be read", d);
	for (struct dirent *e; (e = readdir(at)) != NULL;)
		*out = step_of(e->d_name) > *out ? step_of(e->d_name) : *out;
	closedir(at);
	return FS_OK;
}

static enum fs_status sync_folder(const char *path, struct diag *d)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
	int reason = errno;
	if (fd >= 0)
		close(fd);
	errno = reason;
	return ok ? FS_OK : failed(path, "cannot be synced", d);
}

enum fs_status checkpoint_prepare(const char *dir, int64_t from, struct diag *d)
{
	const struct entries left = { is_unfinished, 0, remove_folder };
	int64_t step;
	if (mkdir(dir, 0777) != 0 && errno != EEXIST)
		return failed(dir, "cannot be made", d);
	TRY(newest_step(dir, &step, d));
	if (step >= 0 && step != from)
		return diag_set(d, FS_INVALID, "--checkpoint %s: has step %lld already: go on from it with --resume %s, or name another folder",
				dir, (long long)step, dir);
	return for_entries(dir, &left, d);
}

/* --- writing --- */

struct saved {
	struct node_id param, value; /* the plan's, and its value after the step */
	int file;
	bool state;                  /* of an optimizer */
	int64_t bytes;
};

struct writing {
	const struct plan *plan;
	struct exec *const *ranks;
	int count;
	struct saved *parts;
	uint32_t part_count;
	int files;
	int64_t bytes;
	const char *dir; /* the unfinished one */
};

/* Parameters first, then states, each in the order of the plan. */
static void list_parts(struct writing *w)
{
	const struct graph *g = w->plan->graph;
	for (int state = 0; state < 2; state++)
		for (uint32_t i = 1; i < g->nodes.count; i++) {
			struct node_id n = { i };
			if (graph_op(g, n) == OP_PARAM && (graph_int(g, n, ATTR_ZERO, 0) != 0) == state)
				w->parts[w->part_count++] = (struct saved){ n, train_next(w->plan, n), 0, state, type_bytes(graph_type(g, n)) };
		}
}

static void divide_parts(struct writing *w)
{
	int64_t bytes = 0;
	for (uint32_t i = 0; i < w->part_count; i++) {
		struct saved *p = &w->parts[i];
		if (i == 0 || p->state != w->parts[i - 1].state || bytes + p->bytes > CHECKPOINT_BYTES) {
			w->files++;
			bytes = 0;
		}
		p->file = w->files;
		bytes += p->bytes;
		w->bytes += p->bytes;
	}
}

static void file_name(const struct writing *w, int file, char out[64])
{
	snprintf(out, 64, "model-%05d-of-%05d.safetensors", file, w->files);
}

static struct safetensors_item item_of(const struct writing *w, const struct saved *p)
{
	const struct type *t = graph_type(w->plan->graph, p->param);
	return (struct safetensors_item){ .name = graph_string(w->plan->graph, p->param, ATTR_NAME), .dtype = (enum dtype)t->dtype,
					  .rank = t->rank, .dims = t->dim };
}

static enum fs_status add_part(const struct writing *w, const struct saved *p, struct file_writer *out, struct diag *d)
{
	struct safetensors_item item = item_of(w, p);
	struct host_tensor x;
	enum fs_status status = value_gather(w->ranks, w->count, p->value, item.dtype, &x, d);
	if (status != FS_OK) {
		file_writer_abort(out);
		return status;
	}
	item.data = x.data;
	status = safetensors_add(out, &item, d);
	host_tensor_release(&x);
	return status;
}

/* Parts [first, end) */
static enum fs_status write_parts(const struct writing *w, const char *path, uint32_t first, uint32_t end, struct diag *d)
{
	struct file_writer out;
	struct safetensors_item *items = malloc(sizeof(*items) * (end - first));
	if (items == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	for (uint32_t i = first; i < end; i++)
		items[i - first] = item_of(w, &w->parts[i]);
	enum fs_status status = safetensors_begin(&out, path, items, end - first, NULL, 0, d);
	free(items);
	for (uint32_t i = first; i < end && status == FS_OK; i++)
		status = add_part(w, &w->parts[i], &out, d);
	return status == FS_OK ? file_writer_commit(&out, d) : status;
}

static enum fs_status write_files(const struct writing *w, struct diag *d)
{
	char path[PATH_ROOM], name[64];
	for (uint32_t first = 0, end; first < w->part_count; first = end) {
		for (end = first; end < w->part_count && w->parts[end].file == w->parts[first].file;)
			end++;
		file_name(w, w->parts[first].file, name);
		TRY(join(w->dir, name, path, d));
		TRY(write_parts(w, path, first, end, d));
	}
	return FS_OK;
}

static json_t *index_json(const struct writing *w, const struct checkpoint *c)
{
	json_t *map = json_object();
	char name[64], seed[32];
	for (uint32_t i = 0; i < w->part_count; i++) {
		file_name(w, w->parts[i].file, name);
		json_object_set_new(map, graph_string(w->plan->graph, w->parts[i].param, ATTR_NAME), json_string(name));
	}
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)c->seed);
	return json_pack("{s:{s:I, s:I, s:s}, s:o}", "metadata", "total_size", (json_int_t)w->bytes, "step", (json_int_t)c->step,
			 "seed", seed, "weight_map", map);
}

static enum fs_status write_index(const struct writing *w, const struct checkpoint *c, struct diag *d)
{
	char path[PATH_ROOM];
	json_t *index = index_json(w, c);
	char *text = index == NULL ? NULL : json_dumps(index, JSON_INDENT(1));
	json_decref(index);
	if (text == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = join(w->dir, INDEX, path, d);
	if (status == FS_OK)
		status = file_write_whole(path, text, strlen(text), d);
	free(text);
	return status;
}

static enum fs_status write_folder(struct writing *w, const struct checkpoint *c, struct diag *d)
{
	w->parts = calloc(w->plan->graph->nodes.count, sizeof(*w->parts));
	if (w->parts == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	list_parts(w);
	divide_parts(w);
	enum fs_status status = write_files(w, d);
	if (status == FS_OK)
		status = write_index(w, c, d);
	if (status == FS_OK)
		status = sync_folder(w->dir, d);
	free(w->parts);
	return status;
}

enum fs_status checkpoint_write(const char *dir, const struct plan *p, struct exec *const *ranks, int count,
				const struct checkpoint *c, struct diag *d)
{
	char unfinished[PATH_ROOM], path[PATH_ROOM], name[64];
	struct diag ignored = { 0 };
	snprintf(name, sizeof(name), UNFINISHED "%lld-%ld", (long long)c->step, (long)getpid());
	TRY(join(dir, name, unfinished, d));
	snprintf(name, sizeof(name), FOLDER "%08lld", (long long)c->step);
	TRY(join(dir, name, path, d));
	if (mkdir(unfinished, 0777) != 0)
		return failed(unfinished, "cannot be made", d);
	struct writing w = { .plan = p, .ranks = ranks, .count = count, .dir = unfinished };
	enum fs_status status = write_folder(&w, c, d);
	if (status == FS_OK && rename(unfinished, path) != 0)
		status = failed(path, "cannot be written", d);
	if (status != FS_OK) {
		remove_folder(unfinished, &ignored);
		return status;
	}
	TRY(sync_folder(dir, d));
	const struct entries older = { is_other_step, c->step, remove_folder };
	return for_entries(dir, &older, d);
}

/* --- reading --- */

static enum fs_status find_folder(const char *dir, char path[PATH_ROOM], struct diag *d)
{
	struct stat st;
	char name[64];
	int64_t step;
	TRY(join(dir, INDEX, path, d));
	if (stat(path, &st) == 0)
		return snprintf(path, PATH_ROOM, "%s", dir) < PATH_ROOM ? FS_OK : FS_INVALID;
	TRY(newest_step(dir, &step, d));
	if (step < 0)
		return diag_set(d, FS_INVALID, "%s: there is no checkpoint in it", dir);
	snprintf(name, sizeof(name), FOLDER "%08lld", (long long)step);
	return join(dir, name, path, d);
}

static enum fs_status take_metadata(const char *path, const json_t *index, struct checkpoint *c, struct diag *d)
{
	const json_t *m = json_object_get(index, "metadata"), *step = json_object_get(m, "step");
	const char *seed = json_string_value(json_object_get(m, "seed"));
	if (!json_is_integer(step) || json_integer_value(step) < 0 || seed == NULL)
		return diag_set(d, FS_INVALID, "%s: no step and seed in its metadata: these are weights, and no checkpoint; --weights takes them", path);
	char *end;
	errno = 0;
	c->step = json_integer_value(step);
	c->seed = strtoull(seed, &end, 10);
	return *end == '\0' && end != seed && errno == 0 ? FS_OK : diag_set(d, FS_INVALID, "%s: the seed '%.40s' is no number", path, seed);
}

static enum fs_status read_metadata(const char *folder, struct checkpoint *c, struct diag *d)
{
	char path[PATH_ROOM];
	json_error_t error;
	TRY(join(folder, INDEX, path, d));
	json_t *index = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (index == NULL)
		return diag_set(d, FS_INVALID, "%s: line %d: %s: the checkpoint is damaged", path, error.line, error.text);
	enum fs_status status = take_metadata(path, index, c, d);
	json_decref(index);
	return status;
}

/* Neither more nor less than the plan has. */
static enum fs_status check_names(const char *folder, const struct plan *p, const struct weights *w, struct diag *d)
{
	const struct weight *found;
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		struct node_id n = { i };
		const struct type *t = graph_type(p->graph, n);
		if (graph_op(p->graph, n) != OP_PARAM)
			continue;
		const char *name = graph_string(p->graph, n, ATTR_NAME);
		if (weights_find(w, name) == NULL)
			return diag_set(d, FS_INVALID, "%s: a checkpoint of another model or optimizer: the plan's '%.200s' is not in it", folder, name);
		TRY(weights_require(w, name, (enum dtype)t->dtype, t->rank, t->dim, &found, d));
	}
	for (uint32_t i = 0; i < w->list.count; i++) {
		struct node_id n = graph_param(p->graph, w->list.items[i].name);
		if (!node_is(n))
			return diag_set(d, FS_INVALID, "%s: a checkpoint of another model or optimizer: the plan has no '%.200s'", folder,
					w->list.items[i].name);
	}
	return FS_OK;
}

enum fs_status checkpoint_open(const char *dir, const struct plan *p, struct weights *w, struct checkpoint *c, char path[4096],
			       struct diag *d)
{
	TRY(find_folder(dir, path, d));
	TRY(read_metadata(path, c, d));
	TRY(weights_add(w, path, d));
	return check_names(path, p, w, d);
}
