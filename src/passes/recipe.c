#include "recipe.h"

#include <string.h>

#define HIGH      { DT_NONE, SPAN_ROW }
#define ROW(t)    { DT_##t, SPAN_ROW }
#define TENSOR(t) { DT_##t, SPAN_TENSOR }

static const struct recipe recipes[] = {
	/*                         forward                           grad_input                        grad_weight
	 *  name                   activation     weight             gradient       weight             gradient       activation */
	{ "none",               { { HIGH,         HIGH         }, { HIGH,         HIGH         }, { HIGH,         HIGH         } }, false },
	{ "tensorwise",         { { TENSOR(E4M3), TENSOR(E4M3) }, { TENSOR(E5M2), TENSOR(E4M3) }, { TENSOR(E5M2), TENSOR(E4M3) } }, false },
	{ "rowwise",            { { ROW(E4M3),    ROW(E4M3)    }, { ROW(E4M3),    ROW(E4M3)    }, { ROW(E4M3),    ROW(E4M3)    } }, false },
	{ "rowwise_with_gw_hp", { { ROW(E4M3),    ROW(E4M3)    }, { ROW(E4M3),    TENSOR(E4M3) }, { HIGH,         HIGH         } }, false },
};

enum fs_status recipe_find(const char *text, struct recipe *out, struct diag *d)
{
	size_t n = strcspn(text, ":");
	for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
		if (strlen(recipes[i].name) != n || memcmp(recipes[i].name, text, n) != 0)
			continue;
		*out = recipes[i];
		out->pow2 = text[n] != '\0';
		if (text[n] == '\0' || strcmp(text + n, ":pow2") == 0)
			return FS_OK;
	}
	return diag_set(d, FS_INVALID, "'%s' is no fp8 recipe; there are none, tensorwise, rowwise and rowwise_with_gw_hp, each also "
			"with :pow2 for scales that are powers of two", text);
}

bool recipe_casts(const struct recipe *r, enum product_role role)
{
	return r->operand[role][0].dtype != DT_NONE;
}

/* What the graph quantized itself (a lifted product, which has a reason) it quantized as forward operands are. */
static enum product_role role_of(const struct graph *g, struct node_id n)
{
	const char *text = graph_string(g, n, ATTR_ROLE);
	enum product_role role;
	bool lifted = graph_string(g, n, ATTR_REASON) != NULL;
	return text != NULL && !lifted && product_role_read(text, &role) ? role : PRODUCT_FORWARD;
}

bool matmul_casts(const struct graph *g, struct node_id n, struct product_casts *out)
{
	const char *name = graph_op(g, n) == OP_MATMUL ? graph_string(g, n, ATTR_RECIPE) : NULL;
	struct recipe r;
	struct diag d = { 0 };
	if (name == NULL || recipe_find(name, &r, &d) != FS_OK)
		return false;
	enum product_role role = role_of(g, n);
	bool flipped = graph_int(g, n, ATTR_FLIPPED, 0) != 0;
	*out = (struct product_casts){ { r.operand[role][flipped], r.operand[role][!flipped] }, r.pow2 };
	return recipe_casts(&r, role);
}
