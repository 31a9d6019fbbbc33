/*
 * differentiate: a forward graph and a loss become a graph with gradients.
 *
 *     output "y" = %y          =>   output loss "loss" = %loss
 *                                   output grad_param "fc1.weight" "grad.fc1.weight" = %d
 *
 * One walk from the loss back over the nodes; each op's function (vjp.h) gives its operands their parts,
 * which add up in the order of the walk.  A node whose value no wanted gradient hangs on is passed by.
 * Of a graph that has gradients (torch's joint exports) those are kept where no loss is named; where one
 * is, the graph is cut to its forward first.
 *
 * stage global   numerics exact
 */
#include "passes.h"
#include "pattern.h"
#include "recompute.h"

#include <stdlib.h>
#include <string.h>

struct differentiate {
	struct graph *g;
	struct compile *c;
	struct vjp vjp;
	uint32_t forward; /* nodes of the forward and the loss */
	bool *wanted;
	struct recompute recompute;
	node_list seeds;  /* outputs that gradients start from */
};

/* --- names --- */

static struct node_id source_named(const struct graph *g, enum op op, const char *name)
{
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(g, n) == op && strcmp(graph_string(g, n, ATTR_NAME), name) == 0)
			return n;
	}
	return NODE_NONE;
}

/* What there is, nearest to `wanted` first. */
static const char *list_names(const struct graph *g, const char *(*name)(const struct graph *g, uint32_t i), uint32_t count,
			      const char *wanted)
{
	struct name_list l = { 0 };
	char text[512];
	for (uint32_t i = 0; i < count; i++)
		if (name(g, i) != NULL)
			*vec_push(&l.names) = name(g, i);
	names_nearest(&l, wanted, text, sizeof(text));
	vec_release(&l.names);
	return context_intern(g->context, text[0] ? text : "there are none");
}

static const char *output_name(const struct graph *g, uint32_t i)
{
	enum output_kind kind = g->outputs.items[i].kind;
	return kind == OUT_USER || kind == OUT_LOSS ? g->outputs.items[i].name : NULL;
}

static const char *input_name(const struct graph *g, uint32_t i)
{
	return graph_op(g, (struct node_id){ i }) == OP_INPUT ? graph_string(g, (struct node_id){ i }, ATTR_NAME) : NULL;
}

/* The output of this name; "": the only one. */
static enum fs_status find_output(struct differentiate *p, const char *option, const char *name, struct node_id *out, struct diag *d)
{
	const struct graph *g = p->g;
	int found = 0;
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		if (output_name(g, i) == NULL || (name[0] != '\0' && strcmp(g->outputs.items[i].name, name) != 0))
			continue;
		*out = g->outputs.items[i].value;
		found++;
	}
	if (found == 1)
		return FS_OK;
	const char *names = list_names(g, output_name, g->outputs.count, name);
	if (name[0] == '\0')
		return diag_set(d, FS_INVALID, "%s: the graph has %d outputs; name one, as in %s:OUTPUT: %s", option, found, option, names);
	return diag_set(d, FS_INVALID, "%s: no output is named '%s'; nearest: %s", option, name, names);
}

/* --- the loss --- */

/* An input of this name and type, made where the graph has none. */
static enum fs_status find_input(struct differentiate *p, const char *option, const char *name, const struct type *t,
				 struct node_id *out, struct diag *d)
{
	struct attrs a = { 0 };
	struct node_id n = source_named(p->g, OP_INPUT, name);
	char wanted[200], is[200];
	if (node_is(n)) {
		struct type has = *graph_type(p->g, n);
		has.place = t->place;
		type_text(t, context_mesh(p->g->context), wanted, sizeof(wanted));
		type_text(&has, context_mesh(p->g->context), is, sizeof(is));
		*out = n;
		return strcmp(wanted, is) == 0 ? FS_OK : diag_set(d, FS_INVALID, "%s: input '%s' is %s, and has to be %s", option, name, is, wanted);
	}
	attrs_string(&a, ATTR_NAME, context_intern(p->g->context, name));
	attrs_int(&a, ATTR_DTYPE, t->dtype);
	attrs_ints(&a, ATTR_SHAPE, t->dim, t->rank);
	*out = build_emit(&p->vjp, OP_INPUT, NULL, 0, &a);
	return FS_OK;
}

