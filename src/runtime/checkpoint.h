/*
 * Checkpoints: all parameters and buffers of a training run, whole or absent.
 *
 * DIR/step-00000100/ has what step 100 left: safetensors files of at most CHECKPOINT_BYTES (or one tensor), parameters
 * and the optimizer's states apart, and model.safetensors.index.json, which --weights takes as it does a model's.
 * Tensors are whole and go by their names, so any mesh can go on from them.  The index's "metadata" have `step`
 * (steps done, and with it how far the data are) and `seed` (of the windows of a file of tokens).
 *
 * A folder is written under a temporary name, all of it synced, then renamed; then older ones go.  So a process
 * that is killed at any time leaves the last checkpoint.
 */
#ifndef FS_CHECKPOINT_H
#define FS_CHECKPOINT_H

#include "exec.h"
#include "weights.h"

#ifndef CHECKPOINT_BYTES
#define CHECKPOINT_BYTES ((int64_t)4 << 30)
#endif

struct checkpoint {
	int64_t step;
	uint64_t seed;
};

/*
 * Makes DIR, or takes it where it has no checkpoint but that of step `from` (-1: none), and rids it of what killed
 * processes left.
 */
enum fs_status checkpoint_prepare(const char *dir, int64_t from, struct diag *d);
/* The state after the last step of all ranks, which rest. Older checkpoints of DIR go when the new one is there. */
enum fs_status checkpoint_write(const char *dir, const struct plan *p, struct exec *const *ranks, int count,
				const struct checkpoint *c, struct diag *d);
/*
 * The newest one of DIR, or DIR itself if it is one, into *w ({0} before): a weight for each parameter and buffer of
 * the plan, and no others.  path: which it is.
 */
enum fs_status checkpoint_open(const char *dir, const struct plan *p, struct weights *w, struct checkpoint *c, char path[4096],
			       struct diag *d);

#endif
