/*
 * place: pin parameters, inputs and values where plans and --place want them.
 *
 *     fc1: colwise        %w = param "fc1.weight" {hard=tp} : f32[512,128] (tp:S(0))
 *                         %b = param "fc1.bias" : f32[512] (tp:S(0))
 *     x=dp:S(0)           %x = input "x" : f32[4,32,128] (dp:S(0))
 *     y=tp:R              %c = constrain %y {axis=tp to=()}
 *
 * A style says how a layer computes on its axis (`tp`, else the only one, else AXIS:STYLE): by the
 * roles that its matmuls give the weight's dims, not by dim numbers; the weight is hard there.  A
 * placement says where a tensor lives; the solver may move it.  Every rule must match something.
 *
 * stage global   needs canonicalize   numerics exact
 */
#include "passes.h"
#include "pattern.h"
#include "style.h"

#include <stdlib.h>
#include <string.h>

struct place {
	const struct graph *g;
	struct compile *c;
	const struct mesh *mesh;
	struct uses uses;
	struct placement *pin;      /* by node: of sources what the type gets; of others what a constraint gets */
	uint32_t *constrained;      /* by node: axes */
	uint32_t *hard;             /* by node: axes */
	const char *(*rule)[MAX_AXES]; /* by node and axis: the request that pinned it, as the user wrote it */
	const char *request;        /* the one at work; interned */
	bool *matched;              /* by node, parameters: some rule named it */
	struct name_index parameters, values; /* by node: what a rule may mean, and what --place may mean too */
	struct name_list names;     /* everything a rule could have meant */
};

/* The axis named `tp`, else the only one. */
static enum fs_status default_axis(const struct mesh *m, int *axis, struct diag *d)
{
	*axis = mesh_find(m, "tp");
	if (*axis < 0 && m->count == 1)
		*axis = 0;
	if (*axis >= 0)
		return FS_OK;
	if (m->count == 0)
		return diag_set(d, FS_INVALID, "a style needs a mesh; give --mesh, as in --mesh tp=4");
	return diag_set(d, FS_INVALID, "no axis is named 'tp'; write AXIS:STYLE, as in %s:colwise", m->axis[0].name);
}

/* "colwise", "tp:colwise" or a placement, "tp:S(2)": *style is NULL for a placement. */
static enum fs_status parse_value(const struct place *p, const char *value, const struct style **style, int *axis,
				  struct diag *d)
{
	const char *colon = strchr(value, ':'), *name = colon ? colon + 1 : value;
	*style = style_find(name);
	if (*style == NULL && colon != NULL && (strchr(name, '(') || strcmp(name, "R") == 0 || name[0] == 'P' || strchr(name, ',')))
		return FS_OK;
	if (*style == NULL) {
		char known[512];
		style_names(known, sizeof(known));
		return diag_set(d, FS_INVALID, "'%s' is no style and no placement; styles are %s", value, known);
	}
	if (colon == NULL)
		return default_axis(p->mesh, axis, d);
	char axis_name[16];
	snprintf(axis_name, sizeof(axis_name), "%.*s", (int)(colon - value), value);
	return axis_named(p->mesh, axis_name, axis, d);
}

/* --- what a pattern names --- */

/* The module part of a parameter's name: "fc1" of "fc1.weight"; "" of "qkv". */
static const char *module_of(const struct place *p, const char *name)
{
	const char *dot = strrchr(name, '.');
	return dot == NULL ? "" : context_intern_n(p->g->context, name, (size_t)(dot - name));
}

/* A parameter goes by its name, its module and its tied names. */
static void index_parameter(struct place *p, struct node_id n)
{
	const char *name = graph_string(p->g, n, ATTR_NAME), *tied = graph_string(p->g, n, ATTR_TIED);
	name_index_add(&p->parameters, name, n.i);
	name_index_add(&p->parameters, module_of(p, name), n.i);
	for (const char *s = tied; s != NULL && *s != '\0';) {
		size_t len = strcspn(s, " ");
		const char *other = context_intern_n(p->g->context, s, len);
		name_index_add(&p->parameters, other, n.i);
		name_index_add(&p->parameters, module_of(p, other), n.i);
		s += len + (s[len] == ' ');
	}
}