static struct node_id over_all(struct vjp *v, enum op op, struct node_id n)
{
	static const int64_t all[MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	return build_reshape(v, build_reduce(v, op, n, all, graph_type(v->g, n)->rank), 0, NULL);
}

/* Mean over the places whose label is not -100 of -log softmax(y) at the label; classes are y's last dim. */
static enum fs_status cross_entropy(struct differentiate *p, const char *labels, struct node_id y, struct node_id *out, struct diag *d)
{
	struct vjp *v = &p->vjp;
	struct type t = vjp_type(v, y), of_labels = type_make(DT_I64, t.rank - 1, t.dim);
	struct attrs dim = { 0 };
	int64_t one[MAX_RANK];
	struct node_id label;
	if (t.rank == 0)
		return diag_set(d, FS_INVALID, "--loss cross_entropy: the output has no dim of classes");
	TRY(find_input(p, "--loss cross_entropy", labels, &of_labels, &label, d));
	memcpy(one, t.dim, sizeof(one));
	one[t.rank - 1] = 1;
	attrs_int(&dim, ATTR_DIM, t.rank - 1);
	struct node_id wide = build_cast(v, y, v->wide);
	struct node_id logp = build_emit(v, OP_LOG_SOFTMAX, &wide, 1, &dim);
	struct node_id counts = build_2(v, OP_NE, label, build_fill(v, -100, DT_I64, 0, NULL));
	struct node_id safe = build_where(v, counts, label, build_fill(v, 0, DT_I64, 0, NULL));
	struct node_id picked = build_emit(v, OP_GATHER, (struct node_id[]){ logp, build_reshape(v, safe, t.rank, one) }, 2, &dim);
	picked = build_1(v, OP_NEG, build_reshape(v, picked, t.rank - 1, t.dim));
	struct node_id sum = over_all(v, OP_SUM, build_where(v, counts, picked, build_scalar(v, 0)));
	*out = build_2(v, OP_DIV, sum, over_all(v, OP_SUM, build_cast(v, counts, v->wide)));
	return FS_OK;
}

/* Mean of the squared differences. */
static enum fs_status mean_squares(struct differentiate *p, const char *target, struct node_id y, struct node_id *out, struct diag *d)
{
	struct vjp *v = &p->vjp;
	struct type t = vjp_type(v, y);
	struct node_id x;
	TRY(find_input(p, "--loss mse", target, &t, &x, d));
	struct node_id away = build_2(v, OP_SUB, build_cast(v, y, v->wide), build_cast(v, x, v->wide));
	*out = over_all(v, OP_MEAN, build_2(v, OP_MUL, away, away));
	return FS_OK;
}

static const struct loss {
	const char *name;
	enum fs_status (*make)(struct differentiate *p, const char *with, struct node_id y, struct node_id *out, struct diag *d);
} losses[] = { { "cross_entropy", cross_entropy }, { "mse", mean_squares } };

static bool is_float(const struct graph *g, struct node_id n)
{
	return dtype_class((enum dtype)graph_type(g, n)->dtype) == DC_FLOAT;
}

/* --loss NAME:INPUT[:OUTPUT] */
static enum fs_status made_loss(struct differentiate *p, const struct loss *l, const char *rest, struct node_id *out, struct diag *d)
{
	struct context *c = p->g->context;
	char option[64];
	const char *colon = strchr(rest, ':');
	const char *input = colon == NULL ? rest : context_intern_n(c, rest, (size_t)(colon - rest));
	struct node_id y;
	snprintf(option, sizeof(option), "--loss %s:%.30s", l->name, input);
	if (input[0] == '\0')
		return diag_set(d, FS_INVALID, "--loss %s: an input is missing, as in --loss %s:labels", l->name, l->name);
	TRY(find_output(p, option, colon == NULL ? "" : colon + 1, &y, d));
	if (!is_float(p->g, y))
		return diag_set(d, FS_INVALID, "%s: the output is not of floating-point numbers", option);
	p->vjp.wide = graph_type(p->g, y)->dtype == DT_F64 ? DT_F64 : DT_F32;
	return l->make(p, input, y, out, d);
}

static enum fs_status find_loss(struct differentiate *p, const char *spec, struct node_id *out, struct diag *d)
{
	char text[200];
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		size_t n = strlen(losses[i].name);
		if (strncmp(spec, losses[i].name, n) == 0 && spec[n] == ':')
			return made_loss(p, &losses[i], spec + n + 1, out, d);
	}
	TRY(find_output(p, "--loss", spec, out, d));
	if (is_float(p->g, *out) && type_count(graph_type(p->g, *out)) == 1)
		return FS_OK;
	type_text(graph_type(p->g, *out), context_mesh(p->g->context), text, sizeof(text));
	return diag_set(d, FS_INVALID, "--loss %s: the output is %s, no scalar; cross_entropy:LABELS and mse:TARGET make one of it", spec, text);
}

/* --- the walk --- */

static bool is_trained(const struct graph *g, struct node_id n)
{
	return graph_op(g, n) == OP_PARAM && graph_int(g, n, ATTR_BUFFER, 0) == 0 && is_float(g, n);
}

