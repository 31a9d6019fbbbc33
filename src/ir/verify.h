/* Private to the verifier: what its two files share. */
#ifndef FS_VERIFY_H
#define FS_VERIFY_H

#include "rule.h"

struct verifier {
	const struct graph *graph;
	const struct mesh *mesh;
	struct diag *diag;
	struct arena scratch;
	struct hash_table seen; /* nodes whose kind (op, attributes, types) is found right */
};

/* FS_INVALID, "<node>: <op>: <message>". */
enum fs_status verify_fail(const struct verifier *v, struct node_id n, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same of the labels of one axis, with all types. */
enum fs_status verify_fail_axis(const struct verifier *v, struct node_id n, int axis, const char *why);
/* The type of operand k; of the result where k is the number of operands. */
const struct type *verify_type(const struct verifier *v, struct node_id n, int k);

/* --- verify_moves.c --- */

typedef enum fs_status verify_rule(const struct verifier *v, struct node_id n);
/* The rule of an op whose placements op_strategies() does not know, else NULL. */
verify_rule *verify_rule_of(enum op op);

#endif