static bool is_parameter(const struct graph *g, struct node_id n)
{
	return graph_op(g, n) == OP_PARAM;
}

/* Not known by name: it is placed as its parameter is. */
static bool is_state(const struct graph *g, struct node_id n)
{
	return graph_has(g, n, ATTR_BESIDE);
}

/* Of the program as the user knows it, and no part of a backward or an update that was made for it. */
static bool is_forward(const struct graph *g, struct node_id n)
{
	const char *pass = graph_prov(g, n)->pass;
	return pass == NULL || (strcmp(pass, "differentiate") != 0 && strcmp(pass, "optimizer") != 0);
}

static void index_names(struct place *p)
{
	const struct graph *g = p->g;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		const char *name = graph_string(g, n, ATTR_NAME), *node = graph_prov(g, n)->node;
		if (is_state(g, n))
			continue;
		if (is_parameter(g, n)) {
			index_parameter(p, n);
			continue;
		}
		if (name != NULL)
			name_index_add(&p->values, name, i);
		if (node != NULL && is_forward(g, n))
			name_index_add(&p->values, node, i);
	}
	for (uint32_t i = 0; i < g->outputs.count; i++)
		if (g->outputs.items[i].kind != OUT_BUFFER) /* it lies as what it is the new value of */
			name_index_add(&p->values, g->outputs.items[i].name, g->outputs.items[i].value.i);
}

/* The module that a pattern names, and that node n is in: n's own, or one around it; NULL: none. */
static const char *named_module(const struct place *p, struct node_id n, const char *pattern)
{
	const char *module = graph_prov(p->g, n)->module;
	for (size_t size = module == NULL ? 0 : strlen(module); size > 0; size--) {
		const char *name = module[size] == '\0' || module[size] == '.' ? context_intern_n(p->g->context, module, size) : NULL;
		if (name != NULL && pattern_match(pattern, name))
			return name;
	}
	return NULL;
}

/* No user of n is in the module. */
static bool leaves(const struct place *p, struct node_id n, const char *module, const char *pattern)
{
	for (uint32_t k = p->uses.first[n.i]; k < p->uses.first[n.i + 1]; k++)
		if (is_forward(p->g, p->uses.at[k]) && named_module(p, p->uses.at[k], pattern) == module)
			return false;
	return true;
}

/* Of each module that the pattern names, the last node whose value leaves it: its output. */
static void module_outputs(const struct place *p, const char *pattern, node_list *out)
{
	VEC(const char *) done = { 0 };
	for (uint32_t i = p->g->nodes.count; i-- > 1;) {
		struct node_id n = { i };
		bool counts = !op_is_source(graph_op(p->g, n)) && is_forward(p->g, n);
		const char *module = counts ? named_module(p, n, pattern) : NULL;
		uint32_t k = done.count;
		while (module != NULL && k > 0 && done.items[k - 1] != module)
			k--;
		if (module == NULL || k > 0 || !leaves(p, n, module, pattern))
			continue;
		*vec_push(&done) = module;
		*vec_push(out) = n;
	}
	vec_release(&done);
}

/* --- pinning --- */

static void pin_axis(struct place *p, struct node_id n, int axis, int dim)
{
	struct part part = { (uint8_t)axis, PART_SHARD, (uint8_t)dim };
	placement_set(&p->pin[n.i], axis, dim >= 0 ? &part : NULL);
	p->constrained[n.i] |= 1u << axis;
	p->rule[n.i][axis] = p->request;
}

/* Does the pattern name the embedding that the parameter is the table of, or the style speak of one? */
static bool means_table(const struct place *p, const struct style *style, const char *pattern, const param_users *users)
{
	for (uint32_t i = 0; i < users->count; i++) {
		const char *module = graph_prov(p->g, users->items[i].user)->module;
		if (graph_op(p->g, users->items[i].user) == OP_EMBEDDING && module != NULL && pattern_match(pattern, module))
			return true;
	}
	return style->embedding;
}

