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
	struct import_notes *notes; /* NULL: not wanted */
};

#endif
