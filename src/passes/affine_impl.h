/* Inside affine.c and affine_ops.c. */
#ifndef FS_AFFINE_IMPL_H
#define FS_AFFINE_IMPL_H

#include "affine.h"

/* A node at work. */
struct flow {
	struct affine_table *table;
	const struct graph *g;
	struct node_id n;
	const struct type *type;
	int count;
};

/* The form of a node from those of its operands, to be finished; *out comes zeroed. */
typedef bool affine_transfer(const struct flow *f, struct form *out);
extern affine_transfer *const affine_transfers[OP_COUNT]; /* affine_ops.c */

static inline const struct form *form_of(const struct flow *f, int k)
{
	return f->table->forms.items[graph_operand(f->g, f->n, k).i];
}

static inline const struct type *type_of(const struct flow *f, int k)
{
	return graph_type(f->g, graph_operand(f->g, f->n, k));
}

/* Arithmetic; false: overflow. */
bool affine_add_times(struct affine *out, const struct affine *a, int64_t k); /* out += k * a */
bool affine_range(const struct affine *a, const struct type *t, int64_t *least, int64_t *most);
/* a at the coordinates that `map` gives for each of its dims. */
bool affine_substitute(const struct affine *a, int rank, const struct affine *map, struct affine *out);
bool affine_is_constant(const struct affine *a);
void affine_drop_unit_dims(struct affine *a, const struct type *t);
bool form_substitute(const struct form *x, int rank, const struct affine *map, struct form *out);
/* Of an index or gather node. */
bool index_coordinates(const struct flow *f, struct affine map[MAX_RANK]);

#endif
