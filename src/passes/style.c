#include "style.h"

#include <string.h>

static const struct style styles[] = {
	/*  name                           kind             gather_output  sequence */
	{ "colwise",                       STYLE_COLWISE,   false,         false },
	{ "rowwise",                       STYLE_ROWWISE,   false,         false },
	{ "colwise_rep",                   STYLE_COLWISE,   true,          false },
	{ "colwise_gather_output",         STYLE_COLWISE,   true,          false },
	{ "rowwise_rep",                   STYLE_ROWWISE,   false,         false },
	{ "rowwise_split_input",           STYLE_ROWWISE,   false,         false },
	{ "local_colwise",                 STYLE_COLWISE,   false,         false },
	{ "local_rowwise",                 STYLE_ROWWISE,   false,         false },
	{ "packed_colwise",                STYLE_COLWISE,   false,         false },
	{ "packed_rowwise",                STYLE_ROWWISE,   false,         false },
	{ "local_packed_colwise",          STYLE_COLWISE,   false,         false },
	{ "local_packed_rowwise",          STYLE_ROWWISE,   false,         false },
	{ "embedding_rowwise",             STYLE_ROWWISE,   false,         false },
	{ "embedding_colwise",             STYLE_COLWISE,   false,         false },
	{ "sequence_parallel",             STYLE_REPLICATE, false,         true },
	{ "replicate",                     STYLE_REPLICATE, false,         false },
	{ "replicated_with_grad_allreduce", STYLE_REPLICATE, false,        false },
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

/* The first product says what the dims are: those of a backward pass, which come later, contract others. */
static void matmul_use(const struct graph *g, struct node_id user, struct node_id param, struct param_use *out)
{
	struct equation e;
	struct diag d = { 0 };
	if (out->dim_n >= 0 || out->dim_k >= 0)
		return;
	if (equation_parse(&e, graph_string(g, user, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	int side = node_same(graph_operand(g, user, 1), param) ? 1 : 0;
	for (int i = e.rank[side] - 1; i >= 0; i--) {
		enum letter_role role = equation_role(&e, e.letter[side][i]);
		if (role == ROLE_K)
			out->dim_k = i;
		else if (role == ROLE_M || role == ROLE_N)
			out->dim_n = i;
	}
}

/* Users see the parameter through casts. */
static void visit(const struct graph *g, const struct uses *u, struct node_id value, struct param_use *out)
{
	for (uint32_t k = u->first[value.i]; k < u->first[value.i + 1]; k++) {
		struct node_id user = u->at[k];
		switch (graph_op(g, user)) {
		case OP_CAST:
		case OP_COPY:
			visit(g, u, user, out);
			break;
		case OP_MATMUL:
			matmul_use(g, user, value, out);
			break;
		case OP_EMBEDDING:
			out->embedding |= node_same(graph_operand(g, user, 0), value);
			break;
		case OP_ADD:
			out->bias |= out->rank == 1;
			break;
		default:
			break;
		}
	}
}

void style_uses(const struct graph *g, const struct uses *u, struct node_id param, struct param_use *out)
{
	*out = (struct param_use){ .rank = graph_type(g, param)->rank, .dim_n = -1, .dim_k = -1 };
	visit(g, u, param, out);
}

int style_dim(const struct style *s, const struct param_use *u)
{
	if (s->kind == STYLE_REPLICATE || u->rank == 0)
		return -1;
	bool colwise = s->kind == STYLE_COLWISE;
	if (u->dim_n >= 0 || u->dim_k >= 0) {
		int dim = colwise ? u->dim_n : u->dim_k;
		return dim >= 0 ? dim : STYLE_NO_ROLE;
	}
	if (u->embedding)
		return colwise ? u->rank - 1 : 0;
	if (u->bias || u->rank == 1)
		return colwise ? 0 : -1;
	return STYLE_NO_ROLE;
}
