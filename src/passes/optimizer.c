/*
 * optimizer: gradients become the next values of their parameters.
 *
 *     %w = param "w"                       %w = param "w"
 *     %d = …                          =>   %m = param "optimizer.momentum_buffer.w" {buffer=1 zero=1 beside="w"}
 *     output grad_param "w" "grad.w" = %d  %m1 = add (mul %m, 0.9), %d
 *                                          %w1 = add %w, (mul %m1, (neg %lr))
 *                                          output buffer "w" "w" = %w1
 *                                          output buffer "optimizer.momentum_buffer.w" "…" = %m1
 *                                          output "grad_norm" = sqrt of the sum of all squares of gradients
 *
 * Formulas and the order of their ops are torch.optim's (adamw.py, sgd.py: _single_tensor_*, neither capturable
 * nor maximize), so that results agree to rounding; numbers that are Python's there are f64 here.  All else is
 * f32 (f64 of f64 parameters): of a parameter in bf16 or f16 the plan keeps an f32 master, which the model casts.
 * The learning rate is the input "lr".  Gradients leave the outputs where they are not asked for.
 * place puts states beside their parameters.
 *
 * stage global   needs gradients   numerics exact (of what was there)
 */
#include "passes.h"
#include "pattern.h"
#include "vjp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 4
#define MAX_STATES 2

/* One parameter's update; all values are of its wide type, and `build.wide` is that type. */
struct update {
	struct vjp build;                   /* what emits; its other fields are not used */
	const double *option;               /* of the optimizer's row, in its order */
	struct node_id value, grad, lr, step; /* lr: f64; step: f64, from 1, where the row counts */
	struct node_id state[MAX_STATES];   /* of the row */
};

/* --- what torch.optim does --- */

/* A number that is Python's: f64, rounded to the wide type. */
static struct node_id number(struct update *u, struct node_id n)
{
	return build_cast(&u->build, n, u->build.wide);
}

static struct node_id f64_2(struct update *u, enum op op, double a, struct node_id b)
{
	return build_2(&u->build, op, build_fill(&u->build, a, DT_F64, 0, NULL), b);
}

/* 1 - beta ^ step, f64 */
static struct node_id bias_correction(struct update *u, double beta)
{
	return f64_2(u, OP_SUB, 1, f64_2(u, OP_POW, beta, u->step));
}

/* torch.lerp(a, b, weight) */
static struct node_id lerp(struct update *u, struct node_id a, struct node_id b, double weight)
{
	struct vjp *v = &u->build;
	struct node_id way = build_2(v, OP_SUB, b, a);
	if (weight < 0.5)
		return build_2(v, OP_ADD, a, build_with(v, OP_MUL, way, weight));
	return build_2(v, OP_SUB, b, build_with(v, OP_MUL, way, 1 - weight));
}

static void adamw(struct update *u)
{
	enum { BETA1, BETA2, EPS, WEIGHT_DECAY, MEAN = 0, MEAN_SQUARE };
	struct vjp *v = &u->build;
	const double *x = u->option;
	if (x[WEIGHT_DECAY] != 0)
		u->value = build_2(v, OP_MUL, u->value, number(u, f64_2(u, OP_SUB, 1, f64_2(u, OP_MUL, x[WEIGHT_DECAY], u->lr))));
	u->state[MEAN] = lerp(u, u->state[MEAN], u->grad, 1 - x[BETA1]);
	struct node_id square = build_2(v, OP_MUL, build_with(v, OP_MUL, u->grad, 1 - x[BETA2]), u->grad);
	u->state[MEAN_SQUARE] = build_2(v, OP_ADD, build_with(v, OP_MUL, u->state[MEAN_SQUARE], x[BETA2]), square);
	struct node_id size = build_1(v, OP_NEG, build_2(v, OP_DIV, u->lr, bias_correction(u, x[BETA1])));
	struct node_id root = number(u, build_1(v, OP_SQRT, bias_correction(u, x[BETA2])));
	struct node_id under = build_with(v, OP_ADD, build_2(v, OP_DIV, build_1(v, OP_SQRT, u->state[MEAN_SQUARE]), root), x[EPS]);
	struct node_id over = build_2(v, OP_MUL, number(u, size), u->state[MEAN]);
	u->value = build_2(v, OP_ADD, u->value, build_2(v, OP_DIV, over, under));
}

