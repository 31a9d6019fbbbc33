#include "plan_check.h"
#include "host.h"
#include "sqnr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The tracked values of one execution, by row. */
struct snapshot {
	struct host_tensor *at;
	double *rounding; /* the most that rounding the parts of a partial sum can add to its noise */
	uint32_t count;
};

struct checking {
	const struct plan *plan;
	struct plan *one;
	const struct params *params;
	const struct safetensors *inputs;
	struct check *check;
	struct session high;   /* one rank, high precision: feeds the fp8 products */
	struct snapshot wide, high_one, high_all, plan_one, plan_all;
};

/* --- rows: products, then outputs --- */

static bool is_fp8_product(const struct graph *g, struct node_id n)
{
	enum op op = graph_op(g, n);
	return op == OP_POST_SCALE || (op == OP_SCALED_MATMUL && graph_node(g, n)->count == 4);
}

/* The product whose accumulator a post_scale scales: it carries the name of the source's matmul. */
static struct node_id product_behind(const struct graph *g, struct node_id n)
{
	struct node_id x = n;
	while (graph_op(g, x) != OP_SCALED_MATMUL && graph_node(g, x)->count > 0)
		x = graph_operand(g, x, 0);
	return graph_op(g, x) == OP_SCALED_MATMUL ? x : n;
}

static const char *recipe_of(const struct plan *p, struct node_id n, struct node_id product)
{
	for (uint32_t i = 0; i < p->matmuls.count; i++)
		if (node_same(p->matmuls.items[i].value, n) || node_same(p->matmuls.items[i].value, product))
			return p->matmuls.items[i].recipe;
	return is_fp8_product(p->graph, n) ? "fp8" : "none";
}

static struct check_row row_of(const struct plan *p, struct node_id n)
{
	struct node_id product = graph_op(p->graph, n) == OP_POST_SCALE ? product_behind(p->graph, n) : n;
	const struct prov *prov = graph_prov(p->graph, product);
	return (struct check_row){
		.value = n, .name = prov->node != NULL ? prov->node : op_text(graph_op(p->graph, n)),
		.module = prov->module != NULL ? prov->module : "", .recipe = recipe_of(p, n, product),
		.a = NAN, .a_unsharded = NAN, .b = NAN, .b_rows = NAN, .c = NAN,
	};
}

static enum fs_status list_rows(const struct plan *p, struct check *c, struct diag *d)
{
	const struct graph *g = p->graph;
	c->rows = calloc((size_t)g->nodes.count + g->outputs.count + 1, sizeof(*c->rows));
	if (c->rows == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(g, n) == OP_MATMUL || is_fp8_product(g, n))
			c->rows[c->count++] = row_of(p, n);
	}
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		if (g->outputs.items[i].name == NULL)
			continue;
		struct check_row r = row_of(p, g->outputs.items[i].value);
		r.name = g->outputs.items[i].name;
		r.module = NULL;
		r.recipe = "";
		c->rows[c->count++] = r;
	}
	return FS_OK;
}

/* --- executions --- */

static void snapshot_release(struct snapshot *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		host_tensor_release(&s->at[i]);
	free(s->at);
	free(s->rounding);
	*s = (struct snapshot){ 0 };
}

/* Partial values are added in f32. */
static enum dtype gathered_dtype(const struct session *s, struct node_id n)
{
	enum dtype t = exec_dtype(s->execs[0], n);
	bool partial = placement_has_partial(&exec_type(s->execs[0], n)->place);
	return partial && (t == DT_BF16 || t == DT_F16) ? DT_F32 : t;
}

/* Half an ulp, at most, relative. */
static double unit_of(enum dtype t)
{
	return t == DT_BF16 ? 0x1p-8 : t == DT_F16 ? 0x1p-11 : 0;
}

/* Of a value that holds partial sums: the sum over ranks of (unit * part)^2. */
static enum fs_status rounding_of(const struct session *s, struct node_id n, double *out, struct diag *d)
{
	double unit = unit_of(exec_dtype(s->execs[0], n));
	*out = 0;
	if (unit == 0 || !placement_has_partial(&exec_type(s->execs[0], n)->place))
		return FS_OK;
	for (int r = 0; r < s->ranks; r++) {
		const struct view *v = exec_view(s->execs[r], n);
		int64_t count = view_count(v);
		double *part = malloc((size_t)count * sizeof(*part) + 1);
		enum fs_status status = part == NULL ? diag_set(d, FS_NOMEM, "out of memory")
						     : exec_load(s->execs[r], n, DT_F64, part, d);
		for (int64_t i = 0; i < count && status == FS_OK; i++)
			*out += unit * part[i] * unit * part[i];
		free(part);
		if (status != FS_OK)
			return status;
	}
	return FS_OK;
}

