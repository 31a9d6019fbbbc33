/*
 * swap_fp8: local matmuls with a recipe become scaled ones, with amax, scale and cast nodes.
 *
 *     %y = matmul %x, %w {recipe="tensorwise"}
 *  =>
 *     %m = amax %x {dims=[0,1]}  : f32[] (tp:P(max))      over each axis that shards x
 *     %a = all_reduce %m {max}   : f32[] (tp:R)
 *     %s = fp8_scale %a          : f32[]
 *     %q = fp8_cast %x, %s       : e4m3[...] as x
 *     (the same for %w; it runs in setup)      views of x stand behind the cast: other products share the codes
 *     %y = scaled_matmul %q, %qw, 1/%s, 1/%sw
 *
 * Row scales: amax over the contracted dims alone.  Where an axis shards those, each shard keeps its
 * own scale (`scope`), unless --scale-scope AXIS=global.  A partial value is never cast: it was reduced
 * before (the solver lets no P into a matmul).
 *
 * An operand that is codes times a scale already (weights stored in fp8, fixed scales) keeps both.
 *
 * In exact plans a product that is P(sum) and is only moved stays wide until after the reduction: the
 * unscaled f64 accumulator is reduced and then scaled (post_scale).
 *
 * stage local -> fp8   needs recipes   numerics lossy
 */
#include "fp8_chain.h"
#include "machine.h"
#include "passes.h"
#include "pattern.h"
#include "recipe.h"
#include "reshard.h"

#include <stdlib.h>
#include <string.h>

/* A product that is still wide: what is to be done once no axis is partial any more. */
struct wide {
	struct node_id low;      /* the other half of an exact sum with an e5m2 operand, moved alike; or none */
	struct node_id scale[2]; /* dequantization factors, or none: only a cast */
	const char *equation;
	enum dtype dtype;
};

struct swap {
	struct rebuild r;
	struct compile *c;
	const struct mesh *mesh;
	const struct machine *machine;
	struct uses uses;
	uint32_t local, global;          /* axes given by --scale-scope */
	VEC(struct wide) pending;
	uint32_t *wide;                  /* by old id: 1 + index into pending */
};

/* --- amax, scale, cast --- */

/* Dims of operand `side` that are contracted. */
static int contracted_dims(const struct equation *e, int side, int64_t dims[MAX_RANK])
{
	int count = 0;
	for (int i = 0; i < e->rank[side]; i++)
		if (equation_role(e, e->letter[side][i]) == ROLE_K)
			dims[count++] = i;
	return count;
}

/* Axes over which shards keep their own scale: by default those that shard the dims of row scales. */
static uint32_t scope_of(const struct swap *s, const struct type *t, enum span span, const int64_t *dims, int count)
{
	uint32_t sharding = 0;
	for (int i = 0; i < count; i++)
		sharding |= placement_axes_of(&t->place, (int)dims[i]);
	uint32_t wanted = span == SPAN_TENSOR ? s->local : ~s->global;
	return sharding & wanted;
}

/* Type of the amax of a value, before its reduction. */
static struct type amax_type(const struct swap *s, const struct type *x, const int64_t *dims, int count, uint32_t scope)
{
	struct type t = *x;
	uint32_t reduced = 0;
	t.dtype = DT_F32;
	t.place = (struct placement){ 0 };
	for (int i = 0; i < count; i++) {
		reduced |= 1u << dims[i];
		t.dim[dims[i]] = 1;
	}
	bool scalar = count == x->rank && scope == 0;
	for (int i = 0; i < x->place.count; i++) {
		struct part part = x->place.at[i];
		if ((reduced >> part.dim & 1) && (scope >> part.axis & 1))
			t.dim[part.dim] *= s->mesh->axis[part.axis].size;
		else if (reduced >> part.dim & 1)
			part = (struct part){ part.axis, PART_MAX, 0 };
		placement_set(&t.place, part.axis, &part);
	}
	if (scalar)
		t = (struct type){ .dtype = DT_F32, .place = t.place };
	return t;
}

