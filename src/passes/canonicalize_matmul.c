/* canonicalize: matmuls take views of their operands into the equation, so that no dim is flattened. */
#include "canonicalize.h"

#include <string.h>

static struct equation equation_of(const struct site *s)
{
	struct equation e;
	struct diag d = { 0 };
	for (int i = 0; i < s->attrs->count; i++)
		if (s->attrs->at[i].key == ATTR_EQ && equation_parse(&e, s->attrs->at[i].u.s, &d) == FS_OK)
			return e;
	BUG("matmul: %s", d.text);
}

static struct node_id emit_product(const struct site *s, struct equation *e, struct node_id a, struct node_id b)
{
	char text[3 * MAX_RANK + 4];
	struct attrs attrs = *s->attrs;
	equation_canonical(e, text);
	attrs_string(&attrs, ATTR_EQ, context_intern(s->g->context, text));
	return site_emit(s, OP_MATMUL, (struct node_id[]){ a, b }, 2, &attrs);
}

static struct node_id emit_with_operand(const struct site *s, struct equation *e, int v, struct node_id x)
{
	return emit_product(s, e, v == 0 ? x : s->in[0], v == 1 ? x : s->in[1]);
}

/* matmul(permute(x), y): x with its letters in another order. */
bool matmul_over_permute(const struct site *s, struct node_id *out)
{
	int v = site_op(s, 1) == OP_PERMUTE;
	if (site_op(s, v) != OP_PERMUTE)
		return false;
	struct equation e = equation_of(s), old = e;
	const int64_t *dims;
	int rank = graph_ints(s->g, s->in[v], ATTR_DIMS, &dims);
	for (int i = 0; i < rank; i++)
		e.letter[v][dims[i]] = old.letter[v][i];
	*out = emit_with_operand(s, &e, v, graph_operand(s->g, s->in[v], 0));
	return true;
}

/* --- batch dims that one operand only repeats: "bmk,bkn->bmn" with b repeated in b is "bmk,kn->bmn" --- */

/* Bit d: dim d of operand v is made by an expand, or is a new dim of size 1. */
static uint32_t made_dims(const struct site *s, int v)
{
	struct dim_group group[MAX_GROUPS];
	const struct type *to = site_in(s, v);
	uint32_t made = 0;
	if (site_op(s, v) != OP_EXPAND && site_op(s, v) != OP_RESHAPE)
		return 0;
	const struct type *from = graph_type(s->g, graph_operand(s->g, s->in[v], 0));
	if (site_op(s, v) == OP_EXPAND) {
		for (int d = 0; d < to->rank; d++)
			made |= (uint32_t)(from->dim[d] == 1) << d;
		return made;
	}
	int count = shape_groups(from, to, group);
	for (int i = 0; i < count; i++)
		made |= (uint32_t)(group[i].from_count == 0) << group[i].to;
	return made;
}

/* Operand v without the dims of `drop`, along which it is all the same. */
static struct node_id without_dims(const struct site *s, int v, uint32_t drop)
{
	const struct type *t = site_in(s, v);
	bool expanded = site_op(s, v) == OP_EXPAND;
	struct node_id x = expanded ? graph_operand(s->g, s->in[v], 0) : s->in[v];
	struct type from = *graph_type(s->g, x), to = *t;
	from.rank = to.rank = 0;
	for (int d = 0; d < t->rank; d++)
		if (!(drop >> d & 1)) {
			from.dim[from.rank++] = from.dim[d];
			to.dim[to.rank++] = t->dim[d];
		}
	x = site_reshape(s, x, from.rank, from.dim);
	return expanded ? site_broadcast(s, x, &to) : x;
}

static bool drop_broadcast(const struct site *s, int v, struct node_id *out)
{
	struct equation e = equation_of(s);
	uint32_t drop = made_dims(s, v);
	for (int d = 0; d < e.rank[v]; d++)
		if (equation_role(&e, e.letter[v][d]) != ROLE_BATCH)
			drop &= ~((uint32_t)1 << d);
	if (drop == 0 || drop == ((uint32_t)1 << e.rank[v]) - 1)
		return false;
	int kept = 0;
	for (int d = 0; d < e.rank[v]; d++)
		if (!(drop >> d & 1))
			e.letter[v][kept++] = e.letter[v][d];
	e.rank[v] = kept;
	*out = emit_with_operand(s, &e, v, without_dims(s, v, drop));
	return true;
}

