/* The factor graph, and its tables as the solver takes them: without labels that are out. */
#include "eliminate_impl.h"

#include <string.h>

/* --- the graph --- */

uint32_t factor_graph_variable(struct factor_graph *fg, uint32_t labels)
{
	BUG_ON(labels == 0);
	*vec_push(&fg->labels) = labels;
	return fg->labels.count - 1;
}

void factor_graph_add(struct factor_graph *fg, uint32_t arity, const uint32_t *scope,
		      const uint64_t *cost)
{
	BUG_ON(arity == 0);
	*vec_push(&fg->factors) = (struct factor){fg->scopes.count, arity, cost};
	for (uint32_t k = 0; k < arity; k++) {
		BUG_ON(scope[k] >= fg->labels.count);
		*vec_push(&fg->scopes) = scope[k];
	}
}

void factor_graph_release(struct factor_graph *fg)
{
	vec_release(&fg->labels);
	vec_release(&fg->factors);
	vec_release(&fg->scopes);
}

static uint64_t factor_cost(const struct factor_graph *fg, const struct factor *f, const uint32_t *pick)
{
	size_t at = 0;
	for (uint32_t k = 0; k < f->arity; k++) {
		uint32_t v = fg->scopes.items[f->first + k];
		at = at * fg->labels.items[v] + pick[v];
	}
	return f->cost[at];
}

uint64_t factor_graph_cost(const struct factor_graph *fg, const uint32_t *pick)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < fg->factors.count; i++)
		sum = elim_add(sum, factor_cost(fg, &fg->factors.items[i], pick));
	return sum;
}

/* --- restrict: tables of the variables that are left --- */

enum elim_status solver_end(struct solver *s, enum elim_status status, uint32_t variable)
{
	s->result->where = variable;
	return status;
}

static void fix_labels(struct solver *s, const bool *free, const uint32_t *pick)
{
	for (uint32_t v = 0; v < s->variables; v++) {
		uint32_t n = s->fg->labels.items[v];
		bool held = free != NULL && !free[v];
		s->left[v] = (struct label_set){.count = held ? 1 : n, .only = held ? pick[v] : 0};
	}
}

/* The axis of v in a table whose axes are [first, end of the pool), made if missing. */
static struct axis *axis_of(struct solver *s, uint32_t first, uint32_t v)
{
	for (uint32_t k = first; k < s->axes.count; k++)
		if (s->axes.items[k].variable == v)
			return &s->axes.items[k];
	struct axis *a = vec_push(&s->axes);
	a->variable = v;
	return a;
}

/* The factor without its single-label variables, over all labels of the others. */
static struct table view_factor(struct solver *s, const struct factor *f)
{
	struct table t = {.base = f->cost, .first = s->axes.count};
	size_t stride = 1;
	for (uint32_t k = f->arity; k-- > 0;) {
		uint32_t v = s->fg->scopes.items[f->first + k];
		if (s->left[v].count == 1)
			t.base += stride * s->left[v].only;
		else
			axis_of(s, t.first, v)->stride += stride;
		stride *= s->fg->labels.items[v];
	}
	t.rank = s->axes.count - t.first;
	for (uint32_t i = t.first, j = s->axes.count; i + 1 < j; i++) { /* back in scope order */
		struct axis last = s->axes.items[--j];
		s->axes.items[j] = s->axes.items[i];
		s->axes.items[i] = last;
	}
	BUG_ON(t.rank > TABLE_RANK);
	return t;
}

/* Drops from `set` the labels that the one-variable table forbids. */
static void prune_by(struct solver *s, const uint64_t *cost, size_t stride, struct label_set *set)
{
	uint32_t *kept = NULL, count = 0;
	for (uint32_t k = 0; k < set->count; k++) {
		uint32_t label = set->label != NULL ? set->label[k] : k;
		if (cost[label * stride] >= ELIM_INF) {
			if (kept == NULL) {
				kept = arena_array(&s->arena, set->count, sizeof(*kept));
				for (count = 0; count < k; count++)
					kept[count] = set->label != NULL ? set->label[count] : count;
			}
		} else if (kept != NULL) {
			kept[count++] = label;
		}
	}
	if (kept == NULL)
		return;
	*set = (struct label_set){.label = kept, .count = count, .only = count > 0 ? kept[0] : 0};
}

