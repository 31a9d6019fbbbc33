/*
 * The verifier: what every pass may rely on, and must leave behind.
 *
 * Of each node: operands above it, its op in the stage, attributes and type as op_infer() says, a
 * placement that is well formed, and from stage placed on, on each axis, operands and result that
 * one of the op's strategies allows.  Nodes of equal op, attributes and types are checked once.
 */
#include "verify.h"

#include <stdarg.h>
#include <string.h>

#define SCRATCH_KEPT ((size_t)1 << 20)

/* --- messages --- */

enum fs_status verify_fail(const struct verifier *v, struct node_id n, const char *format, ...)
{
	char node[256], text[640];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	node_describe(v->graph, n, node, sizeof(node));
	return diag_set(v->diag, FS_INVALID, "%s: %s: %s", node, op_text(graph_op(v->graph, n)), text);
}

const struct type *verify_type(const struct verifier *v, struct node_id n, int k)
{
	return graph_type(v->graph, k == graph_node(v->graph, n)->count ? n : graph_operand(v->graph, n, k));
}

/* "bf16[4,8] (tp:R), bf16[8,4] (tp:R) gives bf16[4,4] (tp:R)"; of many operands the first. */
static void describe_types(const struct verifier *v, struct node_id n, char *out, size_t size)
{
	int count = graph_node(v->graph, n)->count;
	size_t used = 0;
	out[0] = '\0';
	for (int k = 0; k <= count; k++) {
		char type[160];
		if (k == 3 && count > 4)
			k = count;
		type_text(verify_type(v, n, k), v->mesh, type, sizeof(type));
		int added = snprintf(out + used, size - used, "%s%s", k == 0 ? "" : k == count ? " gives " : ", ", type);
		used += added > 0 ? (size_t)added : 0;
		if (used >= size)
			return;
	}
}

enum fs_status verify_fail_axis(const struct verifier *v, struct node_id n, int axis, const char *why)
{
	char types[512];
	describe_types(v, n, types, sizeof(types));
	return verify_fail(v, n, "%s on axis '%s': %s", why, v->mesh->axis[axis].name, types);
}

/* --- structure --- */

static enum fs_status check_operands(const struct verifier *v, struct node_id n)
{
	const struct graph *g = v->graph;
	const struct node *node = graph_node(g, n);
	if (node->op == OP_NONE || node->op >= OP_COUNT)
		return diag_set(v->diag, FS_INVALID, "node %u: op number %u is unknown", n.i, node->op);
	if (node->first > g->operands.count || node->count > g->operands.count - node->first)
		return diag_set(v->diag, FS_INVALID, "node %u: operands are out of range", n.i);
	for (int k = 0; k < node->count; k++) {
		struct node_id x = graph_operand(g, n, k);
		if (!node_is(x) || x.i >= n.i)
			return diag_set(v->diag, FS_INVALID, "node %u: operand %d (node %u) is not above it", n.i, k, x.i);
	}
	return FS_OK;
}

static enum fs_status check_type(struct verifier *v, struct node_id n)
{
	int count = graph_node(v->graph, n)->count;
	const struct type **in = arena_array(&v->scratch, (size_t)count + 1, sizeof(*in)), *t = graph_type(v->graph, n);
	struct attrs attrs;
	struct type made = { 0 };
	char node[256], written[160], inferred[160];
	for (int k = 0; k < count; k++)
		in[k] = verify_type(v, n, k);
	graph_attrs(v->graph, n, &attrs);
	if (op_infer(v->graph->context, graph_op(v->graph, n), in, count, &attrs, &made, v->diag) != FS_OK) {
		node_describe(v->graph, n, node, sizeof(node));
		return diag_prefix(v->diag, "%s", node);
	}
	if (made.dtype == t->dtype && made.rank == t->rank && memcmp(made.dim, t->dim, sizeof(t->dim[0]) * t->rank) == 0)
		return FS_OK;
	type_text(t, NULL, written, sizeof(written));
	type_text(&made, NULL, inferred, sizeof(inferred));
	return verify_fail(v, n, "the type is %s, the op gives %s", written, inferred);
}

/* --- placements: form --- */

