/*
 * Placements that the factor rules do not speak of: reshards and collectives, whose result's
 * placement follows from the operand's, and the fp8 ops, whose scales follow what they scale.
 */
#include "verify.h"

#include <string.h>

static const struct placement *place_of(const struct verifier *v, struct node_id n, int k)
{
	return &verify_type(v, n, k)->place;
}

/* The result has the placement `p`. */
static enum fs_status expect(const struct verifier *v, struct node_id n, const struct placement *p)
{
	char wanted[256], type[256], from[256];
	if (placement_equal(p, &graph_type(v->graph, n)->place))
		return FS_OK;
	placement_text(p, v->mesh, wanted, sizeof(wanted));
	type_text(graph_type(v->graph, n), v->mesh, type, sizeof(type));
	type_text(verify_type(v, n, 0), v->mesh, from, sizeof(from));
	return verify_fail(v, n, "the type is %s; of %s it gives %s", type, from, wanted);
}

static enum fs_status cannot(const struct verifier *v, struct node_id n, const char *why)
{
	char from[256];
	type_text(verify_type(v, n, 0), v->mesh, from, sizeof(from));
	return verify_fail(v, n, "%s: the operand is %s", why, from);
}

/* --- moves --- */

static int innermost(const struct placement *p, int dim)
{
	int found = -1;
	for (int i = 0; i < p->count; i++)
		if (p->at[i].kind == PART_SHARD && p->at[i].dim == dim)
			found = i;
	return found;
}

/* Removes shards of `dim`: those of `axes` must be the innermost, nested in mesh order. */
static bool remove_shards(struct placement *p, uint32_t axes, int dim)
{
	for (int before = MAX_AXES; axes != 0;) {
		int i = innermost(p, dim), axis = i < 0 ? MAX_AXES : p->at[i].axis;
		if (axis >= before || !(axes >> axis & 1))
			return false;
		axes &= ~(1u << axis);
		before = axis;
		placement_set(p, axis, NULL);
	}
	return true;
}

static void add_shards(struct placement *p, uint32_t axes, int dim)
{
	for (int axis = 0; axis < MAX_AXES; axis++)
		if (axes >> axis & 1)
			placement_set(p, axis, &(struct part){ (uint8_t)axis, PART_SHARD, (uint8_t)dim });
}

/* Removes what `axes` do, which must be to hold partial values of this kind. */
static bool remove_partial(struct placement *p, uint32_t axes, label kind)
{
	for (int axis = 0; axis < MAX_AXES; axis++) {
		if (!(axes >> axis & 1))
			continue;
		if (label_of(p, axis) != kind)
			return false;
		placement_set(p, axis, NULL);
	}
	return true;
}

static uint32_t axes_of(const struct verifier *v, struct node_id n)
{
	return (uint32_t)graph_int(v->graph, n, ATTR_AXES, 0);
}

static int dim_of(const struct verifier *v, struct node_id n, enum attr_key key)
{
	return (int)graph_int(v->graph, n, key, 0);
}

static label reduction_of(const struct verifier *v, struct node_id n)
{
	const char *s = graph_string(v->graph, n, ATTR_REDUCE);
	return strcmp(s, "max") == 0 ? LABEL_MAX : strcmp(s, "min") == 0 ? LABEL_MIN : LABEL_SUM;
}

static enum fs_status verify_all_gather(const struct verifier *v, struct node_id n)
{
	struct placement p = *place_of(v, n, 0);
	uint32_t axes = axes_of(v, n);
	int i = placement_find(&p, __builtin_ctz(axes));
	if (i < 0 || p.at[i].kind != PART_SHARD || !remove_shards(&p, axes, p.at[i].dim))
		return cannot(v, n, "its axes are not the innermost shards of one dim, in mesh order");
	return expect(v, n, &p);
}

static enum fs_status verify_reduce_scatter(const struct verifier *v, struct node_id n)
{
	struct placement p = *place_of(v, n, 0);
	if (!remove_partial(&p, axes_of(v, n), reduction_of(v, n)))
		return cannot(v, n, "its axes do not hold partial values of this reduction");
	add_shards(&p, axes_of(v, n), dim_of(v, n, ATTR_DIM));
	return expect(v, n, &p);
}

static enum fs_status verify_all_reduce(const struct verifier *v, struct node_id n)
{
	struct placement p = *place_of(v, n, 0);
	if (!remove_partial(&p, axes_of(v, n), reduction_of(v, n)))
		return cannot(v, n, "its axes do not hold partial values of this reduction");
	return expect(v, n, &p);
}

