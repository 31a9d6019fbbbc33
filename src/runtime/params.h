/* Parameters of a plan: found in files once, read slice by slice by each rank. */
#ifndef FS_PARAMS_H
#define FS_PARAMS_H

#include "exec.h"
#include "weights.h"

/* By node id; NULL for what is no parameter, and for buffers that begin as zeros and are in no file. */
struct params { const struct weight **of; };

/*
 * Finds every parameter under its name, the names tied to it, or those with `model.` put before or
 * left out.  An f32 parameter that a step changes may be bf16 or f16 in the file.  Says all that are missing at once.  `origin` stands for the files in messages.
 */
enum fs_status params_find(const struct plan *p, const struct weights *w, const char *origin, struct params *out,
			   struct diag *d);
void params_release(struct params *p);

/* This rank's part of each parameter into its exec. */
enum fs_status params_store(const struct params *p, struct exec *e, const struct plan *plan, struct diag *d);

#endif
