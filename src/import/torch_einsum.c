/*
 * einsum: two operands at a time, from the left.  Letters that only one of them has and no one needs
 * are summed before; a dim of size 1 that the other has larger is dropped, as it broadcasts.
 */
#include "torch_impl.h"

#include <ctype.h>
#include <string.h>

#define MAX_TERMS 16
#define MAX_LETTERS 64 /* 52, and dims of an ellipsis */

/* Letters of an operand, or a set of them; dims of an ellipsis are '0', '1', .. from the right. */
struct term { struct node_id node; int rank; char letter[MAX_LETTERS]; };

static bool has(const struct term *t, char letter)
{
	return t->rank > 0 && memchr(t->letter, letter, (size_t)t->rank) != NULL;
}

static int place(const struct term *t, char letter)
{
	return (int)((const char *)memchr(t->letter, letter, (size_t)t->rank) - t->letter);
}

static void put(struct call *c, struct term *t, char letter)
{
	if (t->rank == MAX_RANK || has(t, letter))
		call_lacks(c, "%s with a diagonal or more than %d dims", c->text, MAX_RANK);
	else
		t->letter[t->rank++] = letter;
}

/* Reads letters up to one of `stop`; `dots` is how many dims an ellipsis has. */
static const char *read_term(struct call *c, struct term *t, const char *at, const char *stop, int dots)
{
	t->rank = 0;
	for (; *at != '\0' && strchr(stop, *at) == NULL && !failed(c); at++) {
		if (at[0] == '.' && at[1] == '.' && at[2] == '.') {
			for (int i = dots; i-- > 0;)
				put(c, t, (char)('0' + i));
			at += 2;
		} else if (isalpha((unsigned char)*at)) {
			put(c, t, *at);
		} else if (*at != ' ') {
			call_fail(c, FS_INVALID, "an equation with '%c'", *at);
		}
	}
	return at;
}

static int count_letters(const char *at)
{
	int n = 0;
	for (; *at != '\0' && *at != ',' && *at != '-'; at++)
		n += isalpha((unsigned char)*at) != 0;
	return n;
}

/* Without "->": letters that stand once, in order, after those of the ellipsis. */
static void implicit_result(struct call *c, struct term *r, const struct term *in, int count, int dots)
{
	for (int i = dots; i-- > 0;)
		put(c, r, (char)('0' + i));
	for (int letter = 'A'; letter <= 'z'; letter++) {
		int seen = 0;
		for (int i = 0; i < count; i++)
			seen += has(&in[i], (char)letter);
		if (seen == 1)
			put(c, r, (char)letter);
	}
}

static void read_equation(struct call *c, struct term *in, int count, struct term *r)
{
	const char *at = arg_string(c, "equation", ""), *arrow = strstr(at, "->");
	int dots = 0;
	for (int i = 0; i < count && !failed(c); i++) {
		int rest = rank_of(c, in[i].node) - count_letters(at);
		dots = rest > dots ? rest : dots;
		at = read_term(c, &in[i], at, ",-", rest > 0 ? rest : 0);
		if (in[i].rank != rank_of(c, in[i].node))
			call_fail(c, FS_INVALID, "operand %d has rank %d, the equation another", i, rank_of(c, in[i].node));
		at += *at == ',';
	}
	r->rank = 0;
	if (arrow != NULL)
		read_term(c, r, arrow + 2, "", dots);
	else
		implicit_result(c, r, in, count, dots);
}

/* --- making operands fit --- */

static void drop(struct term *t, int dim)
{
	memmove(&t->letter[dim], &t->letter[dim + 1], (size_t)(t->rank - dim - 1));
	t->rank--;
}

static void drop_broadcast(struct call *c, struct term *t, const struct term *other)
{
	for (int i = t->rank; i-- > 0 && !failed(c);)
		if (size_of(c, t->node, i) == 1 && has(other, t->letter[i]) &&
		    size_of(c, other->node, place(other, t->letter[i])) > 1) {
			t->node = emit_squeeze(c, t->node, i);
			drop(t, i);
		}
}

