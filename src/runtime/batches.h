/*
 * What the steps of a training run are given: a batch a step, from a file.
 *
 * A .safetensors file has a tensor for each input of the plan, of one dim more: batch i is row i of each.  A file
 * of tokens is nothing but them, little-endian; the plan's inputs are then `input_ids` and `labels`, whole
 * numbers [B, T], and each row of a batch is a window of T tokens and the same window one token on.  Where windows
 * begin follows from seed, step and row alone: so a run that was stopped goes on with what it had not seen, and
 * all meshes see the same.  The learning rate, TRAIN_LR, is none of these inputs.
 */
#ifndef FS_BATCHES_H
#define FS_BATCHES_H

#include "exec.h"
#include "safetensors.h"

#define TRAIN_LR "lr"

struct batches {
	const struct plan *plan;
	int64_t steps;            /* batches there are; INT64_MAX: no end */
	struct safetensors tensors;
	int token_bytes;          /* 0: the file is of tensors */
	struct file file;         /* of tokens */
	int64_t tokens;           /* in the file */
	uint64_t seed;
};

/* The plan is borrowed.  Every input there, of its type, one dim more and as many rows as the others; nothing else. */
enum fs_status batches_open(struct batches *b, const struct plan *p, const char *path, struct diag *d);
/* token_bytes: 1, 2 or 4 */
enum fs_status batches_open_tokens(struct batches *b, const struct plan *p, const char *path, int token_bytes, uint64_t seed,
				   struct diag *d);
void batches_close(struct batches *b); /* {0} is fine */

/* This rank's part of batch `step` into its exec.  Threads may share. */
enum fs_status batches_store(const struct batches *b, struct exec *e, int64_t step, struct diag *d);

/* The input of the learning rate; NODE_NONE: the plan has none. */
struct node_id batches_lr(const struct plan *p);
/* Elements of the first input of whole numbers, *unit "tokens"; else rows of the first input, *unit "rows". */
int64_t batches_size(const struct plan *p, const char **unit);

#endif
