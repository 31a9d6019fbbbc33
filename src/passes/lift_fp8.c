/*
 * lift_fp8: products of codes that the graph computes by itself become plain matmuls with a recipe.
 *
 *     %s = … 448 / amax %x …
 *     %q = cast (clamp %x * %s) {dtype=e4m3}
 *     %y = scaled_matmul %q, %w, 1/%s, %f   =>   %v = mul (cast %w {dtype=f32}), %f
 *                                                %y = matmul %x, (cast %v {dtype=bf16}) {recipe="tensorwise"}
 *
 * An operand that is quantized by its own amax, one for the tensor or one a row, is taken as it was
 * before; the recipe does the same again after placement.  Codes of any other origin (weights stored as
 * codes, fixed scales) stay: they are written as codes times their scale, which places like anything
 * pointwise, and swap_fp8 takes codes and scale from there unchanged.  A transpose of such codes moves
 * behind the scaling, where a matmul takes it into its equation.
 *
 * stage global   needs nothing   numerics lossy (till swap_fp8 the product is in high precision)
 */
#include "fp8_chain.h"
#include "passes.h"

#include <string.h>

#define MAX_VIEWS 16

/* One operand of a scaled_matmul. */
struct side {
	bool lifted;
	struct dynamic from; /* where lifted */
	struct node_id views[MAX_VIEWS]; /* from the quantized value to the operand, last first */
	int view_count;
	bool flipped;        /* codes that stay: the operand is their transpose */
};

/* --- reading --- */

static int contracted_dim(const struct equation *e, int side)
{
	for (int i = 0; i < e->rank[side]; i++)
		if (equation_role(e, e->letter[side][i]) == ROLE_K)
			return i;
	return -1;
}

/* The dim of a view's operand that is all of dim `dim` of the view; -1: none. */
static int dim_before(const struct graph *g, struct node_id view, int dim)
{
	const struct type *to = graph_type(g, view), *from = graph_type(g, graph_operand(g, view, 0));
	const int64_t *dims;
	if (graph_op(g, view) == OP_COPY)
		return dim;
	if (graph_op(g, view) == OP_PERMUTE && graph_ints(g, view, ATTR_DIMS, &dims) > dim)
		return (int)dims[dim];
	bool last = dim == to->rank - 1 && from->rank > 0 && from->dim[from->rank - 1] == to->dim[dim];
	return last ? from->rank - 1 : -1;
}

static bool is_passed(enum op op)
{
	return op == OP_RESHAPE || op == OP_PERMUTE || op == OP_COPY;
}

/* Is operand `k` quantized by its own amax, over the tensor or along what is contracted? */
static bool read_side(const struct graph *g, struct node_id n, const struct equation *e, int k, struct side *s)
{
	struct node_id codes = graph_operand(g, n, k);
	int dim = contracted_dim(e, k);
	for (; is_passed(graph_op(g, codes)) && s->view_count < MAX_VIEWS; codes = graph_operand(g, codes, 0)) {
		s->views[s->view_count++] = codes;
		dim = dim < 0 ? -1 : dim_before(g, codes, dim);
	}
	if (!dynamic_find(g, codes, graph_operand(g, n, 2 + k), &s->from))
		return false;
	s->from.why = "amax is along another dim";
	return s->from.dim < 0 || s->from.dim == dim;
}

/* --- writing --- */

/* The value that was quantized, under the views that its codes had. */
static struct node_id emit_lifted(struct rebuild *r, const struct side *s, struct prov_id prov)
{
	struct node_id x = r->map[s->from.x.i];
	for (int i = s->view_count - 1; i >= 0; i--) {
		struct attrs a;
		graph_attrs(r->from, s->views[i], &a);
		x = graph_emit(r->to, graph_op(r->from, s->views[i]), &x, 1, &a, prov);
	}
	return x;
}

static struct node_id emit_cast(struct rebuild *r, struct node_id x, enum dtype dtype, struct prov_id prov)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DTYPE, dtype);
	return graph_emit(r->to, OP_CAST, &x, 1, &a, prov);
}

static struct node_id transposed(struct rebuild *r, struct node_id x, struct prov_id prov)
{
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, (int64_t[]){ 1, 0 }, 2);
	return graph_type(r->to, x)->rank == 2 ? graph_emit(r->to, OP_PERMUTE, &x, 1, &a, prov) : x;
}

/* The value under reshapes of codes and scale that keep the rows: both of one rank, one scale a row. */
static bool before_reshape(const struct graph *g, struct node_id codes, struct node_id scale, struct node_id in[2])
{
	if (graph_op(g, codes) != OP_RESHAPE || graph_op(g, scale) != OP_RESHAPE)
		return false;
	in[0] = graph_operand(g, codes, 0);
	in[1] = graph_operand(g, scale, 0);
	const struct type *from = graph_type(g, in[0]), *s = graph_type(g, in[1]), *to = graph_type(g, codes);
	if (from->rank < 1 || s->rank != from->rank || s->dim[s->rank - 1] != 1 || graph_type(g, scale)->dim[1] != 1 ||
	    from->dim[from->rank - 1] != to->dim[1])
		return false;
	return memcmp(s->dim, from->dim, sizeof(s->dim[0]) * (size_t)(s->rank - 1)) == 0;
}