static void sgd(struct update *u)
{
	enum { MOMENTUM, WEIGHT_DECAY };
	struct vjp *v = &u->build;
	const double *x = u->option;
	struct node_id d = u->grad;
	if (x[WEIGHT_DECAY] != 0)
		d = build_2(v, OP_ADD, d, build_with(v, OP_MUL, u->value, x[WEIGHT_DECAY]));
	if (x[MOMENTUM] != 0)
		d = u->state[0] = build_2(v, OP_ADD, build_with(v, OP_MUL, u->state[0], x[MOMENTUM]), d);
	u->value = build_2(v, OP_ADD, u->value, build_2(v, OP_MUL, number(u, build_1(v, OP_NEG, u->lr)), d));
}

static const struct optimizer {
	const char *name;
	void (*update)(struct update *u); /* value and states to their next ones */
	bool counts;                      /* wants the number of the step */
	struct { const char *name; double otherwise, below; } option[MAX_OPTIONS]; /* 0 <= x < below */
	struct { const char *name; int option; } state[MAX_STATES]; /* there where that option is not 0; -1: always */
} optimizers[] = {
	{ "adamw", adamw, true,
	  { { "beta1", 0.9, 1 }, { "beta2", 0.999, 1 }, { "eps", 1e-8, INFINITY }, { "weight_decay", 0.01, INFINITY } },
	  { { "exp_avg", -1 }, { "exp_avg_sq", -1 } } },
	{ "sgd", sgd, false, { { "momentum", 0, INFINITY }, { "weight_decay", 0, INFINITY } }, { { "momentum_buffer", 0 } } },
};
#define OPTIMIZERS ((int)(sizeof(optimizers) / sizeof(optimizers[0])))

/* --- "adamw:beta1=0.9,eps=1e-8" --- */

struct chosen {
	const struct optimizer *row;
	double option[MAX_OPTIONS];
	double clip; /* 0: none */
};

static const char *row_names(struct context *c)
{
	const char *names = optimizers[0].name;
	for (int i = 1; i < OPTIMIZERS; i++)
		names = arena_printf(context_arena(c), "%s%s%s", names, i + 1 < OPTIMIZERS ? ", " : " or ", optimizers[i].name);
	return names;
}

static int find_option(const struct optimizer *row, const char *name, size_t size)
{
	for (int i = 0; i < MAX_OPTIONS && row->option[i].name != NULL; i++)
		if (strlen(row->option[i].name) == size && strncmp(row->option[i].name, name, size) == 0)
			return i;
	return -1;
}

static enum fs_status no_option(struct context *c, const struct optimizer *row, const char *text, size_t size, struct diag *d)
{
	const char *names = row->option[0].name;
	for (int i = 1; i < MAX_OPTIONS && row->option[i].name != NULL; i++)
		names = arena_printf(context_arena(c), "%s, %s", names, row->option[i].name);
	return diag_set(d, FS_INVALID, "--optimizer %s: '%.*s': the options of %s are %s, as in %s:%s=0.9", row->name,
			(int)(size < 100 ? size : 100), text, row->name, names, row->name, row->option[0].name);
}

/* NAME=NUMBER of `size` characters */
static enum fs_status parse_one(struct context *c, struct chosen *o, const char *text, size_t size, struct diag *d)
{
	size_t name = strcspn(text, "=,");
	int i = find_option(o->row, text, name);
	char *end;
	if (i < 0 || name == size)
		return no_option(c, o->row, text, size, d);
	o->option[i] = strtod(text + name + 1, &end);
	if (end != text + name + 1 && end == text + size && o->option[i] >= 0 && o->option[i] < o->row->option[i].below)
		return FS_OK;
	return diag_set(d, FS_INVALID, "--optimizer %s: '%.*s': a number of 0 or more%s wanted", o->row->name,
			(int)(size < 100 ? size : 100), text, o->row->option[i].below == 1 ? ", below 1," : "");
}

