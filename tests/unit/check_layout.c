/*
 * Views, product layouts and packing against their meaning: every rank's view of a shard against the
 * global value, every product by its layout against the sum that the equation says.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "pack.h"
#include "suite.h"

static uint64_t seed;

static int draw(int below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int)((uint32_t)(seed >> 33) % (uint32_t)below);
}

/* --- views: the elements of a value are their places in the base --- */

#define MOST 512 /* elements */

struct value { struct type type; int64_t at[MOST]; }; /* global, row-major */

static int64_t flat(const struct type *t, const int64_t *index)
{
	int64_t at = 0;
	for (int i = 0; i < t->rank; i++)
		at = at * t->dim[i] + index[i];
	return at;
}

static void unflatten(int rank, const int64_t *shape, int64_t at, int64_t index[MAX_RANK])
{
	for (int i = rank - 1; i >= 0; i--) {
		index[i] = at % shape[i];
		at /= shape[i];
	}
}

/* The place in the operand of element `index` of the result. */
static int64_t source_of(const struct graph *g, struct node_id n, const struct type *from, const int64_t *index)
{
	const int64_t *dims;
	int64_t at[MAX_RANK] = { 0 };
	switch (graph_op(g, n)) {
	case OP_RESHAPE:
		return flat(graph_type(g, n), index);
	case OP_PERMUTE:
		for (int i = graph_ints(g, n, ATTR_DIMS, &dims); i-- > 0;)
			at[dims[i]] = index[i];
		break;
	case OP_EXPAND:
		for (int i = 0; i < from->rank; i++)
			at[i] = from->dim[i] == 1 ? 0 : index[i];
		break;
	case OP_SLICE:
		memcpy(at, index, sizeof(at));
		at[graph_int(g, n, ATTR_DIM, 0)] = graph_int(g, n, ATTR_START, 0) +
			index[graph_int(g, n, ATTR_DIM, 0)] * graph_int(g, n, ATTR_STEP, 1);
		break;
	default:
		memcpy(at, index, sizeof(at));
	}
	return flat(from, at);
}

static void evaluate(const struct graph *g, struct node_id n, struct value *v)
{
	struct value old = *v;
	v->type = *graph_type(g, n);
	int64_t count = type_count(&v->type), index[MAX_RANK] = { 0 };
	for (int64_t i = 0; i < count; i++) {
		unflatten(v->type.rank, v->type.dim, i, index);
		v->at[i] = old.at[source_of(g, n, &old.type, index)];
	}
}

static struct type random_base(void)
{
	static const int64_t sizes[] = { 1, 2, 3, 4, 5, 6, 8 };
	int64_t dim[4];
	int rank = 1 + draw(4);
	for (int i = 0; i < rank; i++)
		dim[i] = sizes[draw(rank > 2 ? 4 : 7)];
	return type_make(DT_F32, rank, dim);
}

static void random_placement(struct type *t, const struct mesh *m)
{
	int first = draw(m->count);
	t->place.count = 0;
	for (int i = 0; i < m->count; i++) {
		int axis = (first + i) % m->count;
		if (t->rank > 0 && draw(2))
			placement_set(&t->place, axis, &(struct part){ (uint8_t)axis, PART_SHARD, (uint8_t)draw(t->rank) });
	}
}

/* A reshape that splits, merges or keeps dims. */
static void random_shape(const struct type *t, struct attrs *a, int64_t shape[MAX_RANK])
{
	int count = 0;
	for (int i = 0; i < t->rank; i++) {
		int64_t size = t->dim[i], part = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
		if (count == MAX_RANK || (count > 0 && draw(3) == 0))
			shape[count - 1] *= size;
		else if (count < 6 && draw(2) && part > 1) {
			shape[count++] = draw(2) ? part : size / part;
			shape[count] = size / shape[count - 1];
			count++;
		} else {
			shape[count++] = size;
		}
	}
	attrs_ints(a, ATTR_SHAPE, shape, count);
}

static void random_dims(const struct type *t, struct attrs *a, int64_t dims[MAX_RANK])
{
	for (int i = 0; i < t->rank; i++) {
		int k = draw(i + 1);
		dims[i] = dims[k];
		dims[k] = i;
	}
	attrs_ints(a, ATTR_DIMS, dims, t->rank);
}

