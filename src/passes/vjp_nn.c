/* VJPs of products, attention and normalization. */
#include "vjp.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* --- products --- */

/* Of a: the gradient times b, contracted over b's own letters; of b alike. */
void vjp_matmul(struct vjp *v)
{
	struct equation e;
	struct diag d = { 0 };
	char letters[3][MAX_RANK + 1];
	if (equation_parse(&e, graph_string(v->g, v->n, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	for (int i = 0; i < 3; i++) {
		memcpy(letters[i], e.letter[i], (size_t)e.rank[i]);
		letters[i][e.rank[i]] = '\0';
	}
	for (int k = 0; k < 2; k++) {
		struct node_id other = vjp_value(v, 1 - k);
		if (vjp_wants(v, k))
			vjp_give(v, k, build_product(v, letters[2], v->grad, letters[1 - k], other, letters[k],
						     (enum dtype)graph_type(v->g, other)->dtype));
	}
}

/* --- attention --- */

/*
 * The heads of q in groups that share one of k and v; letters t, s, d, e as in docs/ir.md, r the group:
 *     p = softmax(scale q k + mask)     dp = g v     ds = p (dp - sum(g y))
 *     dq = scale ds k     dk = scale ds q     dv = p g     dmask = ds
 */
struct attention {
	char batch[MAX_RANK + 1];
	struct node_id q, k, v, grad, p, ds;
	double scale;
};

/* "bg" + "td", ... */
static const char *letters(const struct attention *a, bool group, const char *own, char out[MAX_RANK + 4])
{
	snprintf(out, MAX_RANK + 4, "%s%s%s", a->batch, group ? "r" : "", own);
	return out;
}

static struct node_id product(struct vjp *v, const struct attention *a, const char *own_a, struct node_id x, const char *own_b,
			      struct node_id y, const char *own, enum dtype t)
{
	char text[3][MAX_RANK + 4];
	bool result_grouped = strchr(own, 't') != NULL;
	letters(a, strchr(own_a, 't') != NULL, own_a, text[0]);
	letters(a, strchr(own_b, 't') != NULL, own_b, text[1]);
	return build_product(v, text[0], x, text[1], y, letters(a, result_grouped, own, text[2]), t);
}

/* [.., H, T, D] as [.., G, H/G, T, D] */
static struct node_id grouped(struct vjp *v, struct node_id n, int64_t groups)
{
	struct type t = vjp_type(v, n);
	int head = t.rank - 3;
	int64_t each = groups > 0 ? t.dim[head] / groups : 1;
	memmove(t.dim + head + 2, t.dim + head + 1, 2 * sizeof(t.dim[0]));
	t.dim[head] = groups;
	t.dim[head + 1] = each;
	return build_reshape(v, n, t.rank + 1, t.dim);
}

/* What query t may see of the keys s, [T, S]. */
static struct node_id causal_mask(struct vjp *v, int64_t queries, int64_t keys)
{
	struct node_id t = build_reshape(v, build_iota(v, queries), 2, (int64_t[]){ queries, 1 });
	return build_2(v, OP_LE, build_reshape(v, build_iota(v, keys), 2, (int64_t[]){ 1, keys }), t);
}

/* A mask, which broadcasts to the scores. */
static struct node_id grouped_mask(struct vjp *v, struct node_id mask, int64_t groups)
{
	struct type t = vjp_type(v, mask);
	int heads = t.rank - 3;
	if (t.rank < 3)
		return mask;
	if (t.dim[heads] != 1)
		return grouped(v, mask, groups);
	memmove(t.dim + heads + 1, t.dim + heads, 3 * sizeof(t.dim[0]));
	return build_reshape(v, mask, t.rank + 1, t.dim);
}

static struct node_id both(struct vjp *v, struct node_id a, struct node_id b)
{
	return !node_is(a) ? b : build_2(v, OP_LOGICAL_AND, a, b);
}

/* softmax over the keys that may be seen; rows that see none are 0 */
static struct node_id probabilities(struct vjp *v, const struct attention *a, struct node_id mask, int64_t groups)
{
	struct attrs dim = { 0 };
	struct node_id s = build_with(v, OP_MUL, product(v, a, "td", a->q, "sd", a->k, "ts", v->wide), a->scale), seen = NODE_NONE;
	struct type t = vjp_type(v, s);
	if (graph_int(v->g, v->n, ATTR_CAUSAL, 0))
		seen = causal_mask(v, t.dim[t.rank - 2], t.dim[t.rank - 1]);
	if (node_is(mask)) {
		bool adds = graph_type(v->g, mask)->dtype != DT_BOOL;
		mask = grouped_mask(v, adds ? build_cast(v, mask, v->wide) : mask, groups);
		s = adds ? build_2(v, OP_ADD, s, mask) : s;
		seen = both(v, seen, adds ? build_with(v, OP_GT, mask, -INFINITY) : mask);
	}
	if (node_is(seen))
		s = build_where(v, seen, s, build_scalar(v, -FLT_MAX));
	attrs_int(&dim, ATTR_DIM, t.rank - 1);
	struct node_id p = build_emit(v, OP_SOFTMAX, &s, 1, &dim);
	return node_is(seen) ? build_where(v, seen, p, build_scalar(v, 0)) : p;
}

static struct attention read_attention(struct vjp *v)
{
	struct attention a = { .scale = graph_float(v->g, v->n, ATTR_SCALE, 1) };
	struct type q = vjp_type(v, vjp_operand(v, 0)), k = vjp_type(v, vjp_operand(v, 1));
	int64_t groups = k.dim[k.rank - 3], last = q.rank;
	memcpy(a.batch, "abcfgh", (size_t)q.rank - 2);
	a.q = grouped(v, vjp_value(v, 0), groups);
	a.k = vjp_value(v, 1);
	a.v = vjp_value(v, 2);
	a.grad = grouped(v, v->grad, groups);
	a.p = probabilities(v, &a, graph_node(v->g, v->n)->count > 3 ? vjp_value(v, 3) : NODE_NONE, groups);
	struct node_id dp = product(v, &a, "te", a.grad, "se", a.v, "ts", v->wide);
	struct node_id gy = grouped(v, build_2(v, OP_MUL, vjp_grad(v), vjp_y(v)), groups);
	a.ds = build_2(v, OP_MUL, a.p, build_2(v, OP_SUB, dp, build_reduce(v, OP_SUM, gy, &last, 1)));
	return a;
}

static void give_heads(struct vjp *v, int k, struct node_id d, double scale)
{
	struct type t = vjp_type(v, vjp_operand(v, k));
	if (scale != 1)
		d = build_with(v, OP_MUL, d, scale);
	vjp_give(v, k, build_reshape(v, d, t.rank, t.dim));
}

void vjp_sdpa(struct vjp *v)
{
	if (graph_type(v->g, v->n)->rank == MAX_RANK) {
		v->lack = "of rank 8";
		return;
	}
	struct attention a = read_attention(v);
	if (vjp_wants(v, 0))
		give_heads(v, 0, product(v, &a, "ts", a.ds, "sd", a.k, "td", v->wide), a.scale);
	if (vjp_wants(v, 1))
		give_heads(v, 1, product(v, &a, "ts", a.ds, "td", a.q, "sd", v->wide), a.scale);
	if (vjp_wants(v, 2))
		give_heads(v, 2, product(v, &a, "ts", a.p, "te", a.grad, "se", v->wide), 1);
	if (graph_node(v->g, v->n)->count > 3 && vjp_wants(v, 3)) {
		struct type scores = vjp_type(v, a.ds);
		int64_t shape[MAX_RANK];
		int heads = scores.rank - 4;
		memcpy(shape, scores.dim, sizeof(shape));
		shape[heads] *= shape[heads + 1];
		memmove(shape + heads + 1, shape + heads + 2, 2 * sizeof(shape[0]));
		vjp_give(v, 3, build_reshape(v, a.ds, scores.rank - 1, shape));
	}
}

/* --- normalization over the last dims --- */

/* x as it is normalized, and the inverse deviation by which it was. */
struct normal { const int64_t *dims; int count; struct node_id h, inverse; };

static struct node_id mean(struct vjp *v, const struct normal *n, struct node_id x)
{
	return build_reduce(v, OP_MEAN, x, n->dims, n->count);
}

static struct normal read_normal(struct vjp *v, bool centered)
{
	struct normal n = { 0 };
	struct node_id x = vjp_x(v, 0);
	n.count = graph_ints(v->g, v->n, ATTR_DIMS, &n.dims);
	if (centered)
		x = build_2(v, OP_SUB, x, mean(v, &n, x));
	struct node_id square = mean(v, &n, build_2(v, OP_MUL, x, x));
	n.inverse = build_1(v, OP_RSQRT, build_with(v, OP_ADD, square, graph_float(v->g, v->n, ATTR_EPS, 0)));
	n.h = build_2(v, OP_MUL, x, n.inverse);
	return n;
}

/* inverse (g - h mean(g h)), and without the mean of g where x was centered */
static struct node_id of_normal(struct vjp *v, const struct normal *n, struct node_id g, bool centered)
{
	struct node_id along = build_2(v, OP_MUL, n->h, mean(v, n, build_2(v, OP_MUL, g, n->h)));
	if (centered)
		g = build_2(v, OP_SUB, g, mean(v, n, g));
	return build_2(v, OP_MUL, n->inverse, build_2(v, OP_SUB, g, along));
}

void vjp_rms_norm(struct vjp *v)
{
	struct normal n = read_normal(v, false);
	vjp_give(v, 0, of_normal(v, &n, vjp_grad(v), false));
}

void vjp_layer_norm(struct vjp *v)
{
	struct normal n = read_normal(v, true);
	int count = graph_node(v->g, v->n)->count;
	struct node_id g = vjp_grad(v);
	if (vjp_wants(v, 0))
		vjp_give(v, 0, of_normal(v, &n, count > 1 ? build_2(v, OP_MUL, g, vjp_x(v, 1)) : g, true));
	if (count > 1 && vjp_wants(v, 1))
		vjp_give(v, 1, build_2(v, OP_MUL, g, n.h));
	if (count > 2 && vjp_wants(v, 2))
		vjp_give(v, 2, g);
}
