#include "style.h"

#include <string.h>

static const struct style styles[] = {
	/*  name                           kind             gather_output  sequence  embedding */
	{ "colwise",                       STYLE_COLWISE,   false,         false,    false },
	{ "rowwise",                       STYLE_ROWWISE,   false,         false,    false },
	{ "colwise_rep",                   STYLE_COLWISE,   true,          false,    false },
	{ "colwise_gather_output",         STYLE_COLWISE,   true,          false,    false },
	{ "rowwise_rep",                   STYLE_ROWWISE,   false,         false,    false },
	{ "rowwise_split_input",           STYLE_ROWWISE,   false,         false,    false },
	{ "local_colwise",                 STYLE_COLWISE,   false,         false,    false },
	{ "local_rowwise",                 STYLE_ROWWISE,   false,         false,    false },
	{ "packed_colwise",                STYLE_COLWISE,   false,         false,    false },
	{ "packed_rowwise",                STYLE_ROWWISE,   false,         false,    false },
	{ "local_packed_colwise",          STYLE_COLWISE,   false,         false,    false },
	{ "local_packed_rowwise",          STYLE_ROWWISE,   false,         false,    false },
	{ "embedding_rowwise",             STYLE_ROWWISE,   false,         false,    true },
	{ "embedding_colwise",             STYLE_COLWISE,   false,         false,    true },
	{ "sequence_parallel",             STYLE_REPLICATE, false,         true,     false },
	{ "replicate",                     STYLE_REPLICATE, false,         false,    false },
	{ "replicated_with_grad_allreduce", STYLE_REPLICATE, false,        false,    false },
	{ "mla_kv_a_proj",                 STYLE_REPLICATE, false,         false,    false },
	{ "moe_tp_experts",                STYLE_HOOK,      false,         false,    false },
	{ "moe_identity_expert",           STYLE_HOOK,      false,         false,    false },
	{ "all_reduce",                    STYLE_HOOK,      false,         false,    false },
	{ "local_params",                  STYLE_HOOK,      false,         false,    false },
};
#define STYLES (sizeof(styles) / sizeof(styles[0]))

const struct style *style_find(const char *name)
{
	for (size_t i = 0; i < STYLES; i++)
		if (strcmp(styles[i].name, name) == 0)
			return &styles[i];
	return NULL;
}

void style_names(char *out, size_t size)
{
	out[0] = '\0';
	for (size_t i = 0; i < STYLES; i++)
		snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? ", " : "", styles[i].name);
}

static bool same_shape(const struct type *s, const struct type *t)
{
	return s->rank == t->rank && memcmp(s->dim, t->dim, sizeof(s->dim[0]) * s->rank) == 0;
}

/* The dim of the parameter that dim `dim` of a form of it, reshaped perhaps, is (part of); -1: of one element. */
static int dim_of_param(const struct type *param, const struct type *form, int dim)
{
	int64_t stride = 1, whole = 1;
	if (same_shape(param, form))
		return dim;
	for (int i = dim + 1; i < form->rank; i++)
		stride *= form->dim[i];
	for (int i = param->rank - 1; i >= 0; i--)
		if (stride < (whole *= param->dim[i]))
			return form->dim[dim] > 1 ? i : -1;
	return -1;
}

