/* Placement again, with one move forbidden (next_best.h). */
#include "next_best.h"
#include "explain.h"
#include "plan.h"
#include "solve.h"

#include <stdlib.h>
#include <string.h>

static struct plan_price price_of(const struct machine *m, const struct graph *g)
{
	struct plan_price p = { graph_price(m, g), 0 };
	node_list moves = { 0 };
	graph_collectives(g, &moves);
	for (uint32_t i = 0; i < moves.count; i++)
		p.bytes += collective_bytes(g, moves.items[i]);
	vec_release(&moves);
	return p;
}

/* The same nodes under the same ids. */
static struct graph *copy_of(const struct graph *g)
{
	struct graph *to = graph_create(g->context, g->stage);
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		struct attrs a;
		graph_attrs(g, n, &a);
		graph_append(to, graph_op(g, n), &g->operands.items[graph_node(g, n)->first], graph_node(g, n)->count, &a,
			     graph_type(g, n), graph_node(g, n)->prov);
	}
	for (uint32_t i = 0; i < g->outputs.count; i++)
		graph_output(to, &g->outputs.items[i]);
	return to;
}

/* All passes from solve on, on a copy. */
static enum fs_status place_again(const struct search *s, const struct forbidden *f, struct graph **out, struct diag *d)
{
	struct compile trial = compile_trial(s->c);
	struct graph *g = copy_of(s->g);
	enum fs_status status = FS_OK;
	bool begun = false;
	trial.forbidden = *f;
	trial.tag_moves = true;
	for (int i = 0; i < pass_count && status == FS_OK; i++) {
		begun |= strcmp(passes[i].name, "solve") == 0;
		if (begun)
			status = passes[i].run(&g, &trial, d);
	}
	compile_trial_release(&trial);
	if (status == FS_OK)
		*out = g;
	else
		graph_destroy(g);
	return status;
}

enum fs_status search_start(struct search *s, const struct graph *g, const struct compile *c, struct diag *d)
{
	*s = (struct search){ .g = g, .c = c };
	TRY(machine_find(c->target, &s->machine, d));
	TRY(place_again(s, &(struct forbidden){ 0 }, &s->best, d));
	s->price = price_of(s->machine, s->best);
	graph_collectives(s->best, &s->collectives);
	return FS_OK;
}

void search_release(struct search *s)
{
	graph_destroy(s->best);
	vec_release(&s->collectives);
}

/* --- what it does instead --- */

static const char *move_text(const struct graph *g, struct node_id n, struct arena *a)
{
	struct moved m;
	explain_moved(g, n, &m);
	return arena_printf(a, "%s of %s %s -> %s", op_text(graph_op(g, n)), value_name(g, m.value, a),
			    placement_on(g, &m.from, m.axes, a), placement_on(g, &m.to, m.axes, a));
}

typedef VEC(const char *) text_list;

static void list_moves(const struct graph *g, struct arena *a, text_list *out)
{
	node_list moves = { 0 };
	graph_collectives(g, &moves);
	for (uint32_t i = 0; i < moves.count; i++)
		*vec_push(out) = move_text(g, moves.items[i], a);
	vec_release(&moves);
}

/* Takes one that is equal off the list. */
static bool take_equal(text_list *l, const char *text)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (l->items[i] != NULL && strcmp(l->items[i], text) == 0) {
			l->items[i] = NULL;
			return true;
		}
	return false;
}

static void list_instead(const struct graph *best, const struct graph *other, struct arena *a, struct next_best *out)
{
	text_list had = { 0 }, has = { 0 };
	list_moves(best, a, &had);
	list_moves(other, a, &has);
	out->instead = out->more = 0;
	for (uint32_t i = 0; i < has.count; i++) {
		if (take_equal(&had, has.items[i]))
			continue;
		if (out->instead < 3)
			out->move[out->instead++] = has.items[i];
		else
			out->more++;
	}
	vec_release(&had);
	vec_release(&has);
}

/* --- the search --- */

/* What a tagged move says: the value's id, and where the reshard that it is of goes. */
static bool read_tag(const struct search *s, const struct graph *g, struct node_id n, struct node_id *value, struct placement *to)
{
	const char *tag = graph_prov(g, n)->source;
	struct diag d = { 0 };
	char *end;
	if (tag == NULL || strncmp(tag, MOVE_TAG, strlen(MOVE_TAG)) != 0)
		return false;
	value->i = (uint32_t)strtoul(tag + strlen(MOVE_TAG), &end, 10);
	return value->i < s->g->nodes.count && placement_parse(to, context_mesh(s->g->context), -1, end, &d) == FS_OK;
}

/* Op, axes and bytes of each collective, sorted: equal where two programs move the same amounts in the same ways. */
struct amount { uint32_t op, axes; int64_t bytes; };