static void random_attrs(enum op op, const struct type *t, const struct mesh *m, struct attrs *a, int64_t list[MAX_RANK])
{
	int dim = t->rank > 0 ? draw(t->rank) : 0;
	int64_t start = t->rank > 0 ? draw((int)t->dim[dim]) : 0;
	switch (op) {
	case OP_RESHAPE:
		random_shape(t, a, list);
		break;
	case OP_PERMUTE:
		random_dims(t, a, list);
		break;
	case OP_EXPAND:
		for (int i = 0; i < t->rank; i++)
			list[i] = t->dim[i] == 1 && draw(2) ? 2 : t->dim[i];
		attrs_ints(a, ATTR_SHAPE, list, t->rank);
		break;
	case OP_SLICE:
		attrs_int(a, ATTR_DIM, dim);
		attrs_int(a, ATTR_START, start);
		attrs_int(a, ATTR_END, start + 1 + (t->rank > 0 ? draw((int)(t->dim[dim] - start)) : 0));
		attrs_int(a, ATTR_STEP, 1 + draw(2));
		break;
	default:
		attrs_int(a, ATTR_AXES, 1 << draw(m->count));
		attrs_int(a, ATTR_DIM, dim);
	}
}

static bool verifies(struct context *c, enum op op, const struct type *from, const struct attrs *a,
		     const struct type *to)
{
	struct graph *g = graph_create(c, STAGE_FP8);
	struct diag d = { 0 };
	struct attrs given = { 0 };
	attrs_string(&given, ATTR_NAME, "x");
	attrs_int(&given, ATTR_DTYPE, from->dtype);
	attrs_ints(&given, ATTR_SHAPE, from->dim, from->rank);
	struct node_id x = graph_append(g, OP_INPUT, NULL, 0, &given, from, (struct prov_id){ 0 });
	graph_append(g, op, &x, 1, a, to, (struct prov_id){ 0 });
	bool ok = graph_verify(g, &d) == FS_OK;
	graph_destroy(g);
	return ok;
}

static struct type on_axis(const struct type *t, int axis)
{
	struct type made = *t;
	for (int i = 0; i < MAX_AXES; i++)
		if (i != axis)
			placement_set(&made.place, i, NULL);
	return made;
}

/*
 * The verifier looks at one axis after the other, on shapes divided by the rest: two axes that each go
 * wrong are right for it together.  Placing them in turn, as the solver does, the first is right alone.
 */
static bool fits(struct context *c, enum op op, const struct type *from, const struct attrs *a, const struct type *to)
{
	if (!verifies(c, op, from, a, to))
		return false;
	for (int axis = 0; op != OP_SHARD && axis < context_mesh(c)->count; axis++) {
		struct type before = on_axis(from, axis), after = on_axis(to, axis);
		if ((before.place.count > 0 || from->place.count == 0) && verifies(c, op, &before, a, &after))
			return true;
	}
	return op == OP_SHARD;
}

/* A random view of x that the verifier takes, or none. */
static struct node_id random_view(struct graph *g, struct node_id x)
{
	static const enum op ops[] = { OP_RESHAPE, OP_PERMUTE, OP_EXPAND, OP_SLICE, OP_SHARD };
	const struct mesh *m = context_mesh(g->context);
	const struct type *from = graph_type(g, x);
	enum op op = ops[draw(5)];
	struct attrs a = { 0 };
	struct diag d = { 0 };
	struct type to;
	int64_t list[MAX_RANK] = { 0 };
	random_attrs(op, from, m, &a, list);
	if (op_infer(g->context, op, &from, 1, &a, &to, &d) != FS_OK || type_count(&to) > MOST)
		return NODE_NONE;
	for (int i = 0; i < 30; i++) {
		random_placement(&to, m);
		if (fits(g->context, op, from, &a, &to))
			return graph_append(g, op, &x, 1, &a, &to, (struct prov_id){ 0 });
	}
	return NODE_NONE;
}