/* Does the module hold codes, too?  Then n, of no more elements, may be their scale in some form. */
static bool beside_codes(const struct place *p, struct node_id n)
{
	const struct graph *g = p->g;
	found_list found = { 0 };
	bool beside = false;
	name_index_find(&p->parameters, module_of(p, graph_string(g, n, ATTR_NAME)), &found);
	for (uint32_t i = 0; i < found.count && !beside; i++) {
		const struct type *t = graph_type(g, (struct node_id){ found.items[i] });
		beside = found.items[i] != n.i && dtype_class((enum dtype)t->dtype) == DC_FP8 &&
			 type_count(graph_type(g, n)) <= type_count(t);
	}
	vec_release(&found);
	return beside;
}

static enum fs_status style_parameter(struct place *p, const struct style *style, int axis, struct node_id n,
				      const char *pattern, const param_users *users, struct diag *d)
{
	struct param_use u;
	style_uses(p->g, n, users, &u);
	int dim = style_dim(style, &u, means_table(p, style, pattern, users));
	if (dim == STYLE_NO_ROLE && beside_codes(p, n))
		return FS_OK; /* as without a rule: replicated */
	p->matched[n.i] = true;
	if (dim == STYLE_NO_ROLE)
		return diag_set(d, FS_INVALID, "style %s needs the weight of a matmul or an embedding, and '%s' is none; "
				"a placement says it by number, as in %s:S(0)", style->name, graph_string(p->g, n, ATTR_NAME),
				p->mesh->axis[axis].name);
	pin_axis(p, n, axis, dim);
	p->hard[n.i] &= ~(1u << axis);
	if (dim >= 0 && (u.dim_n >= 0 || u.embedding))
		p->hard[n.i] |= 1u << axis;
	return FS_OK;
}

/* The layer's output: the product with its bias, if it has one. */
static struct node_id layer_output(const struct place *p, struct node_id product)
{
	const struct uses *u = &p->uses;
	uint32_t first = u->first[product.i];
	if (u->first[product.i + 1] - first != 1 || graph_op(p->g, u->at[first]) != OP_ADD)
		return product;
	for (int k = 0; k < 2; k++)
		if (is_parameter(p->g, graph_operand(p->g, u->at[first], k)))
			return u->at[first];
	return product;
}

/* A product of the forward, or an embedding. */
static bool is_layer(const struct graph *g, struct node_id n)
{
	const char *role = graph_op(g, n) == OP_MATMUL ? graph_string(g, n, ATTR_ROLE) : NULL;
	enum product_role r = PRODUCT_FORWARD;
	return graph_op(g, n) == OP_EMBEDDING ||
	       (graph_op(g, n) == OP_MATMUL && (role == NULL || (product_role_read(role, &r) && r == PRODUCT_FORWARD)));
}

/* Pins the outputs of the layers that use the parameter as their weight; or frees them of what an earlier rule said. */
static void style_output(struct place *p, int axis, bool whole, const param_users *users)
{
	for (uint32_t i = 0; i < users->count; i++) {
		struct node_id user = users->items[i].user;
		if (is_layer(p->g, user) && whole)
			pin_axis(p, layer_output(p, user), axis, -1);
		else if (is_layer(p->g, user))
			p->constrained[layer_output(p, user).i] &= ~(1u << axis);
	}
}

/* sequence_parallel: the module's output is sharded on its sequence dim. */
static void style_sequence(struct place *p, const char *pattern, int axis)
{
	node_list outputs = { 0 };
	module_outputs(p, pattern, &outputs);
	for (uint32_t i = 0; i < outputs.count; i++) {
		int rank = graph_type(p->g, outputs.items[i])->rank;
		if (rank >= 2)
			pin_axis(p, outputs.items[i], axis, rank >= 3 ? 1 : 0);
	}
	vec_release(&outputs);
}

static enum fs_status apply_style(struct place *p, const struct request *r, const struct style *style, int axis,
				  int *hits, struct diag *d)
{
	enum fs_status status = FS_OK;
	found_list found = { 0 };
	name_index_find(&p->parameters, r->pattern, &found);
	*hits = (int)found.count;
	for (uint32_t i = 0; i < found.count && status == FS_OK && style->kind != STYLE_HOOK; i++) {
		struct node_id n = { found.items[i] };
		param_users users = { 0 };
		style_users(p->g, &p->uses, n, &users);
		status = style_parameter(p, style, axis, n, r->pattern, &users, d);
		style_output(p, axis, style->gather_output, &users);
		vec_release(&users);
	}
	vec_release(&found);
	if (style->sequence && status == FS_OK)
		style_sequence(p, r->pattern, axis);
	return status;
}

