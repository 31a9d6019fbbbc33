/*
 * fold: compute what hangs on constants alone.
 *
 *     %i = iota {start=0 step=1} : i64[4]
 *     %two = fill {value=2} : i64[]              =>   %p = const {data=[1,2,4,8]} : i64[4]
 *     %p = pow %two, %i : i64[4]
 *
 * A value of at most 65,536 elements is computed with the kernels' own expressions, in the types in
 * which they compute, and becomes a constant; where all elements are equal, a fill.  Views stay: they
 * cost nothing.  So does what the kernels may sum in another order (means, products of matrices) and
 * larger values: those run once, in the plan's setup.
 *
 * stage global   needs canonicalize   makes const, fill   numerics exact
 */
#include "fold_element.h"
#include "fold_eval.h"
#include "passes.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WORK (1 << 22) /* elements of a graph */

/* Is every element the first, and a number that a fill can hold? */
static bool is_uniform(const struct folded *x, double *value)
{
	enum dtype t = (enum dtype)x->type->dtype;
	int64_t at[MAX_RANK] = { 0 };
	*value = load_double(t, x->data);
	if (t == DT_I64 && (*value <= -0x1p53 || *value >= 0x1p53))
		return false;
	while (folded_next(x->type, at))
		if (memcmp(folded_at(x, at, x->type->rank), x->data, (size_t)dtype_size(t)) != 0)
			return false;
	return *value == *value;
}

static struct node_id emit_fill(struct rebuild *r, struct node_id n, double value)
{
	const struct type *t = graph_type(r->from, n);
	struct attrs a = { 0 };
	attrs_float(&a, ATTR_VALUE, value);
	attrs_int(&a, ATTR_DTYPE, t->dtype);
	attrs_ints(&a, ATTR_SHAPE, t->dim, t->rank);
	return graph_emit(r->to, OP_FILL, NULL, 0, &a, rebuild_prov(r, n));
}

static struct node_id emit_const(struct rebuild *r, struct node_id n, const struct folded *x)
{
	struct arena *arena = context_arena(r->from->context);
	struct tensor *t = arena_alloc(arena, sizeof(*t));
	struct attrs a = { 0 };
	t->dtype = x->type->dtype;
	t->rank = x->type->rank;
	memcpy(t->dim, x->type->dim, sizeof(t->dim[0]) * t->rank);
	t->data = arena_copy(arena, x->data, (size_t)type_bytes(x->type));
	attrs_tensor(&a, t);
	return graph_emit(r->to, OP_CONST, NULL, 0, &a, rebuild_prov(r, n));
}

/* Does n become a constant? Views and sources are none the cheaper for it. */
static bool is_folded(const struct fold *f, struct node_id n)
{
	enum op op = graph_op(f->g, n);
	return f->value[n.i] != NULL && !op_is_source(op) && !op_is_view(op);
}

static struct node_id fold_one(struct fold *f, struct rebuild *r, struct node_id n)
{
	const struct folded *x = f->value[n.i];
	double value;
	if ((is_folded(f, n) || (x != NULL && graph_op(f->g, n) == OP_CONST)) && is_uniform(x, &value))
		return emit_fill(r, n, value);
	return is_folded(f, n) ? emit_const(r, n, x) : rebuild_copy(r, n);
}

/* What is wanted once the folded nodes want their operands no more: into r->reached. */
static void find_wanted(const struct fold *f, struct rebuild *r)
{
	const struct graph *g = f->g;
	bool *wanted = calloc(g->nodes.count, sizeof(*wanted));
	if (wanted == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < g->outputs.count; i++)
		wanted[g->outputs.items[i].value.i] = true;
	for (uint32_t i = g->nodes.count; i-- > 1;) {
		struct node_id n = { i };
		wanted[i] |= graph_op(g, n) == OP_INPUT;
		for (int k = 0; wanted[i] && !is_folded(f, n) && k < graph_node(g, n)->count; k++)
			wanted[graph_operand(g, n, k).i] = true;
	}
	free(r->reached);
	r->reached = wanted;
}

enum fs_status pass_fold(struct graph **g, struct compile *compile, struct diag *d)
{
	(void)compile;
	(void)d;
	struct rebuild r;
	struct fold f = { .g = *g, .work = MAX_WORK };
	rebuild_init(&r, *g, STAGE_GLOBAL, "fold");
	f.value = arena_array(&f.scratch, (*g)->nodes.count, sizeof(*f.value));
	for (uint32_t i = 1; i < (*g)->nodes.count; i++)
		if (r.reached[i])
			f.value[i] = fold_node(&f, (struct node_id){ i });
	find_wanted(&f, &r);
	for (uint32_t i = 1; i < (*g)->nodes.count; i++)
		if (r.reached[i])
			r.map[i] = fold_one(&f, &r, (struct node_id){ i });
	arena_release(&f.scratch);
	rebuild_finish(&r, g);
	return FS_OK;
}