static enum fs_status snapshot_take(struct snapshot *s, const struct session *from, const struct check *c,
				    struct diag *d)
{
	s->at = calloc((size_t)c->count + 1, sizeof(*s->at));
	s->rounding = calloc((size_t)c->count + 1, sizeof(*s->rounding));
	if (s->at == NULL || s->rounding == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	for (; s->count < c->count; s->count++) {
		struct node_id n = c->rows[s->count].value;
		TRY(rounding_of(from, n, &s->rounding[s->count], d));
		TRY(value_gather(from->execs, from->ranks, n, gathered_dtype(from, n), &s->at[s->count], d));
	}
	return FS_OK;
}

static enum fs_status execute(struct checking *k, bool one, const struct exec_options *o, struct session *s,
			      struct diag *d)
{
	struct session_options options = { .params = k->params, .inputs = k->inputs, .exec = *o };
	options.exec.keep = true;
	if (one)
		options.exec.blocks = context_mesh(k->plan->context);
	TRY(session_create(s, one ? k->one : k->plan, &options, d));
	return session_steps(s, 1, NULL, d);
}

static enum fs_status execute_for(struct checking *k, bool one, enum exec_numerics numerics, struct snapshot *out,
				  struct diag *d)
{
	struct session s = { 0 };
	struct exec_options o = { .numerics = numerics };
	enum fs_status status = execute(k, one, &o, &s, d);
	if (status == FS_OK)
		status = snapshot_take(out, &s, k->check, d);
	session_destroy(&s);
	return status;
}

/* --- B: fed with high-precision operands --- */

static struct check_row *find_row(struct check *c, struct node_id n)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->rows[i].module != NULL && node_same(c->rows[i].value, n))
			return &c->rows[i];
	return NULL;
}

static enum fs_status compare_fed(struct check_row *row, struct exec *e, struct exec *high, struct diag *d)
{
	struct host_tensor x = { 0 }, reference = { 0 };
	struct sqnr s;
	enum fs_status status = value_gather(&e, 1, row->value, DT_F64, &x, d);
	if (status == FS_OK)
		status = value_gather(&high, 1, row->value, DT_F64, &reference, d);
	if (status == FS_OK)
		status = sqnr_of(&x, &reference, &s, d);
	if (status == FS_OK) {
		row->b = s.all;
		row->b_rows = s.rows;
	}
	host_tensor_release(&x);
	host_tensor_release(&reference);
	return status;
}

/* Measures a product, then puts the high-precision value in its place. */
static enum fs_status feed(void *context, struct exec *e, struct node_id n, struct diag *d)
{
	struct checking *k = context;
	struct exec *high = k->high.execs[0];
	struct host_tensor value = { 0 };
	if (!is_fp8_product(k->one->graph, n))
		return FS_OK;
	TRY(compare_fed(find_row(k->check, n), e, high, d));
	enum fs_status status = value_gather(&high, 1, n, exec_dtype(e, n), &value, d);
	if (status == FS_OK)
		status = exec_store(e, n, value.dtype, value.data, d);
	host_tensor_release(&value);
	return status;
}

static enum fs_status execute_fed(struct checking *k, struct diag *d)
{
	struct session s = { 0 };
	struct exec_options o = { .after = feed, .context = k };
	enum fs_status status = execute(k, true, &o, &s, d);
	session_destroy(&s);
	return status;
}

/* --- what the plan is --- */

/* Of the coarsest 16-bit float; 0: there is none. */
static double coarsest_unit(const struct graph *g)
{
	double unit = 0;
	for (uint32_t i = 1; i < g->nodes.count; i++)
		unit = fmax(unit, unit_of((enum dtype)graph_type(g, (struct node_id){ i })->dtype));
	return unit;
}

static bool has_local_scales(const struct graph *g)
{
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (graph_op(g, (struct node_id){ i }) == OP_AMAX && graph_int(g, (struct node_id){ i }, ATTR_SCOPE, 0) != 0)
			return true;
	return false;
}

/* --- judging --- */

static double least(double a, double b)
{
	return isnan(a) || b < a ? b : a;
}

/* In plans with 16-bit floats, integers (indices) may differ where two floats are close. */
static bool judges_a(const struct checking *k, const struct host_tensor *x)
{
	return !k->check->wide || dtype_class(x->dtype) == DC_FLOAT;
}