static struct node_id emit_scaled(struct rebuild *r, struct node_id codes, struct node_id scale, struct prov_id prov)
{
	struct node_id in[2] = { emit_cast(r, codes, DT_F32, prov), scale };
	return graph_emit(r->to, OP_MUL, in, 2, NULL, prov);
}

/* Codes times their scale; a transpose goes into the equation, a reshape of both after the product. */
static struct node_id emit_stored(struct rebuild *r, struct node_id n, int k, struct side *s, struct prov_id prov)
{
	const struct graph *g = r->from;
	struct node_id codes = graph_operand(g, n, k), scale = graph_operand(g, n, 2 + k), in[2];
	struct attrs a;
	for (; graph_op(g, codes) == OP_COPY || graph_op(g, codes) == OP_PERMUTE; codes = graph_operand(g, codes, 0))
		s->flipped ^= graph_op(g, codes) == OP_PERMUTE;
	if (s->flipped || !before_reshape(g, codes, scale, in)) {
		in[1] = r->map[scale.i];
		return emit_scaled(r, r->map[codes.i], s->flipped ? transposed(r, in[1], prov) : in[1], prov);
	}
	in[0] = emit_scaled(r, r->map[in[0].i], r->map[in[1].i], prov);
	graph_attrs(g, codes, &a);
	return graph_emit(r->to, OP_RESHAPE, in, 1, &a, prov);
}

static void flip(struct equation *e, int k)
{
	char first = e->letter[k][0];
	e->letter[k][0] = e->letter[k][1];
	e->letter[k][1] = first;
}

static const char *equation_text(struct context *c, const struct equation *e)
{
	char text[3 * MAX_RANK + 4];
	snprintf(text, sizeof(text), "%.*s,%.*s->%.*s", e->rank[0], e->letter[0], e->rank[1], e->letter[1], e->rank[2],
		 e->letter[2]);
	return context_intern(c, text);
}

/* Of codes that stay on both sides it says but how their scales lie. */
static const char *recipe_of(const struct graph *g, struct node_id n, const struct side side[2])
{
	const struct side *s = side[0].lifted ? &side[0] : &side[1];
	if (!s->lifted)
		return type_count(graph_type(g, graph_operand(g, n, 2))) > 1 ? "rowwise" : "tensorwise";
	if (s->from.dim < 0)
		return s->from.pow2 ? "tensorwise:pow2" : "tensorwise";
	return s->from.pow2 ? "rowwise:pow2" : "rowwise";
}

/* The dtype of both operands: that of what was lifted, of both the wider one. */
static enum dtype common_dtype(const struct graph *g, struct node_id n, const struct side side[2])
{
	enum dtype t[2];
	for (int k = 0; k < 2; k++)
		t[k] = side[k].lifted ? (enum dtype)graph_type(g, side[k].from.x)->dtype : DT_NONE;
	if (t[0] == DT_NONE && t[1] == DT_NONE)
		return (enum dtype)graph_type(g, n)->dtype;
	if (t[0] == DT_NONE || t[1] == DT_NONE || t[0] == t[1])
		return t[0] == DT_NONE ? t[1] : t[0];
	return DT_F32;
}

/* Two amaxes of different kinds: one recipe cannot say both, so the weight keeps its codes. */
static bool kinds_differ(const struct side side[2])
{
	return side[0].lifted && side[1].lifted &&
	       ((side[0].from.dim < 0) != (side[1].from.dim < 0) || side[0].from.pow2 != side[1].from.pow2);
}

static struct node_id lift(struct rebuild *r, struct node_id n, struct equation e)
{
	const struct graph *g = r->from;
	struct side side[2] = { 0 };
	struct node_id in[2];
	struct attrs a = { 0 };
	struct prov_id prov = graph_node(g, n)->prov, here = rebuild_prov(r, n);
	for (int k = 0; k < 2; k++)
		side[k].lifted = read_side(g, n, &e, k, &side[k]);
	if (kinds_differ(side)) {
		side[1].lifted = false;
		side[1].from.why = "scaled in another way than a";
	}
	enum dtype common = common_dtype(g, n, side);
	for (int k = 0; k < 2; k++) {
		in[k] = side[k].lifted ? emit_lifted(r, &side[k], here) : emit_stored(r, n, k, &side[k], here);
		in[k] = emit_cast(r, in[k], common, here);
		if (side[k].flipped)
			flip(&e, k);
	}
	attrs_string(&a, ATTR_EQ, equation_text(g->context, &e));
	if (graph_type(g, n)->dtype != common)
		attrs_int(&a, ATTR_DTYPE, graph_type(g, n)->dtype);
	attrs_string(&a, ATTR_RECIPE, context_intern(g->context, recipe_of(g, n, side)));
	const char *kept[2] = { side[0].lifted ? NULL : side[0].from.why, side[1].lifted ? NULL : side[1].from.why };
	attrs_string(&a, ATTR_REASON, lifted_reason(g->context, kept));
	return graph_emit(r->to, OP_MATMUL, in, 2, &a, prov);
}

