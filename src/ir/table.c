#include "table.h"

#include <string.h>

void table_cell(struct table *t, const char *text)
{
	*vec_push(&t->cells) = arena_strdup(&t->arena, text);
}

void table_number(struct table *t, int64_t v)
{
	*vec_push(&t->cells) = arena_printf(&t->arena, "%lld", (long long)v);
}

void table_real(struct table *t, double v, int digits)
{
	*vec_push(&t->cells) = arena_printf(&t->arena, "%.*f", digits, v);
}

void table_start(struct table *t, const char *const *titles)
{
	*t = (struct table){ .columns = 0 };
	for (; titles[t->columns] != NULL; t->columns++) {
		t->right[t->columns] = titles[t->columns][0] == '>';
		table_cell(t, titles[t->columns] + t->right[t->columns]);
	}
}

/* Without blanks at the end. */
static void print_row(const struct table *t, const char *const *cells, const int *width, FILE *out)
{
	int columns = t->columns;
	while (columns > 0 && cells[columns - 1][0] == '\0')
		columns--;
	for (int c = 0; c < columns; c++) {
		bool last = c == columns - 1;
		int pad = t->right[c] ? width[c] : last ? 0 : -width[c];
		fprintf(out, "  %*s", pad, cells[c]);
	}
	fputc('\n', out);
}

void table_end(struct table *t, FILE *out)
{
	int width[MAX_COLUMNS] = { 0 };
	for (uint32_t i = 0; i < t->cells.count; i++) {
		int size = (int)strlen(t->cells.items[i]), column = (int)i % t->columns;
		width[column] = size > width[column] ? size : width[column];
	}
	for (uint32_t i = 0; i < t->cells.count; i += (uint32_t)t->columns)
		print_row(t, &t->cells.items[i], width, out);
	vec_release(&t->cells);
	arena_release(&t->arena);
}
