/* What graph_emit() knows to be the same: identities and views of views. Exact: no bit changes. */
#ifndef FS_SIMPLIFY_H
#define FS_SIMPLIFY_H

#include "ir.h"

/* The node that has this value already (or a simpler one made for it): true. */
bool simplify(struct graph *g, enum op op, const struct node_id *in, int count, const struct attrs *a,
	      const struct type *type, struct prov_id prov, struct node_id *out);

#endif