/* All-reduces over every axis on which the maximum is partial. */
static struct node_id reduce_amax(struct swap *s, struct node_id amax, struct prov_id prov)
{
	struct type t = *graph_type(s->r.to, amax);
	uint32_t axes = 0;
	for (int i = t.place.count; i-- > 0;)
		if (t.place.at[i].kind == PART_MAX) {
			axes |= 1u << t.place.at[i].axis;
			placement_set(&t.place, t.place.at[i].axis, NULL);
		}
	if (axes == 0)
		return amax;
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_AXES, axes);
	attrs_string(&a, ATTR_REDUCE, "max");
	return graph_emit_typed(s->r.to, OP_ALL_REDUCE, &amax, 1, &a, &t, prov);
}

static struct node_id emit_like(struct swap *s, enum op op, const struct node_id *in, int count, const struct attrs *a,
				enum dtype dtype, struct prov_id prov)
{
	struct type t = *graph_type(s->r.to, in[0]);
	t.dtype = (uint8_t)dtype;
	return graph_emit_typed(s->r.to, op, in, count, a, &t, prov);
}

struct quantized { struct node_id codes, factor; }; /* factor: 1/scale */

/* Codes of x by scales over those dims. */
static struct quantized cast_over(struct swap *s, struct node_id x, const int64_t *dims, int count, const struct casting *to, bool pow2,
				  struct prov_id prov)
{
	struct type xt = *graph_type(s->r.to, x);
	uint32_t scope = scope_of(s, &xt, to->span, dims, count);
	struct type mt = amax_type(s, &xt, dims, count, scope);
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, dims, count);
	if (scope != 0)
		attrs_int(&a, ATTR_SCOPE, scope);
	struct node_id amax = reduce_amax(s, graph_emit_typed(s->r.to, OP_AMAX, &x, 1, &a, &mt, prov), prov);
	struct attrs b = { 0 };
	attrs_int(&b, ATTR_DTYPE, to->dtype);
	struct attrs c = b;
	if (pow2)
		attrs_int(&b, ATTR_POW2, 1);
	struct node_id scale = emit_like(s, OP_FP8_SCALE, &amax, 1, &b, DT_F32, prov);
	struct node_id in[2] = { x, scale };
	return (struct quantized){ emit_like(s, OP_FP8_CAST, in, 2, &c, to->dtype, prov),
				   emit_like(s, OP_RECIPROCAL, &scale, 1, NULL, DT_F32, prov) };
}

static struct node_id cast_like_view(struct swap *s, struct node_id view, struct node_id codes)
{
	struct attrs a;
	graph_attrs(s->r.to, view, &a);
	struct type t = *graph_type(s->r.to, view);
	t.dtype = graph_type(s->r.to, codes)->dtype;
	return graph_emit_typed(s->r.to, graph_op(s->r.to, view), &codes, 1, &a, &t, graph_node(s->r.to, view)->prov);
}