static enum fs_status parse_optimizer(struct context *c, const char *text, struct chosen *o, struct diag *d)
{
	size_t size = strcspn(text, ":");
	for (int i = 0; i < OPTIMIZERS; i++)
		if (strlen(optimizers[i].name) == size && strncmp(optimizers[i].name, text, size) == 0)
			o->row = &optimizers[i];
	if (o->row == NULL)
		return diag_set(d, FS_INVALID, "--optimizer: '%.*s' is none; there is %s", (int)(size < 100 ? size : 100), text, row_names(c));
	for (int i = 0; i < MAX_OPTIONS; i++)
		o->option[i] = o->row->option[i].otherwise;
	for (const char *s = text + size; *s != '\0'; s += size) {
		size = strcspn(++s, ",");
		TRY(parse_one(c, o, s, size, d));
	}
	return FS_OK;
}

static enum fs_status parse_clip(const char *text, struct chosen *o, struct diag *d)
{
	char *end;
	if (text == NULL)
		return FS_OK;
	o->clip = strtod(text, &end);
	if (end != text && *end == '\0' && o->clip > 0 && o->clip < INFINITY)
		return FS_OK;
	return diag_set(d, FS_INVALID, "--clip-norm '%.100s': a number above 0 wanted", text);
}

/* --- the graph --- */

struct trained {
	struct node_id param, grad;  /* param: the master */
};

struct optimize {
	struct graph *g;
	struct chosen chosen;
	struct vjp build; /* for what belongs to no parameter */
	VEC(struct trained) all;
	struct node_id lr, step, norm, clip; /* f64, f64 (where counted), f32, f32 (where clipped) */
};

static bool is_narrow(const struct graph *g, struct node_id n)
{
	enum dtype t = (enum dtype)graph_type(g, n)->dtype;
	return t == DT_BF16 || t == DT_F16;
}

/* wanted[id]: a parameter that has a gradient. */
static enum fs_status find_trained(const struct graph *g, bool *trained, struct diag *d)
{
	bool any = false;
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		const struct output *o = &g->outputs.items[i];
		if (o->kind != OUT_GRAD_PARAM)
			continue;
		struct node_id n = graph_param(g, o->target);
		if (!node_is(n))
			return diag_set(d, FS_INVALID, "--optimizer: there is no parameter '%s' for the gradient '%s'", o->target, o->name);
		if (trained[n.i])
			return diag_set(d, FS_INVALID, "--optimizer: parameter '%s' has two gradients", graph_string(g, n, ATTR_NAME));
		trained[n.i] = any = true;
	}
	return any ? FS_OK : diag_set(d, FS_INVALID, "--optimizer: the graph gives no gradients of parameters: add --train --loss LOSS, or "
				      "take torch's joint export");
}

/* The parameter in f32, cast to what it was for all that use it. */
static struct node_id emit_master(struct rebuild *r, struct node_id n)
{
	struct type t = *graph_type(r->from, n);
	struct attrs a, cast = { 0 };
	attrs_int(&cast, ATTR_DTYPE, t.dtype);
	t.dtype = DT_F32;
	graph_attrs(r->from, n, &a);
	for (int i = 0; i < a.count; i++)
		if (a.at[i].key == ATTR_DTYPE)
			a.at[i].u.i = DT_F32;
	struct node_id master = graph_emit_typed(r->to, OP_PARAM, NULL, 0, &a, &t, graph_node(r->from, n)->prov);
	return graph_emit(r->to, OP_CAST, &master, 1, &cast, rebuild_prov(r, n));
}

static void copy_with_masters(struct graph **g, const bool *trained)
{
	struct rebuild r;
	rebuild_init(&r, *g, STAGE_GLOBAL, "optimizer");
	for (uint32_t i = 1; i < (*g)->nodes.count; i++) {
		struct node_id n = { i };
		if (trained[i] && is_narrow(*g, n))
			r.map[i] = emit_master(&r, n);
		else if (r.reached[i] || trained[i])
			r.map[i] = rebuild_copy(&r, n);
	}
	rebuild_finish(&r, g);
}

static void take_gradients(struct optimize *p, bool keep)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < p->g->outputs.count; i++) {
		struct output o = p->g->outputs.items[i];
		if (o.kind == OUT_GRAD_PARAM)
			*vec_push(&p->all) = (struct trained){ graph_param(p->g, o.target), o.value };
		if (o.kind != OUT_GRAD_PARAM || keep)
			p->g->outputs.items[kept++] = o;
	}
	p->g->outputs.count = kept;
}

