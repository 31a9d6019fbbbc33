/*
 * Random weights and inputs for a plan.
 *
 *     data PLAN WEIGHTS INPUTS [BOUND]     two .safetensors files; integers are in [0, BOUND) (2)
 *
 * Floats are in [-1, 1), the same for the same names and shapes.
 */
#include "fold_element.h"
#include "plan_file.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

struct list { VEC(struct safetensors_item) items; };

static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void fill(const struct type *t, const char *name, uint64_t bound, char *to)
{
	uint64_t state = hash_bytes(name, strlen(name), 0);
	int item = dtype_size((enum dtype)t->dtype);
	for (int64_t i = 0; i < type_count(t); i++) {
		uint64_t bits = next(&state);
		if (dtype_is_float((enum dtype)t->dtype))
			store_double((enum dtype)t->dtype, (double)(bits >> 11) / (1ull << 52) - 1, to + i * item);
		else
			store_integer((enum dtype)t->dtype, (int64_t)(bits % bound), to + i * item);
	}
}

static void add(struct list *l, const struct graph *g, struct node_id n, uint64_t bound)
{
	const struct type *t = graph_type(g, n);
	const char *name = graph_string(g, n, ATTR_NAME);
	char *data = malloc((size_t)(type_count(t) * dtype_size((enum dtype)t->dtype)) + 1);
	if (data == NULL)
		BUG("out of memory");
	fill(t, name, bound, data);
	*vec_push(&l->items) = (struct safetensors_item){ name, (enum dtype)t->dtype, t->rank, t->dim, data };
}

static enum fs_status write_list(struct list *l, const char *path, struct diag *d)
{
	enum fs_status status = safetensors_write(path, l->items.items, l->items.count, NULL, 0, d);
	for (uint32_t i = 0; i < l->items.count; i++)
		free((void *)(uintptr_t)l->items.items[i].data);
	vec_release(&l->items);
	return status;
}

static enum fs_status write_data(const struct plan *p, const char *weights, const char *inputs, uint64_t bound, struct diag *d)
{
	struct list params = { 0 }, given = { 0 };
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		enum op op = graph_op(p->graph, (struct node_id){ i });
		if (op == OP_PARAM || op == OP_INPUT)
			add(op == OP_PARAM ? &params : &given, p->graph, (struct node_id){ i }, bound);
	}
	enum fs_status status = write_list(&params, weights, d);
	return write_list(&given, inputs, d) != FS_OK ? d->status : status;
}

int main(int argc, char **argv)
{
	struct diag d = { 0 };
	struct plan *p = NULL;
	if (argc < 4) {
		fprintf(stderr, "usage: data PLAN WEIGHTS INPUTS [BOUND]\n");
		return 2;
	}
	if (plan_open(argv[1], &p, &d) == FS_OK)
		write_data(p, argv[2], argv[3], argc > 4 ? strtoull(argv[4], NULL, 10) : 2, &d);
	plan_destroy(p);
	if (d.status != FS_OK)
		fprintf(stderr, "data: %s\n", d.text);
	return d.status != FS_OK;
}