/* By one scale for the tensor: what lies under views is cast, so that its other views share the codes. */
static struct quantized cast_tensor(struct swap *s, struct node_id x, const struct casting *to, bool pow2, struct prov_id prov)
{
	static const int64_t all[MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	enum op op = graph_op(s->r.to, x);
	if ((op != OP_RESHAPE && op != OP_PERMUTE) || s->local != 0)
		return cast_over(s, x, all, graph_type(s->r.to, x)->rank, to, pow2, prov);
	struct quantized q = cast_tensor(s, graph_operand(s->r.to, x, 0), to, pow2, prov);
	q.codes = cast_like_view(s, x, q.codes);
	return q;
}

static struct quantized quantize(struct swap *s, struct node_id x, const struct equation *e, int side,
				 const struct product_casts *casts, struct prov_id prov)
{
	const struct casting *to = &casts->operand[side];
	int64_t dims[MAX_RANK];
	if (to->span == SPAN_TENSOR)
		return cast_tensor(s, x, to, casts->pow2, prov);
	return cast_over(s, x, dims, contracted_dims(e, side, dims), to, casts->pow2, prov);
}

/* --- codes that are there already --- */

/* Of x, one of the codes and their scales, what a collective that moved both leaves. */
static struct placement moved_part(const struct type *x, const struct type *moved)
{
	struct placement place = { 0 };
	for (int i = 0; i < moved->place.count; i++) {
		struct part part = moved->place.at[i];
		if (part.kind != PART_SHARD || x->dim[part.dim] > 1)
			placement_set(&place, part.axis, &part);
	}
	return place;
}

/* The collective `move` on x; of scales only what is not the same everywhere moves. */
static struct node_id move_part(struct swap *s, struct node_id move, struct node_id x)
{
	struct type t = *graph_type(s->r.to, x);
	struct placement before = t.place;
	struct attrs a = { 0 }, given;
	int64_t axes = graph_int(s->r.from, move, ATTR_AXES, 0);
	if (t.rank == 0)
		return x;
	t.place = moved_part(&t, graph_type(s->r.from, move));
	if (placement_equal(&t.place, &before))
		return x;
	graph_attrs(s->r.from, move, &given);
	attrs_int(&a, ATTR_AXES, axes);
	if (t.place.count < before.count)
		return graph_emit_typed(s->r.to, OP_ALL_GATHER, &x, 1, &a, &t, graph_node(s->r.from, move)->prov);
	if (t.place.count == before.count || graph_op(s->r.from, move) == OP_SHARD)
		return graph_emit_typed(s->r.to, graph_op(s->r.from, move), &x, 1, &given, &t, graph_node(s->r.from, move)->prov);
	attrs_int(&a, ATTR_DIM, graph_int(s->r.from, move, ATTR_TO_DIM, 0));
	return graph_emit_typed(s->r.to, OP_SHARD, &x, 1, &a, &t, graph_node(s->r.from, move)->prov);
}

/* The stored scale as a factor: f32, of rank 0 or the codes' rank. */
static struct node_id stored_factor(struct swap *s, const struct stored *st, struct prov_id prov)
{
	struct attrs a = { 0 };
	struct type one = { .dtype = DT_F32 };
	if (!node_is(st->scale)) {
		attrs_float(&a, ATTR_VALUE, 1);
		attrs_int(&a, ATTR_DTYPE, DT_F32);
		attrs_ints(&a, ATTR_SHAPE, NULL, 0);
		return graph_emit_typed(s->r.to, OP_FILL, NULL, 0, &a, &one, prov);
	}
	struct node_id x = s->r.map[st->scale.i];
	if (graph_type(s->r.to, x)->dtype != DT_F32) {
		attrs_int(&a, ATTR_DTYPE, DT_F32);
		x = emit_like(s, OP_CAST, &x, 1, &a, DT_F32, prov);
	}
	if (type_count(graph_type(s->r.to, x)) == 1 && graph_type(s->r.to, x)->rank > 0) {
		struct attrs shape = { 0 };
		attrs_ints(&shape, ATTR_SHAPE, NULL, 0);
		x = graph_emit_typed(s->r.to, OP_RESHAPE, &x, 1, &shape, &one, prov);
	}
	return st->divides ? emit_like(s, OP_RECIPROCAL, &x, 1, NULL, DT_F32, prov) : x;
}

/* A view or collective of the old graph, on codes. */
static struct node_id step_codes(struct swap *s, struct node_id step, struct node_id x)
{
	struct type t = *graph_type(s->r.from, step);
	struct attrs a;
	graph_attrs(s->r.from, step, &a);
	t.dtype = graph_type(s->r.to, x)->dtype;
	return graph_emit_typed(s->r.to, graph_op(s->r.from, step), &x, 1, &a, &t, graph_node(s->r.from, step)->prov);
}

/* The same on their scales. */
static struct node_id step_factor(struct swap *s, struct node_id step, struct node_id x)
{
	struct type t = *graph_type(s->r.to, x);
	enum op op = graph_op(s->r.from, step);
	struct attrs a;
	if (t.rank == 0 || (op != OP_PERMUTE && op != OP_RESHAPE))
		return t.rank == 0 ? x : move_part(s, step, x);
	if (!stored_scale_step(s->r.from, step, &t))
		BUG("a scale that a reshape mixes");
	graph_attrs(s->r.from, step, &a);
	if (op == OP_RESHAPE)
		attrs_ints(&a, ATTR_SHAPE, t.dim, t.rank);
	t.place = moved_part(&t, graph_type(s->r.from, step));
	return graph_emit_typed(s->r.to, op, &x, 1, &a, &t, graph_node(s->r.from, step)->prov);
}

static struct quantized take_stored(struct swap *s, const struct stored *st, struct prov_id prov)
{
	struct quantized q = { s->r.map[st->codes.i], stored_factor(s, st, prov) };
	for (int i = 0; i < st->steps; i++) {
		q.codes = step_codes(s, st->step[i], q.codes);
		if (i >= st->inner)
			q.factor = step_factor(s, st->step[i], q.factor);
	}
	return q;
}

/* --- wide products --- */

/* Is the value partial, and only moved, until it is whole? Then it may stay wide till after that. */
static bool only_reduced(const struct swap *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	uint32_t first = s->uses.first[n.i], end = s->uses.first[n.i + 1];
	if (!placement_has_partial(&graph_type(g, n)->place) || first == end)
		return false;
	for (uint32_t k = first; k < end; k++) {
		struct node_id u = s->uses.at[k];
		bool moves = op_is_collective(graph_op(g, u)) || graph_op(g, u) == OP_SHARD;
		if (!moves || shards_a_single(s->mesh, graph_type(g, u)) ||
		    (placement_has_partial(&graph_type(g, u)->place) && !only_reduced(s, u)))
			return false;
	}
	return true;
}

static void set_wide(struct swap *s, struct node_id old, struct wide w)
{
	*vec_push(&s->pending) = w;
	s->wide[old.i] = s->pending.count;
}

/* Scales of operand `side` as a whole product has its rows and columns. */
static struct placement scale_placement(const struct equation *e, int side, const struct type *scale, const struct type *product)
{
	struct placement p = { 0 };
	for (int i = 0; i < product->place.count; i++) {
		const struct part *part = &product->place.at[i];
		for (int d = 0; d < scale->rank; d++)
			if (scale->dim[d] > 1 && e->letter[side][d] == e->letter[2][part->dim])
				placement_set(&p, part->axis, &(struct part){ part->axis, PART_SHARD, (uint8_t)d });
	}
	return p;
}

/* Scales of rows follow the rows that a move of the sum took elsewhere. */
static void follow_product(struct swap *s, struct wide *w, struct node_id product, struct prov_id prov)
{
	struct equation e;
	struct diag d = { 0 };
	struct wire none = { 0 };
	struct reshard_path path;
	if (equation_parse(&e, w->equation, &d) != FS_OK)
		BUG("%s", d.text);
	for (int side = 0; side < 2; side++) {
		struct type t = *graph_type(s->r.to, w->scale[side]);
		struct placement to = scale_placement(&e, side, &t, graph_type(s->r.to, product));
		if (!reshard_path(s->machine, s->mesh, &t, &none, &t.place, &to, &path))
			BUG("scales cannot follow a product");
		for (int i = 0; i < path.count; i++)
			w->scale[side] = reshard_emit(s->r.to, w->scale[side], &path.move[i], prov);
	}
}

static struct node_id finish_wide(struct swap *s, struct wide *w, struct node_id x, struct prov_id prov)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DTYPE, w->dtype);
	follow_product(s, w, x, prov);
	attrs_string(&a, ATTR_EQ, w->equation);
	struct node_id in[4] = { x, w->scale[0], w->scale[1], w->low };
	return emit_like(s, OP_POST_SCALE, in, node_is(w->low) ? 4 : 3, &a, w->dtype, prov);
}

