/* Tensor-parallel styles by the names that Hugging Face and torch use, as rows of a table. */
#ifndef FS_STYLE_H
#define FS_STYLE_H

#include "ir.h"

/* STYLE_HOOK: what Hugging Face does around a module's forward; here it follows from the placements. */
enum style_kind { STYLE_COLWISE, STYLE_ROWWISE, STYLE_REPLICATE, STYLE_HOOK };

struct style {
	const char *name;
	enum style_kind kind;
	bool gather_output; /* the layer's output is whole on the axis */
	bool sequence;      /* the module's output is sharded on its sequence dim */
	bool embedding;     /* speaks of a table, even where a matmul uses it, too (tied weights) */
};

/* Who uses a parameter, and what of it: itself, or a cast or copy. */
struct param_user { struct node_id user, value; };
typedef VEC(struct param_user) param_users;
void style_users(const struct graph *g, const struct uses *u, struct node_id param, param_users *out);

/* What the ops that use a parameter make of its dims. */
struct param_use {
	int rank;
	int dim_n, dim_k;  /* first dim of output and of contracted features of a matmul; -1: no matmul */
	bool embedding;    /* a table of rows: dim 0 is the vocabulary */
	bool bias;         /* rank 1, added to a product */
	bool scale;        /* of codes, */
	int dim_scale;     /* its only dim of more than one; -1: none */
};

const struct style *style_find(const char *name); /* NULL where there is none */
void style_names(char *out, size_t size);         /* "colwise, rowwise, ..." */
void style_uses(const struct graph *g, struct node_id param, const param_users *users, struct param_use *out);

#define STYLE_NO_ROLE (-2)
/* The dim that the style shards; -1: none, the parameter is replicated; STYLE_NO_ROLE: it cannot say. as_table: of an embedding. */
int style_dim(const struct style *s, const struct param_use *u, bool as_table);

#endif
