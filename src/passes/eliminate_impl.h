/* What eliminate.c and eliminate_load.c share; nobody else includes it. */
#ifndef FS_ELIMINATE_IMPL_H
#define FS_ELIMINATE_IMPL_H

#include "cost_table.h"
#include "eliminate.h"

#define NONE UINT32_MAX

/* A variable of a table; one more label is `stride` cells further. */
struct axis {
	uint32_t variable;
	size_t stride;
};

struct table {
	const uint64_t *base;
	uint32_t first, rank; /* its axes */
	bool spent;
};

/* A list of tables per variable. */
struct link {
	uint32_t table, next;
};

struct step {
	uint32_t variable, first, count; /* its tables, in `buckets` */
};

struct label_set {
	const uint32_t *label; /* NULL: 0 .. count-1, or, where count is 1, `only` */
	uint32_t count, only;
};

struct scratch {
	uint64_t *cells;
	size_t room;
};

/* A table that was made from those that its key names: its cells are `least` more. */
struct message {
	const uint64_t *cells; /* NULL: not yet filled */
	uint64_t least;
	uint32_t first, count; /* its key, in `words` */
};

struct memo_cells {
	const uint64_t *at;
	size_t count;
};

struct memo {
	struct arena arena;
	VEC(struct message) messages;
	VEC(struct memo_cells) cells;
	VEC(uint64_t) words;
	struct hash_table by_key, by_cells;
};

struct solver {
	const struct factor_graph *fg;
	uint64_t max_cells;
	uint32_t variables;
	struct arena arena;
	struct label_set *left; /* by variable: the labels it still may take */
	uint32_t *head;         /* by variable: its first link */
	uint32_t *stamp, now;   /* by variable: seen in this scan */
	uint32_t *slot;         /* by variable: its dim in the elimination at hand */
	uint32_t *own;          /* by variable: the table of it alone that eliminations add to, or NONE */
	struct memo memo;
	VEC(struct table) tables;
	VEC(struct axis) axes;
	VEC(struct link) links;
	VEC(struct step) steps;
	VEC(uint32_t) buckets;
	uint32_t *heap, *place; /* variables; where a variable stands, NONE when eliminated */
	uint64_t *key;          /* by variable: cells of its elimination */
	uint32_t heaped;
	struct scratch part[3]; /* the third is for messages */
	struct elim_result *result;
};

/*
 * eliminate_load.c: fixes and prunes labels and makes the first tables.  free == NULL: all are
 * free; pick: labels of those that are not.
 */
enum elim_status solver_load(struct solver *s, const bool *free, const uint32_t *pick);
/* Puts the table, whose axes are the last of the pool, into the lists of its variables. */
void solver_add_table(struct solver *s, struct table t);
/* Makes the axes those of a dense table of the labels left; returns its cells. */
size_t solver_make_dense(struct solver *s, const struct table *t);
/* eliminate_memo.c: the message whose key are the words from `first` on (they are taken), to be filled or found. */
struct message *memo_message(struct memo *memo, uint32_t first);
/* Cells of which some are below ELIM_INF; they are changed. */
void memo_fill(struct memo *memo, struct message *m, uint64_t *cells, size_t count);
void memo_release(struct memo *memo);
enum elim_status solver_end(struct solver *s, enum elim_status status, uint32_t variable);

#endif