/* Axes that a placement's text names, R among them. */
static uint32_t axes_named(const struct mesh *m, const char *text)
{
	uint32_t axes = 0;
	for (int a = 0; a < m->count; a++) {
		size_t n = strlen(m->axis[a].name);
		for (const char *s = text; (s = strstr(s, m->axis[a].name)) != NULL; s++)
			if ((s == text || strchr(" ,(", s[-1])) && s[n + strspn(s + n, " ")] == ':')
				axes |= 1u << a;
	}
	return axes;
}

static enum fs_status place_value(struct place *p, struct node_id n, const char *text, struct diag *d)
{
	struct placement want;
	TRY(placement_parse(&want, p->mesh, graph_type(p->g, n)->rank, text, d));
	if (placement_has_partial(&want))
		return diag_set(d, FS_INVALID, "'%s': a value that is given or kept cannot be partial", text);
	uint32_t named = axes_named(p->mesh, text);
	for (int a = 0; a < p->mesh->count; a++)
		if (named >> a & 1) {
			placement_set(&p->pin[n.i], a, NULL);
			p->rule[n.i][a] = p->request;
		}
	for (int i = 0; i < want.count; i++)
		placement_set(&p->pin[n.i], want.at[i].axis, &want.at[i]);
	p->constrained[n.i] |= named;
	p->hard[n.i] &= ~named;
	return FS_OK;
}

static enum fs_status place_modules(struct place *p, const struct request *r, int *hits, struct diag *d)
{
	node_list outputs = { 0 };
	enum fs_status status = FS_OK;
	module_outputs(p, r->pattern, &outputs);
	for (uint32_t i = 0; i < outputs.count && status == FS_OK; i++)
		status = place_value(p, outputs.items[i], r->value, d);
	*hits += (int)outputs.count;
	vec_release(&outputs);
	return status;
}

static enum fs_status place_found(struct place *p, const struct name_index *x, const struct request *r, int *hits, struct diag *d)
{
	enum fs_status status = FS_OK;
	found_list found = { 0 };
	name_index_find(x, r->pattern, &found);
	*hits += (int)found.count;
	for (uint32_t i = 0; i < found.count && status == FS_OK; i++) {
		p->matched[found.items[i]] = true;
		status = place_value(p, (struct node_id){ found.items[i] }, r->value, d);
	}
	vec_release(&found);
	return status;
}

static enum fs_status apply_placement(struct place *p, const struct request *r, int *hits, struct diag *d)
{
	TRY(place_found(p, &p->parameters, r, hits, d));
	TRY(place_found(p, &p->values, r, hits, d));
	return *hits == 0 ? place_modules(p, r, hits, d) : FS_OK;
}

/* --- requests --- */

static void collect_names(struct place *p, bool values)
{
	for (uint32_t i = 1; i < p->g->nodes.count; i++) {
		struct node_id n = { i };
		const char *name = is_state(p->g, n) ? NULL : graph_string(p->g, n, ATTR_NAME);
		if (name != NULL && is_parameter(p->g, n) && module_of(p, name)[0] != '\0')
			*vec_push(&p->names.names) = module_of(p, name);
		if (name != NULL && (values || is_parameter(p->g, n)))
			*vec_push(&p->names.names) = name;
		if (values && graph_prov(p->g, n)->node != NULL && is_forward(p->g, n))
			*vec_push(&p->names.names) = graph_prov(p->g, n)->node;
	}
}

static enum fs_status no_match(struct place *p, const struct request *r, bool values, struct diag *d)
{
	char nearest[512];
	collect_names(p, values);
	names_nearest(&p->names, r->pattern, nearest, sizeof(nearest));
	return diag_set(d, FS_INVALID, "%s: '%s' matches no %s; nearest: %s", r->origin, r->pattern,
			values ? "parameter, input or value" : "parameter", nearest[0] ? nearest : "there are none");
}