/* The move n of the old graph on x, in x's type. */
static struct node_id move_as(struct swap *s, struct node_id n, struct node_id x)
{
	const struct graph *g = s->r.from;
	struct type t = *graph_type(g, n);
	struct attrs a;
	graph_attrs(g, n, &a);
	t.dtype = graph_type(s->r.to, x)->dtype;
	return graph_emit_typed(s->r.to, graph_op(g, n), &x, 1, &a, &t, graph_node(g, n)->prov);
}

/* A move of a wide product: in the wide type; after the last reduction, scales and rounds. */
static struct node_id move_wide(struct swap *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	struct node_id old = graph_operand(g, n, 0), made = move_as(s, n, s->r.map[old.i]);
	struct wide w = s->pending.items[s->wide[old.i] - 1];
	if (node_is(w.low))
		w.low = move_as(s, n, w.low);
	if (!placement_has_partial(&graph_type(g, n)->place))
		return finish_wide(s, &w, made, graph_node(g, n)->prov);
	set_wide(s, n, w);
	return made;
}

/* --- which, and how --- */

static struct matmul_report *report_of(const struct swap *s, struct node_id n)
{
	const struct prov *p = graph_prov(s->r.from, n);
	const char *role = graph_string(s->r.from, n, ATTR_ROLE);
	for (uint32_t i = 0; i < s->c->matmuls.count; i++) {
		struct matmul_report *r = &s->c->matmuls.items[i];
		if (r->node == p->node && (p->node != NULL || r->module == p->module) && (role == NULL || strcmp(r->role, role) == 0))
			return r;
	}
	return NULL;
}