bool matmul_over_broadcast(const struct site *s, struct node_id *out)
{
	return drop_broadcast(s, 1, out) || drop_broadcast(s, 0, out);
}

/* --- merged dims: a letter becomes the letters of the dims that a reshape merged --- */

/* What a dim is made of: sizes, major to minor. */
struct parts { int count; int64_t size[MAX_RANK]; };

static void operand_parts(const struct site *s, int v, struct parts part[MAX_RANK])
{
	struct dim_group group[MAX_GROUPS];
	const struct type *to = site_in(s, v);
	for (int d = 0; d < to->rank; d++)
		part[d] = (struct parts){ 1, { to->dim[d] } };
	if (site_op(s, v) != OP_RESHAPE)
		return;
	const struct type *from = graph_type(s->g, graph_operand(s->g, s->in[v], 0));
	int count = shape_groups(from, to, group);
	for (int i = 0; i < count; i++) {
		if (group[i].to_count != 1 || group[i].from_count == 0)
			continue;
		part[group[i].to].count = group[i].from_count;
		memcpy(part[group[i].to].size, from->dim + group[i].from, sizeof(int64_t) * (size_t)group[i].from_count);
	}
}

/* The finest parts of which those of a and of b are both made. */
static struct parts common_parts(const struct parts *a, const struct parts *b)
{
	struct parts made = { 0 };
	int i = 0, j = 0;
	while (i < a->count && j < b->count) {
		int64_t x = a->size[i++], y = b->size[j++];
		while (x != y && (x < y ? i < a->count : j < b->count))
			if (x < y)
				x *= a->size[i++];
			else
				y *= b->size[j++];
		made.size[made.count++] = x;
	}
	return made;
}

static int find_letter(const struct equation *e, int v, char letter)
{
	const char *at = e->rank[v] > 0 ? memchr(e->letter[v], letter, (size_t)e->rank[v]) : NULL;
	return at == NULL ? -1 : (int)(at - e->letter[v]);
}

/* New letters of each old one, by its character. */
struct split { struct parts parts; char first; };

static bool split_letters(const struct site *s, const struct equation *e, struct split split[128])
{
	struct parts part[2][MAX_RANK];
	char next = 'a';
	bool any = false;
	operand_parts(s, 0, part[0]);
	operand_parts(s, 1, part[1]);
	for (int v = 0; v < 2; v++)
		for (int d = 0; d < e->rank[v]; d++) {
			int other = find_letter(e, 1 - v, e->letter[v][d]);
			struct split *made = &split[(unsigned char)e->letter[v][d]];
			if (v == 1 && other >= 0)
				continue;
			made->parts = other < 0 ? part[v][d] : common_parts(&part[0][d], &part[1][other]);
			made->first = next;
			next = (char)(next + made->parts.count);
			any |= made->parts.count > 1;
		}
	return any && next - 'a' <= 26;
}

/* The letters of one tensor, and its shape; false: too many. */
static bool spread(struct equation *e, int v, const struct split split[128], struct type *shape)
{
	struct equation old = *e;
	e->rank[v] = shape->rank = 0;
	for (int d = 0; d < old.rank[v]; d++) {
		const struct split *l = &split[(unsigned char)old.letter[v][d]];
		if (e->rank[v] + l->parts.count > MAX_RANK)
			return false;
		for (int i = 0; i < l->parts.count; i++) {
			shape->dim[shape->rank++] = l->parts.size[i];
			e->letter[v][e->rank[v]++] = (char)(l->first + i);
		}
	}
	return true;
}

bool matmul_over_reshape(const struct site *s, struct node_id *out)
{
	struct split split[128];
	struct type shape[3];
	if (site_op(s, 0) != OP_RESHAPE && site_op(s, 1) != OP_RESHAPE)
		return false;
	struct equation e = equation_of(s);
	if (!split_letters(s, &e, split))
		return false;
	for (int v = 0; v < 3; v++)
		if (!spread(&e, v, split, &shape[v]))
			return false;
	struct node_id a = site_reshape(s, s->in[0], shape[0].rank, shape[0].dim);
	struct node_id b = site_reshape(s, s->in[1], shape[1].rank, shape[1].dim);
	struct type result = site_type(s);
	*out = site_reshape(s, emit_product(s, &e, a, b), result.rank, result.dim);
	return true;
}
