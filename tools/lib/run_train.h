/* fp8shard-run --train: its options, and the run itself (train.h, checkpoint.h) with what it says. */
#ifndef FS_RUN_TRAIN_H
#define FS_RUN_TRAIN_H

#include "checkpoint.h"
#include "train.h"

struct train_options {
	const char *first;     /* the first of these options that was given, for messages; NULL: none */
	bool on;               /* --train */
	const char *data, *log, *checkpoint, *resume;
	int token_bytes;       /* 0: a file of tensors */
	uint64_t seed;
	int64_t steps, warmup, every;
	double lr;
	bool has_seed, has_lr, cosine;
};
#define TRAIN_OPTIONS_DEFAULT { .every = 100, .lr = 1e-3 }

/* For getopt_long: the options' names; all return `code`. {NULL} ends them. */
extern const char *const train_option_names[]; /* "data=": takes a value */
/* What a name (without "--") and its value say. */
enum fs_status train_option(struct train_options *o, const char *name, const char *value, struct diag *d);
extern const char train_help[];

/* Options that belong together, and that go with no run of the plan as it is. */
enum fs_status train_options_check(const struct train_options *o, struct diag *d);

/*
 * Runs what is left of o->steps after `from` ({0}: all).  Prints progress: a line a step where `verbose`, else one a
 * second at most.  output: where the last step's outputs go; may be NULL.
 */
enum fs_status train_run(const struct train_options *o, const struct plan *p, const struct params *params,
			 const struct checkpoint *from, const char *output, bool verbose, struct diag *d);

#endif
