/* Random meshes, places of values on them, and graphs of programs. */
#include "random.h"

#define MOST_RANKS 12

/* --- meshes and pins --- */

static void random_mesh(struct rng *r, struct mesh *m)
{
	static const char *const names[] = { "dp", "tp", "cp" };
	static const int32_t sizes[] = { 1, 2, 2, 2, 3, 4, 4, 5 };
	do {
		*m = (struct mesh){ .count = 1 + (int)rng_below(r, 3) };
		for (int a = 0; a < m->count; a++) {
			snprintf(m->axis[a].name, sizeof(m->axis[a].name), "%s", names[a]);
			m->axis[a].size = sizes[rng_below(r, 8)];
		}
	} while (mesh_size(m) > MOST_RANKS || mesh_size(m) == 1);
}

/* Shards of some of the axes, nested in any order. */
static struct placement random_placement(struct rng *r, const struct mesh *m, uint32_t axes, int rank)
{
	struct placement p = { 0 };
	int first = (int)rng_below(r, m->count), step = rng_chance(r, 50) ? 1 : m->count - 1;
	for (int k = 0; k < m->count && rank > 0; k++) {
		int axis = (first + k * step) % m->count;
		if ((axes >> axis & 1) && rng_chance(r, 65))
			placement_set(&p, axis, &(struct part){ (uint8_t)axis, PART_SHARD, (uint8_t)rng_below(r, rank) });
	}
	return p;
}

static struct pin random_pin(struct rng *r, const struct mesh *m, const struct value *v)
{
	uint32_t all = (1u << m->count) - 1;
	struct pin pin = { 0 };
	if (v->op == OP_INPUT || v->op == OP_PARAM)
		pin.place = random_placement(r, m, all, v->type.rank);
	else if (v->count > 0 && rng_chance(r, 25))
		pin.axes = 1 + (uint32_t)rng_below(r, all);
	if (pin.axes != 0)
		pin.place = random_placement(r, m, pin.axes, v->type.rank);
	return pin;
}

/* A parameter that one product alone takes computes where it is: most sums over ranks come from these. */
static bool may_be_hard(const struct program *p, int v)
{
	int users = 0, products = 0;
	for (uint32_t i = 0; i < p->values.count; i++)
		for (int k = 0; k < p->values.items[i].count; k++)
			if (p->values.items[i].in[k] == v) {
				users++;
				products += p->values.items[i].op == OP_MATMUL;
			}
	return !p->exact && value_at(p, v)->op == OP_PARAM && users == 1 && products == 1;
}

static uint32_t axes_of(const struct placement *p)
{
	uint32_t axes = 0;
	for (int i = 0; i < p->count; i++)
		axes |= 1u << p->at[i].axis;
	return axes;
}

void random_layout(struct program *p, struct layout *l)
{
	static const char *const targets[] = { "h100", "b200", NULL };
	struct rng *r = &p->rng;
	*l = (struct layout){ .reduce_f32 = rng_chance(r, 25), .target = targets[rng_below(r, 3)] };
	random_mesh(r, &l->mesh);
	l->pin = arena_array(&p->arena, p->values.count + 1u, sizeof(*l->pin));
	for (uint32_t i = 0; i < p->values.count; i++) {
		l->pin[i] = random_pin(r, &l->mesh, &p->values.items[i]);
		if (may_be_hard(p, (int)i))
			l->pin[i].hard = axes_of(&l->pin[i].place);
	}
}

/* --- graphs --- */

static struct node_id constrained(struct graph *g, const struct pin *pin, struct node_id n, struct prov_id prov)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_AXES, pin->axes);
	attrs_placement(&a, &pin->place);
	return graph_emit(g, OP_CONSTRAIN, &n, 1, &a, prov);
}

static struct node_id emit(struct graph *g, const struct value *v, const struct node_id *in, const struct pin *pin,
			   struct prov_id prov)
{
	struct attrs a = v->attrs;
	struct type t = v->type;
	if (pin == NULL)
		return graph_append(g, v->op, in, v->count, &a, &t, prov);
	if (v->op == OP_INPUT || v->op == OP_PARAM) {
		t.place = pin->place;
		if (pin->hard != 0)
			attrs_int(&a, ATTR_HARD, pin->hard);
		return graph_emit_typed(g, v->op, NULL, 0, &a, &t, prov);
	}
	struct node_id n = graph_emit(g, v->op, in, v->count, &a, prov);
	return pin->axes != 0 ? constrained(g, pin, n, prov) : n;
}

struct graph *program_graph(const struct program *p, struct context *c, const struct layout *l)
{
	struct graph *g = graph_create(c, l == NULL ? STAGE_LOCAL : STAGE_GLOBAL);
	bool *reached = program_reached(p);
	struct node_id *map = calloc(p->values.count + 1u, sizeof(*map));
	char name[24];
	if (map == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < p->values.count; i++) {
		const struct value *v = &p->values.items[i];
		struct node_id in[MOST_IN];
		for (int k = 0; k < v->count; k++)
			in[k] = map[v->in[k]];
		snprintf(name, sizeof(name), "v%u", i);
		struct prov prov = { .node = context_intern(c, name) };
		if (reached[i])
			map[i] = emit(g, v, in, l == NULL ? NULL : &l->pin[i], context_prov(c, &prov));
	}
	for (uint32_t i = 0; i < p->outputs.count; i++) {
		snprintf(name, sizeof(name), "y%d", p->outputs.items[i]);
		graph_output(g, &(struct output){ .value = map[p->outputs.items[i]], .name = context_intern(c, name) });
	}
	free(reached);
	free(map);
	return g;
}
