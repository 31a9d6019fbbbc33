/*
 * Variable elimination; the contract is in eliminate.h.
 *
 *   restrict   single-label variables leave the tables (an offset, no copy); labels that a
 *              one-variable table forbids are dropped
 *   order      an indexed heap by the cells that eliminating a variable would take
 *   eliminate  the tables that hold v are summed into one or two dense parts, [v][x][y] and
 *              [v][y][z], and their minimum over v is a new table [x][y][z]
 *   walk back  in reverse order, v takes its cheapest label given the later variables: the tables
 *              are kept, so no argmin is stored
 */
#include "eliminate_impl.h"

#include <stdlib.h>
#include <string.h>

/* --- order: a heap of variables by (cells, id) --- */

static bool before(const struct solver *s, uint32_t a, uint32_t b)
{
	return s->key[a] != s->key[b] ? s->key[a] < s->key[b] : a < b;
}

static void heap_put(struct solver *s, uint32_t at, uint32_t v)
{
	s->heap[at] = v;
	s->place[v] = at;
}

static void sift_up(struct solver *s, uint32_t at, uint32_t v)
{
	for (; at > 0 && before(s, v, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap_put(s, at, s->heap[(at - 1) / 2]);
	heap_put(s, at, v);
}

static void sift_down(struct solver *s, uint32_t at, uint32_t v)
{
	for (uint32_t kid; (kid = 2 * at + 1) < s->heaped; at = kid) {
		if (kid + 1 < s->heaped && before(s, s->heap[kid + 1], s->heap[kid]))
			kid++;
		if (before(s, v, s->heap[kid]))
			break;
		heap_put(s, at, s->heap[kid]);
	}
	heap_put(s, at, v);
}

static uint32_t heap_pop(struct solver *s)
{
	uint32_t top = s->heap[0], last = s->heap[--s->heaped];
	s->place[top] = NONE;
	if (s->heaped > 0)
		sift_down(s, 0, last);
	return top;
}

static void heap_move(struct solver *s, uint32_t v, uint64_t key)
{
	uint64_t was = s->key[v];
	s->key[v] = key;
	if (key < was)
		sift_up(s, s->place[v], v);
	else if (key > was)
		sift_down(s, s->place[v], v);
}

/* The next live table of a variable's list; unlinks spent ones on the way. */
static uint32_t live_table(struct solver *s, uint32_t *from)
{
	while (*from != NONE && s->tables.items[s->links.items[*from].table].spent)
		*from = s->links.items[*from].next;
	return *from;
}

/* Cells (and variables) that eliminating v would take; stops counting above max_cells. */
static uint64_t cells_of(struct solver *s, uint32_t v, uint32_t *width)
{
	uint64_t cells = s->left[v].count;
	*width = 1;
	s->stamp[v] = ++s->now;
	for (uint32_t *at = &s->head[v]; live_table(s, at) != NONE; at = &s->links.items[*at].next) {
		const struct table *t = &s->tables.items[s->links.items[*at].table];
		for (uint32_t k = 0; k < t->rank && cells <= s->max_cells; k++) {
			uint32_t w = s->axes.items[t->first + k].variable;
			if (s->stamp[w] == s->now)
				continue;
			s->stamp[w] = s->now;
			cells *= s->left[w].count;
			++*width;
		}
		if (cells > s->max_cells)
			break;
	}
	return cells;
}

static void fill_heap(struct solver *s)
{
	for (uint32_t v = 0, width; v < s->variables; v++) {
		if (s->left[v].count == 1)
			continue;
		s->key[v] = cells_of(s, v, &width);
		sift_up(s, s->heaped++, v);
	}
}

/* --- eliminate one variable --- */

/*
 * The elimination at hand: the neighbours of v are bits of a mask, each table of v is a mask, and
 * one or two parts (masks too) cover the tables: a table is summed into the first part that holds it.
 */
struct elimination {
	uint32_t variable, width, count;
	uint32_t rest[TABLE_RANK]; /* neighbours; slot[rest[k]] is k */
	uint64_t parts[2 * TABLE_RANK];
};

static uint64_t mask_of(struct solver *s, struct elimination *e, const struct table *t)
{
	uint64_t mask = 0;
	for (uint32_t k = 0; k < t->rank; k++) {
		uint32_t w = s->axes.items[t->first + k].variable;
		if (w == e->variable)
			continue;
		if (s->stamp[w] != s->now) {
			s->stamp[w] = s->now;
			s->slot[w] = e->width;
			e->rest[e->width++] = w;
		}
		mask |= (uint64_t)1 << s->slot[w];
	}
	return mask;
}

static size_t mask_cells(const struct solver *s, const struct elimination *e, uint64_t mask)
{
	size_t cells = 1;
	for (; mask != 0; mask &= mask - 1)
		cells *= s->left[e->rest[__builtin_ctzll(mask)]].count;
	return cells;
}

/* Keeps the parts free of subsets of each other. */
static void cover(struct elimination *e, uint64_t mask)
{
	uint32_t kept = 0;
	for (uint32_t k = 0; k < e->count; k++)
		if ((mask & ~e->parts[k]) == 0)
			return;
	for (uint32_t k = 0; k < e->count; k++)
		if ((e->parts[k] & ~mask) != 0)
			e->parts[kept++] = e->parts[k];
	e->parts[kept] = mask;
	e->count = kept + 1;
}

/* Joins the two parts whose union is smallest. */
static void join_parts(const struct solver *s, struct elimination *e)
{
	size_t best = SIZE_MAX;
	uint32_t a = 0, b = 1;
	for (uint32_t i = 0; i < e->count; i++)
		for (uint32_t j = i + 1; j < e->count; j++) {
			size_t cells = mask_cells(s, e, e->parts[i] | e->parts[j]);
			if (cells < best) {
				best = cells;
				a = i;
				b = j;
			}
		}
	uint64_t both = e->parts[a] | e->parts[b];
	e->parts[b] = e->parts[--e->count];
	cover(e, both);
}

/* Takes the tables of v out of the graph and covers them by at most two parts. */
static struct step take_tables(struct solver *s, struct elimination *e)
{
	struct step step = {e->variable, s->buckets.count, 0};
	s->now++;
	for (uint32_t *at = &s->head[e->variable]; live_table(s, at) != NONE; at = &s->links.items[*at].next) {
		uint32_t i = s->links.items[*at].table;
		*vec_push(&s->buckets) = i;
		cover(e, mask_of(s, e, &s->tables.items[i]));
		if (e->count == 2 * TABLE_RANK)
			join_parts(s, e);
	}
	step.count = s->buckets.count - step.first;
	for (uint32_t k = 0; k < step.count; k++)
		s->tables.items[s->buckets.items[step.first + k]].spent = true;
	while (e->count > 2)
		join_parts(s, e);
	return step;
}

/* Appends the neighbours in the mask to the dims, as the table is read along them. */
static void add_dims(const struct solver *s, const struct elimination *e, uint64_t mask,
		     const size_t *stride, struct table_dims *d)
{
	for (; mask != 0; mask &= mask - 1) {
		uint32_t k = (uint32_t)__builtin_ctzll(mask);
		d->size[d->rank] = s->left[e->rest[k]].count;
		d->stride[d->rank++] = stride[k];
	}
}

/* How to read the table as [v][outer][inner]. */
static struct table_dims part_dims(const struct solver *s, const struct elimination *e,
				   const struct table *t, uint64_t outer, uint64_t inner)
{
	struct table_dims d;
	size_t stride[TABLE_RANK];
	memset(stride, 0, e->width * sizeof(*stride));
	d.rank = 1;
	d.size[0] = s->left[e->variable].count;
	d.stride[0] = 0;
	for (uint32_t k = 0; k < t->rank; k++) {
		const struct axis *a = &s->axes.items[t->first + k];
		if (a->variable == e->variable)
			d.stride[0] = a->stride;
		else
			stride[s->slot[a->variable]] = a->stride;
	}
	add_dims(s, e, outer, stride, &d);
	add_dims(s, e, inner, stride, &d);
	return d;
}

static uint64_t *scratch_cells(struct scratch *x, size_t cells)
{
	if (cells <= x->room)
		return x->cells;
	free(x->cells);
	x->room = cells + cells / 2;
	x->cells = malloc(x->room * sizeof(*x->cells));
	if (x->cells == NULL)
		BUG("out of memory: %zu cells", x->room);
	return x->cells;
}

/* The sum of the tables of part p, dense: [v][outer][inner]. */
static const uint64_t *sum_part(struct solver *s, struct elimination *e, const struct step *step,
				uint32_t p, uint64_t outer, uint64_t inner)
{
	uint64_t *to = NULL;
	for (uint32_t i = 0; i < step->count; i++) {
		const struct table *t = &s->tables.items[s->buckets.items[step->first + i]];
		uint64_t mask = mask_of(s, e, t);
		if ((p == 0) != ((mask & ~e->parts[0]) == 0))
			continue;
		struct table_dims d = part_dims(s, e, t, outer, inner);
		if (to != NULL) {
			table_add(to, t->base, &d);
			continue;
		}
		to = scratch_cells(&s->part[p], d.size[0] * mask_cells(s, e, outer | inner));
		table_copy(to, t->base, &d);
	}
	return to;
}

/* Minimum over v of the parts into `out`; false where nothing is allowed. */
static bool minimize(struct solver *s, struct elimination *e, const struct step *step, uint64_t *out)
{
	size_t labels = s->left[e->variable].count;
	if (e->count == 1) {
		const uint64_t *a = sum_part(s, e, step, 0, e->parts[0], 0);
		return table_min(out, a, labels, mask_cells(s, e, e->parts[0]));
	}
	uint64_t x = e->parts[0] & ~e->parts[1], y = e->parts[0] & e->parts[1], z = e->parts[1] & ~y;
	const uint64_t *a = sum_part(s, e, step, 0, x, y), *b = sum_part(s, e, step, 1, y, z);
	return table_min_sum(out, a, b, labels, mask_cells(s, e, x), mask_cells(s, e, y), mask_cells(s, e, z));
}

/* The part with more neighbours of its own comes second: the longer inner loop. */
static void order_parts(const struct solver *s, struct elimination *e)
{
	uint64_t a = e->parts[0], b = e->count == 2 ? e->parts[1] : 0;
	if (e->count != 2 || mask_cells(s, e, a & ~b) <= mask_cells(s, e, b & ~a))
		return;
	e->parts[0] = b;
	e->parts[1] = a;
}

/* Axes of the new table: the order in which minimize() lays it out. */
static struct table message_table(struct solver *s, const struct elimination *e, const uint64_t *cells)
{
	struct table t = {.base = cells, .first = s->axes.count, .rank = e->width};
	uint64_t a = e->parts[0], b = e->count == 2 ? e->parts[1] : 0;
	uint64_t order[3] = {a & ~b, a & b, b & ~a};
	for (int i = 0; i < 3; i++)
		for (uint64_t m = order[i]; m != 0; m &= m - 1)
			vec_push(&s->axes)->variable = e->rest[__builtin_ctzll(m)];
	solver_make_dense(s, &t);
	return t;
}

/* Counts what the message has less than it stands for. */
static const uint64_t *message_cells(struct solver *s, const struct message *m)
{
	s->result->cost = elim_add(s->result->cost, m->least);
	return m->cells;
}

/* New tables of one variable are one table: the lists of variables with many neighbours stay short. */
static void add_own(struct solver *s, const struct elimination *e, const uint64_t *cells)
{
	uint32_t w = e->rest[0], first = s->memo.words.count;
	if (s->own[w] == NONE) {
		s->own[w] = s->tables.count;
		solver_add_table(s, message_table(s, e, cells));
		return;
	}
	struct table *t = &s->tables.items[s->own[w]];
	*vec_push(&s->memo.words) = (uintptr_t)t->base;
	*vec_push(&s->memo.words) = (uintptr_t)cells;
	struct message *m = memo_message(&s->memo, first);
	if (m->cells == NULL) {
		struct table_dims d = {.rank = 1, .size = {s->left[w].count}, .stride = {1}};
		uint64_t *sum = scratch_cells(&s->part[2], s->left[w].count);
		table_copy(sum, t->base, &d);
		table_add(sum, cells, &d);
		memo_fill(&s->memo, m, sum, s->left[w].count);
	}
	t->base = message_cells(s, m);
}

static void count_cells(struct solver *s, uint64_t cells, uint32_t width)
{
	s->result->cells += cells;
	if (cells <= s->result->widest)
		return;
	s->result->widest = cells;
	s->result->width = width;
}

/* All that the message depends on: sizes, and which tables (even words) are read along which dims (odd words). */
static uint32_t message_key(struct solver *s, const struct elimination *e, const struct step *step)
{
	uint32_t first = s->memo.words.count;
	*vec_push(&s->memo.words) = (uint64_t)s->left[e->variable].count << 32 | e->width;
	for (uint32_t k = 0; k < e->width; k++)
		*vec_push(&s->memo.words) = s->left[e->rest[k]].count;
	for (uint32_t i = 0; i < step->count; i++) {
		const struct table *t = &s->tables.items[s->buckets.items[step->first + i]];
		*vec_push(&s->memo.words) = (uintptr_t)t->base;
		for (uint32_t k = 0; k < t->rank; k++) {
			const struct axis *a = &s->axes.items[t->first + k];
			*vec_push(&s->memo.words) = a->stride << 8 | (a->variable == e->variable ? 255 : 2 * s->slot[a->variable] + 1);
		}
	}
	return first;
}

static enum elim_status eliminate_one(struct solver *s, uint32_t v)
{
	struct elimination e;
	e.variable = v;
	e.width = e.count = 0;
	struct step step = take_tables(s, &e);
	*vec_push(&s->steps) = step;
	count_cells(s, s->key[v], e.width + 1);
	if (step.count == 0)
		return ELIM_OK;
	order_parts(s, &e);
	struct message *m = memo_message(&s->memo, message_key(s, &e, &step));
	if (m->cells == NULL) {
		size_t cells = s->key[v] / s->left[v].count;
		uint64_t *out = scratch_cells(&s->part[2], cells);
		if (!minimize(s, &e, &step, out))
			return solver_end(s, ELIM_INFEASIBLE, v);
		memo_fill(&s->memo, m, out, cells);
	}
	const uint64_t *out = message_cells(s, m);
	if (s->result->cost >= ELIM_INF)
		return solver_end(s, ELIM_INFEASIBLE, v);
	if (e.width == 0)
		return ELIM_OK;
	if (e.width == 1)
		add_own(s, &e, out);
	else
		solver_add_table(s, message_table(s, &e, out));
	for (uint32_t k = 0, width; k < e.width; k++)
		heap_move(s, e.rest[k], cells_of(s, e.rest[k], &width));
	return ELIM_OK;
}

/* --- walk back --- */

static uint64_t table_cost(const struct solver *s, const struct table *t, const uint32_t *at)
{
	size_t offset = 0;
	for (uint32_t k = 0; k < t->rank; k++) {
		const struct axis *a = &s->axes.items[t->first + k];
		offset += a->stride * at[a->variable];
	}
	return t->base[offset];
}

/* The cheapest label of the step's variable; at: labels (among those left) of the later ones. */
static void choose(const struct solver *s, const struct step *step, uint32_t *at)
{
	uint64_t best = UINT64_MAX;
	uint32_t v = step->variable, label = 0;
	for (uint32_t k = 0; k < s->left[v].count; k++) {
		uint64_t sum = 0;
		at[v] = k;
		for (uint32_t i = 0; i < step->count; i++)
			sum = elim_add(sum, table_cost(s, &s->tables.items[s->buckets.items[step->first + i]], at));
		if (sum < best) {
			best = sum;
			label = k;
		}
	}
	at[v] = label;
}

static void walk_back(struct solver *s, uint32_t *pick)
{
	uint32_t *at = arena_array(&s->arena, s->variables, sizeof(*at));
	for (uint32_t k = s->steps.count; k-- > 0;)
		choose(s, &s->steps.items[k], at);
	for (uint32_t v = 0; v < s->variables; v++) {
		const struct label_set *set = &s->left[v];
		pick[v] = set->label != NULL ? set->label[at[v]] : set->count == 1 ? set->only : at[v];
	}
}

/* --- the whole --- */

static void solver_init(struct solver *s, const struct factor_graph *fg, uint64_t max_cells,
			struct elim_result *result)
{
	uint32_t n = fg->labels.count;
	BUG_ON(max_cells > ELIM_CELLS_MAX);
	*result = (struct elim_result){.where = NONE};
	*s = (struct solver){.fg = fg, .max_cells = max_cells, .variables = n, .result = result};
	s->left = arena_array(&s->arena, n, sizeof(*s->left));
	s->head = arena_array(&s->arena, n, sizeof(*s->head));
	s->stamp = arena_array(&s->arena, n, sizeof(*s->stamp));
	s->slot = arena_array(&s->arena, n, sizeof(*s->slot));
	s->own = arena_array(&s->arena, n, sizeof(*s->own));
	s->heap = arena_array(&s->arena, n, sizeof(*s->heap));
	s->place = arena_array(&s->arena, n, sizeof(*s->place));
	s->key = arena_array(&s->arena, n, sizeof(*s->key));
	memset(s->head, 0xff, n * sizeof(*s->head)); /* NONE */
	memset(s->own, 0xff, n * sizeof(*s->own));
}

static void solver_release(struct solver *s)
{
	free(s->part[0].cells);
	free(s->part[1].cells);
	free(s->part[2].cells);
	memo_release(&s->memo);
	vec_release(&s->tables);
	vec_release(&s->axes);
	vec_release(&s->links);
	vec_release(&s->steps);
	vec_release(&s->buckets);
	arena_release(&s->arena);
}

static enum elim_status eliminate_all(struct solver *s)
{
	while (s->heaped > 0) {
		uint32_t v = heap_pop(s);
		if (s->key[v] > s->max_cells) {
			s->result->widest = cells_of(s, v, &s->result->width);
			return solver_end(s, ELIM_TOO_WIDE, v);
		}
		enum elim_status status = eliminate_one(s, v);
		if (status != ELIM_OK)
			return status;
	}
	return ELIM_OK;
}

static enum elim_status solve(struct solver *s, const bool *free, uint32_t *pick)
{
	enum elim_status status;
	if ((status = solver_load(s, free, pick)) != ELIM_OK)
		return status;
	fill_heap(s);
	if ((status = eliminate_all(s)) == ELIM_OK)
		walk_back(s, pick);
	return status;
}

enum elim_status eliminate_given(const struct factor_graph *fg, const bool *free,
				 uint64_t max_cells, uint32_t *pick, struct elim_result *result)
{
	struct solver s;
	solver_init(&s, fg, max_cells, result);
	enum elim_status status = solve(&s, free, pick);
	solver_release(&s);
	return status;
}

enum elim_status eliminate(const struct factor_graph *fg, uint64_t max_cells, uint32_t *pick,
			   struct elim_result *result)
{
	return eliminate_given(fg, NULL, max_cells, pick, result);
}