/* Do all variables of the factor but one have a single label? */
static bool is_of_one(const struct solver *s, const struct factor *f)
{
	uint32_t left = f->arity;
	for (uint32_t k = 0; k < f->arity; k++)
		left -= s->left[s->fg->scopes.items[f->first + k]].count == 1;
	return left == 1;
}

static enum elim_status prune_labels(struct solver *s)
{
	for (uint32_t i = 0; i < s->fg->factors.count; i++) {
		if (!is_of_one(s, &s->fg->factors.items[i]))
			continue;
		struct table t = view_factor(s, &s->fg->factors.items[i]);
		struct axis a = s->axes.items[t.first];
		s->axes.count = t.first;
		prune_by(s, t.base, a.stride, &s->left[a.variable]);
		if (s->left[a.variable].count == 0)
			return solver_end(s, ELIM_INFEASIBLE, a.variable);
	}
	return ELIM_OK;
}

static bool is_pruned(const struct solver *s, const struct table *t)
{
	for (uint32_t k = 0; k < t->rank; k++)
		if (s->left[s->axes.items[t->first + k].variable].label != NULL)
			return true;
	return false;
}

static size_t label_offset(const struct label_set *set, const struct axis *a, uint32_t k)
{
	return (set->label != NULL ? set->label[k] : k) * a->stride;
}

size_t solver_make_dense(struct solver *s, const struct table *t)
{
	size_t cells = 1;
	for (uint32_t k = t->rank; k-- > 0;) {
		struct axis *a = &s->axes.items[t->first + k];
		a->stride = cells;
		cells *= s->left[a->variable].count;
	}
	return cells;
}

/* Copies the table at the labels that are left. */
static void compact(struct solver *s, struct table *t)
{
	struct axis from[TABLE_RANK];
	uint32_t at[TABLE_RANK] = {0};
	memcpy(from, s->axes.items + t->first, t->rank * sizeof(*from));
	size_t cells = solver_make_dense(s, t);
	uint64_t *to = arena_array(&s->arena, cells, sizeof(*to));
	for (size_t i = 0; i < cells; i++) {
		size_t offset = 0;
		for (uint32_t k = 0; k < t->rank; k++)
			offset += label_offset(&s->left[from[k].variable], &from[k], at[k]);
		to[i] = t->base[offset];
		for (uint32_t k = t->rank; k-- > 0 && ++at[k] == s->left[from[k].variable].count;)
			at[k] = 0;
	}
	t->base = to;
}

void solver_add_table(struct solver *s, struct table t)
{
	for (uint32_t k = 0; k < t.rank; k++) {
		uint32_t v = s->axes.items[t.first + k].variable;
		*vec_push(&s->links) = (struct link){s->tables.count, s->head[v]};
		s->head[v] = s->links.count - 1;
	}
	*vec_push(&s->tables) = t;
}

static enum elim_status restrict_tables(struct solver *s)
{
	for (uint32_t i = 0; i < s->fg->factors.count; i++) {
		const struct factor *f = &s->fg->factors.items[i];
		struct table t = view_factor(s, f);
		if (t.rank == 0)
			s->result->cost = elim_add(s->result->cost, *t.base);
		if (s->result->cost >= ELIM_INF)
			return solver_end(s, ELIM_INFEASIBLE, s->fg->scopes.items[f->first]);
		if (is_pruned(s, &t))
			compact(s, &t);
		if (t.rank > 0)
			solver_add_table(s, t);
	}
	return ELIM_OK;
}

enum elim_status solver_load(struct solver *s, const bool *free, const uint32_t *pick)
{
	fix_labels(s, free, pick);
	enum elim_status status = prune_labels(s);
	return status == ELIM_OK ? restrict_tables(s) : status;
}