/* The first product says what the dims are: those of a backward pass, which come later, contract others. */
static void matmul_use(const struct graph *g, struct node_id user, struct node_id param, struct node_id value,
		       struct param_use *out)
{
	struct equation e;
	struct diag d = { 0 };
	if (out->dim_n >= 0 || out->dim_k >= 0)
		return;
	if (equation_parse(&e, graph_string(g, user, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	int side = node_same(graph_operand(g, user, 1), value) ? 1 : 0;
	for (int i = e.rank[side] - 1; i >= 0; i--) {
		enum letter_role role = equation_role(&e, e.letter[side][i]);
		int dim = dim_of_param(graph_type(g, param), graph_type(g, value), i);
		if (role == ROLE_K && dim >= 0)
			out->dim_k = dim;
		else if ((role == ROLE_M || role == ROLE_N) && dim >= 0)
			out->dim_n = dim;
	}
	if (out->dim_n == out->dim_k)
		out->dim_n = out->dim_k = -1;
}

static bool is_fp8(const struct graph *g, struct node_id n)
{
	return dtype_class((enum dtype)graph_type(g, n)->dtype) == DC_FP8;
}

/* Is the user but another form of the parameter: a cast, a copy, or codes times their scale, in blocks perhaps? */
static bool is_form(const struct graph *g, struct node_id param, struct node_id user)
{
	enum op op = graph_op(g, user);
	bool scaled = (op == OP_MUL || op == OP_DIV) && type_count(graph_type(g, user)) == type_count(graph_type(g, param));
	return op == OP_CAST || op == OP_COPY || (is_fp8(g, param) && (op == OP_RESHAPE || scaled));
}

/* Does the user scale codes by `value`? */
static bool scales_codes(const struct graph *g, struct node_id user, struct node_id value)
{
	if (graph_op(g, user) != OP_MUL && graph_op(g, user) != OP_DIV)
		return false;
	struct node_id codes = graph_operand(g, user, node_same(graph_operand(g, user, 0), value));
	while (graph_op(g, codes) == OP_CAST || graph_op(g, codes) == OP_COPY)
		codes = graph_operand(g, codes, 0);
	return is_fp8(g, codes);
}

/* The dim along which there is more than one element, where only one is such; else -1. */
static int only_dim(const struct type *t)
{
	int found = -1;
	for (int i = 0; i < t->rank; i++) {
		if (t->dim[i] > 1 && found >= 0)
			return -1;
		found = t->dim[i] > 1 ? i : found;
	}
	return found;
}

void style_users(const struct graph *g, const struct uses *u, struct node_id param, param_users *out)
{
	VEC(struct node_id) todo = { 0 };
	*vec_push(&todo) = param;
	while (todo.count > 0) {
		struct node_id value = todo.items[--todo.count];
		for (uint32_t k = u->first[value.i]; k < u->first[value.i + 1]; k++) {
			struct node_id user = u->at[k];
			if (is_form(g, param, user))
				*vec_push(&todo) = user;
			else
				*vec_push(out) = (struct param_user){ user, value };
		}
	}
	vec_release(&todo);
}

void style_uses(const struct graph *g, struct node_id param, const param_users *users, struct param_use *out)
{
	const struct type *t = graph_type(g, param);
	*out = (struct param_use){ .rank = type_count(t) == 1 ? 0 : t->rank, .dim_n = -1, .dim_k = -1 };
	for (uint32_t i = 0; i < users->count; i++) {
		const struct param_user *p = &users->items[i];
		enum op op = graph_op(g, p->user);
		if (op == OP_MATMUL)
			matmul_use(g, p->user, param, p->value, out);
		out->embedding |= op == OP_EMBEDDING && node_same(graph_operand(g, p->user, 0), p->value);
		out->bias |= op == OP_ADD && out->rank == 1;
		out->scale |= scales_codes(g, p->user, p->value);
	}
	out->dim_scale = only_dim(graph_type(g, param));
}

int style_dim(const struct style *s, const struct param_use *u, bool as_table)
{
	if (s->kind == STYLE_REPLICATE || u->rank == 0)
		return -1;
	bool colwise = s->kind == STYLE_COLWISE;
	if (u->scale)
		return colwise ? u->dim_scale : -1;
	if (u->rank == 3) /* stacked experts: of each, by place, as Hugging Face has it */
		return colwise ? 1 : 2;
	if ((u->dim_n >= 0 || u->dim_k >= 0) && !(u->embedding && as_table)) {
		int dim = colwise ? u->dim_n : u->dim_k;
		return dim >= 0 ? dim : STYLE_NO_ROLE;
	}
	if (u->embedding)
		return colwise ? u->rank - 1 : 0;
	if (u->bias || u->rank == 1)
		return colwise ? 0 : -1;
	return STYLE_NO_ROLE;
}
