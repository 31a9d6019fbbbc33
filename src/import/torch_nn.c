/* Normalization, attention, convolution as a product, losses. */
#include "torch_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct dims { int count; int64_t at[MAX_RANK]; };

/* The trailing dims that `normalized_shape` says. */
static struct dims trailing(struct call *c, struct node_id x)
{
	struct dims d;
	int64_t shape[MAX_RANK];
	int rank = rank_of(c, x);
	d.count = arg_ints(c, "normalized_shape", shape, MAX_RANK);
	if (d.count < 1 || d.count > rank)
		call_fail(c, FS_INVALID, "'normalized_shape' does not fit a tensor of rank %d", rank);
	for (int i = 0; i < d.count && !failed(c); i++) {
		d.at[i] = rank - d.count + i;
		if (size_of(c, x, (int)d.at[i]) != shape[i])
			call_fail(c, FS_INVALID, "'normalized_shape' does not fit the input");
	}
	return d;
}

static struct node_id normalize(struct call *c, enum op op, const struct node_id *in, int count, const struct dims *d,
				double eps)
{
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, d->at, d->count);
	attrs_float(&a, ATTR_EPS, eps);
	return emit(c, op, in, count, &a);
}

static struct node_id layer_norm(struct call *c, struct node_id x, const struct dims *d, double eps)
{
	struct node_id in[3] = { x };
	int count = 1;
	struct node_id w = arg_tensor_or_none(c, "weight"), b = arg_tensor_or_none(c, "bias");
	if (node_is(w))
		in[count++] = w;
	if (node_is(w) && node_is(b))
		in[count++] = b;
	struct node_id n = normalize(c, OP_LAYER_NORM, in, count, d, eps);
	return node_is(b) && !node_is(w) ? emit2(c, OP_ADD, n, b) : n;
}

void aten_layer_norm(struct call *c)
{
	struct node_id x = arg_tensor(c, "input");
	struct dims d = trailing(c, x);
	double eps = arg_real(c, "eps", 1e-5);
	if (!failed(c))
		give(c, layer_norm(c, x, &d, eps));
}

/* rsqrt(mean(x^2) + eps) */
static struct node_id inverse_deviation(struct call *c, struct node_id x, const struct dims *d, double eps)
{
	struct node_id square = emit_reduce(c, OP_MEAN, emit2(c, OP_MUL, x, x), d->at, d->count, true);
	return emit1(c, OP_RSQRT, emit_with(c, OP_ADD, square, eps));
}

/* Also gives mean and 1 / deviation. */
void aten_native_layer_norm(struct call *c)
{
	struct node_id x = arg_tensor(c, "input"), w = emit_wide(c, x);
	struct dims d = trailing(c, x);
	double eps = arg_real(c, "eps", 1e-5);
	if (failed(c))
		return;
	give(c, layer_norm(c, x, &d, eps));
	struct node_id mean = emit_reduce(c, OP_MEAN, w, d.at, d.count, true);
	struct node_id rstd = inverse_deviation(c, emit2(c, OP_SUB, w, mean), &d, eps);
	give(c, emit_cast(c, mean, output_dtype(c, 1, dtype_of(c, mean))));
	give(c, emit_cast(c, rstd, output_dtype(c, 2, dtype_of(c, rstd))));
}

