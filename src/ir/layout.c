/* Matrix products of layout.h. */
#include "layout.h"

#include <string.h>

/* A letter, or several that lie in memory like one: strides of a, b, c; 0 where it is missing. */
struct dim { int64_t size, stride[3]; };
struct group { int count; struct dim at[MAX_RANK]; };

static int letter_at(const struct equation *e, int v, char letter)
{
	for (int i = 0; i < e->rank[v]; i++)
		if (e->letter[v][i] == letter)
			return i;
	return -1;
}

/* Of which value the order of a group is taken. */
static int order_of(enum letter_role role)
{
	return role == ROLE_K ? 0 : 2;
}

/* The letters of a role; dims of size 1 have no stride that matters and are left out. */
static void collect(const struct equation *e, enum letter_role role, const struct strided *const view[3],
		    struct group *out)
{
	int from = order_of(role);
	out->count = 0;
	for (int i = 0; i < e->rank[from]; i++) {
		char letter = e->letter[from][i];
		int64_t size = view[from]->shape[i];
		if (equation_role(e, letter) != role || size == 1)
			continue;
		struct dim *d = &out->at[out->count++];
		*d = (struct dim){ .size = size };
		for (int v = 0; v < 3; v++) {
			int at = letter_at(e, v, letter);
			d->stride[v] = at < 0 ? 0 : view[v]->stride[at];
		}
	}
}

/* The values in which `outer` does not continue `inner`; where there is nothing, everything fits. */
static unsigned breaks(const struct dim *outer, const struct dim *inner)
{
	unsigned mask = 0;
	for (int v = 0; v < 3 && outer->size != 0 && inner->size != 0; v++)
		if (outer->stride[v] != inner->stride[v] * inner->size)
			mask |= 1u << v;
	return mask;
}

static void fold(struct dim *outer, const struct dim *inner)
{
	outer->size *= inner->size;
	memcpy(outer->stride, inner->stride, sizeof(outer->stride));
}

/* Merges neighbours where every value allows it. */
static void merge_loops(struct group *g)
{
	int to = 0;
	for (int i = 1; i < g->count; i++) {
		if (breaks(&g->at[to], &g->at[i]) == 0)
			fold(&g->at[to], &g->at[i]);
		else
			g->at[++to] = g->at[i];
	}
	g->count = g->count > 0 ? to + 1 : 0;
}

/* Merges a group to one dim; says which values do not allow it. */
static unsigned merge_all(struct group *g, struct dim *out)
{
	unsigned bad = 0;
	*out = g->count > 0 ? g->at[0] : (struct dim){ .size = 1 };
	for (int i = 1; i < g->count; i++) {
		bad |= breaks(out, &g->at[i]);
		fold(out, &g->at[i]);
	}
	return bad;
}

/* Strides of directions with one element are free: they are made to fit. */
static bool fit(int64_t rows, int64_t cols, struct matrix_strides *m)
{
	if (rows == 0 || cols == 0)
		*m = (struct matrix_strides){ cols > 1 ? cols : 1, 1 };
	if (m->col == 1 || cols <= 1) {
		m->col = 1;
		if (rows <= 1)
			m->row = cols > 1 ? cols : 1;
		return m->row >= (cols > 1 ? cols : 1);
	}
	if (m->row != 1 && rows > 1)
		return false;
	m->row = 1;
	return m->col >= (rows > 1 ? rows : 1);
}

/* c by columns is the transposed product by rows. */
static void swap_sides(struct matrix_product *g)
{
	struct matrix_product old = *g;
	g->swapped = !old.swapped;
	g->m = old.n;
	g->n = old.m;
	g->a = (struct matrix_strides){ old.b.col, old.b.row };
	g->b = (struct matrix_strides){ old.a.col, old.a.row };
	g->c = (struct matrix_strides){ old.c.col, old.c.row };
	for (int i = 0; i < g->loops; i++) {
		g->loop[i].a = old.loop[i].b;
		g->loop[i].b = old.loop[i].a;
	}
}

static void set_loops(const struct group *g, struct matrix_product *out)
{
	out->loops = g->count;
	for (int i = 0; i < g->count; i++)
		out->loop[i] = (struct matrix_loop){ g->at[i].size, g->at[i].stride[0], g->at[i].stride[1], g->at[i].stride[2] };
}

unsigned matmul_layout(const struct equation *e, const struct strided *a, const struct strided *b,
		       const struct strided *c, struct matrix_product *out)
{
	const struct strided *const view[3] = { a, b, c };
	struct group group;
	struct dim dim[4];
	unsigned bad = 0;
	for (int role = ROLE_M; role <= ROLE_K; role++) {
		collect(e, (enum letter_role)role, view, &group);
		bad |= merge_all(&group, &dim[role]);
	}
	collect(e, ROLE_BATCH, view, &group);
	merge_loops(&group);
	const struct dim *m = &dim[ROLE_M], *n = &dim[ROLE_N], *k = &dim[ROLE_K];
	*out = (struct matrix_product){ .m = m->size, .n = n->size, .k = k->size,
			      .a = { m->stride[0], k->stride[0] },
			      .b = { k->stride[1], n->stride[1] },
			      .c = { m->stride[2], n->stride[2] } };
	set_loops(&group, out);
	bad |= fit(out->m, out->k, &out->a) ? 0 : LAYOUT_A;
	bad |= fit(out->k, out->n, &out->b) ? 0 : LAYOUT_B;
	bad |= fit(out->m, out->n, &out->c) ? 0 : LAYOUT_C;
	if (bad == 0 && out->c.col != 1)
		swap_sides(out);
	return bad;
}

void layout_order(const struct equation *e, int v, int64_t dims[MAX_RANK])
{
	static const enum letter_role roles[3][3] = {
		{ ROLE_BATCH, ROLE_M, ROLE_K }, { ROLE_BATCH, ROLE_N, ROLE_K }, { ROLE_BATCH, ROLE_M, ROLE_N },
	};
	int count = 0;
	for (int r = 0; r < 3; r++) {
		int from = order_of(roles[v][r]);
		for (int i = 0; i < e->rank[from]; i++)
			if (equation_role(e, e->letter[from][i]) == roles[v][r])
				dims[count++] = letter_at(e, v, e->letter[from][i]);
	}
}