/* "--place 'x=dp:S(0)'", "--plan tp.json 'fc1=colwise'" */
static const char *request_text(const struct place *p, const struct request *r, bool styles_too)
{
	bool file = styles_too && strncmp(r->origin, "--", 2) != 0;
	return context_intern(p->g->context, arena_printf(context_arena(p->g->context), "%s%s '%s=%s'", file ? "--plan " : "",
							   r->origin, r->pattern, r->value));
}

static enum fs_status apply(struct place *p, const struct request *r, bool styles_too, struct diag *d)
{
	const struct style *style = NULL;
	int axis = -1, hits = 0;
	bool values = !styles_too;
	p->request = request_text(p, r, styles_too);
	if (styles_too)
		TRY(parse_value(p, r->value, &style, &axis, d));
	enum fs_status status = style != NULL ? apply_style(p, r, style, axis, &hits, d) : apply_placement(p, r, &hits, d);
	if (status == FS_OK && hits == 0)
		return no_match(p, r, values, d);
	return status;
}

static enum fs_status apply_all(struct place *p, const request_list *l, bool styles_too, struct diag *d)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (apply(p, &l->items[i], styles_too, d) != FS_OK) {
			const struct request *r = &l->items[i];
			bool said = strncmp(d->text, r->origin, strlen(r->origin)) == 0;
			return said ? d->status : diag_prefix(d, "%s '%s=%s'", r->origin, r->pattern, r->value);
		}
	return FS_OK;
}

/* States of an optimizer go where their parameters are. */
static void place_states(struct place *p)
{
	for (uint32_t i = 1; i < p->g->nodes.count; i++) {
		struct node_id n = { i };
		if (!is_state(p->g, n))
			continue;
		struct node_id param = graph_param(p->g, graph_string(p->g, n, ATTR_BESIDE));
		if (node_is(param) && graph_type(p->g, n)->rank == graph_type(p->g, param)->rank)
			p->pin[i] = p->pin[param.i];
	}
}

/* "7 parameters matched no rule and are replicated: a, b, c, ..." */
static void note_unmatched(struct place *p)
{
	char names[256] = "";
	int count = 0;
	for (uint32_t i = 1; i < p->g->nodes.count; i++) {
		struct node_id n = { i };
		if (!is_parameter(p->g, n) || p->matched[i] || graph_int(p->g, n, ATTR_BUFFER, 0))
			continue;
		size_t used = strlen(names);
		if (count++ < 3)
			snprintf(names + used, sizeof(names) - used, "%s%s", count > 1 ? ", " : "", graph_string(p->g, n, ATTR_NAME));
	}
	if (count > 0 && p->c->styles.count > 0)
		*vec_push(&p->c->notes) = arena_printf(context_arena(p->g->context), "%d parameter%s matched no rule and %s replicated: %s%s",
						       count, count > 1 ? "s" : "", count > 1 ? "are" : "is", names, count > 3 ? ", ..." : "");
}

/* --- the new graph --- */

/* With what pinned n. */
static struct prov_id ruled_prov(const struct place *p, struct node_id n, const char *pass)
{
	struct prov prov = *graph_prov(p->g, n);
	prov.pass = pass != NULL ? pass : prov.pass;
	for (int a = 0; a < p->mesh->count; a++)
		if (p->rule[n.i][a] != NULL)
			prov_add_rule(p->g->context, &prov, a, p->rule[n.i][a]);
	return context_prov(p->g->context, &prov);
}

static struct node_id place_source(struct rebuild *r, const struct place *p, struct node_id n)
{
	struct type t = *graph_type(r->from, n);
	struct attrs a;
	graph_attrs(r->from, n, &a);
	t.place = p->pin[n.i];
	if (p->hard[n.i] != 0)
		attrs_int(&a, ATTR_HARD, p->hard[n.i]);
	return graph_emit_typed(r->to, graph_op(r->from, n), NULL, 0, &a, &t, ruled_prov(p, n, NULL));
}

/* A second result is of the op itself, not of a constraint on the first. */
static struct node_id place_second(struct rebuild *r, struct node_id n)
{
	struct node_id x = r->map[graph_operand(r->from, n, 0).i];
	if (graph_op(r->to, x) == OP_CONSTRAIN)
		x = graph_operand(r->to, x, 0);
	return graph_copy(r->to, r->from, n, &x);
}

