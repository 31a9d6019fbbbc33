/* Tensors from nothing: fills, ranges. */
#include "torch_impl.h"

#include <math.h>
#include <string.h>

static struct number integer_number(int64_t v)
{
	return (struct number){ .kind = VALUE_INT, .i = v };
}

/* zeros, ones, full, empty, and new_*: a shape, and a type where it is given. */
static void give_filled(struct call *c, struct number v, enum dtype otherwise)
{
	int64_t shape[MAX_RANK];
	int rank = arg_ints(c, "size", shape, MAX_RANK);
	enum dtype t = arg_dtype(c, "dtype", otherwise);
	if (rank < 0)
		call_fail(c, FS_INVALID, "argument 'size' is missing");
	give(c, emit_fill(c, v, t, rank, shape));
}

/* The type of new_*: that of self; of others: float. */
static enum dtype default_dtype(struct call *c)
{
	return arg_has(c, "self") ? dtype_of(c, arg_tensor(c, "self")) : DT_F32;
}

void aten_zeros(struct call *c)
{
	if (arg_has(c, "physical_layout") || arg_has(c, "stride")) /* empty_permuted, empty_strided: how it lies */
		arg_has(c, "size");
	give_filled(c, integer_number(0), default_dtype(c));
}

void aten_ones(struct call *c)
{
	give_filled(c, integer_number(1), default_dtype(c));
}

void aten_full(struct call *c)
{
	struct number v = arg_number(c, "fill_value");
	enum dtype of_value = v.kind == VALUE_FLOAT ? DT_F32 : v.kind == VALUE_BOOL ? DT_BOOL : DT_I64;
	give_filled(c, v, arg_has(c, "self") ? default_dtype(c) : of_value);
}

static void give_like(struct call *c, struct number v)
{
	struct node_id x = arg_tensor(c, "self");
	const struct type *t = type_of(c, x);
	give(c, emit_fill(c, v, arg_dtype(c, "dtype", (enum dtype)t->dtype), t->rank, t->dim));
}

void aten_zeros_like(struct call *c)
{
	give_like(c, integer_number(0));
}

void aten_ones_like(struct call *c)
{
	give_like(c, integer_number(1));
}

void aten_full_like(struct call *c)
{
	give_like(c, arg_number(c, "fill_value"));
}

void aten_scalar_tensor(struct call *c)
{
	struct number v = arg_number(c, "s");
	give(c, emit_fill(c, v, arg_dtype(c, "dtype", DT_F32), 0, NULL));
}

/* fill_, zero_: in place; fill.Scalar, fill.Tensor. */
void aten_fill(struct call *c)
{
	const struct type *t = type_of(c, arg_tensor(c, "self"));
	struct operand v = arg_operand(c, "value");
	struct node_id n = node_is(v.node) ? emit_cast(c, v.node, (enum dtype)t->dtype)
					   : emit_fill(c, v.number, (enum dtype)t->dtype, 0, NULL);
	give(c, emit_broadcast(c, n, t->rank, t->dim));
}

void aten_copy(struct call *c)
{
	const struct type *t = type_of(c, arg_tensor(c, "self"));
	struct node_id src = arg_tensor(c, "src");
	give(c, emit_broadcast(c, emit_cast(c, src, (enum dtype)t->dtype), t->rank, t->dim));
}

/* --- ranges --- */

static bool is_whole(struct number n)
{
	return n.kind != VALUE_FLOAT || (n.f == rint(n.f) && fabs(n.f) < 1e15);
}

static int64_t whole(struct number n)
{
	return n.kind == VALUE_FLOAT ? (int64_t)n.f : n.i;
}

/* start + i * step in f64, as torch computes it. */
static struct node_id real_range(struct call *c, double start, double step, int64_t count, enum dtype t)
{
	struct node_id n = emit_cast(c, emit_iota(c, 0, 1, count, DT_I64), DT_F64);
	n = emit2(c, OP_MUL, n, emit_scalar(c, step, DT_F64));
	n = emit2(c, OP_ADD, n, emit_scalar(c, start, DT_F64));
	return emit_cast(c, n, t);
}

void aten_arange(struct call *c)
{
	struct number start = arg_has(c, "start") ? arg_number(c, "start") : integer_number(0);
	struct number end = arg_number(c, "end");
	struct number step = arg_has(c, "step") ? arg_number(c, "step") : integer_number(1);
	bool real = start.kind == VALUE_FLOAT || end.kind == VALUE_FLOAT || step.kind == VALUE_FLOAT;
	enum dtype t = arg_dtype(c, "dtype", real ? DT_F32 : DT_I64);
	double span = number_real(end) - number_real(start), by = number_real(step), count = ceil(span / by);
	if (!(by != 0) || !(count >= 0) || !(count < 1e12))
		call_fail(c, FS_INVALID, "a range from %g to %g by %g", number_real(start), number_real(end), by);
	if (failed(c))
		return;
	if (is_whole(start) && is_whole(step))
		give(c, emit_iota(c, whole(start), whole(step), (int64_t)count, t));
	else
		give(c, real_range(c, number_real(start), by, (int64_t)count, t));
}

#define MAX_LINSPACE (1 << 20)

/* From both ends to the middle, as torch does. */
void aten_linspace(struct call *c)
{
	double start = arg_real(c, "start", 0), end = arg_real(c, "end", 0);
	int64_t steps = arg_int_required(c, "steps");
	enum dtype t = arg_dtype(c, "dtype", DT_F32);
	if (steps < 1 || steps > MAX_LINSPACE)
		call_lacks(c, "%s with %lld steps", c->text, (long long)steps);
	if (failed(c))
		return;
	struct arena *arena = context_arena(c->im->context);
	float *data = arena_array(arena, (size_t)steps, sizeof(*data));
	float by = steps > 1 ? ((float)end - (float)start) / (float)(steps - 1) : 0;
	for (int64_t i = 0; i < steps; i++)
		data[i] = i < steps / 2 || steps == 1 ? (float)start + by * (float)i : (float)end - by * (float)(steps - 1 - i);
	struct tensor *made = arena_alloc(arena, sizeof(*made));
	*made = (struct tensor){ .dtype = DT_F32, .rank = 1, .dim = { steps }, .data = data };
	struct attrs a = { 0 };
	attrs_tensor(&a, made);
	give(c, emit_cast(c, emit(c, OP_CONST, NULL, 0, &a), t));
}