static int by_amount(const void *a, const void *b)
{
	const struct amount *x = a, *y = b;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	if (x->axes != y->axes)
		return x->axes < y->axes ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

typedef VEC(struct amount) amount_list;

static void list_amounts(const struct graph *g, amount_list *out)
{
	node_list moves = { 0 };
	graph_collectives(g, &moves);
	for (uint32_t i = 0; i < moves.count; i++) {
		struct node_id n = moves.items[i];
		*vec_push(out) = (struct amount){ graph_op(g, n), (uint32_t)graph_int(g, n, ATTR_AXES, 0), collective_bytes(g, n) };
	}
	vec_release(&moves);
	if (out->count > 0)
		qsort(out->items, out->count, sizeof(*out->items), by_amount);
}

static bool same_amounts(const struct graph *a, const struct graph *b)
{
	amount_list x = { 0 }, y = { 0 };
	list_amounts(a, &x);
	list_amounts(b, &y);
	bool same = x.count == y.count;
	for (uint32_t i = 0; same && i < x.count; i++)
		same = by_amount(&x.items[i], &y.items[i]) == 0;
	vec_release(&x);
	vec_release(&y);
	return same;
}

/* Does the best move what the tag says? */
static bool has_tag(const struct search *s, const char *tag)
{
	for (uint32_t i = 0; i < s->collectives.count; i++) {
		const char *source = graph_prov(s->best, s->collectives.items[i])->source;
		if (source != NULL && strcmp(source, tag) == 0)
			return true;
	}
	return false;
}

static void forbid(struct forbidden *f, struct node_id value, int axis, label l)
{
	f->at[f->count].value = value;
	f->at[f->count].axis = axis;
	f->at[f->count++].label = l;
}

/* The moves that `other` has and the best has not: forbids them on the axis. False: there are none, or too many. */
static bool forbid_new(const struct search *s, const struct graph *other, int axis, struct forbidden *f)
{
	int before = f->count;
	for (uint32_t i = 1; i < other->nodes.count; i++) {
		struct node_id n = { i }, value;
		struct placement to;
		bool moves = op_is_collective(graph_op(other, n)) && (graph_int(other, n, ATTR_AXES, 0) >> axis & 1);
		if (!moves || !read_tag(s, other, n, &value, &to) || has_tag(s, graph_prov(other, n)->source))
			continue;
		if (f->count == MAX_FORBIDDEN)
			return false;
		forbid(f, value, axis, label_of(&to, axis));
	}
	return f->count > before;
}

/*
 * The best plan without what `f` forbids.  One that moves the same amounts in the same ways, of a value one op
 * before or behind, is the same choice: what it moves is forbidden, too.
 */
static enum fs_status place_without(const struct search *s, struct forbidden *f, struct graph **out, struct diag *d)
{
	for (;;) {
		TRY(place_again(s, f, out, d));
		if (!same_amounts(s->best, *out) || !forbid_new(s, *out, f->at[0].axis, f))
			return FS_OK;
		graph_destroy(*out);
	}
}

static const char *without_text(const struct search *s, const struct forbidden *f, const struct placement *to, struct arena *a)
{
	const char *text = arena_printf(a, "%s as %s", value_name(s->g, f->at[0].value, a),
					placement_on(s->g, to, 1u << f->at[0].axis, a));
	return f->count > 1 ? arena_printf(a, "%s, nor the same a few ops from there", text) : text;
}

static enum fs_status try_without(const struct search *s, struct forbidden *f, const struct placement *to, struct arena *a,
				  struct next_best *out, struct diag *d)
{
	struct diag why = { 0 };
	struct graph *g;
	enum fs_status status = place_without(s, f, &g, &why);
	const char *without = without_text(s, f, to, a);
	if (status == FS_INVALID && out->kind != NEXT_FOUND) {
		out->kind = NEXT_FORCED;
		out->without = without;
		return FS_OK;
	}
	if (status != FS_OK)
		return status == FS_INVALID ? FS_OK : diag_set(d, status, "%s", why.text);
	struct plan_price price = price_of(s->machine, g);
	if (out->kind != NEXT_FOUND || price.time < out->price.time) {
		out->kind = NEXT_FOUND;
		out->without = without;
		out->price = price;
		list_instead(s->best, g, a, out);
	}
	graph_destroy(g);
	return FS_OK;
}

enum fs_status search_next(const struct search *s, uint32_t k, struct arena *a, struct next_best *out, struct diag *d)
{
	struct node_id n = s->collectives.items[k], value;
	struct placement to;
	struct moved m;
	*out = (struct next_best){ .kind = NEXT_NOT_PLACED };
	if (!read_tag(s, s->best, n, &value, &to))
		return FS_OK;
	explain_moved(s->best, n, &m);
	out->kind = NEXT_ON_THE_WAY;
	for (int axis = 0; axis < context_mesh(s->g->context)->count; axis++) {
		struct forbidden f = { 0 };
		if (!(m.axes >> axis & 1) || label_of(&to, axis) == label_of(&graph_type(s->best, m.value)->place, axis))
			continue;
		forbid(&f, value, axis, label_of(&to, axis));
		TRY(try_without(s, &f, &to, a, out, d));
	}
	return FS_OK;
}