/* x times its inverse deviation times weight in f32, rounded once; _fused_rms_norm also gives the former. */
void aten_rms_norm(struct call *c)
{
	struct node_id x = arg_tensor(c, "input"), w = emit_wide(c, x), weight = arg_tensor_or_none(c, "weight");
	struct dims d = trailing(c, x);
	double eps = arg_real(c, "eps", dtype_of(c, x) == DT_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
	if (failed(c))
		return;
	struct node_id n = normalize(c, OP_RMS_NORM, &w, 1, &d, eps);
	if (node_is(weight))
		n = emit2(c, OP_MUL, n, weight);
	give(c, emit_cast(c, n, dtype_of(c, x)));
	if (strncmp(c->text, "aten._fused", 11) == 0)
		give(c, emit_cast(c, inverse_deviation(c, w, &d, eps), output_dtype(c, 1, DT_F32)));
}

/* --- groups of channels: [N, C, ..] seen as [N, groups, rest] --- */

static struct node_id per_channel(struct call *c, struct node_id v, int rank)
{
	int64_t shape[MAX_RANK] = { 1, size_of(c, v, 0), 1, 1, 1, 1, 1, 1 };
	return emit_reshape(c, v, rank, shape);
}

static void give_group_norm(struct call *c, const char *groups_name, bool with_moments)
{
	struct node_id x = arg_tensor(c, "input"), wide = emit_wide(c, x);
	struct node_id w = arg_tensor_or_none(c, "weight"), b = arg_tensor_or_none(c, "bias");
	struct dims d = { 1, { 2 } };
	int64_t groups = arg_int_required(c, groups_name), total = type_count(type_of(c, x));
	double eps = arg_real(c, "eps", 1e-5);
	int rank = rank_of(c, x);
	if (rank < 2 || groups < 1 || size_of(c, x, 1) % groups != 0 || total == 0)
		call_fail(c, FS_INVALID, "%lld groups of a tensor of rank %d", (long long)groups, rank);
	if (failed(c))
		return;
	int64_t shape[3] = { size_of(c, x, 0), groups, total / size_of(c, x, 0) / groups };
	struct node_id seen = emit_reshape(c, wide, 3, shape);
	struct node_id n = normalize(c, OP_LAYER_NORM, &seen, 1, &d, eps);
	n = emit_reshape(c, n, rank, type_of(c, x)->dim);
	n = node_is(w) ? emit2(c, OP_MUL, n, per_channel(c, w, rank)) : n;
	n = node_is(b) ? emit2(c, OP_ADD, n, per_channel(c, b, rank)) : n;
	give(c, emit_cast(c, n, dtype_of(c, x)));
	if (!with_moments)
		return;
	struct node_id mean = emit_reduce(c, OP_MEAN, seen, d.at, 1, true);
	struct node_id rstd = inverse_deviation(c, emit2(c, OP_SUB, seen, mean), &d, eps);
	give(c, emit_cast(c, emit_squeeze(c, mean, 2), output_dtype(c, 1, DT_F32)));
	give(c, emit_cast(c, emit_squeeze(c, rstd, 2), output_dtype(c, 2, DT_F32)));
}

void aten_group_norm(struct call *c)
{
	give_group_norm(c, "num_groups", false);
}

void aten_native_group_norm(struct call *c)
{
	arg_has(c, "N");
	arg_has(c, "C");
	arg_has(c, "HxW");
	give_group_norm(c, "group", true);
}

/* Statistics are those of training: (x - mean) / deviation weight + bias, for each of dim 1. */
void aten_batch_norm(struct call *c)
{
	struct node_id x = arg_tensor(c, "input"), wide = emit_wide(c, x);
	struct node_id w = arg_tensor_or_none(c, "weight"), b = arg_tensor_or_none(c, "bias");
	struct node_id mean = arg_tensor_or_none(c, "running_mean"), var = arg_tensor_or_none(c, "running_var");
	double eps = arg_real(c, "eps", 1e-5);
	int rank = rank_of(c, x);
	arg_has(c, "momentum"); /* of use in training alone */
	if (arg_bool(c, "training", false) || !node_is(mean) || !node_is(var))
		call_lacks(c, "%s with the statistics of the batch (training)", c->text);
	struct node_id slope = emit1(c, OP_RSQRT, emit_with(c, OP_ADD, emit_wide(c, var), eps));
	slope = node_is(w) ? emit2(c, OP_MUL, slope, emit_wide(c, w)) : slope;
	struct node_id start = emit1(c, OP_NEG, emit2(c, OP_MUL, emit_wide(c, mean), slope));
	start = node_is(b) ? emit2(c, OP_ADD, start, emit_wide(c, b)) : start;
	if (failed(c))
		return;
	wide = emit2(c, OP_MUL, wide, per_channel(c, slope, rank));
	give(c, emit_cast(c, emit2(c, OP_ADD, wide, per_channel(c, start, rank)), dtype_of(c, x)));
	give(c, NODE_NONE);
	give(c, NODE_NONE); /* what training saves */
}

/* --- attention --- */

struct attention { struct node_id q, k, v, mask; double scale; bool causal; };

/* Leading dims broadcast; heads do only where there are no groups. */
static void align_heads(struct call *c, struct attention *a, bool groups)
{
	struct node_id *x[3] = { &a->q, &a->k, &a->v };
	int rank = 0;
	int64_t lead[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	for (int i = 0; i < 3; i++)
		rank = rank_of(c, *x[i]) > rank ? rank_of(c, *x[i]) : rank;
	int last = groups && rank > 2 ? 3 : 2;
	for (int i = 0; i < 3; i++) {
		int shift = rank - rank_of(c, *x[i]);
		for (int k = shift; k < rank - last; k++)
			lead[k] = lead[k] == 1 ? size_of(c, *x[i], k - shift) : lead[k];
	}
	for (int i = 0; i < 3; i++) {
		int shift = rank - rank_of(c, *x[i]);
		for (int k = rank - last; k < rank; k++)
			lead[k] = k >= shift ? size_of(c, *x[i], k - shift) : 1;
		*x[i] = emit_broadcast(c, *x[i], rank, lead);
	}
}

/* Keys and values of one head serve all heads of q without being repeated. */
static bool one_key_head(struct call *c, const struct attention *a)
{
	int k = rank_of(c, a->k), v = rank_of(c, a->v);
	return k > 2 && v > 2 && rank_of(c, a->q) > 2 && size_of(c, a->k, k - 3) == 1 && size_of(c, a->v, v - 3) == 1;
}

static struct attention read_attention(struct call *c)
{
	struct attention a = { .q = arg_tensor(c, "query") };
	a.k = arg_tensor(c, "key");
	a.v = arg_tensor(c, "value");
	a.mask = arg_tensor_or_none(c, arg_has(c, "attn_bias") ? "attn_bias" : "attn_mask");
	int64_t size = size_of(c, a.q, rank_of(c, a.q) - 1);
	a.scale = arg_real(c, "scale", 1 / sqrt((double)(size > 0 ? size : 1)));
	a.causal = arg_bool(c, "is_causal", false);
	bool groups = arg_bool(c, "enable_gqa", false);
	if (arg_real(c, "dropout_p", 0) != 0)
		call_lacks(c, "%s with dropout", c->text);
	arg_has(c, "compute_log_sumexp");
	arg_has(c, "return_debug_mask");
	if (rank_of(c, a.q) < 2 || rank_of(c, a.k) < 2 || rank_of(c, a.v) < 2)
		call_fail(c, FS_INVALID, "operands of rank less than 2");
	if (!failed(c))
		align_heads(c, &a, groups || one_key_head(c, &a));
	return a;
}

/* sdpa wants heads: rank 2 gets one. */
static struct node_id attend(struct call *c, const struct attention *a)
{
	struct attrs attrs = { 0 };
	bool flat = rank_of(c, a->q) == 2;
	struct node_id in[4] = { a->q, a->k, a->v, a->mask };
	for (int i = 0; i < 3 && flat; i++)
		in[i] = emit_unsqueeze(c, in[i], 0);
	attrs_float(&attrs, ATTR_SCALE, a->scale);
	if (a->causal)
		attrs_int(&attrs, ATTR_CAUSAL, 1);
	struct node_id n = emit(c, OP_SDPA, in, node_is(a->mask) ? 4 : 3, &attrs);
	return flat ? emit_squeeze(c, n, 0) : n;
}

void aten_sdpa(struct call *c)
{
	struct attention a = read_attention(c);
	if (!failed(c))
		give(c, attend(c, &a));
}

/* A product of matrices with equal leading dims: "mk,nk->mn" with letters for those before. */
static struct node_id batched(struct call *c, const char *eq, struct node_id a, struct node_id b)
{
	static const char lead[] = "ABCDEF";
	char text[3 * MAX_RANK + 8];
	int n = rank_of(c, a) - 2;
	snprintf(text, sizeof(text), "%.*s%.3s%.*s%.4s%.*s%.2s", n, lead, eq, n, lead, eq + 3, n, lead, eq + 7);
	return failed(c) ? NODE_NONE : emit_matmul(c, text, a, b);
}

static struct node_id causal_mask(struct call *c, int64_t rows, int64_t columns)
{
	struct attrs a = { 0 };
	struct node_id ones = emit_fill(c, (struct number){ VALUE_BOOL, 1, 0 }, DT_BOOL, 2, (int64_t[]){ rows, columns });
	return emit(c, OP_TRIL, &ones, 1, &a);
}

/* q k^T scale + mask in f32 */
static struct node_id scores(struct call *c, const struct attention *a)
{
	struct node_id q = emit_wide(c, a->q), k = emit_wide(c, a->k), mask = a->mask;
	struct node_id s = batched(c, "mk,nk->mn", q, k);
	struct node_id never = emit_scalar(c, -INFINITY, DT_F32);
	int rank = rank_of(c, s);
	s = emit_with(c, OP_MUL, s, a->scale);
	if (a->causal)
		s = emit3(c, OP_WHERE, causal_mask(c, size_of(c, s, rank - 2), size_of(c, s, rank - 1)), s, never);
	if (!node_is(mask))
		return s;
	return dtype_of(c, mask) == DT_BOOL ? emit3(c, OP_WHERE, mask, s, never) : emit2(c, OP_ADD, s, emit_wide(c, mask));
}

/* The fused forms also give the log of the sum of exponentials of each row. */
void aten_fused_attention(struct call *c)
{
	struct attention a = read_attention(c);
	if (failed(c))
		return;
	give(c, attend(c, &a));
	struct node_id s = scores(c, &a);
	int64_t dim[1] = { rank_of(c, s) - 1 };
	struct node_id most = emit_reduce(c, OP_REDUCE_MAX, s, dim, 1, true);
	struct node_id sum = emit_reduce(c, OP_SUM, emit1(c, OP_EXP, emit2(c, OP_SUB, s, most)), dim, 1, true);
	struct node_id lse = emit_squeeze(c, emit2(c, OP_ADD, emit1(c, OP_LOG, sum), most), (int)dim[0]);
	give(c, emit_cast(c, lse, output_dtype(c, 1, DT_F32)));
	for (int i = 0; i < 7; i++)
		give(c, NODE_NONE); /* random state: of no use without dropout */
}

/* p = exp(scores - lse);  dv = p^T do;  ds = p (do v^T - sum(do out));  dq = ds k scale;  dk = ds^T q scale */
void aten_fused_attention_backward(struct call *c)
{
	struct attention a = read_attention(c);
	struct node_id grad = emit_wide(c, arg_tensor(c, "grad_out")), out = emit_wide(c, arg_tensor(c, "out"));
	struct node_id lse = arg_tensor(c, "logsumexp"), s = failed(c) ? NODE_NONE : scores(c, &a);
	int64_t dim[1] = { rank_of(c, s) - 1 };
	struct node_id p = emit1(c, OP_EXP, emit2(c, OP_SUB, s, emit_unsqueeze(c, lse, (int)dim[0])));
	struct node_id dv = batched(c, "km,kn->mn", p, grad);
	struct node_id dp = batched(c, "mk,nk->mn", grad, emit_wide(c, a.v));
	struct node_id row = emit_reduce(c, OP_SUM, emit2(c, OP_MUL, grad, out), dim, 1, true);
	struct node_id ds = emit_with(c, OP_MUL, emit2(c, OP_MUL, p, emit2(c, OP_SUB, dp, row)), a.scale);
	struct node_id dq = batched(c, "mk,kn->mn", ds, emit_wide(c, a.k));
	struct node_id dk = batched(c, "km,kn->mn", ds, emit_wide(c, a.q));
	give(c, emit_cast(c, dq, dtype_of(c, a.q)));
	give(c, emit_cast(c, dk, dtype_of(c, a.k)));
	give(c, emit_cast(c, dv, dtype_of(c, a.v)));
}

/* --- convolution where the kernel's windows do not overlap: patches --- */

/* All of a list are v; one number stands for all. */
static bool all_are(struct call *c, const char *name, int64_t v)
{
	int64_t list[MAX_RANK];
	int count = arg_has(c, name) ? arg_ints(c, name, list, MAX_RANK) : 0;
	for (int i = 0; i < count; i++)
		if (list[i] != v)
			return false;
	return true;
}

static bool windows_touch(struct call *c, struct node_id w, int spatial)
{
	int64_t stride[MAX_RANK] = { 1 };
	int count = arg_has(c, "stride") ? arg_ints(c, "stride", stride, MAX_RANK) : 1;
	for (int i = 0; i < spatial; i++)
		if (stride[count == 1 ? 0 : i] != size_of(c, w, 2 + i))
			return false;
	return count == 1 || count == spatial;
}

static bool is_patches(struct call *c, struct node_id w, int spatial)
{
	const struct argument *padding = NULL;
	for (int i = 0; i < c->args; i++)
		if (strcmp(c->arg[i].name, "padding") == 0)
			padding = &c->arg[i];
	bool word = padding != NULL && padding->tag == TAG_STRING;
	bool unpadded = word ? strcmp(arg_string(c, "padding", ""), "valid") == 0 : all_are(c, "padding", 0);
	return unpadded && all_are(c, "dilation", 1) && all_are(c, "output_padding", 0) &&
	       !arg_bool(c, "transposed", false) && arg_int(c, "groups", 1) == 1 && windows_touch(c, w, spatial);
}

/* [n, c, a i, b j] by [o, c, i, j] to [n, o, a, b] */
void aten_convolution(struct call *c)
{
	static const char out[] = "abd", in[] = "ijl";
	struct node_id x = arg_tensor(c, "input"), w = arg_tensor(c, "weight"), b = arg_tensor_or_none(c, "bias");
	int spatial = rank_of(c, x) - 2, rank = 2;
	char from[16] = "nc", eq[32];
	int64_t shape[MAX_RANK] = { size_of(c, x, 0), size_of(c, x, 1) };
	if (failed(c))
		return;
	if (spatial < 1 || spatial > 3 || rank_of(c, w) != rank_of(c, x) || !is_patches(c, w, spatial))
		call_lacks(c, "%s other than of patches (kernel = stride, no padding, no groups)", c->text);
	for (int i = 0; i < spatial && !failed(c); i++) {
		int64_t kernel = size_of(c, w, 2 + i), windows = kernel > 0 ? size_of(c, x, 2 + i) / kernel : 0;
		x = emit_slice(c, x, 2 + i, 0, windows * kernel, 1);
		from[rank] = out[i];
		from[rank + 1] = in[i];
		shape[rank++] = windows;
		shape[rank++] = kernel;
	}
	snprintf(eq, sizeof(eq), "%.*s,oc%.*s->no%.*s", rank, from, spatial, in, spatial, out);
	if (failed(c))
		return;
	struct node_id n = emit_matmul(c, eq, emit_reshape(c, x, rank, shape), w);
	give(c, node_is(b) ? emit2(c, OP_ADD, n, per_channel(c, b, spatial + 2)) : n);
}