/* What lies at element `at` of the base's shard on this rank, as a global place. */
static int64_t global_of(const struct type *base, const struct mesh *m, const int32_t *coord, int64_t at)
{
	int64_t shape[MAX_RANK], index[MAX_RANK] = { 0 };
	type_local_shape(base, m, coord, shape);
	unflatten(base->rank, shape, at, index);
	for (int i = 0; i < base->rank; i++)
		index[i] += placement_extent(&base->place, m, i, base->dim[i], coord).start;
	return flat(base, index);
}

static void check_rank(const struct graph *g, struct node_id n, struct node_id base, const struct value *v,
		       const int32_t *coord)
{
	const struct mesh *m = context_mesh(g->context);
	const struct type *t = graph_type(g, n), *b = graph_type(g, base);
	struct strided s;
	ck_assert(view_resolve(g, n, base, coord, &s));
	int64_t shape[MAX_RANK], index[MAX_RANK] = { 0 }, count = type_local_count(t, m, coord);
	type_local_shape(t, m, coord, shape);
	for (int64_t i = 0; i < count; i++) {
		int64_t at = s.offset;
		unflatten(t->rank, shape, i, index);
		for (int k = 0; k < t->rank; k++) {
			at += index[k] * s.stride[k];
			index[k] += placement_extent(&t->place, m, k, t->dim[k], coord).start;
		}
		ck_assert_int_ge(at, 0);
		ck_assert_int_lt(at, type_local_count(b, m, coord));
		ck_assert_int_eq(global_of(b, m, coord, at), v->at[flat(t, index)]);
	}
}

/* Number of views that strides said, and of those that they did not. */
static void check_chain(struct graph *g, int *said, int *unsaid)
{
	const struct mesh *m = context_mesh(g->context);
	struct type t = random_base();
	struct value v = { 0 };
	struct attrs a = { 0 };
	struct strided s;
	random_placement(&t, m);
	struct node_id base = graph_append(g, OP_FILL, NULL, 0, &a, &t, (struct prov_id){ 0 }), n = base;
	v.type = *graph_type(g, base);
	for (int64_t i = 0; i < type_count(&t); i++)
		v.at[i] = i;
	for (int step = 0; step < 5; step++) {
		struct node_id next = random_view(g, n);
		if (!node_is(next))
			continue;
		n = next;
		evaluate(g, n, &v);
		if (!view_resolve(g, n, base, NULL, &s)) {
			++*unsaid;
			return;
		}
		++*said;
		for (int64_t rank = 0; rank < mesh_size(m); rank++) {
			int32_t coord[MAX_AXES] = { 0 };
			mesh_coords(m, rank, coord);
			check_rank(g, n, base, &v, coord);
		}
	}
}

START_TEST(views)
{
	static const char *const meshes[] = { "a=1", "a=2", "a=3,b=2" };
	int said = 0, unsaid = 0;
	for (int i = 0; i < 3000; i++) {
		struct mesh m;
		struct diag d = { 0 };
		seed = (uint64_t)i * 7919 + 1;
		ck_assert_int_eq(mesh_parse(&m, meshes[i % 3], &d), FS_OK);
		struct context *c = context_create(&m);
		struct graph *g = graph_create(c, STAGE_FP8);
		check_chain(g, &said, &unsaid);
		graph_destroy(g);
		context_destroy(c);
	}
	ck_assert_int_gt(said, 4000);
	ck_assert_int_gt(unsaid, 50);
}
END_TEST

/* --- products --- */

struct matrix { struct strided view; int64_t data[4096]; };

struct product_case { struct equation e; struct matrix v[3]; int64_t size[128]; };

/* A value whose letters lie in a random order in memory, now and then with gaps or repeated. */
static void random_matrix(struct product_case *p, int v, bool dense)
{
	int rank = p->e.rank[v];
	int64_t dims[MAX_RANK], stride = 1;
	struct matrix *m = &p->v[v];
	struct attrs unused = { 0 };
	struct type t = { .rank = (uint8_t)rank };
	random_dims(&t, &unused, dims);
	for (int i = 0; i < rank; i++) {
		int at = (int)(dense || draw(2) ? rank - 1 - i : dims[i]);
		if (m->view.stride[at] != 0)
			at = -1;
		for (int k = rank - 1; at < 0; k--)
			if (m->view.stride[k] == 0)
				at = k;
		m->view.shape[at] = p->size[(int)p->e.letter[v][at]];
		m->view.stride[at] = stride;
		stride *= m->view.shape[at] + (!dense && draw(8) == 0);
	}
	if (!dense && rank > 0 && draw(8) == 0)
		m->view.stride[draw(rank)] = 0;
	for (int i = 0; i < 4096; i++)
		m->data[i] = v == 2 ? 0 : draw(20) - 10;
}

