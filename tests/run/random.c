/*
 * random SEED DIR: a random program as DIR/graph.ir with data for it (DIR/w.safetensors, DIR/i.safetensors) and,
 *     a line each, arguments of a compile for a random mesh (DIR/sharded) and for one rank (DIR/whole).
 * random SEED A B: do the outputs of two runs agree?  Bit for bit, where no sum may be taken in another order,
 *     else as far as the ops let rounding differ.  Prints how many outputs were held to the same bits.
 */
#include "random.h"
#include "safetensors.h"

#include <math.h>

static _Noreturn void die(const char *why)
{
	fprintf(stderr, "random: %s\n", why);
	exit(2);
}

static bool is_source(const struct value *v)
{
	return v->op == OP_INPUT || v->op == OP_PARAM;
}

static const char *name_of(const struct value *v)
{
	for (int i = 0; i < v->attrs.count; i++)
		if (v->attrs.at[i].key == ATTR_NAME)
			return v->attrs.at[i].u.s;
	die("a source without a name");
}

static FILE *open_in(const char *dir, const char *name)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	if (f == NULL)
		die(path);
	return f;
}

/* --- the program --- */

/* Unmarks what simplification has made unused. */
static void write_graph(const struct program *p, bool *reached, const char *dir)
{
	struct graph *g = graph_create(p->context, STAGE_GLOBAL);
	struct node_id *made = calloc(p->values.count, sizeof(*made));
	struct prov_id none = context_prov(p->context, &(struct prov){ 0 });
	FILE *f = open_in(dir, "graph.ir");
	for (uint32_t i = 0; i < p->values.count; i++) {
		const struct value *v = &p->values.items[i];
		struct node_id in[MOST_IN];
		for (int k = 0; k < v->count; k++)
			in[k] = made[v->in[k]];
		struct attrs named = { 0 };
		if (reached[i] && is_source(v)) {
			attrs_string(&named, ATTR_NAME, context_intern(p->context, name_of(v)));
			made[i] = graph_emit_typed(g, v->op, NULL, 0, &named, &v->type, none);
		} else if (reached[i])
			made[i] = graph_emit(g, v->op, in, v->count, &v->attrs, none);
	}
	for (uint32_t i = 0; i < p->outputs.count; i++) {
		struct output o = { .value = made[p->outputs.items[i]], .name = arena_printf(context_arena(p->context), "y%u", i) };
		graph_output(g, &o);
	}
	graph_print(g, f);
	fclose(f);
	bool *used = graph_reached(g);
	for (uint32_t i = 0; i < p->values.count; i++)
		reached[i] = reached[i] && used[made[i].i];
	free(used);
	free(made);
	graph_destroy(g);
}

static void write_data(const struct program *p, const bool *reached, enum op op, const char *dir, const char *name)
{
	VEC(struct safetensors_item) items = { 0 };
	struct diag d = { 0 };
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (uint32_t i = 0; i < p->values.count; i++) {
		const struct value *v = &p->values.items[i];
		if (reached[i] && v->op == op)
			*vec_push(&items) = (struct safetensors_item){ name_of(v), (enum dtype)v->type.dtype, v->type.rank, v->type.dim, v->elements };
	}
	if (safetensors_write(path, items.items, items.count, NULL, 0, &d) != FS_OK)
		die(d.text);
	vec_release(&items);
}

/* --- how it is compiled --- */

/* One to three axes, twelve ranks at the most. */
static int random_mesh(struct rng *r, FILE *f, int32_t size[3])
{
	static const char *const names[] = { "dp", "cp", "tp" };
	int axes = 1 + (int)rng_below(r, 3), ranks = 1;
	fprintf(f, "--mesh\n");
	for (int a = 0; a < axes; a++) {
		size[a] = 1 + (int32_t)rng_below(r, axes == 1 ? 6 : 4);
		size[a] = ranks * size[a] > 12 ? 1 : size[a];
		ranks *= size[a];
		fprintf(f, "%s%s=%d", a > 0 ? "," : "", names[a + 3 - axes], size[a]);
	}
	fprintf(f, "\n");
	return axes;
}

/* A long dim where there is one, mostly. */
static int random_dim(struct rng *r, const struct type *t)
{
	for (int i = 0; i < t->rank; i++)
		if (t->dim[i] >= LONG_DIM && rng_chance(r, 85))
			return i;
	return (int)rng_below(r, t->rank);
}

/* Where a source or an output lives: each axis names a dim, R, or nothing. Says so where shards are uneven. */
static void random_place(struct rng *r, FILE *f, int axes, const int32_t *size, const char *name, const struct type *t)
{
	int64_t ranks[MAX_RANK] = { 0 };
	static const char *const names[] = { "dp", "cp", "tp" };
	char text[128] = "";
	for (int a = 0; a < axes; a++) {
		size_t used = strlen(text);
		const char *axis = names[a + 3 - axes], *comma = used > 0 ? "," : "";
		if (t->rank > 0 && rng_chance(r, 45)) {
			int dim = random_dim(r, t);
			ranks[dim] = (ranks[dim] > 0 ? ranks[dim] : 1) * size[a];
			snprintf(text + used, sizeof(text) - used, "%s%s:S(%d)", comma, axis, dim);
		} else if (rng_chance(r, 15))
			snprintf(text + used, sizeof(text) - used, "%s%s:R", comma, axis);
	}
	for (int i = 0; i < t->rank; i++)
		if (ranks[i] > 0 && t->dim[i] % ranks[i] != 0)
			printf("uneven\n");
	if (text[0] != '\0')
		fprintf(f, "--place\n%s=%s\n", name, text);
}

