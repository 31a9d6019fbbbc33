/*
 * Products on the CPU: an equation's letters are grouped into batch, M, N and K, neighbours that lie
 * evenly in memory become one dim, and the kernels get [batch.., M, K] [batch.., K, N] views.
 */
#include "cpu_lowering.h"

enum { A, B, C, SA, SB, VIEWS };

/* One letter, or several that lie behind one another in every view; stride 0 where a view lacks it. */
struct span { int64_t size, stride[VIEWS]; };

struct product {
	struct equation e;
	struct view v[VIEWS];
	int count[4]; /* spans by enum letter_role */
	struct span span[4][MAX_RANK];
	int64_t groups, group_stride[2]; /* of the scales along K */
};

static int letter_dim(const struct equation *e, int value, char letter)
{
	for (int d = 0; d < e->rank[value]; d++)
		if (e->letter[value][d] == letter)
			return d;
	return -1;
}

static int64_t scale_stride(const struct view *scale, int dim)
{
	if (scale->data == NULL || scale->rank == 0 || dim < 0 || scale->shape[dim] == 1)
		return 0;
	return scale->stride[dim];
}

static struct span span_of(const struct product *p, char letter, bool scaled)
{
	struct span s = { .size = 1 };
	for (int v = A; v <= C; v++) {
		int d = letter_dim(&p->e, v, letter);
		if (d < 0)
			continue;
		s.size = p->v[v].shape[d];
		s.stride[v] = p->v[v].stride[d];
		if (v != C && scaled)
			s.stride[SA + v] = scale_stride(&p->v[SA + v], d);
	}
	return s;
}

static bool spans_join(const struct span *outer, const struct span *inner)
{
	if (outer->size == 1 || inner->size == 1)
		return true;
	for (int v = 0; v < VIEWS; v++)
		if (outer->stride[v] != inner->stride[v] * inner->size)
			return false;
	return true;
}

/* Appends a span, joined with the one before it where all views allow that. */
static void add_span(struct product *p, enum letter_role role, const struct span *s)
{
	struct span *last = p->count[role] == 0 ? NULL : &p->span[role][p->count[role] - 1];
	if (last == NULL || !spans_join(last, s)) {
		p->span[role][p->count[role]++] = *s;
		return;
	}
	for (int v = 0; v < VIEWS && s->size != 1; v++)
		last->stride[v] = s->stride[v];
	last->size *= s->size;
}

/* Groups of K that the scales speak of: one, or n along the one letter of K. */
static void add_groups(struct product *p, int dim_a, int dim_b)
{
	int dim[2] = { dim_a, dim_b };
	for (int k = 0; k < 2; k++) {
		const struct view *scale = &p->v[SA + k];
		if (scale->data == NULL || scale->rank == 0 || scale->shape[dim[k]] <= 1)
			continue;
		p->groups = scale->shape[dim[k]];
		p->group_stride[k] = scale->stride[dim[k]];
	}
}

static void group_letters(struct product *p)
{
	for (int r = 0; r < 4; r++)
		p->count[r] = 0;
	p->groups = 1;
	p->group_stride[0] = p->group_stride[1] = 0;
	for (int d = 0; d < p->e.rank[C]; d++) {
		struct span s = span_of(p, p->e.letter[C][d], true);
		add_span(p, equation_role(&p->e, p->e.letter[C][d]), &s);
	}
	for (int d = 0; d < p->e.rank[A]; d++) {
		char letter = p->e.letter[A][d];
		if (equation_role(&p->e, letter) != ROLE_K)
			continue;
		struct span s = span_of(p, letter, false);
		add_span(p, ROLE_K, &s);
		add_groups(p, d, letter_dim(&p->e, B, letter));
	}
}

/* Rounds up to the alignment of the workspace. */
static int64_t aligned(int64_t bytes)
{
	return (bytes + 63) & ~(int64_t)63;
}

static void *after(void *memory, int64_t bytes)
{
	return memory == NULL ? NULL : (char *)memory + bytes;
}

/* Letters of K that do not lie evenly: this operand is copied to [other letters.., K letters..]. */
static struct view reordered(const struct product *p, int v, void *data, int order[MAX_RANK])
{
	int n = 0;
	int64_t shape[MAX_RANK];
	for (int last = 0; last < 2; last++) /* K in the order of a */
		for (int d = 0; d < p->e.rank[last ? A : v]; d++) {
			char letter = p->e.letter[last ? A : v][d];
			if ((equation_role(&p->e, letter) == ROLE_K) == (last == 1))
				order[n++] = letter_dim(&p->e, v, letter);
		}
	for (int d = 0; d < n; d++)
		shape[d] = p->v[v].shape[order[d]];
	return view_of(data, p->v[v].dtype, n, shape);
}

