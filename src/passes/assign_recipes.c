/*
 * assign_recipes: say of every matmul which fp8 recipe it gets, or why none; with a backward, what it is to the loss.
 *
 *     %h = matmul %x, %w {eq="mk,nk->mn"}   =>   %h = matmul %x, %w {eq="mk,nk->mn" recipe="rowwise" role="forward"}
 *
 * On the global graph, so that the set of swapped matmuls does not depend on the mesh.  A candidate
 * has a 2-D parameter (perhaps cast) as one operand; it is taken where the recipe asked for is not
 * none and the global K and N are multiples of 16.  The gradients of its layer go with it: all three or
 * none, but for those that the recipe itself keeps in high precision.
 *
 * stage global   needs canonicalize   numerics exact
 */
#include "fp8_chain.h"
#include "passes.h"
#include "pattern.h"
#include "roles.h"

#include <stdlib.h>
#include <string.h>

/* N is what the weight (of a grad_weight product: the activation) adds to the result. */
static void measure(const struct graph *g, struct node_id n, bool flipped, struct matmul_report *r)
{
	struct equation e;
	struct diag d = { 0 };
	if (equation_parse(&e, graph_string(g, n, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	r->m = r->n = r->k = 1;
	for (int v = 0; v < 2; v++) {
		const struct type *t = graph_type(g, graph_operand(g, n, v));
		for (int i = 0; i < e.rank[v]; i++) {
			enum letter_role role = equation_role(&e, e.letter[v][i]);
			if (v == 0 && role == ROLE_K)
				r->k *= t->dim[i];
			else if (v == 0)
				*(flipped && role == ROLE_M ? &r->n : &r->m) *= t->dim[i];
			else if (role == ROLE_N)
				*(flipped ? &r->m : &r->n) *= t->dim[i];
		}
	}
}

/* Names under which a pattern may mean this matmul: its module, its weight and the weight's module. */
struct aliases { const char *at[3]; int count; };

static struct aliases names_of(const struct graph *g, struct node_id n, int weight)
{
	struct aliases a = { 0 };
	const struct prov *p = graph_prov(g, n);
	if (p->module != NULL)
		a.at[a.count++] = p->module;
	if (weight >= 0) {
		const char *name = graph_string(g, parameter_of(g, n, weight), ATTR_NAME);
		const char *dot = strrchr(name, '.');
		a.at[a.count++] = name;
		if (dot != NULL)
			a.at[a.count++] = context_intern_n(g->context, name, (size_t)(dot - name));
	}
	return a;
}

static bool request_matches(const struct request *r, const struct aliases *a)
{
	if (r->pattern == NULL)
		return true;
	for (int i = 0; i < a->count; i++)
		if (pattern_match(r->pattern, a->at[i]))
			return true;
	return false;
}

/*
 * The last request that matches wins; `hits` counts matches by request.  A recipe that was lifted from
 * the graph gives way only to a pattern.
 */
static const char *recipe_asked(const struct compile *c, const struct aliases *a, const char *lifted, uint32_t *hits)
{
	const char *recipe = lifted ? lifted : "none";
	for (uint32_t i = 0; i < c->recipes.count; i++)
		if (request_matches(&c->recipes.items[i], a)) {
			if (lifted == NULL || c->recipes.items[i].pattern != NULL)
				recipe = c->recipes.items[i].value;
			hits[i]++;
		}
	return recipe;
}

/* Why a matmul that was asked for cannot be swapped, or NULL. */
static const char *refusal(struct graph *g, struct node_id n, int weight, const struct matmul_report *r)
{
	if (weight < 0)
		return codes_under(g, graph_operand(g, n, 0)) || codes_under(g, graph_operand(g, n, 1))
			? "fp8 codes with scales of blocks, or along K: in high precision"
			: "no operand is a 2-D parameter";
	const struct type *t = graph_type(g, n);
	if (!dtype_is_float((enum dtype)t->dtype) || t->dtype == DT_F64)
		return "not a matmul of f32, bf16 or f16";
	if (r->k % 16 == 0 && r->n % 16 == 0)
		return NULL;
	char text[96];
	snprintf(text, sizeof(text), "K=%lld, N=%lld: not multiples of 16", (long long)r->k, (long long)r->n);
	return context_intern(g->context, text);
}

static const char *swapped_reason(const struct graph *g, struct node_id n, int weight)
{
	struct stored s;
	return stored_operand(g, n, weight, &s) ? "the weight's codes and scale as stored" : "";
}

static const char *unasked_reason(const struct graph *g, struct node_id n, int weight)
{
	struct stored s;
	return weight >= 0 && stored_operand(g, n, weight, &s) ? "not asked for; the weight is stored as fp8 codes" : "not asked for";
}

struct assign {
	struct rebuild r;
	struct compile *c;
	struct roles roles;
	struct matmul_report *report; /* by node */
	uint32_t *hits;
};

static struct matmul_report describe(const struct assign *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	const struct prov *p = graph_prov(g, n);
	struct matmul_report report = { .node = p->node, .module = p->module, .source = p->source,
					.equation = graph_string(g, n, ATTR_EQ), .recipe = "none" };
	report.role = s->roles.backward ? product_role_text(s->roles.of[n.i].role) : graph_string(g, n, ATTR_ROLE);
	measure(g, n, s->roles.of[n.i].flipped, &report);
	return report;
}

/* A matmul that no other decides for. */
static void decide(struct assign *s, struct node_id n)
{
	struct graph *g = (struct graph *)s->r.from;
	struct matmul_report report = describe(s, n);
	int weight = weight_operand(g, n);
	struct aliases names = names_of(g, n, weight);
	if (report.module == NULL && names.count > 0)
		report.module = names.at[names.count - 1];
	const char *reason = graph_string(g, n, ATTR_REASON), *lifted = reason ? graph_string(g, n, ATTR_RECIPE) : NULL;
	const char *asked = recipe_asked(s->c, &names, lifted, s->hits);
	report.reason = strcmp(asked, "none") == 0 ? unasked_reason(g, n, weight)
			: asked == lifted	    ? NULL
						    : refusal(g, n, weight, &report);
	if (report.reason == NULL) {
		report.reason = asked == lifted ? reason : swapped_reason(g, n, weight);
		report.recipe = context_intern(g->context, asked);
	}
	s->report[n.i] = report;
}

static bool recipe_has(const char *name, enum product_role role)
{
	struct recipe r;
	struct diag d = { 0 };
	return recipe_find(name, &r, &d) == FS_OK && recipe_casts(&r, role);
}

/* A gradient of a layer, as its forward product was decided. */
static void follow(struct assign *s, struct node_id n)
{
	struct context *c = s->r.from->context;
	const struct product *p = &s->roles.of[n.i];
	const struct matmul_report *forward = &s->report[p->forward.i];
	struct matmul_report report = describe(s, n);
	if (report.module == NULL)
		report.module = forward->module;
	report.recipe = forward->recipe;
	report.reason = forward->reason;
	if (strcmp(forward->recipe, "none") != 0 && !recipe_has(forward->recipe, p->role)) {
		char text[96];
		snprintf(text, sizeof(text), "in high precision by %s", forward->recipe);
		report.recipe = "none";
		report.reason = context_intern(c, text);
	}
	s->report[n.i] = report;
}

/* A product that the graph quantized itself is asked by itself. */
static bool follows(const struct assign *s, struct node_id n)
{
	struct node_id forward = s->roles.of[n.i].forward;
	return node_is(forward) && !node_same(forward, n) && graph_string(s->r.from, n, ATTR_REASON) == NULL;
}

static void decide_all(struct assign *s)
{
	const struct graph *g = s->r.from;
	for (int second = 0; second < 2; second++)
		for (uint32_t i = 1; i < g->nodes.count; i++) {
			struct node_id n = { i };
			if (!s->r.reached[i] || graph_op(g, n) != OP_MATMUL || follows(s, n) != (second == 1))
				continue;
			if (second)
				follow(s, n);
			else
				decide(s, n);
		}
}

static struct node_id emit(struct assign *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	const struct matmul_report *report = &s->report[n.i];
	struct attrs a;
	*vec_push(&s->c->matmuls) = *report;
	graph_attrs(g, n, &a);
	attrs_string(&a, ATTR_RECIPE, report->recipe);
	if (report->role != NULL)
		attrs_string(&a, ATTR_ROLE, report->role);
	if (report->role != NULL && s->roles.of[n.i].flipped)
		attrs_int(&a, ATTR_FLIPPED, 1);
	struct node_id in[2] = { s->r.map[graph_operand(g, n, 0).i], s->r.map[graph_operand(g, n, 1).i] };
	return graph_emit(s->r.to, OP_MATMUL, in, 2, &a, graph_node(g, n)->prov);
}

static enum fs_status check_requests(const struct compile *c, struct diag *d)
{
	struct recipe r;
	for (uint32_t i = 0; i < c->recipes.count; i++)
		if (recipe_find(c->recipes.items[i].value, &r, d) != FS_OK)
			return diag_prefix(d, "%s", c->recipes.items[i].origin);
	return FS_OK;
}

static enum fs_status check_hits(const struct compile *c, const uint32_t *hits, struct diag *d)
{
	for (uint32_t i = 0; i < c->recipes.count; i++) {
		if (hits[i] > 0 || c->recipes.items[i].pattern == NULL)
			continue;
		struct name_list names = { 0 };
		for (uint32_t k = 0; k < c->matmuls.count; k++)
			if (c->matmuls.items[k].module != NULL)
				*vec_push(&names.names) = c->matmuls.items[k].module;
		char nearest[512];
		names_nearest(&names, c->recipes.items[i].pattern, nearest, sizeof(nearest));
		vec_release(&names.names);
		return diag_set(d, FS_INVALID, "%s: '%s' matches no matmul; nearest: %s", c->recipes.items[i].origin,
				c->recipes.items[i].pattern, nearest[0] ? nearest : "there are none");
	}
	return FS_OK;
}

enum fs_status pass_assign_recipes(struct graph **g, struct compile *c, struct diag *d)
{
	TRY(check_requests(c, d));
	struct assign s = { .c = c, .roles = roles_make(*g) };
	s.hits = calloc(c->recipes.count + 1u, sizeof(*s.hits));
	s.report = calloc((*g)->nodes.count, sizeof(*s.report));
	if (s.hits == NULL || s.report == NULL)
		BUG("out of memory");
	c->matmuls.count = 0;
	rebuild_init(&s.r, *g, STAGE_GLOBAL, "assign_recipes");
	decide_all(&s);
	for (uint32_t i = 1; i < (*g)->nodes.count; i++) {
		struct node_id n = { i };
		if (s.r.reached[i])
			s.r.map[i] = graph_op(*g, n) == OP_MATMUL ? emit(&s, n) : rebuild_copy(&s.r, n);
	}
	rebuild_finish(&s.r, g);
	enum fs_status status = check_hits(c, s.hits, d);
	roles_release(&s.roles);
	free(s.hits);
	free(s.report);
	return status;
}