static enum fs_status verify_all_to_all(const struct verifier *v, struct node_id n)
{
	struct placement p = *place_of(v, n, 0);
	if (!remove_shards(&p, axes_of(v, n), dim_of(v, n, ATTR_FROM)))
		return cannot(v, n, "its axes are not the innermost shards of 'from', in mesh order");
	add_shards(&p, axes_of(v, n), dim_of(v, n, ATTR_TO_DIM));
	return expect(v, n, &p);
}

static enum fs_status verify_shard(const struct verifier *v, struct node_id n)
{
	struct placement p = *place_of(v, n, 0);
	if (!remove_partial(&p, axes_of(v, n), LABEL_R))
		return cannot(v, n, "the operand is not replicated over its axes");
	add_shards(&p, axes_of(v, n), dim_of(v, n, ATTR_DIM));
	return expect(v, n, &p);
}

/* To any placement, but for values that become partial. */
static enum fs_status verify_reshard(const struct verifier *v, struct node_id n)
{
	const struct placement *to = graph_placement(v->graph, n), *from = place_of(v, n, 0);
	for (int i = 0; i < to->count; i++)
		if (to->at[i].kind != PART_SHARD && label_of(from, to->at[i].axis) != label_of(to, to->at[i].axis))
			return cannot(v, n, "a value cannot be made partial");
	return expect(v, n, to);
}

static enum fs_status verify_as_operand(const struct verifier *v, struct node_id n)
{
	return expect(v, n, place_of(v, n, 0));
}

/* --- fp8: amax, scale, cast --- */

/* Shards of a dim that is reduced make a partial maximum; over the axes of `scope` they stay. */
static enum fs_status verify_amax(const struct verifier *v, struct node_id n)
{
	const struct placement *from = place_of(v, n, 0);
	uint32_t scope = (uint32_t)graph_int(v->graph, n, ATTR_SCOPE, 0), reduced = 0;
	const int64_t *dims;
	struct placement p = { 0 };
	for (int i = graph_ints(v->graph, n, ATTR_DIMS, &dims); i-- > 0;)
		reduced |= 1u << dims[i];
	for (int i = 0; i < from->count; i++) {
		struct part part = from->at[i];
		if (part.kind != PART_SHARD)
			return cannot(v, n, "magnitudes of a partial value");
		if (reduced >> part.dim & 1 && !(scope >> part.axis & 1))
			part = (struct part){ part.axis, PART_MAX, 0 };
		if (part.kind == PART_MAX || graph_type(v->graph, n)->rank > 0)
			placement_set(&p, part.axis, &part);
	}
	return expect(v, n, &p);
}

static enum fs_status verify_scale(const struct verifier *v, struct node_id n)
{
	if (placement_has_partial(place_of(v, n, 0)))
		return cannot(v, n, "the scale of a partial maximum");
	return verify_as_operand(v, n);
}

/*
 * On an axis, the scales of a tensor are there where what they scale is: replicated where one scale
 * covers the dim, or where blocks of scales are sharded by other axes of the dim alone.
 */
static bool scales_fit(const struct type *scale, const struct type *of, int axis)
{
	label s = label_of(&scale->place, axis), x = label_of(&of->place, axis);
	if (s != LABEL_R)
		return s == x && s >= LABEL_S(0);
	if (scale->rank == 0 || x < LABEL_S(0))
		return true;
	int dim = x - LABEL_S(0);
	bool blocks = scale->dim[dim] != of->dim[dim];
	return scale->dim[dim] == 1 || (blocks && placement_axes_of(&scale->place, dim) != 0);
}

static enum fs_status check_scales(const struct verifier *v, struct node_id n, int scale, int of)
{
	for (int axis = 0; axis < v->mesh->count; axis++)
		if (!scales_fit(verify_type(v, n, scale), verify_type(v, n, of), axis))
			return verify_fail_axis(v, n, axis, "scales are not placed as what they scale");
	return FS_OK;
}

static enum fs_status verify_cast(const struct verifier *v, struct node_id n)
{
	if (placement_has_partial(place_of(v, n, 0)))
		return cannot(v, n, "codes of a partial value");
	TRY(check_scales(v, n, 1, 0));
	return verify_as_operand(v, n);
}

/* --- fp8: products --- */