/* What 16-bit floats may cost: see plan_check.h. */
static double threshold_16_bit(const struct checking *k, uint32_t i, const struct sqnr *unsharded)
{
	double noise = unsharded->noise * pow(10, CHECK_A_LOSS / 10), ulp = 2 * k->check->unit;
	if (k->check->rows[i].module != NULL)
		noise += ulp * ulp * unsharded->signal + k->high_all.rounding[i];
	return fmin(CHECK_A_F32, sqnr_decibel(unsharded->signal, noise));
}

static enum fs_status judge_a(struct checking *k, uint32_t i, struct diag *d)
{
	struct check_row *r = &k->check->rows[i];
	const struct snapshot *reference = k->check->wide ? &k->wide : &k->high_one;
	struct sqnr s;
	double threshold = CHECK_A_F32;
	TRY(sqnr_of(&k->high_all.at[i], &reference->at[i], &s, d));
	r->a = s.all;
	if (k->check->wide) {
		TRY(sqnr_of(&k->high_one.at[i], &reference->at[i], &s, d));
		r->a_unsharded = s.all;
		threshold = threshold_16_bit(k, i, &s);
	}
	if (!judges_a(k, &reference->at[i]))
		return FS_OK;
	r->failed_a = !(r->a >= threshold);
	r->margin = least(r->margin, r->a - threshold);
	return FS_OK;
}

static void judge_b(struct check_row *r)
{
	if (isnan(r->b))
		return;
	r->failed_b = !(r->b >= CHECK_B);
	r->margin = least(r->margin, r->b - CHECK_B);
}

static enum fs_status judge_c(struct checking *k, uint32_t i, struct diag *d)
{
	struct check_row *r = &k->check->rows[i];
	struct sqnr s;
	TRY(sqnr_of(&k->plan_all.at[i], &k->plan_one.at[i], &s, d));
	r->c = s.all;
	r->c_equal = host_tensor_equal(&k->plan_all.at[i], &k->plan_one.at[i]);
	r->failed_c = k->check->bits && !r->c_equal;
	return FS_OK;
}

static int worst_first(const void *a, const void *b)
{
	const struct check_row *x = a, *y = b;
	bool x_failed = x->failed_a || x->failed_b || x->failed_c, y_failed = y->failed_a || y->failed_b || y->failed_c;
	if (x_failed != y_failed)
		return x_failed ? -1 : 1;
	if (x->margin != y->margin)
		return x->margin < y->margin ? -1 : 1;
	return (x->value.i > y->value.i) - (x->value.i < y->value.i);
}

static enum fs_status judge(struct checking *k, struct diag *d)
{
	struct check *c = k->check;
	for (uint32_t i = 0; i < c->count; i++) {
		struct check_row *r = &c->rows[i];
		r->margin = INFINITY;
		TRY(judge_a(k, i, d));
		judge_b(r);
		TRY(judge_c(k, i, d));
		c->failed += r->failed_a || r->failed_b || r->failed_c;
	}
	qsort(c->rows, c->count, sizeof(*c->rows), worst_first);
	return FS_OK;
}

static enum fs_status run_all(struct checking *k, struct diag *d)
{
	struct exec_options high = { .numerics = EXEC_HIGH };
	TRY(plan_on_one_rank(k->plan, &k->one, d));
	TRY(list_rows(k->plan, k->check, d));
	if (k->check->wide)
		TRY(execute_for(k, true, EXEC_WIDE, &k->wide, d));
	TRY(execute(k, true, &high, &k->high, d));
	TRY(snapshot_take(&k->high_one, &k->high, k->check, d));
	TRY(execute_fed(k, d));
	session_destroy(&k->high);
	TRY(execute_for(k, false, EXEC_HIGH, &k->high_all, d));
	TRY(execute_for(k, true, EXEC_PLAN, &k->plan_one, d));
	TRY(execute_for(k, false, EXEC_PLAN, &k->plan_all, d));
	return judge(k, d);
}

enum fs_status check_plan(const struct plan *p, const struct params *params, const struct safetensors *inputs,
			  struct check *out, struct diag *d)
{
	struct checking k = { .plan = p, .params = params, .inputs = inputs, .check = out };
	double unit = coarsest_unit(p->graph);
	*out = (struct check){ .wide = unit > 0, .unit = unit, .bits = p->exact && !has_local_scales(p->graph) };
	enum fs_status status = run_all(&k, d);
	struct snapshot *all[] = { &k.wide, &k.high_one, &k.high_all, &k.plan_one, &k.plan_all };
	for (int i = 0; i < 5; i++)
		snapshot_release(all[i]);
	session_destroy(&k.high);
	plan_destroy(k.one);
	if (status != FS_OK)
		check_release(out);
	return status;
}

void check_release(struct check *c)
{
	free(c->rows);
	*c = (struct check){ 0 };
}
