/* From a graph of stage local or fp8 to a plan. */
#ifndef FS_LOWER_H
#define FS_LOWER_H

#include "passes.h"
#include "plan.h"

struct lower_options {
	const char *recipe, *target; /* as asked for, for the report; NULL: none */
	bool exact;
	const struct matmul_report *matmuls;
	uint32_t matmul_count;
	const char *const *command; /* arguments of this compile; NULL: of none */
	uint32_t command_count;
};

/*
 * Takes the graph and its context, also where it fails: the plan owns them.  The plan is verified.
 */
enum fs_status lower_plan(struct graph *g, const struct lower_options *o, struct plan **out, struct diag *d);

#endif