/*
 * --fp8-auto: is fp8 faster on the local shapes?  Twice the rate in the product, against one read for
 * the amax, one read and a write of codes for the cast of the left operand (the weight is cast once).
 */
static bool pays(const struct swap *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	int64_t shape[3][MAX_RANK];
	for (int k = 0; k < 2; k++)
		type_local_shape(graph_type(g, graph_operand(g, n, k)), s->mesh, NULL, shape[k]);
	type_local_shape(graph_type(g, n), s->mesh, NULL, shape[2]);
	const struct type *x = graph_type(g, graph_operand(g, n, 0));
	double high = (double)op_price(s->machine, g, n, (const int64_t (*)[MAX_RANK])shape);
	double bytes = (double)type_local_count(x, s->mesh, NULL) * (2.0 * dtype_size((enum dtype)x->dtype) + 1);
	return high / 2 > bytes / s->machine->memory * 1e12;
}

#define AUTO_REASON "--fp8-auto: faster without, on the local shapes"

static void note_refusal(const struct swap *s, struct node_id n, struct attrs *a)
{
	struct matmul_report *r = report_of(s, n);
	if (r != NULL) {
		r->recipe = "none";
		r->reason = AUTO_REASON;
	}
	attrs_string(a, ATTR_RECIPE, "none");
	attrs_string(a, ATTR_REASON, AUTO_REASON);
}

/* Is the product partial over an axis on which row scales differ from shard to shard? */
static bool scales_differ(const struct swap *s, const struct quantized *q, const struct equation *e)
{
	for (int side = 0; side < 2; side++) {
		const struct type *t = graph_type(s->r.to, q[side].factor);
		for (int i = 0; i < t->place.count; i++)
			if (t->place.at[i].kind == PART_SHARD && equation_role(e, e->letter[side][t->place.at[i].dim]) == ROLE_K)
				return true;
	}
	return false;
}

/* The products of the smaller codes of an e5m2 operand: an f64 sum of all would round. */
static struct node_id low_half(struct swap *s, struct node_id product, const struct quantized q[2], struct prov_id prov)
{
	struct attrs a = { 0 };
	if (graph_type(s->r.to, q[0].codes)->dtype != DT_E5M2 && graph_type(s->r.to, q[1].codes)->dtype != DT_E5M2)
		return NODE_NONE;
	attrs_int(&a, ATTR_INDEX, 1);
	attrs_int(&a, ATTR_DTYPE, DT_F64);
	return emit_like(s, OP_PROJ, &product, 1, &a, DT_F64, prov);
}

static struct node_id emit_product(struct swap *s, struct node_id n, const struct quantized q[2], enum dtype dtype, int count)
{
	const struct graph *g = s->r.from;
	struct type t = *graph_type(g, n);
	struct attrs a = { 0 };
	t.dtype = (uint8_t)dtype;
	attrs_string(&a, ATTR_EQ, graph_string(g, n, ATTR_EQ));
	if (s->c->exact)
		attrs_int(&a, ATTR_EXACT, 1);
	if (graph_has(g, n, ATTR_ROLE))
		attrs_string(&a, ATTR_ROLE, graph_string(g, n, ATTR_ROLE));
	attrs_int(&a, ATTR_DTYPE, dtype);
	struct node_id in[4] = { q[0].codes, q[1].codes, q[0].factor, q[1].factor };
	return graph_emit_typed(s->r.to, OP_SCALED_MATMUL, in, count, &a, &t, graph_node(g, n)->prov);
}

static struct node_id swap_matmul(struct swap *s, struct node_id n, const struct product_casts *casts)
{
	const struct graph *g = s->r.from;
	struct equation e;
	struct diag d = { 0 };
	struct wide w = { .equation = graph_string(g, n, ATTR_EQ), .dtype = (enum dtype)graph_type(g, n)->dtype };
	struct prov_id made_here = rebuild_prov(&s->r, n);
	if (equation_parse(&e, w.equation, &d) != FS_OK)
		BUG("%s", d.text);
	struct quantized q[2];
	struct stored st;
	for (int side = 0; side < 2; side++)
		q[side] = stored_operand(g, n, side, &st)
			? take_stored(s, &st, made_here)
			: quantize(s, s->r.map[graph_operand(g, n, side).i], &e, side, casts, made_here);
	if (!s->c->exact || !only_reduced(s, n) || scales_differ(s, q, &e))
		return emit_product(s, n, q, w.dtype, 4);
	struct node_id product = emit_product(s, n, q, DT_F64, 2);
	w.low = low_half(s, product, q, made_here);
	w.scale[0] = q[0].factor;
	w.scale[1] = q[1].factor;
	set_wide(s, n, w);
	return product;
}