static struct node_id place_node(struct rebuild *r, const struct place *p, struct node_id n)
{
	if (op_is_source(graph_op(r->from, n)))
		return place_source(r, p, n);
	struct node_id made = graph_op(r->from, n) == OP_PROJ ? place_second(r, n) : rebuild_copy(r, n);
	if (p->constrained[n.i] == 0)
		return made;
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_AXES, p->constrained[n.i]);
	attrs_placement(&a, &p->pin[n.i]);
	return graph_emit(r->to, OP_CONSTRAIN, &made, 1, &a, ruled_prov(p, n, r->pass));
}

static void place_target(const struct place *p, struct graph *g, struct output *o, struct node_id target)
{
	struct attrs a = { 0 };
	struct placement to = graph_type(g, target)->place;
	struct prov prov = *graph_prov(g, o->value);
	const char *rule = arena_printf(context_arena(g->context), "as '%s'", o->target);
	prov.pass = "place";
	for (int axis = 0; axis < p->mesh->count; axis++)
		prov_add_rule(g->context, &prov, axis, rule);
	attrs_int(&a, ATTR_AXES, (1 << p->mesh->count) - 1);
	attrs_placement(&a, &to);
	o->value = graph_emit(g, OP_CONSTRAIN, &o->value, 1, &a, context_prov(g->context, &prov));
}

/* A new value of a buffer, and a gradient, live where the buffer, parameter or input does. */
static void place_targets(const struct place *p, struct graph *g)
{
	struct name_index sources = { 0 };
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (graph_op(g, (struct node_id){ i }) == OP_PARAM || graph_op(g, (struct node_id){ i }) == OP_INPUT)
			name_index_add(&sources, graph_string(g, (struct node_id){ i }, ATTR_NAME), i);
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		struct output *o = &g->outputs.items[i];
		found_list found = { 0 };
		if (o->target != NULL)
			name_index_find(&sources, o->target, &found);
		if (found.count == 1)
			place_target(p, g, o, (struct node_id){ found.items[0] });
		vec_release(&found);
	}
	name_index_release(&sources);
}

static void place_init(struct place *p, const struct graph *g, struct compile *c)
{
	size_t n = g->nodes.count;
	*p = (struct place){ .g = g, .c = c, .mesh = context_mesh(g->context), .uses = uses_make(g) };
	p->pin = calloc(n, sizeof(*p->pin));
	p->constrained = calloc(n, sizeof(*p->constrained));
	p->hard = calloc(n, sizeof(*p->hard));
	p->rule = calloc(n, sizeof(*p->rule));
	p->matched = calloc(n, sizeof(*p->matched));
	if (p->pin == NULL || p->constrained == NULL || p->hard == NULL || p->rule == NULL || p->matched == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < n; i++)
		if (op_is_source((enum op)g->nodes.items[i].op))
			p->pin[i] = graph_type(g, (struct node_id){ i })->place;
	if (c->styles.count + c->places.count > 0)
		index_names(p);
}

static void place_release(struct place *p)
{
	uses_release(&p->uses);
	free(p->pin);
	free(p->constrained);
	free(p->hard);
	free(p->rule);
	free(p->matched);
	name_index_release(&p->parameters);
	name_index_release(&p->values);
	vec_release(&p->names.names);
}

enum fs_status pass_place(struct graph **g, struct compile *c, struct diag *d)
{
	struct place p;
	place_init(&p, *g, c);
	enum fs_status status = apply_all(&p, &c->styles, true, d);
	if (status == FS_OK)
		status = apply_all(&p, &c->places, false, d);
	if (status == FS_OK) {
		place_states(&p);
		note_unmatched(&p);
		struct rebuild r;
		rebuild_init(&r, *g, STAGE_GLOBAL, "place");
		for (uint32_t i = 1; i < (*g)->nodes.count; i++)
			if (r.reached[i])
				r.map[i] = place_node(&r, &p, (struct node_id){ i });
		rebuild_finish(&r, g);
		if (p.mesh->count > 0)
			place_targets(&p, *g);
	}
	place_release(&p);
	return status;
}