static enum fs_status want_inputs(struct differentiate *p, struct diag *d)
{
	for (uint32_t i = 0; i < p->c->train.input_gradients.count; i++) {
		const char *name = p->c->train.input_gradients.items[i];
		struct node_id n = source_named(p->g, OP_INPUT, name);
		if (!node_is(n))
			return diag_set(d, FS_INVALID, "--input-gradient: no input is named '%s'; nearest: %s", name,
					list_names(p->g, input_name, p->g->nodes.count, name));
		if (!is_float(p->g, n))
			return diag_set(d, FS_INVALID, "--input-gradient: '%s' is not of floating-point numbers", name);
		p->wanted[n.i] = true;
	}
	return FS_OK;
}

/* wanted[n]: no whole number, and a wanted source reaches it. */
static void spread_wanted(struct differentiate *p)
{
	for (uint32_t i = 1; i < p->forward; i++) {
		struct node_id n = { i };
		p->wanted[i] |= is_trained(p->g, n);
		enum dtype_class class = dtype_class((enum dtype)graph_type(p->g, n)->dtype);
		for (int k = 0; k < graph_node(p->g, n)->count && (class == DC_FLOAT || class == DC_FP8) && !p->wanted[i]; k++)
			p->wanted[i] = p->wanted[graph_operand(p->g, n, k).i];
	}
}

static vjp_function *const functions[OP_COUNT] = {
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) [OP_##name] = vjp_##vjp,
#include "ops.def"
#undef OP
};

/* f64 where any operand or the result is. */
static enum dtype wide_of(const struct graph *g, struct node_id n)
{
	bool f64 = graph_type(g, n)->dtype == DT_F64;
	for (int k = 0; k < graph_node(g, n)->count; k++)
		f64 |= graph_type(g, graph_operand(g, n, k))->dtype == DT_F64;
	return f64 ? DT_F64 : DT_F32;
}

static struct prov_id backward_prov(const struct graph *g, struct node_id n)
{
	struct prov prov = *graph_prov(g, n);
	prov.pass = "differentiate";
	prov.rule = NULL;
	return context_prov(g->context, &prov);
}

static enum fs_status walk(struct differentiate *p, struct diag *d)
{
	struct vjp *v = &p->vjp;
	char where[300];
	for (uint32_t i = p->forward - 1; i > 0; i--) {
		if (!node_is(v->sums[i]) || !p->wanted[i])
			continue;
		v->n = (struct node_id){ i };
		v->grad = v->sums[i];
		v->wide = wide_of(p->g, v->n);
		v->prov = backward_prov(p->g, v->n);
		if (p->c->train.recompute != NULL)
			recompute_for(&p->recompute, v);
		functions[graph_op(p->g, v->n)](v);
		if (v->lack == NULL)
			continue;
		node_describe(p->g, v->n, where, sizeof(where));
		return diag_set(d, FS_UNSUPPORTED, "--train: %s: the gradient of op '%s' is wanted, %s", where,
				op_text(graph_op(p->g, v->n)), v->lack);
	}
	return FS_OK;
}

/* --- outputs --- */

static const char *joined(const struct graph *g, const char *prefix, const char *name)
{
	struct context *c = g->context;
	return context_intern(c, arena_printf(context_arena(c), "%s%s", prefix, name));
}

static void output_gradient(struct differentiate *p, struct node_id n)
{
	struct type t = *graph_type(p->g, n);
	const char *name = graph_string(p->g, n, ATTR_NAME);
	struct node_id d = p->vjp.sums[n.i];
	p->vjp.prov = backward_prov(p->g, n);
	if (!node_is(d))
		d = build_fill(&p->vjp, 0, (enum dtype)t.dtype, t.rank, t.dim);
	graph_output(p->g, &(struct output){ d, joined(p->g, "grad.", name), name,
					     graph_op(p->g, n) == OP_PARAM ? OUT_GRAD_PARAM : OUT_GRAD_INPUT });
}

static void output_gradients(struct differentiate *p)
{
	for (uint32_t i = 1; i < p->forward; i++) {
		struct node_id n = { i };
		if (p->wanted[i] && (graph_op(p->g, n) == OP_PARAM || graph_op(p->g, n) == OP_INPUT))
			output_gradient(p, n);
	}
}

/* Buffers stay, and of a --cotangent what the user gets; of a loss it alone. */
static void keep_outputs(struct differentiate *p)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < p->g->outputs.count; i++) {
		struct output o = p->g->outputs.items[i];
		if (o.kind == OUT_BUFFER || (o.kind == OUT_USER && p->c->train.loss == NULL))
			p->g->outputs.items[kept++] = o;
	}
	p->g->outputs.count = kept;
}