/* Sums what neither `other` nor `needed` has. */
static void sum_alone(struct call *c, struct term *t, const struct term *other, const struct term *needed)
{
	int64_t dims[MAX_RANK];
	int count = 0;
	for (int i = 0; i < t->rank; i++)
		if (!(other != NULL && has(other, t->letter[i])) && !has(needed, t->letter[i]))
			dims[count++] = i;
	if (count == 0)
		return;
	t->node = emit_reduce(c, OP_SUM, t->node, dims, count, false);
	while (count > 0)
		drop(t, (int)dims[--count]);
}

/* Letters that the result or a later operand needs. */
static struct term needed_after(const struct term *in, int from, int count, const struct term *r)
{
	struct term n = *r;
	for (int i = from; i < count; i++)
		for (int k = 0; k < in[i].rank; k++)
			if (!has(&n, in[i].letter[k]))
				n.letter[n.rank++] = in[i].letter[k];
	return n;
}

/* A letter for each of ours, digits included. */
static char plain(char letter)
{
	static const char more[] = "ABCDEFGHIJ";
	return isdigit((unsigned char)letter) ? more[letter - '0'] : letter;
}

static bool takes_capitals(const struct term *t)
{
	for (int i = 0; i < t->rank; i++)
		if (isupper((unsigned char)t->letter[i]))
			return true;
	return false;
}

static void append(char *text, const struct term *t, const char *after)
{
	size_t n = strlen(text);
	for (int i = 0; i < t->rank; i++)
		text[n++] = plain(t->letter[i]);
	strcpy(text + n, after);
}

/* The product of two, with the letters of `r` in their order. */
static struct node_id multiply(struct call *c, const struct term *a, const struct term *b, const struct term *r)
{
	char text[3 * MAX_RANK + 8] = "";
	append(text, a, ",");
	append(text, b, "->");
	append(text, r, "");
	return emit_matmul(c, text, a->node, b->node);
}

static struct term join(struct call *c, struct term a, struct term b, const struct term *needed, const struct term *last)
{
	struct term r = { .rank = 0 };
	drop_broadcast(c, &a, &b);
	drop_broadcast(c, &b, &a);
	sum_alone(c, &a, &b, needed);
	sum_alone(c, &b, &a, needed);
	for (int i = 0; i < a.rank + b.rank; i++) {
		char letter = i < a.rank ? a.letter[i] : b.letter[i - a.rank];
		if (has(needed, letter) && !has(&r, letter))
			put(c, &r, letter);
	}
	if (last != NULL && last->rank == r.rank)
		r = *last;
	r.node = multiply(c, &a, &b, &r);
	return r;
}

static struct node_id in_order(struct call *c, const struct term *t, const struct term *r)
{
	int64_t dims[MAX_RANK];
	for (int i = 0; i < r->rank; i++) {
		if (!has(t, r->letter[i])) {
			call_fail(c, FS_INVALID, "'%c' stands in no operand", r->letter[i]);
			return NODE_NONE;
		}
		dims[i] = place(t, r->letter[i]);
	}
	return emit_permute(c, t->node, dims);
}

void aten_einsum(struct call *c)
{
	struct term in[MAX_TERMS], r;
	struct node_id *given;
	int count = arg_tensors(c, "tensors", &given);
	if (count > MAX_TERMS)
		call_lacks(c, "%s of more than %d operands", c->text, MAX_TERMS);
	if (count < 1)
		call_fail(c, FS_INVALID, "no operands");
	if (failed(c))
		return;
	for (int i = 0; i < count; i++)
		in[i] = (struct term){ .node = given[i] };
	read_equation(c, in, count, &r);
	bool capitals = takes_capitals(&r);
	for (int i = 0; i < count; i++)
		capitals |= takes_capitals(&in[i]);
	if (capitals && strstr(arg_string(c, "equation", ""), "...") != NULL)
		call_lacks(c, "%s with '...' and capital letters", c->text);
	struct term t = in[0];
	for (int i = 1; i < count && !failed(c); i++) {
		struct term needed = needed_after(in, i + 1, count, &r);
		t = join(c, t, in[i], &needed, i + 1 == count ? &r : NULL);
	}
	if (failed(c))
		return;
	sum_alone(c, &t, NULL, &r);
	give(c, in_order(c, &t, &r));
}
