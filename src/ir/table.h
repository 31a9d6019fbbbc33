/* Tables for people: rows of cells, columns as wide as their widest cell. */
#ifndef FS_TABLE_H
#define FS_TABLE_H

#include "base.h"

#define MAX_COLUMNS 9

struct table {
	struct arena arena;
	int columns;
	bool right[MAX_COLUMNS]; /* numbers */
	VEC(const char *) cells;
};

/* `titles` ends with NULL; those that start with '>' head columns of numbers. */
void table_start(struct table *t, const char *const *titles);
/* The next cell, row by row. */
void table_cell(struct table *t, const char *text);
void table_number(struct table *t, int64_t v);
/* With so many digits behind the point. */
void table_real(struct table *t, double v, int digits);
/* Prints and releases it. */
void table_end(struct table *t, FILE *out);

#endif