static enum fs_status check_part(const struct verifier *v, struct node_id n, const struct part *p)
{
	const struct type *t = graph_type(v->graph, n);
	if (p->axis >= v->mesh->count || p->kind > PART_MIN)
		return verify_fail(v, n, "the placement has an axis or a kind that there is not");
	if (p->kind == PART_SHARD && p->dim >= t->rank)
		return verify_fail(v, n, "the placement shards dim %d of %d", p->dim, t->rank);
	if (p->kind != PART_SHARD && !part_joins((enum part_kind)p->kind, (enum dtype)t->dtype)) {
		char type[256];
		type_text(t, v->mesh, type, sizeof(type));
		return verify_fail(v, n, "no value of this type is partial in this way: %s", type);
	}
	if (p->kind != PART_SHARD && op_is_source(graph_op(v->graph, n)))
		return verify_fail(v, n, "a source cannot be partial");
	return FS_OK;
}

static enum fs_status check_form(const struct verifier *v, struct node_id n)
{
	const struct placement *p = &graph_type(v->graph, n)->place;
	uint32_t axes = 0;
	if (v->graph->stage == STAGE_GLOBAL && p->count > 0 && !op_is_source(graph_op(v->graph, n)))
		return verify_fail(v, n, "in stage global only sources may have a placement");
	for (int i = 0; i < p->count; i++) {
		TRY(check_part(v, n, &p->at[i]));
		if (axes >> p->at[i].axis & 1)
			return verify_fail(v, n, "the placement names the axis '%s' twice", v->mesh->axis[p->at[i].axis].name);
		axes |= 1u << p->at[i].axis;
	}
	return FS_OK;
}

/* --- placements: what an op allows --- */

/* below[a]: axes that nest inside a on the dim that both shard. */
static void add_nesting(const struct placement *p, uint32_t below[MAX_AXES])
{
	for (int i = 0; i < p->count; i++)
		for (int k = i + 1; k < p->count; k++)
			if (p->at[i].kind == PART_SHARD && p->at[k].kind == PART_SHARD && p->at[i].dim == p->at[k].dim)
				below[p->at[i].axis] |= 1u << p->at[k].axis;
}

/* Two axes that shard one dim nest the same way in every value of a node. */
static enum fs_status check_nesting(const struct verifier *v, struct node_id n, uint32_t below[MAX_AXES])
{
	memset(below, 0, sizeof(below[0]) * MAX_AXES);
	for (int k = 0; k <= graph_node(v->graph, n)->count; k++)
		add_nesting(&verify_type(v, n, k)->place, below);
	for (int a = 0; a < v->mesh->count; a++)
		for (int b = 0; b < a; b++)
			if (below[a] >> b & 1 && below[b] >> a & 1)
				return verify_fail_axis(v, n, a, "shards nest in one value otherwise than in another");
	return FS_OK;
}

/* The largest shard over the axes that do not nest inside `axis`, nor are it. */
static void shape_around(const struct verifier *v, const struct type *t, int axis, uint32_t below,
			 int64_t shape[MAX_RANK])
{
	struct placement around = t->place;
	for (int a = 0; a < v->mesh->count; a++)
		if (a == axis || below >> a & 1)
			placement_set(&around, a, NULL);
	for (int i = 0; i < t->rank; i++)
		shape[i] = placement_chunk(&around, v->mesh, i, t->dim[i]);
}

static bool among(const struct strategies *s, const label *wanted)
{
	for (int i = 0; i < s->count; i++)
		if (memcmp(s->at + (size_t)i * (size_t)s->stride, wanted, sizeof(*wanted) * (size_t)s->stride) == 0)
			return true;
	return false;
}

static enum fs_status check_axis(struct verifier *v, struct node_id n, int axis, uint32_t below)
{
	int values = graph_node(v->graph, n)->count + 1;
	label *labels = arena_array(&v->scratch, (size_t)values, sizeof(*labels)), any = LABEL_R;
	for (int k = 0; k < values; k++)
		any |= labels[k] = label_of(&verify_type(v, n, k)->place, axis);
	if (any == LABEL_R)
		return FS_OK;
	int64_t(*shape)[MAX_RANK] = arena_array(&v->scratch, (size_t)values, sizeof(*shape));
	for (int k = 0; k < values; k++)
		shape_around(v, verify_type(v, n, k), axis, below, shape[k]);
	struct strategies s;
	op_strategies(v->graph, n, (const int64_t(*)[MAX_RANK])shape, v->mesh->axis[axis].size, false, &v->scratch, &s);
	return among(&s, labels) ? FS_OK : verify_fail_axis(v, n, axis, "no rule allows the placements");
}