static void write_common(const struct program *p, FILE *f, int axes)
{
	static const char *const names[] = { "dp", "cp", "tp" };
	static const char *const recipes[] = { "none", "tensorwise", "rowwise" };
	fprintf(f, "--fp8\n%s%s\n", recipes[p->recipe], p->recipe != RECIPE_NONE && p->pow2 ? ":pow2" : "");
	if (p->exact)
		fprintf(f, "--exact\n");
	for (int a = 0; a < axes; a++)
		fprintf(f, "--scale-scope\n%s=global\n", names[a + 3 - axes]);
}

static void write_arguments(const struct program *p, const bool *reached, const char *dir)
{
	struct rng r = { p->seed * 77 + 5 };
	int32_t size[3];
	FILE *whole = open_in(dir, "whole"), *f = open_in(dir, "sharded");
	write_common(p, whole, 0);
	fclose(whole);
	int axes = random_mesh(&r, f, size);
	for (uint32_t i = 0; i < p->values.count; i++)
		if (reached[i] && is_source(&p->values.items[i]) && rng_chance(&r, 70))
			random_place(&r, f, axes, size, name_of(&p->values.items[i]), &p->values.items[i].type);
	for (uint32_t i = 0; i < p->outputs.count; i++)
		if (rng_chance(&r, 30)) {
			char name[16];
			snprintf(name, sizeof(name), "y%u", i);
			random_place(&r, f, axes, size, name, &value_at(p, p->outputs.items[i])->type);
		}
	write_common(p, f, axes);
	fprintf(f, "--target\n%s\n", rng_chance(&r, 50) ? "cpu" : "h100");
	if (!p->exact && rng_chance(&r, 20))
		fprintf(f, "--reduce-dtype\nf32\n");
	fclose(f);
}

/* --- comparing --- */

static char *read_output(const struct safetensors *f, const char *name, const struct value *v)
{
	struct diag d = { 0 };
	const struct safetensors_entry *e = safetensors_find(f, name);
	if (e == NULL || e->dtype != (enum dtype)v->type.dtype || e->rank != v->type.rank ||
	    memcmp(e->dims, v->type.dim, sizeof(*e->dims) * (size_t)e->rank) != 0)
		die("an output is missing, or of another type");
	char *data = malloc((size_t)e->bytes + 1);
	if (data == NULL || safetensors_read(f, e, 0, e->bytes, data, &d) != FS_OK)
		die(d.text);
	return data;
}

/* Same bits; NaN is NaN whatever its bits, and where signs of zeros may differ, zeros are equal. */
static bool agree(const struct program *p, const struct value *v, const char *a, const char *b)
{
	enum dtype t = (enum dtype)v->type.dtype;
	if (memcmp(a, b, (size_t)dtype_size(t)) == 0)
		return true;
	if (!dtype_is_float(t))
		return false;
	double x = load_double(t, a), y = load_double(t, b);
	if (isnan(x) || isnan(y))
		return isnan(x) && isnan(y);
	if (x == y)
		return v->zeros && !p->exact;
	return !p->exact && v->err > 0 && fabs(x - y) <= v->err;
}

static bool compare(const struct program *p, const struct safetensors *a, const struct safetensors *b)
{
	int bits = 0;
	bool good = true;
	for (uint32_t i = 0; i < p->outputs.count; i++) {
		char name[16];
		const struct value *v = value_at(p, p->outputs.items[i]);
		int item = dtype_size((enum dtype)v->type.dtype);
		snprintf(name, sizeof(name), "y%u", i);
		char *x = read_output(a, name, v), *y = read_output(b, name, v);
		bits += p->exact || v->err == 0;
		for (int64_t k = 0; good && k < type_count(&v->type); k++) {
			good = agree(p, v, x + k * item, y + k * item);
			if (!good)
				printf("%s[%lld]: %.17g and %.17g (err %g%s)\n", name, (long long)k, load_double((enum dtype)v->type.dtype, x + k * item),
				       load_double((enum dtype)v->type.dtype, y + k * item), v->err, p->exact ? ", exact" : "");
		}
		free(x);
		free(y);
	}
	if (good)
		printf("%d of %u\n", bits, p->outputs.count);
	return good;
}

int main(int argc, char **argv)
{
	struct diag d = { 0 };
	if (argc != 3 && argc != 4)
		die("arguments: SEED DIR, or SEED A B");
	struct program *p = program_create(strtoull(argv[1], NULL, 10));
	bool *reached = program_reached(p), good = true;
	if (argc == 3) {
		write_graph(p, reached, argv[2]);
		write_data(p, reached, OP_PARAM, argv[2], "w.safetensors");
		write_data(p, reached, OP_INPUT, argv[2], "i.safetensors");
		write_arguments(p, reached, argv[2]);
	} else {
		struct safetensors a, b;
		if (safetensors_open(&a, argv[2], &d) != FS_OK || safetensors_open(&b, argv[3], &d) != FS_OK)
			die(d.text);
		good = compare(p, &a, &b);
		safetensors_close(&a);
		safetensors_close(&b);
	}
	free(reached);
	program_destroy(p);
	return !good;
}
