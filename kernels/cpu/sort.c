/* Sorting lines along a dim: a stable merge sort of (key, index). */
#include "internal.h"

#include <string.h>

/* Keys are floats as f64, or integers as they are: one of the two is set. */
struct item {
	union { double f; int64_t i; } key;
	int64_t index;
};

typedef bool before_fn(const struct item *a, const struct item *b);

/* NaN is larger than all, and as large as itself. */
static bool less_f64(const struct item *a, const struct item *b)
{
	bool a_nan = a->key.f != a->key.f, b_nan = b->key.f != b->key.f;
	return b_nan ? !a_nan : a->key.f < b->key.f;
}

static bool greater_f64(const struct item *a, const struct item *b)
{
	return less_f64(b, a);
}

static bool less_i64(const struct item *a, const struct item *b)
{
	return a->key.i < b->key.i;
}

static bool greater_i64(const struct item *a, const struct item *b)
{
	return a->key.i > b->key.i;
}

/* Two sorted runs [0, middle) and [middle, n) into one; the left comes first among equals. */
static void merge(const struct item *from, int64_t middle, int64_t n, struct item *to, before_fn *before)
{
	int64_t i = 0, j = middle;
	for (int64_t k = 0; k < n; k++) {
		bool right = i == middle || (j < n && before(&from[j], &from[i]));
		to[k] = right ? from[j++] : from[i++];
	}
}

/* Bottom up; returns whichever of the two arrays holds the result. */
static struct item *merge_sort(struct item *a, struct item *b, int64_t n, before_fn *before)
{
	for (int64_t width = 1; width < n; width *= 2) {
		for (int64_t i = 0; i < n; i += 2 * width) {
			int64_t m = n - i < 2 * width ? n - i : 2 * width;
			merge(a + i, width < m ? width : m, m, b + i, before);
		}
		struct item *t = a;
		a = b;
		b = t;
	}
	return a;
}

int64_t cpu_sort_workspace(const struct view *x, int dim)
{
	return x->shape[dim] * (int64_t)sizeof(struct item) * 2;
}

static void load_items(const struct view *line, bool integer, struct item *to)
{
	for (int64_t i = 0; i < line->shape[0]; i++) {
		const void *at = view_at(line, i * line->stride[0]);
		to[i].index = i;
		if (integer)
			load_i64(line->dtype, at, 1, &to[i].key.i, 1);
		else
			load_f64(line->dtype, at, 1, &to[i].key.f, 1);
	}
}

/* The element itself is copied, not its key. */
static void store_items(const struct item *items, const struct view *line, const struct view *values,
			const struct view *indices)
{
	int size = dtype_size(line->dtype);
	int64_t n = values ? values->shape[0] : indices ? indices->shape[0] : 0;
	for (int64_t i = 0; i < n; i++) {
		if (values)
			memcpy(view_at(values, i * values->stride[0]),
			       view_at(line, items[i].index * line->stride[0]), (size_t)size);
		if (indices)
			store_i64(indices->dtype, view_at(indices, i * indices->stride[0]), 1,
				  &items[i].index, 1);
	}
}

static void sort_line(const struct view *line, bool descending, const struct view *values,
		      const struct view *indices, struct item *items)
{
	static before_fn *const before[2][2] = { { less_f64, greater_f64 }, { less_i64, greater_i64 } };
	int64_t n = line->shape[0];
	bool integer = compute_of(line->dtype) == IN_I64;
	load_items(line, integer, items);
	store_items(merge_sort(items, items + n, n, before[integer][descending]), line, values, indices);
}

void cpu_sort(int dim, bool descending, const struct view *x, const struct view *values,
	      const struct view *indices, void *workspace)
{
	const struct view *all[3] = { x, values ? values : indices, indices ? indices : values };
	struct view lines[3], line[3];
	for (int v = 0; v < 3; v++) {
		lines[v] = view_drop(all[v], dim);
		line[v] = view_dims(all[v], dim, 1);
	}
	struct walk w;
	walk_start(&w, 3, (const struct view *[]){ &lines[0], &lines[1], &lines[2] });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			for (int v = 0; v < 3; v++)
				line[v].data = w.at[v] + i * w.step[v] * dtype_size(all[v]->dtype);
			sort_line(&line[0], descending, values ? &line[1] : NULL,
				  indices ? &line[2] : NULL, workspace);
		}
}
