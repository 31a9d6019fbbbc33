/*
 * Training: steps of a plan that holds its own update, a batch each.
 *
 * Between steps the ranks rest, and what the plan will start the next one from can be gathered (train_next).
 */
#ifndef FS_TRAIN_H
#define FS_TRAIN_H

#include "batches.h"
#include "session.h"

struct train {
	const struct plan *plan;
	const struct batches *batches;
	struct session session;
	struct node_id loss, norm, lr; /* norm, lr: of an optimizer's plan, or NODE_NONE */
	struct watch *watch;           /* by rank */
};

struct train_result { double loss, grad_norm, seconds; }; /* grad_norm: NAN where the plan has none */

/* A loss, and parameters that a step changes? */
enum fs_status train_check(const struct plan *p, struct diag *d);
/* Loads parameters, runs setup. All but t are borrowed. */
enum fs_status train_create(struct train *t, const struct plan *p, const struct params *params, const struct batches *b, struct diag *d);
/*
 * Step number `step`, from 0.  Where the loss or the norm of the gradients is not finite, the message says where
 * that began: the step is run again, from the same parameters, and every value looked at.
 */
enum fs_status train_step(struct train *t, int64_t step, double lr, struct train_result *out, struct diag *d);
void train_destroy(struct train *t); /* {0} is fine */

/* The value of a parameter or buffer after the last step: n itself, or the output that is its next. */
struct node_id train_next(const struct plan *p, struct node_id n);

#endif
