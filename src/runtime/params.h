/* Parameters of a plan: found in files once, read slice by slice by each rank. */
#ifndef FS_PARAMS_H
#define FS_PARAMS_H

#include "exec.h"
#include "weights.h"

/* By node id; NULL for what is no parameter. */
struct params { const struct weight **of; };

/*
 * Finds every parameter under its name, the names tied to it, or those with `model.` put before or
 * left out.  Says all that are missing at once.  `origin` stands for the files in messages.
 */
enum fs_status params_find(const struct plan *p, const struct weights *w, const char *origin, struct params *out,
			   struct diag *d);
void params_release(struct params *p);

/* This rank's part of each parameter into its exec. */
enum fs_status params_store(const struct params *p, struct exec *e, const struct plan *plan, struct diag *d);

#endif