static enum fs_status check_placement(struct verifier *v, struct node_id n)
{
	enum op op = graph_op(v->graph, n);
	verify_rule *rule = verify_rule_of(op);
	uint32_t below[MAX_AXES];
	if (v->graph->stage == STAGE_GLOBAL || op_is_source(op))
		return FS_OK;
	if (rule != NULL)
		TRY(rule(v, n));
	if (op != OP_RESHARD)
		TRY(check_nesting(v, n, below));
	for (int axis = 0; axis < v->mesh->count && rule == NULL; axis++)
		TRY(check_axis(v, n, axis, below[axis]));
	return FS_OK;
}

/* --- nodes of one kind are checked once --- */

struct kind_key { const struct verifier *v; struct node_id n; };

static uint64_t kind_hash(const struct verifier *v, struct node_id n)
{
	const struct node *node = graph_node(v->graph, n);
	uint64_t h = hash_bytes(&node->op, sizeof(node->op), node->attrs.i);
	for (int k = 0; k <= node->count; k++) {
		uint32_t t = graph_node(v->graph, k == node->count ? n : graph_operand(v->graph, n, k))->type.i;
		h = hash_bytes(&t, sizeof(t), h);
	}
	return h;
}

static bool same_kind(const void *key, uint32_t i)
{
	const struct kind_key *k = key;
	const struct graph *g = k->v->graph;
	struct node_id other = { i };
	const struct node *a = graph_node(g, k->n), *b = graph_node(g, other);
	if (a->op != b->op || a->attrs.i != b->attrs.i || a->type.i != b->type.i || a->count != b->count)
		return false;
	for (int o = 0; o < a->count; o++)
		if (graph_node(g, graph_operand(g, k->n, o))->type.i != graph_node(g, graph_operand(g, other, o))->type.i)
			return false;
	return true;
}

static enum fs_status check_kind(struct verifier *v, struct node_id n)
{
	uint64_t hash = kind_hash(v, n);
	struct kind_key key = { v, n };
	if (hash_find(&v->seen, hash, same_kind, &key) != UINT32_MAX)
		return FS_OK;
	if (!op_in_stage(graph_op(v->graph, n), v->graph->stage))
		return verify_fail(v, n, "not an op of stage %s", stage_text(v->graph->stage));
	TRY(check_type(v, n));
	TRY(check_form(v, n));
	TRY(check_placement(v, n));
	hash_insert(&v->seen, hash, n.i);
	if (v->scratch.total > SCRATCH_KEPT)
		arena_release(&v->scratch);
	return FS_OK;
}

struct output_key { const struct graph *graph; const char *name; };

static bool same_output(const void *context, uint32_t i)
{
	const struct output_key *k = context;
	return strcmp(k->graph->outputs.items[i].name, k->name) == 0;
}

/* What a user gets has a name of its own. */
static enum fs_status check_output_names(const struct graph *g, struct diag *d)
{
	struct hash_table names = { 0 };
	enum fs_status status = FS_OK;
	for (uint32_t i = 0; i < g->outputs.count && status == FS_OK; i++) {
		struct output_key key = { g, g->outputs.items[i].name };
		if (g->outputs.items[i].kind != OUT_USER)
			continue;
		uint64_t hash = hash_string(key.name);
		if (*key.name == '\0')
			status = diag_set(d, FS_INVALID, "an output has an empty name");
		else if (hash_find(&names, hash, same_output, &key) != UINT32_MAX)
			status = diag_set(d, FS_INVALID, "two outputs have the name '%s'; each needs its own", key.name);
		hash_insert(&names, hash, i);
	}
	hash_release(&names);
	return status;
}

static enum fs_status check_outputs(const struct verifier *v)
{
	const struct graph *g = v->graph;
	TRY(check_output_names(g, v->diag));
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		const struct output *o = &g->outputs.items[i];
		if (!node_is(o->value) || o->value.i >= g->nodes.count)
			return diag_set(v->diag, FS_INVALID, "output '%s' has no value", o->name);
		if (placement_has_partial(&graph_type(g, o->value)->place))
			return verify_fail(v, o->value, "output '%s' is a partial value", o->name);
	}
	return FS_OK;
}

enum fs_status graph_verify(const struct graph *g, struct diag *d)
{
	struct verifier v = { .graph = g, .mesh = context_mesh(g->context), .diag = d };
	enum fs_status status = FS_OK;
	for (uint32_t i = 1; i < g->nodes.count && status == FS_OK; i++) {
		status = check_operands(&v, (struct node_id){ i });
		if (status == FS_OK)
			status = check_kind(&v, (struct node_id){ i });
	}
	if (status == FS_OK)
		status = check_outputs(&v);
	arena_release(&v.scratch);
	hash_release(&v.seen);
	return status;
}