static int64_t *element(struct product_case *p, int v, const int64_t *index)
{
	int64_t at = p->v[v].view.offset;
	for (int i = 0; i < p->e.rank[v]; i++)
		at += index[(int)p->e.letter[v][i]] * p->v[v].view.stride[i];
	return &p->v[v].data[at];
}

/* The sum over all letters, as the equation says it. */
static void sum_letters(struct product_case *p, const char *letters, int64_t index[128])
{
	if (*letters == '\0') {
		*element(p, 2, index) += *element(p, 0, index) * *element(p, 1, index);
		return;
	}
	for (int64_t i = 0; i < p->size[(int)*letters]; i++) {
		index[(int)*letters] = i;
		sum_letters(p, letters + 1, index);
	}
}

static void run_product(const struct matrix_product *g, const int64_t *a, const int64_t *b, int64_t *c)
{
	for (int64_t i = 0; i < g->m; i++)
		for (int64_t j = 0; j < g->n; j++)
			for (int64_t k = 0; k < g->k; k++)
				c[i * g->c.row + j] += a[i * g->a.row + k * g->a.col] * b[k * g->b.row + j * g->b.col];
}

static void run_loops(const struct matrix_product *g, int loop, const int64_t *a, const int64_t *b, int64_t *c)
{
	if (loop == g->loops) {
		run_product(g, a, b, c);
		return;
	}
	const struct matrix_loop *l = &g->loop[loop];
	for (int64_t i = 0; i < l->size; i++)
		run_loops(g, loop + 1, a + i * l->a, b + i * l->b, c + i * l->c);
}

static bool is_blas(int64_t rows, int64_t cols, struct matrix_strides m)
{
	return (m.col == 1 && m.row >= cols && m.row > 0) || (m.row == 1 && m.col >= rows && m.col > 0);
}

static void check_product(struct product_case *p, const struct matrix_product *g, const char *letters)
{
	int64_t index[128] = { 0 };
	struct matrix *a = &p->v[g->swapped ? 1 : 0], *b = &p->v[g->swapped ? 0 : 1], *c = &p->v[2];
	static int64_t made[4096];
	ck_assert(is_blas(g->m, g->k, g->a) && is_blas(g->k, g->n, g->b));
	ck_assert(g->c.col == 1 && g->c.row >= g->n);
	memset(made, 0, sizeof(made));
	run_loops(g, 0, a->data, b->data, made);
	sum_letters(p, letters, index);
	ck_assert_mem_eq(made, c->data, sizeof(made));
}

/* The value of operand v in the order that layout_order says, dense. */
static void rearrange(struct product_case *p, int v)
{
	int64_t dims[MAX_RANK], shape[MAX_RANK];
	char old[MAX_RANK];
	layout_order(&p->e, v, dims);
	memcpy(old, p->e.letter[v], sizeof(old));
	for (int i = 0; i < p->e.rank[v]; i++) {
		p->e.letter[v][i] = old[dims[i]];
		shape[i] = p->size[(int)old[dims[i]]];
	}
	strided_dense(p->e.rank[v], shape, &p->v[v].view);
}

static void start_product(struct product_case *p, const char *text, const char *letters)
{
	struct diag d = { 0 };
	memset(p, 0, sizeof(*p));
	ck_assert_int_eq(equation_parse(&p->e, text, &d), FS_OK);
	for (; *letters != '\0'; letters++)
		p->size[(int)*letters] = draw(12) == 0 ? 0 : 1 + draw(3);
	random_matrix(p, 0, false);
	random_matrix(p, 1, false);
	random_matrix(p, 2, true);
}

