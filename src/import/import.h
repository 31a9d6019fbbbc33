/* What all readers of model files share: options from the command line, notes for the user. */
#ifndef FS_IMPORT_H
#define FS_IMPORT_H

#include "ir.h"

/* --dim NAME=SIZE: the size of a symbolic dim. */
struct import_dim { const char *name; int64_t size; };

/* Lines for the user that are no errors ("s77 = 4, as in the export's example; ..."); strings live in the context. */
struct import_notes { VEC(const char *) line; };

struct import_options {
	const struct import_dim *dims;
	int dim_count;
	/* The name under which a parameter or buffer is stored where several names share its storage. NULL: none do. */
	const char *(*tied)(void *tied_context, const char *fqn);
	void *tied_context;
	/* Elements of a constant of the file, for what has to be known at import (a branch). NULL: none are. */
	const struct tensor *(*constant)(void *constant_context, const char *fqn);
	void *constant_context;
	struct import_notes *notes; /* NULL: not wanted */
	bool text_form; /* what looks like nothing known is read as the text form, for its messages */
};

/*
 * Reads a model of any kind, told apart by its content: a torch.export archive or its JSON, our JSON
 * graph, the text form.  `mesh` is that of the command line; NULL: the file's own, or none.  Fills in
 * `tied` and `constant` of the options itself.  On success *context and *out are the caller's; on
 * failure nothing is, and notes are empty.
 */
enum fs_status import_file(const char *path, const struct import_options *o, const struct mesh *mesh,
			   struct context **context, struct graph **out, struct diag *d);

#endif
