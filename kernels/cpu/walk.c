/* Views: shapes, strides, and walking several of them together. */
#include "internal.h"

#include <string.h>

struct view view_of(void *data, enum dtype dtype, int rank, const int64_t *shape)
{
	struct view v = { .data = data, .dtype = dtype, .rank = rank };
	int64_t stride = 1;
	BUG_ON(rank < 0 || rank > VIEW_MAX_RANK);
	for (int d = rank - 1; d >= 0; d--) {
		v.shape[d] = shape[d];
		v.stride[d] = stride;
		stride *= shape[d];
	}
	return v;
}

int64_t view_count(const struct view *v)
{
	int64_t n = 1;
	for (int d = 0; d < v->rank; d++)
		n *= v->shape[d];
	return n;
}

struct view view_broadcast(const struct view *v, int rank, const int64_t *shape)
{
	struct view w = { .data = v->data, .dtype = v->dtype, .rank = rank };
	int missing = rank - v->rank;
	BUG_ON(missing < 0);
	for (int d = 0; d < rank; d++) {
		bool there = d >= missing && v->shape[d - missing] == shape[d];
		BUG_ON(!there && d >= missing && v->shape[d - missing] != 1);
		w.shape[d] = shape[d];
		w.stride[d] = there ? v->stride[d - missing] : 0;
	}
	return w;
}

struct view view_drop(const struct view *v, int d)
{
	struct view w = *v;
	BUG_ON(d < 0 || d >= v->rank);
	for (int i = d; i + 1 < v->rank; i++) {
		w.shape[i] = v->shape[i + 1];
		w.stride[i] = v->stride[i + 1];
	}
	w.rank--;
	return w;
}

struct view view_dims(const struct view *v, int d, int count)
{
	struct view w = { .data = v->data, .dtype = v->dtype, .rank = count };
	BUG_ON(d < 0 || d + count > v->rank);
	for (int i = 0; i < count; i++) {
		w.shape[i] = v->shape[d + i];
		w.stride[i] = v->stride[d + i];
	}
	return w;
}

void *view_at(const struct view *v, int64_t offset)
{
	return offset ? (char *)v->data + offset * dtype_size(v->dtype) : v->data;
}

static bool same_shape(const struct view *a, const struct view *b)
{
	return a->rank == b->rank &&
	       memcmp(a->shape, b->shape, sizeof(a->shape[0]) * (size_t)a->rank) == 0;
}

/* Can dim d of all views be walked as the inner part of a dim (at `inner` in w) already there? */
static bool mergeable(const struct walk *w, int outer, const struct view *const *views, int d)
{
	for (int v = 0; v < w->count; v++)
		if (views[v]->stride[d] * dtype_size(views[v]->dtype) * views[v]->shape[d] !=
		    w->stride[v][outer])
			return false;
	return true;
}

/* Appends dim d, inside of those before; merged into the last where the strides allow and `merge`. */
static int add_dim(struct walk *w, int rank, const struct view *const *views, int d, bool merge)
{
	int64_t n = views[0]->shape[d];
	merge = merge && rank > 0 && mergeable(w, rank - 1, views, d);
	int at = merge ? rank - 1 : rank;
	w->shape[at] = merge ? w->shape[at] * n : n;
	for (int v = 0; v < w->count; v++)
		w->stride[v][at] = views[v]->stride[d] * dtype_size(views[v]->dtype);
	return at + 1;
}

static void start(struct walk *w, int count, const struct view *const *views, bool merge_row)
{
	int rank = 0, last = views[0]->rank - 1;
	memset(w, 0, sizeof *w);
	BUG_ON(count > WALK_MAX);
	w->count = count;
	w->more = view_count(views[0]) > 0;
	for (int v = 0; v < count; v++) {
		BUG_ON(!same_shape(views[0], views[v]));
		w->at[v] = views[v]->data;
	}
	for (int d = 0; d <= last; d++)
		if (views[0]->shape[d] != 1 || (d == last && !merge_row))
			rank = add_dim(w, rank, views, d, merge_row || d < last);
	w->row = rank ? w->shape[rank - 1] : 1;
	w->outer = rank ? rank - 1 : 0;
	for (int v = 0; v < count; v++)
		w->step[v] = rank ? w->stride[v][rank - 1] / dtype_size(views[v]->dtype) : 0;
}

void walk_start(struct walk *w, int count, const struct view *const *views)
{
	start(w, count, views, true);
}

void walk_rows(struct walk *w, int count, const struct view *const *views)
{
	start(w, count, views, false);
}

void walk_next(struct walk *w)
{
	for (int d = w->outer - 1; d >= 0; d--) {
		for (int v = 0; v < w->count; v++)
			w->at[v] += w->stride[v][d];
		if (++w->index[d] < w->shape[d])
			return;
		for (int v = 0; v < w->count; v++)
			w->at[v] -= w->stride[v][d] * w->shape[d];
		w->index[d] = 0;
	}
	w->more = false;
}