static enum fs_status emit_lr(struct optimize *p, struct diag *d)
{
	struct attrs a = { 0 };
	for (uint32_t i = 1; i < p->g->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(p->g, n) == OP_INPUT && strcmp(graph_string(p->g, n, ATTR_NAME), "lr") == 0)
			return diag_set(d, FS_INVALID, "--optimizer: the graph has an input 'lr', and the learning rate is to be the input of that name: "
					"rename the graph's");
	}
	attrs_string(&a, ATTR_NAME, context_intern(p->g->context, "lr"));
	attrs_int(&a, ATTR_DTYPE, DT_F32);
	attrs_ints(&a, ATTR_SHAPE, NULL, 0);
	p->lr = build_cast(&p->build, build_emit(&p->build, OP_INPUT, NULL, 0, &a), DT_F64);
	return FS_OK;
}

/* A buffer of the optimizer, zero at first. */
static struct node_id emit_state(struct vjp *v, const char *name, const char *beside, const struct type *t)
{
	struct attrs a = { 0 };
	attrs_string(&a, ATTR_NAME, name);
	attrs_int(&a, ATTR_DTYPE, t->dtype);
	attrs_ints(&a, ATTR_SHAPE, t->dim, t->rank);
	attrs_int(&a, ATTR_BUFFER, 1);
	attrs_int(&a, ATTR_ZERO, 1);
	if (beside != NULL)
		attrs_string(&a, ATTR_BESIDE, beside);
	return build_emit(v, OP_PARAM, NULL, 0, &a);
}

static const char *joined(struct graph *g, const char *a, const char *b, const char *c)
{
	return context_intern(g->context, arena_printf(context_arena(g->context), "%s%s%s", a, b, c));
}

static void output_next(struct optimize *p, const char *name, struct node_id next)
{
	graph_output(p->g, &(struct output){ next, name, name, OUT_BUFFER });
}

static void count_steps(struct optimize *p)
{
	struct type t = type_make(DT_I64, 0, NULL);
	const char *name = context_intern(p->g->context, "optimizer.step");
	struct node_id one = build_fill(&p->build, 1, DT_I64, 0, NULL);
	struct node_id next = build_2(&p->build, OP_ADD, emit_state(&p->build, name, NULL, &t), one);
	p->step = build_cast(&p->build, next, DT_F64);
	output_next(p, name, next);
}

/* --- the norm of all gradients --- */

static struct node_id sum_of_squares(struct vjp *v, struct node_id n)
{
	static const int64_t all[MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 }, one[1] = { 1 };
	n = build_cast(v, n, DT_F32);
	n = build_reduce(v, OP_SUM, build_2(v, OP_MUL, n, n), all, graph_type(v->g, n)->rank);
	return build_reshape(v, n, 1, one);
}

/* One of its dims has something for each rank of every axis: its parts' sums are partial, wherever it is. */
static bool is_divisible(const struct graph *g, struct node_id n)
{
	const struct mesh *m = context_mesh(g->context);
	const struct type *t = graph_type(g, n);
	for (int k = 0; k < t->rank; k++)
		if (t->dim[k] >= mesh_size(m))
			return true;
	return false;
}

/*
 * Squares are summed where they lie, then put side by side, so that one reduction over ranks serves them all; but
 * those of a few elements, which every rank has, are added after it.
 */
static struct node_id norm_part(struct optimize *p, bool divisible)
{
	static const int64_t first[1] = { 0 };
	node_list parts = { 0 };
	struct attrs a = { 0 };
	struct node_id sum = NODE_NONE;
	attrs_int(&a, ATTR_DIM, 0);
	for (uint32_t i = 0; i < p->all.count; i++)
		if (is_divisible(p->g, p->all.items[i].grad) == divisible)
			*vec_push(&parts) = sum_of_squares(&p->build, p->all.items[i].grad);
	for (uint32_t i = 0; i < parts.count; i += MAX_OPERANDS) {
		uint32_t count = parts.count - i < MAX_OPERANDS ? parts.count - i : MAX_OPERANDS;
		struct node_id part = build_emit(&p->build, OP_CAT, parts.items + i, (int)count, &a);
		part = build_reshape(&p->build, build_reduce(&p->build, OP_SUM, part, first, 1), 0, NULL);
		sum = node_is(sum) ? build_2(&p->build, OP_ADD, sum, part) : part;
	}
	vec_release(&parts);
	return sum;
}