static int64_t operand_bytes(const struct view *v)
{
	return aligned(view_count(v) * dtype_size(v->dtype));
}

/* Copies the operand into `data` and lets the product see the copy under its own order of dims. */
static void gather_k(struct product *p, int v, void *data, bool copy)
{
	int order[MAX_RANK];
	struct view dense = reordered(p, v, data, order), from = dense, seen = p->v[v];
	from.data = p->v[v].data;
	for (int d = 0; d < dense.rank; d++) {
		from.stride[d] = p->v[v].stride[order[d]];
		seen.stride[order[d]] = dense.stride[d];
	}
	if (copy)
		cpu_copy(&from, &dense);
	seen.data = data;
	p->v[v] = seen;
}

static bool is_scattered(const struct product *p)
{
	return p->count[ROLE_K] > 1;
}

/* Bytes of the copies; makes them where `copy`. After it the letters of K are one span. */
static int64_t unscatter(struct product *p, void *workspace, bool copy)
{
	group_letters(p);
	if (!is_scattered(p))
		return 0;
	int64_t a = operand_bytes(&p->v[A]), b = operand_bytes(&p->v[B]);
	gather_k(p, A, workspace, copy);
	gather_k(p, B, after(workspace, a), copy);
	group_letters(p);
	return a + b;
}

static void push_dim(struct view *v, int64_t size, int64_t stride)
{
	v->shape[v->rank] = size;
	v->stride[v->rank++] = stride;
}

static void push_span(struct view out[VIEWS], const struct span *s)
{
	for (int v = 0; v < VIEWS; v++)
		push_dim(&out[v], s->size, s->stride[v]);
}

/* The views of the kernels; false: more dims than they have. */
static bool matrix_views(const struct product *p, struct view out[VIEWS])
{
	static const struct span one = { .size = 1 };
	int m = p->count[ROLE_M], n = p->count[ROLE_N];
	int lead = p->count[ROLE_BATCH] + (m > 1 ? m - 1 : 0) + (n > 1 ? n - 1 : 0);
	if (lead + 2 > VIEW_MAX_RANK)
		return false;
	for (int v = 0; v < VIEWS; v++)
		out[v] = (struct view){ .data = p->v[v].data, .dtype = p->v[v].dtype, .rank = 0 };
	for (int k = 0; k < p->count[ROLE_BATCH]; k++)
		push_span(out, &p->span[ROLE_BATCH][k]);
	for (int k = 0; k + 1 < n; k++)
		push_span(out, &p->span[ROLE_N][k]);
	for (int k = 0; k + 1 < m; k++)
		push_span(out, &p->span[ROLE_M][k]);
	struct span ms = m > 0 ? p->span[ROLE_M][m - 1] : one, ns = n > 0 ? p->span[ROLE_N][n - 1] : one;
	struct span ks = p->count[ROLE_K] > 0 ? p->span[ROLE_K][0] : one;
	push_dim(&out[A], ms.size, ms.stride[A]), push_dim(&out[A], ks.size, ks.stride[A]);
	push_dim(&out[B], ks.size, ks.stride[B]), push_dim(&out[B], ns.size, ns.stride[B]);
	push_dim(&out[C], ms.size, ms.stride[C]), push_dim(&out[C], ns.size, ns.stride[C]);
	push_dim(&out[SA], ms.size, ms.stride[SA]), push_dim(&out[SA], p->groups, p->group_stride[0]);
	push_dim(&out[SB], p->groups, p->group_stride[1]), push_dim(&out[SB], ns.size, ns.stride[SB]);
	return true;
}

