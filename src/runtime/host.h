/* Whole tensors in the host's memory: a plan's inputs from a file, its outputs into one. */
#ifndef FS_HOST_H
#define FS_HOST_H

#include "exec.h"
#include "safetensors.h"

/* Every input there, of the right type and shape, and nothing else in the file. */
enum fs_status inputs_check(const struct plan *p, const struct safetensors *f, struct diag *d);
/* This rank's part of each input into its exec.  f NULL: the plan has none, or they come later. */
enum fs_status inputs_store(const struct safetensors *f, struct exec *e, const struct plan *p, struct diag *d);

struct host_tensor {
	const char *name; /* the plan's */
	enum dtype dtype;
	int rank;
	int64_t dim[MAX_RANK];
	void *data;       /* dense, row-major; malloc'ed */
};

/*
 * The whole of a value from the parts of all ranks; partial sums are added (max and min: taken), in f32
 * or f64, in the order of ranks.
 */
enum fs_status value_gather(struct exec *const *ranks, int count, struct node_id n, enum dtype t,
			    struct host_tensor *out, struct diag *d);
void host_tensor_release(struct host_tensor *t);

struct host_tensors { uint32_t count; struct host_tensor *at; };

/* All outputs that have a name. */
enum fs_status outputs_gather(const struct plan *p, struct exec *const *ranks, int count, struct host_tensors *out,
			      struct diag *d);
enum fs_status outputs_write(const struct host_tensors *t, const char *path, struct diag *d);
void host_tensors_release(struct host_tensors *t);

#endif