static void equation_of(const struct verifier *v, struct node_id n, struct equation *e)
{
	struct diag d = { 0 };
	if (equation_parse(e, graph_string(v->graph, n, ATTR_EQ), &d) != FS_OK)
		BUG("op_infer() let the equation pass: %s", d.text);
}

/* The letter of the dim that a label shards; 0: none. */
static char letter_of(const struct equation *e, int value, label l)
{
	return l >= LABEL_S(0) ? e->letter[value][l - LABEL_S(0)] : '\0';
}

static int dim_of_letter(const struct equation *e, int value, char letter)
{
	for (int i = 0; i < e->rank[value]; i++)
		if (e->letter[value][i] == letter)
			return i;
	return -1;
}

static bool is_partial(label l)
{
	return l == LABEL_SUM || l == LABEL_MAX || l == LABEL_MIN;
}

/* What the product of a and b is on an axis; false: they do not go together. */
static bool product_label(const struct equation *e, label a, label b, label *out)
{
	char x = letter_of(e, 0, a), y = letter_of(e, 1, b), letter = x ? x : y;
	*out = LABEL_R;
	if (is_partial(a) || is_partial(b))
		return false;
	if (letter == '\0')
		return true;
	enum letter_role role = equation_role(e, letter);
	if (x != y && (role == ROLE_BATCH || role == ROLE_K || (x && y)))
		return false;
	*out = role == ROLE_K ? LABEL_SUM : LABEL_S(dim_of_letter(e, 2, letter));
	return true;
}

static enum fs_status verify_scaled_matmul(const struct verifier *v, struct node_id n)
{
	struct equation e;
	equation_of(v, n, &e);
	for (int axis = 0; axis < v->mesh->count; axis++) {
		label a = label_of(place_of(v, n, 0), axis), b = label_of(place_of(v, n, 1), axis), made;
		if (!product_label(&e, a, b, &made) || made != label_of(&graph_type(v->graph, n)->place, axis))
			return verify_fail_axis(v, n, axis, "no rule allows the placements");
	}
	for (int k = 2; k < graph_node(v->graph, n)->count; k++)
		TRY(check_scales(v, n, k, k - 2));
	return FS_OK;
}

/* Whether an accumulator labelled `acc` may be multiplied by these scales of operand `value` of its product. */
static bool post_scale_fits(const struct equation *e, const struct type *scale, int value, label acc, label s)
{
	char letter = letter_of(e, value, s), sharded = letter_of(e, 2, acc);
	if (is_partial(s))
		return false;
	if (letter != '\0')
		return equation_role(e, letter) == ROLE_K ? acc == LABEL_SUM : letter == sharded;
	int dim = sharded == '\0' || scale->rank == 0 ? -1 : dim_of_letter(e, value, sharded);
	return dim < 0 || scale->dim[dim] == 1;
}

static enum fs_status verify_post_scale(const struct verifier *v, struct node_id n)
{
	struct equation e;
	equation_of(v, n, &e);
	for (int axis = 0; axis < v->mesh->count; axis++) {
		label acc = label_of(place_of(v, n, 0), axis);
		bool fits = acc != LABEL_MAX && acc != LABEL_MIN;
		for (int k = 1; k <= 2; k++)
			fits = fits && post_scale_fits(&e, verify_type(v, n, k), k - 1, acc, label_of(place_of(v, n, k), axis));
		if (graph_node(v->graph, n)->count == 4)
			fits = fits && label_of(place_of(v, n, 3), axis) == acc;
		if (!fits)
			return verify_fail_axis(v, n, axis, "no rule allows the placements");
	}
	return verify_as_operand(v, n);
}

verify_rule *verify_rule_of(enum op op)
{
	static verify_rule *const rules[OP_COUNT] = {
		[OP_PROJ] = verify_as_operand,
		[OP_COPY] = verify_as_operand,
		[OP_RESHARD] = verify_reshard,
		[OP_ALL_GATHER] = verify_all_gather,
		[OP_REDUCE_SCATTER] = verify_reduce_scatter,
		[OP_ALL_REDUCE] = verify_all_reduce,
		[OP_ALL_TO_ALL] = verify_all_to_all,
		[OP_SHARD] = verify_shard,
		[OP_AMAX] = verify_amax,
		[OP_FP8_SCALE] = verify_scale,
		[OP_FP8_CAST] = verify_cast,
		[OP_SCALED_MATMUL] = verify_scaled_matmul,
		[OP_POST_SCALE] = verify_post_scale,
	};
	return rules[op];
}
