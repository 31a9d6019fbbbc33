/*
 * Complex tensors, as rotary embeddings are written with: two of floats.  What only moves elements runs
 * twice, once for each part; products have a handler here; all else is not supported.
 */
#include "torch_impl.h"

#include <string.h>

/* --- operands --- */

static bool is_complex_name(const struct call *c, const json_t *tensor)
{
	const char *name = text_of(tensor, "name");
	return name != NULL && node_is(c->im->values.items[scope_find(c->im, c->scope, name)].imaginary);
}

static bool is_complex(const struct call *c, const char *argument)
{
	for (int i = 0; i < c->args; i++)
		if (strcmp(c->arg[i].name, argument) == 0)
			return c->arg[i].tag == TAG_TENSOR && is_complex_name(c, c->arg[i].value);
	return false;
}

/* Complex tensors of a list. */
static size_t count_complex(const struct call *c, const struct argument *a)
{
	const json_t *item;
	size_t i, count = 0;
	json_array_foreach((json_t *)(uintptr_t)a->value, i, item)
		count += is_complex_name(c, item);
	return count;
}

static bool has_complex(const struct call *c)
{
	for (int i = 0; i < c->args; i++) {
		const struct argument *a = &c->arg[i];
		if ((a->tag == TAG_TENSOR && is_complex_name(c, a->value)) || (a->tag == TAG_TENSORS && count_complex(c, a) > 0))
			return true;
	}
	return false;
}

/* A list with real tensors, too, which have no imaginary part to move. */
static bool has_mixed_list(const struct call *c)
{
	for (int i = 0; i < c->args; i++)
		if (c->arg[i].tag == TAG_TENSORS && count_complex(c, &c->arg[i]) != json_array_size(c->arg[i].value))
			return true;
	return false;
}

static struct operand part(struct call *c, const char *name, bool imaginary)
{
	c->imaginary = imaginary;
	struct operand x = arg_operand(c, name);
	c->imaginary = false;
	return x;
}

static void give_complex(struct call *c, struct node_id real, struct node_id imaginary)
{
	give(c, real);
	if (!failed(c))
		c->im->results.items[c->im->results.count - 1].imaginary = imaginary;
}

/* --- making and taking apart --- */

void aten_complex(struct call *c)
{
	struct node_id real = arg_tensor(c, "real");
	give_complex(c, real, arg_tensor(c, "imag"));
}

void aten_polar(struct call *c)
{
	struct node_id length = arg_tensor(c, "abs"), angle = arg_tensor(c, "angle");
	struct node_id real = emit2(c, OP_MUL, length, emit1(c, OP_COS, angle));
	give_complex(c, real, emit2(c, OP_MUL, length, emit1(c, OP_SIN, angle)));
}

/* Of [.., 2] */
void aten_view_as_complex(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), half[2];
	int last = rank_of(c, x) - 1;
	if (last < 0 || size_of(c, x, last) != 2)
		call_fail(c, FS_INVALID, "the last dim is not of size 2");
	for (int i = 0; i < 2; i++)
		half[i] = failed(c) ? NODE_NONE : emit_squeeze(c, emit_slice(c, x, last, i, i + 1, 1), last);
	give_complex(c, half[0], half[1]);
}

/* Only of what is complex: import_call sees to it. */
void aten_view_as_real(struct call *c)
{
	struct node_id half[2];
	for (int i = 0; i < 2; i++) {
		half[i] = part(c, "self", i == 1).node;
		half[i] = emit_unsqueeze(c, half[i], rank_of(c, half[i]));
	}
	give(c, emit_cat(c, half, 2, rank_of(c, half[0]) - 1));
}

/* --- products --- */

static struct node_id times(struct call *c, struct operand a, struct operand b)
{
	return emit_pointwise(c, OP_MUL, (struct operand[]){ a, b }, 2);
}

/* (a + bi)(x + yi) = ax - by + (ay + bx)i */
static void multiply(struct call *c)
{
	struct operand a = part(c, "self", false), x = part(c, "other", false);
	struct operand b = part(c, "self", true), y = part(c, "other", true);
	struct node_id real = times(c, a, x), imaginary;
	if (is_complex(c, "self") && is_complex(c, "other")) {
		real = emit2(c, OP_SUB, real, times(c, b, y));
		imaginary = emit2(c, OP_ADD, times(c, a, y), times(c, b, x));
	} else {
		imaginary = is_complex(c, "self") ? times(c, b, x) : times(c, a, y);
	}
	give_complex(c, real, imaginary);
}

/* --- moves --- */

static bool moves(const struct target *t)
{
	static void (*const handlers[])(struct call *c) = {
		aten_same, aten_cat, aten_stack, aten_view, aten_view_as, aten_flatten, aten_unflatten, aten_expand,
		aten_expand_as, aten_unsqueeze, aten_squeeze, aten_permute, aten_transpose, aten_t, aten_movedim, aten_slice,
		aten_select, aten_narrow, aten_split, aten_chunk, aten_unbind, aten_repeat, aten_repeat_interleave,
		aten_index, aten_index_select, aten_gather, aten_roll, aten_flip,
	};
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (t->import == handlers[i])
			return true;
	return false;
}

static void for_both_parts(struct call *c)
{
	struct import *im = c->im;
	c->target->import(c);
	uint32_t count = im->results.count - c->first_result;
	c->imaginary = true;
	c->target->import(c);
	c->imaginary = false;
	for (uint32_t i = 0; i < count && !failed(c); i++)
		im->results.items[c->first_result + i].imaginary = im->results.items[c->first_result + count + i].node;
	im->results.count = c->first_result + (failed(c) ? 0 : count);
}

/* `to` another place */
static void keep_type(struct call *c)
{
	for (int i = 0; i < c->args; i++)
		if (c->arg[i].tag == TAG_SCALAR_TYPE && json_integer_value(c->arg[i].value) != COMPLEX64)
			call_lacks(c, "%s of complex numbers to another type", c->text);
	arg_has(c, "dtype");
	struct node_id real = part(c, "self", false).node;
	give_complex(c, real, part(c, "self", true).node);
}

void import_call(struct call *c)
{
	void (*run)(struct call *c) = c->target->import;
	bool inlined = strncmp(c->text, "higher_order.", 13) == 0; /* its nodes are calls of their own */
	bool complex = !inlined && has_complex(c), undoes = run == aten_view_as_real;
	if ((!complex && !undoes) || run == aten_nothing)
		run(c);
	else if (complex && !c->in_place && run == aten_to)
		keep_type(c);
	else if (complex && !c->in_place && run == aten_binary && c->target->op == OP_MUL)
		multiply(c);
	else if (complex && !c->in_place && moves(c->target) && !has_mixed_list(c))
		for_both_parts(c);
	else if (complex && undoes)
		run(c);
	else
		call_lacks(c, complex ? "%s of complex numbers" : "%s of real numbers", c->text);
}