static void product_init(struct product *p, const struct instruction *i)
{
	struct diag d = { 0 };
	if (equation_parse(&p->e, graph_string(i->graph, i->node, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	p->v[A] = i->in[0];
	p->v[B] = i->in[1];
	p->v[C] = i->out;
	for (int k = 0; k < 2; k++)
		p->v[SA + k] = i->count == 4 ? i->in[2 + k] : (struct view){ .data = NULL, .dtype = DT_F32 };
}

static enum fs_status too_many_dims(struct diag *d)
{
	return diag_set(d, FS_UNSUPPORTED, "a product with more dims than the CPU's kernels take");
}

static bool is_exact(const struct instruction *i)
{
	return i->exact || graph_int(i->graph, i->node, ATTR_EXACT, 0) != 0;
}

static int64_t need_matmul(const struct instruction *i)
{
	struct product p;
	struct view v[VIEWS];
	product_init(&p, i);
	int64_t copies = unscatter(&p, NULL, false);
	if (!matrix_views(&p, v))
		return 0;
	struct gemm g = { .a = v[A], .b = v[B], .c = v[C], .exact = is_exact(i) };
	return copies + cpu_gemm_workspace(&g);
}

static enum fs_status run_matmul(const struct instruction *i, struct diag *d)
{
	struct product p;
	struct view v[VIEWS];
	product_init(&p, i);
	int64_t copies = unscatter(&p, i->workspace, true);
	if (!matrix_views(&p, v))
		return too_many_dims(d);
	struct gemm g = { .a = v[A], .b = v[B], .c = v[C], .exact = is_exact(i) };
	return cpu_gemm(&g, after(i->workspace, copies), d);
}

/* The low half of an exact product has the shape and strides of the result: both are dense. */
static struct scaled_gemm scaled_of(const struct instruction *i, const struct view v[VIEWS])
{
	struct view low = v[C];
	low.data = i->second.data;
	return (struct scaled_gemm){
		.a = v[A], .b = v[B], .sa = v[SA], .sb = v[SB], .c = v[C], .low = low, .exact = is_exact(i),
	};
}

static int64_t need_scaled_matmul(const struct instruction *i)
{
	struct product p;
	struct view v[VIEWS];
	product_init(&p, i);
	int64_t copies = unscatter(&p, NULL, false);
	if (!matrix_views(&p, v))
		return 0;
	struct scaled_gemm g = scaled_of(i, v);
	return copies + cpu_scaled_gemm_workspace(&g);
}

static enum fs_status run_scaled_matmul(const struct instruction *i, struct diag *d)
{
	struct product p;
	struct view v[VIEWS];
	product_init(&p, i);
	int64_t copies = unscatter(&p, i->workspace, true);
	if (!matrix_views(&p, v))
		return too_many_dims(d);
	struct scaled_gemm g = scaled_of(i, v);
	return cpu_scaled_gemm(&g, after(i->workspace, copies), d);
}

/* The scale of operand `value` as a view of the result's shape. */
static struct view scale_over_result(const struct equation *e, int value, const struct view *scale,
				     const struct view *c)
{
	struct view s = *c;
	s.data = scale->data;
	s.dtype = scale->dtype;
	for (int d = 0; d < c->rank; d++)
		s.stride[d] = scale_stride(scale, letter_dim(e, value, e->letter[C][d]));
	return s;
}

static enum fs_status run_post_scale(const struct instruction *i, struct diag *d)
{
	struct equation e;
	TRY(equation_parse(&e, graph_string(i->graph, i->node, ATTR_EQ), d));
	struct view sa = scale_over_result(&e, A, &i->in[1], &i->out);
	struct view sb = scale_over_result(&e, B, &i->in[2], &i->out);
	cpu_post_scale(&i->in[0], i->count == 4 ? &i->in[3] : NULL, &sa, &sb, &i->out);
	return FS_OK;
}

static struct sdpa sdpa_of(const struct instruction *i)
{
	const struct type *q = graph_type(i->graph, graph_operand(i->graph, i->node, 0));
	const struct type *k = graph_type(i->graph, graph_operand(i->graph, i->node, 1));
	int heads = q->rank - 3;
	struct sdpa s = {
		.q = i->in[0], .k = i->in[1], .v = i->in[2], .out = i->out,
		.scale = graph_float(i->graph, i->node, ATTR_SCALE, 1),
		.causal = graph_int(i->graph, i->node, ATTR_CAUSAL, 0) != 0,
		.q_first = instruction_start(i, 0, q->rank - 2),
		.q_head_first = instruction_start(i, 0, heads),
		.kv_head_first = instruction_start(i, 1, heads),
		.group = k->dim[heads] > 0 ? q->dim[heads] / k->dim[heads] : 1,
		.exact = i->exact,
	};
	if (i->count == 4)
		s.mask = i->in[3];
	return s;
}

static int64_t need_sdpa(const struct instruction *i)
{
	struct sdpa s = sdpa_of(i);
	return cpu_sdpa_workspace(&s);
}

static enum fs_status run_sdpa(const struct instruction *i, struct diag *d)
{
	struct sdpa s = sdpa_of(i);
	return cpu_sdpa(&s, i->workspace, d);
}

const struct lowering lower_matmul = { run_matmul, need_matmul };
const struct lowering lower_scaled_matmul = { run_scaled_matmul, need_scaled_matmul };
const struct lowering lower_post_scale = { run_post_scale, NULL };
const struct lowering lower_sdpa = { run_sdpa, need_sdpa };