/* A matmul that keeps its dtype. */
static struct node_id plain_matmul(struct swap *s, struct node_id n, bool refused)
{
	const struct graph *g = s->r.from;
	struct node_id in[2] = { s->r.map[graph_operand(g, n, 0).i], s->r.map[graph_operand(g, n, 1).i] };
	struct attrs a;
	graph_attrs(g, n, &a);
	if (refused)
		note_refusal(s, n, &a);
	return graph_emit_typed(s->r.to, OP_MATMUL, in, 2, &a, graph_type(g, n), graph_node(g, n)->prov);
}

static struct node_id swap_node(struct swap *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	struct product_casts casts;
	if (graph_op(g, n) == OP_MATMUL) {
		bool asked = matmul_casts(g, n, &casts), lifted = graph_string(g, n, ATTR_REASON) != NULL;
		bool refused = asked && !lifted && s->c->fp8_auto && !pays(s, n); /* the graph's own fp8 stays */
		return asked && !refused ? swap_matmul(s, n, &casts) : plain_matmul(s, n, refused);
	}
	if (graph_node(g, n)->count == 1 && s->wide[graph_operand(g, n, 0).i] != 0)
		return move_wide(s, n);
	return rebuild_copy(&s->r, n);
}

static enum fs_status read_scopes(struct swap *s, struct diag *d)
{
	for (uint32_t i = 0; i < s->c->scopes.count; i++) {
		const struct request *r = &s->c->scopes.items[i];
		int axis;
		if (axis_named(s->mesh, r->pattern, &axis, d) != FS_OK)
			return diag_prefix(d, "%s '%s=%s'", r->origin, r->pattern, r->value);
		bool local = strcmp(r->value, "local") == 0;
		if (!local && strcmp(r->value, "global") != 0)
			return diag_set(d, FS_INVALID, "%s '%s=%s': the scope is local or global", r->origin, r->pattern, r->value);
		*(local ? &s->local : &s->global) |= 1u << axis;
	}
	return FS_OK;
}

/* Operands that were to keep the codes that the graph gives them, and cannot. */
static enum fs_status check_kept(const struct graph *g, struct node_id n, struct diag *d)
{
	struct stored st;
	char where[256];
	const char *recipe = graph_op(g, n) == OP_MATMUL ? graph_string(g, n, ATTR_RECIPE) : NULL;
	const char *reason = recipe != NULL && strcmp(recipe, "none") != 0 ? graph_string(g, n, ATTR_REASON) : NULL;
	for (int side = 0; reason != NULL && side < 2; side++)
		if (lifted_keeps(reason, side) && !stored_operand(g, n, side, &st)) {
			node_describe(g, n, where, sizeof(where));
			return diag_set(d, FS_UNSUPPORTED, "%s: the codes of its operand %d cannot be kept; give --fp8 'PATTERN=none' for it",
					where, side);
		}
	return FS_OK;
}

enum fs_status pass_swap_fp8(struct graph **g, struct compile *c, struct diag *d)
{
	struct swap s = { .c = c, .mesh = context_mesh((*g)->context) };
	TRY(machine_find(c->target, &s.machine, d));
	TRY(read_scopes(&s, d));
	for (uint32_t i = 1; i < (*g)->nodes.count; i++)
		TRY(check_kept(*g, (struct node_id){ i }, d));
	s.uses = uses_make(*g);
	s.wide = calloc((*g)->nodes.count, sizeof(*s.wide));
	if (s.wide == NULL)
		BUG("out of memory");
	rebuild_init(&s.r, *g, STAGE_FP8, "swap_fp8");
	for (uint32_t i = 1; i < (*g)->nodes.count; i++)
		if (s.r.reached[i])
			s.r.map[i] = swap_node(&s, (struct node_id){ i });
	rebuild_finish(&s.r, g);
	uses_release(&s.uses);
	vec_release(&s.pending);
	free(s.wide);
	return FS_OK;
}