/* The L2 norm of all gradients, and what clip_grad_norm_ multiplies them with. */
static void emit_norm(struct optimize *p)
{
	struct vjp *v = &p->build;
	struct node_id many = norm_part(p, true), few = norm_part(p, false);
	struct node_id sum = !node_is(many) ? few : !node_is(few) ? many : build_2(v, OP_ADD, many, few);
	p->norm = build_1(v, OP_SQRT, sum);
	graph_output(p->g, &(struct output){ p->norm, "grad_norm", NULL, OUT_USER });
	if (p->chosen.clip > 0)
		p->clip = build_2(v, OP_MINIMUM, build_2(v, OP_DIV, build_scalar(v, p->chosen.clip), build_with(v, OP_ADD, p->norm, 1e-6)),
				  build_scalar(v, 1));
}

/* --- parameters --- */

static struct prov_id update_prov(const struct graph *g, struct node_id param)
{
	struct prov prov = *graph_prov(g, param);
	prov.node = graph_string(g, param, ATTR_NAME);
	prov.pass = "optimizer";
	prov.rule = NULL;
	return context_prov(g->context, &prov);
}

static bool has_state(const struct chosen *o, int k)
{
	return o->row->state[k].name != NULL && (o->row->state[k].option < 0 || o->option[o->row->state[k].option] != 0);
}

static void update(struct optimize *p, const struct trained *t)
{
	struct graph *g = p->g;
	struct type type = *graph_type(g, t->param);
	const char *name = graph_string(g, t->param, ATTR_NAME), *names[MAX_STATES] = { NULL };
	struct update u = { .build = { .g = g, .prov = update_prov(g, t->param), .wide = (enum dtype)type.dtype },
			    .option = p->chosen.option, .value = t->param, .lr = p->lr, .step = p->step };
	u.grad = build_cast(&u.build, t->grad, u.build.wide);
	if (node_is(p->clip))
		u.grad = build_2(&u.build, OP_MUL, u.grad, build_cast(&u.build, p->clip, u.build.wide));
	for (int k = 0; k < MAX_STATES; k++)
		if (has_state(&p->chosen, k)) {
			names[k] = joined(g, "optimizer.", p->chosen.row->state[k].name, joined(g, ".", name, ""));
			u.state[k] = emit_state(&u.build, names[k], name, &type);
		}
	p->chosen.row->update(&u);
	output_next(p, name, u.value);
	for (int k = 0; k < MAX_STATES; k++)
		if (names[k] != NULL)
			output_next(p, names[k], u.state[k]);
}

static enum fs_status optimize(struct optimize *p, bool keep, struct diag *d)
{
	struct prov here = { .node = "optimizer", .pass = "optimizer" };
	p->build = (struct vjp){ .g = p->g, .prov = context_prov(p->g->context, &here), .wide = DT_F32 };
	take_gradients(p, keep);
	TRY(emit_lr(p, d));
	if (p->chosen.row->counts)
		count_steps(p);
	emit_norm(p);
	for (uint32_t i = 0; i < p->all.count; i++)
		update(p, &p->all.items[i]);
	return FS_OK;
}

enum fs_status pass_optimizer(struct graph **g, struct compile *c, struct diag *d)
{
	const struct training *t = &c->train;
	struct optimize p = { 0 };
	if (t->optimizer == NULL && (t->clip_norm != NULL || t->keep_gradients))
		return diag_set(d, FS_INVALID, "%s needs --optimizer", t->clip_norm != NULL ? "--clip-norm" : "--keep-gradients");
	if (t->optimizer == NULL)
		return FS_OK;
	TRY(parse_optimizer((*g)->context, t->optimizer, &p.chosen, d));
	TRY(parse_clip(t->clip_norm, &p.chosen, d));
	bool *trained = calloc((*g)->nodes.count, sizeof(*trained));
	if (trained == NULL)
		BUG("out of memory");
	enum fs_status status = find_trained(*g, trained, d);
	if (status == FS_OK) {
		copy_with_masters(g, trained);
		p.g = *g;
		status = optimize(&p, t->keep_gradients, d);
	}
	vec_release(&p.all);
	free(trained);
	return status;
}