/* --- which --- */

/* Are the scales of operand k one number, or one for each row (along what is not contracted)? */
static bool scales_fit(const struct graph *g, struct node_id n, const struct equation *e, int k)
{
	const struct type *codes = graph_type(g, graph_operand(g, n, k)), *s = graph_type(g, graph_operand(g, n, 2 + k));
	for (int i = 0; i < s->rank; i++) {
		bool contracted = equation_role(e, e->letter[k][i]) == ROLE_K;
		if (s->dim[i] != 1 && (contracted || s->dim[i] != codes->dim[i]))
			return false;
	}
	return true;
}

static enum fs_status lift_node(struct rebuild *r, struct node_id n, struct diag *d)
{
	const struct graph *g = r->from;
	struct equation e;
	char where[256];
	TRY(equation_parse(&e, graph_string(g, n, ATTR_EQ), d));
	if (scales_fit(g, n, &e, 0) && scales_fit(g, n, &e, 1)) {
		r->map[n.i] = lift(r, n, e);
		return FS_OK;
	}
	node_describe(g, n, where, sizeof(where));
	return diag_set(d, FS_UNSUPPORTED, "%s: aten._scaled_mm with scales of blocks or along K is not supported; one a tensor or one a "
			"row is", where);
}

/* --- transposes behind the scaling --- */

/* `x`, an operand of a pointwise op, as it would be before the permute: of any rank that broadcasts so. */
static bool permuted_back(struct rebuild *r, struct node_id *x, const int64_t *dims, int rank, struct prov_id prov)
{
	const struct type *t = graph_type(r->to, *x);
	int64_t back[MAX_RANK];
	struct attrs a = { 0 };
	if (type_count(t) == 1 && t->rank <= rank)
		return true;
	if (t->rank != rank)
		return false;
	for (int i = 0; i < rank; i++)
		back[dims[i]] = i;
	attrs_ints(&a, ATTR_DIMS, back, rank);
	*x = graph_emit(r->to, OP_PERMUTE, x, 1, &a, prov);
	return true;
}

static bool holds_codes(const struct graph *g, struct node_id n)
{
	struct stored s;
	return dtype_class((enum dtype)graph_type(g, n)->dtype) == DC_FP8 || stored_find(g, n, &s);
}

/* cast, mul or div of permuted codes: the permute of it. */
static bool permute_last(struct rebuild *r, struct node_id n)
{
	const struct node *node = graph_node(r->from, n);
	struct node_id in[2];
	struct attrs permute, a;
	const int64_t *dims;
	if ((node->op != OP_CAST && node->op != OP_MUL && node->op != OP_DIV) || node->count > 2)
		return false;
	for (int k = 0; k < node->count; k++)
		in[k] = r->map[graph_operand(r->from, n, k).i];
	struct node_id view = in[0];
	if (graph_op(r->to, view) != OP_PERMUTE || !holds_codes(r->to, graph_operand(r->to, view, 0)) ||
	    graph_type(r->from, n)->rank != graph_type(r->to, view)->rank)
		return false;
	int rank = graph_ints(r->to, view, ATTR_DIMS, &dims);
	struct prov_id prov = rebuild_prov(r, n);
	in[0] = graph_operand(r->to, view, 0);
	if (node->count == 2 && !permuted_back(r, &in[1], dims, rank, prov))
		return false;
	graph_attrs(r->to, view, &permute);
	graph_attrs(r->from, n, &a);
	in[0] = graph_emit(r->to, (enum op)node->op, in, node->count, &a, prov);
	r->map[n.i] = graph_emit(r->to, OP_PERMUTE, in, 1, &permute, node->prov);
	return true;
}

static bool liftable(const struct graph *g, struct node_id n)
{
	return graph_op(g, n) == OP_SCALED_MATMUL && graph_node(g, n)->count == 4 &&
	       graph_type(g, graph_operand(g, n, 0))->rank == 2 && graph_type(g, graph_operand(g, n, 1))->rank == 2;
}

enum fs_status pass_lift_fp8(struct graph **g, struct compile *c, struct diag *d)
{
	(void)c;
	struct rebuild r;
	enum fs_status status = FS_OK;
	rebuild_init(&r, *g, STAGE_GLOBAL, "lift_fp8");
	for (uint32_t i = 1; i < (*g)->nodes.count && status == FS_OK; i++) {
		struct node_id n = { i };
		if (!r.reached[i])
			continue;
		if (liftable(*g, n))
			status = lift_node(&r, n, d);
		else if (!permute_last(&r, n))
			r.map[i] = rebuild_copy(&r, n);
	}
	if (status == FS_OK)
		rebuild_finish(&r, g);
	else
		rebuild_abandon(&r);
	return status;
}
