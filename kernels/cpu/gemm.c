/* Batched matrix products of floats of any type, and of integers. */
#include "internal.h"

/* Leading dims of view v as those of c. */
static struct view widen(const struct view *v, const struct view *c)
{
	int64_t shape[VIEW_MAX_RANK];
	for (int d = 0; d < c->rank; d++)
		shape[d] = c->shape[d];
	BUG_ON(v->rank < 2 || c->rank < 2);
	shape[c->rank - 2] = v->shape[v->rank - 2];
	shape[c->rank - 1] = v->shape[v->rank - 1];
	return view_broadcast(v, c->rank, shape);
}

/* May the innermost leading dim become the major part of M? b (view 1), scales of b (view 4) must lack it. */
static bool foldable(const struct batch *b, int d)
{
	if (d < 0)
		return false;
	for (int v = 0; v < b->count; v++) {
		const struct view *m = &b->matrix[v];
		bool columns = v == 1 || v == 4;
		if (m->data && (columns ? m->stride[d] != 0 : m->stride[d] != m->stride[d + 1] * m->shape[d + 1]) &&
		    m->shape[d] != 1)
			return false;
	}
	return true;
}

static void fold(struct batch *b, int d)
{
	for (int v = 0; v < b->count; v++) {
		struct view *m = &b->matrix[v];
		bool columns = v == 1 || v == 4;
		int64_t n = m->shape[d];
		*m = view_drop(m, d);
		if (!columns)
			m->shape[d] *= n;
	}
}

void batch_init(struct batch *b, int count, const struct view *views)
{
	b->count = count;
	for (int v = 0; v < count; v++)
		b->matrix[v] = views[v].data ? widen(&views[v], &views[2]) : views[2];
	for (int v = 0; v < count; v++)
		if (!views[v].data)
			b->matrix[v].data = NULL;
	while (foldable(b, b->matrix[2].rank - 3))
		fold(b, b->matrix[2].rank - 3);
	for (int v = 0; v < count; v++) {
		int lead = b->matrix[v].rank - 2;
		b->lead[v] = view_dims(&b->matrix[v], 0, lead);
		b->matrix[v] = view_dims(&b->matrix[v], lead, 2);
	}
}

bool batch_next(struct batch *b, int64_t *at)
{
	const struct view *lead = &b->lead[2];
	for (int d = lead->rank - 1; d >= 0; d--) {
		int64_t wrapped = at[d] + 1 < lead->shape[d] ? 1 : -at[d];
		at[d] += wrapped;
		for (int v = 0; v < b->count; v++)
			if (b->matrix[v].data)
				b->matrix[v].data = view_at(&b->matrix[v], wrapped * b->lead[v].stride[d]);
		if (wrapped == 1)
			return true;
	}
	return false;
}

/* sum of products that wrap, in int64 */
static void integer_gemm(const struct view *a, const struct view *b, const struct view *c)
{
	for (int64_t i = 0; i < c->shape[0]; i++)
		for (int64_t j = 0; j < c->shape[1]; j++) {
			uint64_t sum = 0;
			for (int64_t k = 0; k < a->shape[1]; k++) {
				int64_t x, y;
				load_i64(a->dtype, view_at(a, i * a->stride[0] + k * a->stride[1]), 1, &x, 1);
				load_i64(b->dtype, view_at(b, k * b->stride[0] + j * b->stride[1]), 1, &y, 1);
				sum += (uint64_t)x * (uint64_t)y;
			}
			int64_t result = (int64_t)sum;
			store_i64(c->dtype, view_at(c, i * c->stride[0] + j * c->stride[1]), 1, &result, 1);
		}
}

static struct panel_gemm plan(const struct gemm *g, struct batch *b)
{
	bool wide = g->exact || g->a.dtype == DT_F64 || g->b.dtype == DT_F64;
	batch_init(b, 3, (const struct view[]){ g->a, g->b, g->c });
	return (struct panel_gemm){ .in = wide ? IN_F64 : IN_F32, .ordered = g->exact, .a = b->matrix[0],
				    .b = b->matrix[1], .c = b->matrix[2] };
}

int64_t cpu_gemm_workspace(const struct gemm *g)
{
	struct batch b;
	struct panel_gemm p = plan(g, &b);
	return parallel_gemm_workspace(&p);
}

enum fs_status cpu_gemm(const struct gemm *g, void *workspace, struct diag *d)
{
	struct batch b;
	struct panel_gemm p = plan(g, &b);
	int64_t at[VIEW_MAX_RANK] = { 0 };
	bool integer = compute_of(g->a.dtype) == IN_I64 && compute_of(g->b.dtype) == IN_I64;
	if (!p.ordered && !integer)
		TRY(cpu_blas_load(d));
	if (view_count(&g->c) == 0)
		return FS_OK;
	do {
		p.a = b.matrix[0];
		p.b = b.matrix[1];
		p.c = b.matrix[2];
		if (integer)
			integer_gemm(&p.a, &p.b, &p.c);
		else
			parallel_gemm(&p, workspace);
	} while (batch_next(&b, at));
	return FS_OK;
}
