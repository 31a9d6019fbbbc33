/* Products of fp8 codes with their scales; the contract is in kernels.h. */
#include "internal.h"

static bool has_e5m2(const struct scaled_gemm *g)
{
	return g->a.dtype == DT_E5M2 || g->b.dtype == DT_E5M2;
}

/*
 * Products of fewer terms than this are summed in f64, too: their time is not in the sums, and an f32
 * sum that is off in its last bit flips a code of the next cast now and then.
 */
#define FEW_TERMS ((int64_t)1 << 24)

static bool in_f64(const struct scaled_gemm *g)
{
	int64_t k = g->a.shape[g->a.rank - 1];
	return g->exact || (!has_e5m2(g) && k > 0 && view_count(&g->c) < FEW_TERMS / k);
}

/* Scales repeated to c's shape, except along the dim of their groups. */
static struct view along(const struct view *scale, const struct view *c, int groups)
{
	int64_t shape[VIEW_MAX_RANK];
	BUG_ON(scale->rank < 2 || c->rank < 2);
	for (int d = 0; d < c->rank; d++)
		shape[d] = c->shape[d];
	shape[groups] = scale->shape[scale->rank - (c->rank - groups)];
	return view_broadcast(scale, c->rank, shape);
}

/* Views in batch order: a, b, c, sa, sb. Without scales a's and b's leading dims fold all the same. */
static struct panel_gemm plan(const struct scaled_gemm *g, struct batch *b)
{
	struct view scale_a = g->sa, scale_b = g->sb, low = g->low;
	BUG_ON(!g->sa.data != !g->sb.data);
	BUG_ON(low.data && (g->sa.data || !g->exact));
	if (scale_a.data) {
		scale_a = along(&g->sa, &g->c, g->c.rank - 1);
		scale_b = along(&g->sb, &g->c, g->c.rank - 2);
	}
	batch_init(b, 6, (const struct view[]){ g->a, g->b, g->c, scale_a, scale_b, low });
	return (struct panel_gemm){ .in = in_f64(g) ? IN_F64 : IN_F32,
				    .part = g->exact && has_e5m2(g) ? PART_BOTH : PART_ALL,
				    .a = b->matrix[0], .b = b->matrix[1], .c = b->matrix[2],
				    .sa = b->matrix[3], .sb = b->matrix[4] };
}

int64_t cpu_scaled_gemm_workspace(const struct scaled_gemm *g)
{
	struct batch b;
	struct panel_gemm p = plan(g, &b);
	return parallel_gemm_workspace(&p);
}

/* c and low take the sums of the two parts. */
static void two_halves(struct panel_gemm p, const struct view *low, void *workspace)
{
	p.part = PART_LARGE;
	parallel_gemm(&p, workspace);
	p.part = PART_SMALL;
	p.c = *low;
	parallel_gemm(&p, workspace);
}

enum fs_status cpu_scaled_gemm(const struct scaled_gemm *g, void *workspace, struct diag *d)
{
	struct batch b;
	struct panel_gemm p = plan(g, &b);
	int64_t at[VIEW_MAX_RANK] = { 0 };
	if (g->exact && g->a.dtype == DT_E5M2 && g->b.dtype == DT_E5M2)
		return diag_set(d, FS_UNSUPPORTED, "exact products of two e5m2 operands");
	TRY(cpu_blas_load(d));
	if (view_count(&g->c) == 0)
		return FS_OK;
	do {
		p.a = b.matrix[0];
		p.b = b.matrix[1];
		p.c = b.matrix[2];
		p.sa = b.matrix[3];
		p.sb = b.matrix[4];
		if (g->low.data)
			two_halves(p, &b.matrix[5], workspace);
		else
			parallel_gemm(&p, workspace);
	} while (batch_next(&b, at));
	return FS_OK;
}