/* --- the pass --- */

/* Where gradients start: 1 at the loss, inputs at the outputs of --cotangent. */
static enum fs_status seed(struct differentiate *p, struct diag *d)
{
	struct training *t = &p->c->train;
	struct node_id n;
	if (t->loss != NULL) {
		TRY(find_loss(p, t->loss, &n, d));
		keep_outputs(p);
		graph_output(p->g, &(struct output){ n, "loss", NULL, OUT_LOSS });
		*vec_push(&p->seeds) = n;
	}
	for (uint32_t i = 0; i < t->cotangents.count; i++) {
		TRY(find_output(p, "--cotangent", t->cotangents.items[i], &n, d));
		if (!is_float(p->g, n))
			return diag_set(d, FS_INVALID, "--cotangent: output '%s' is not of floating-point numbers", t->cotangents.items[i]);
		*vec_push(&p->seeds) = n;
	}
	if (t->loss == NULL)
		keep_outputs(p);
	return FS_OK;
}

static enum fs_status plant(struct differentiate *p, struct diag *d)
{
	const struct training *t = &p->c->train;
	for (uint32_t i = 0; i < p->seeds.count; i++) {
		struct node_id n = p->seeds.items[i], grad;
		struct type type = *graph_type(p->g, n);
		if (t->loss != NULL && i == 0)
			grad = build_fill(&p->vjp, 1, (enum dtype)type.dtype, type.rank, type.dim);
		else
			TRY(find_input(p, "--cotangent", joined(p->g, "grad.", t->cotangents.items[i - (t->loss != NULL)]), &type, &grad, d));
		struct node_id *sum = &p->vjp.sums[n.i];
		*sum = node_is(*sum) ? build_2(&p->vjp, OP_ADD, *sum, grad) : grad;
	}
	return FS_OK;
}

static enum fs_status differentiate(struct differentiate *p, struct diag *d)
{
	struct prov here = { .pass = "differentiate" };
	p->vjp = (struct vjp){ .g = p->g, .prov = context_prov(p->g->context, &here) };
	TRY(seed(p, d));
	p->forward = p->g->nodes.count;
	p->wanted = calloc(p->forward, sizeof(*p->wanted));
	p->vjp.sums = calloc(p->forward, sizeof(*p->vjp.sums));
	if (p->wanted == NULL || p->vjp.sums == NULL)
		BUG("out of memory");
	p->vjp.wanted = p->wanted;
	TRY(want_inputs(p, d));
	spread_wanted(p);
	TRY(plant(p, d));
	struct training *t = &p->c->train;
	if (t->recompute != NULL)
		TRY(recompute_init(&p->recompute, p->g, p->forward, t->recompute, t->blocks > 0 ? t->blocks : -1, &t->blocks_found, d));
	TRY(walk(p, d));
	p->vjp.again = NULL;
	output_gradients(p);
	return FS_OK;
}

static bool has_gradients(const struct graph *g)
{
	for (uint32_t i = 0; i < g->outputs.count; i++)
		if (g->outputs.items[i].kind == OUT_GRAD_PARAM)
			return true;
	return false;
}

enum fs_status pass_differentiate(struct graph **g, struct compile *c, struct diag *d)
{
	const struct training *t = &c->train;
	struct rebuild r;
	bool of_what = t->loss != NULL || t->cotangents.count > 0;
	if (!t->on && (of_what || t->input_gradients.count > 0 || t->recompute != NULL || t->reduce_f32))
		return diag_set(d, FS_INVALID, "--loss, --cotangent, --input-gradient, --recompute and --grad-reduce need --train");
	if (!of_what && has_gradients(*g) && (t->recompute != NULL || t->input_gradients.count > 0))
		return diag_set(d, FS_INVALID, "--recompute and --input-gradient: the graph has a backward of its own; --loss OUTPUT makes another");
	if (!t->on || (!of_what && has_gradients(*g)))
		return FS_OK;
	if (!of_what)
		return diag_set(d, FS_INVALID, "--train: say of what gradients are wanted: --loss cross_entropy:LABELS, mse:TARGET or OUTPUT, or "
				"--cotangent OUTPUT");
	rebuild_init(&r, *g, STAGE_GLOBAL, "differentiate");
	for (uint32_t i = 1; i < (*g)->nodes.count; i++)
		if (r.reached[i])
			r.map[i] = rebuild_copy(&r, (struct node_id){ i });
	rebuild_finish(&r, g);
	struct differentiate p = { .g = *g, .c = c };
	enum fs_status status = differentiate(&p, d);
	free(p.wanted);
	free(p.vjp.sums);
	vec_release(&p.seeds);
	recompute_release(&p.recompute);
	return status;
}