START_TEST(products)
{
	static const struct { const char *eq, *letters; } cases[] = {
		{ "mk,nk->mn", "mnk" },	       { "mk,kn->mn", "mnk" },	       { "km,kn->nm", "mnk" },
		{ "mik,nk->min", "mink" },     { "bmk,bnk->bmn", "bmnk" },     { "bmk,bnk->mbn", "bmnk" },
		{ "bcmk,bcnk->bcmn", "bcmnk" }, { "bcmk,bcnk->bmcn", "bcmnk" }, { "mikl,nkl->min", "mikln" },
		{ "mikl,nlk->imn", "mikln" }, { "bmk,bnk->mnb", "bmnk" },     { "mik,nok->mnio", "mikno" },
		{ "k,k->", "k" },	       { "m,n->mn", "mn" },	       { "b,b->b", "b" },
		{ "mik,mi->k", "mik" },
	};
	static struct product_case p;
	int plain = 0, count = (int)(sizeof(cases) / sizeof(cases[0]));
	for (int i = 0; i < 200 * count; i++) {
		struct matrix_product g;
		seed = (uint64_t)i * 104729 + 7;
		start_product(&p, cases[i % count].eq, cases[i % count].letters);
		unsigned bad = matmul_layout(&p.e, &p.v[0].view, &p.v[1].view, &p.v[2].view, &g);
		plain += bad == 0;
		for (int v = 0; v < 3; v++)
			if (bad >> v & 1)
				rearrange(&p, v);
		ck_assert_msg(matmul_layout(&p.e, &p.v[0].view, &p.v[1].view, &p.v[2].view, &g) == 0, "%s", cases[i % count].eq);
		check_product(&p, &g, cases[i % count].letters);
	}
	ck_assert_int_gt(plain, 50 * count);
}
END_TEST

/* --- packing --- */

#define VALUES 600

static void check_apart(const struct packed *at, int count, int64_t total)
{
	for (int i = 0; i < count; i++) {
		ck_assert(at[i].offset >= 0 && at[i].offset % 64 == 0 && at[i].offset + at[i].bytes <= total);
		for (int k = 0; k < i; k++)
			ck_assert(at[i].to < at[k].from || at[k].to < at[i].from ||
				  at[i].offset + at[i].bytes <= at[k].offset || at[k].offset + at[k].bytes <= at[i].offset);
	}
}

START_TEST(packs_random)
{
	static struct packed at[VALUES];
	for (int round = 0; round < 30; round++) {
		seed = (uint64_t)round + 1;
		int count = draw(VALUES), longest = 1 + draw(50);
		for (int i = 0; i < count; i++) {
			uint32_t from = (uint32_t)draw(VALUES);
			at[i] = (struct packed){ from, from + (uint32_t)draw(longest), 1 + draw(100000), 0 };
		}
		int64_t total = pack_values(at, (uint32_t)count, 64), peak = pack_peak(at, (uint32_t)count, 64);
		ck_assert_int_ge(total, peak);
		ck_assert_msg((double)total <= 1.2 * (double)peak, "%lld for %lld", (long long)total, (long long)peak);
		check_apart(at, count, total);
	}
}
END_TEST

/* Forward values that wait for their backward, short ones in between; sizes as in a model. */
START_TEST(packs_training)
{
	static struct packed at[VALUES];
	static const int64_t sizes[] = { 4096, 14336, 4096, 1024, 32, 4096 };
	uint32_t half = VALUES / 4;
	int count = 0;
	for (uint32_t i = 0; i < half; i++) {
		int64_t bytes = sizes[i % 6] * 2048;
		at[count++] = (struct packed){ 2 * i, 4 * half - 2 * i, bytes, 0 };
		at[count++] = (struct packed){ 2 * i + 1, 2 * i + 3, bytes / 2, 0 };
		at[count++] = (struct packed){ 4 * half - 2 * i, 4 * half - 2 * i + 2, bytes, 0 };
	}
	int64_t total = pack_values(at, (uint32_t)count, 64), peak = pack_peak(at, (uint32_t)count, 64);
	check_apart(at, count, total);
	ck_assert_msg((double)total <= 1.05 * (double)peak, "%lld for %lld", (long long)total, (long long)peak);
	ck_assert_int_eq(pack_values(at, 0, 64), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("layout");
	TCase *t = tcase_create("layout");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, views);
	tcase_add_test(t, products);
	tcase_add_test(t, packs_random);
	tcase_add_test(t, packs_training);
	suite_add_tcase(s, t);
	return suite_run(s);
}
