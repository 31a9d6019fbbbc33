/* Reading and writing by index: embedding, gather, scatter, advanced indexing. */
#include "internal.h"

#include <string.h>

static int64_t index_at(const struct view *ids, const void *at)
{
	int64_t i;
	load_i64(ids->dtype, at, 1, &i, 1);
	return i;
}

static enum fs_status out_of_range(struct diag *d, const char *what, int64_t index, int64_t count)
{
	return diag_set(d, FS_INVALID, "%s: index %lld is out of range for %lld rows", what, (long long)index,
			(long long)count);
}

/* Bytes of a row whose elements lie side by side; -1: they do not. */
static int64_t run_bytes(const struct view *v)
{
	if (v->rank > 1 || (v->rank == 1 && v->stride[0] != 1))
		return -1;
	return (v->rank ? v->shape[0] : 1) * dtype_size(v->dtype);
}

static void move_row(const struct view *from_row, const void *from, const struct view *to_row, void *to)
{
	struct view x = *from_row, y = *to_row;
	int64_t bytes = run_bytes(&y);
	if (x.dtype == y.dtype && bytes >= 0 && bytes == run_bytes(&x)) {
		memmove(to, from, (size_t)bytes);
		return;
	}
	x.data = (void *)(uintptr_t)from;
	y.data = to;
	cpu_copy(&x, &y);
}

/* Of floats -0: what is added to it keeps its bits. */
static void zero_row(const struct view *row, void *at)
{
	struct view y = *row;
	y.data = at;
	cpu_fill((struct scalar){ .is_float = true, .f = -0.0 }, &y);
}

enum fs_status cpu_embedding(const struct view *weight, const struct view *ids, int64_t first, int64_t total,
			     const struct view *out, struct diag *d)
{
	struct view from_row = view_drop(weight, 0);
	struct view to_row = view_dims(out, ids->rank, out->rank - ids->rank);
	struct view rows = view_dims(out, 0, ids->rank);
	struct walk w;
	walk_start(&w, 2, (const struct view *[]){ &rows, ids });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			void *to = w.at[0] + i * w.step[0] * dtype_size(out->dtype);
			int64_t id = index_at(ids, w.at[1] + i * w.step[1] * dtype_size(ids->dtype));
			if (id < 0 || id >= total)
				return out_of_range(d, "embedding", id, total);
			if (id < first || id >= first + weight->shape[0])
				zero_row(&to_row, to);
			else
				move_row(&from_row, view_at(weight, (id - first) * weight->stride[0]), &to_row, to);
		}
	return FS_OK;
}

/* v with dim `dim` cut off and the others as in `shape`'s: what ids are walked beside. */
static struct view beside_ids(const struct view *v, int dim, const struct view *ids)
{
	struct view w = *v;
	BUG_ON(v->rank != ids->rank);
	for (int i = 0; i < v->rank; i++) {
		BUG_ON(i != dim && v->shape[i] < ids->shape[i]);
		w.shape[i] = ids->shape[i];
	}
	w.stride[dim] = 0;
	return w;
}

enum fs_status cpu_gather(int dim, const struct view *x, const struct view *ids, const struct view *out,
			  struct diag *d)
{
	struct view from = beside_ids(x, dim, ids);
	struct view element = { .dtype = x->dtype }, to = { .dtype = out->dtype };
	struct walk w;
	walk_start(&w, 3, (const struct view *[]){ ids, out, &from });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			int64_t id = index_at(ids, w.at[0] + i * w.step[0] * dtype_size(ids->dtype));
			if (id < 0 || id >= x->shape[dim])
				return out_of_range(d, "gather", id, x->shape[dim]);
			int64_t skip = i * w.step[2] + id * x->stride[dim];
			move_row(&element, w.at[2] + skip * dtype_size(x->dtype), &to,
				 w.at[1] + i * w.step[1] * dtype_size(out->dtype));
		}
	return FS_OK;
}

/* One element, as cpu_pointwise(PW_ADD) does it; false where that is not done in f32. */
static bool add_element(const struct view *from_row, const void *from, const struct view *to_row, void *to)
{
	float x, y;
	if (to_row->rank > 0 || compute_of(from_row->dtype) != IN_F32 || compute_of(to_row->dtype) != IN_F32)
		return false;
	load_f32(from_row->dtype, from, 1, &x, 1);
	load_f32(to_row->dtype, to, 1, &y, 1);
	y += x;
	store_f32(to_row->dtype, to, 1, &y, 1);
	return true;
}

/* Sets or adds one row of elements; `add` rounds each addition, as in torch. */
static void put_row(const struct view *from_row, const void *from, const struct view *to_row, void *to, bool add)
{
	struct view in[2] = { *to_row, *from_row }, out = *to_row;
	if (!add) {
		move_row(from_row, from, to_row, to);
		return;
	}
	if (add_element(from_row, from, to_row, to))
		return;
	in[0].data = out.data = to;
	in[1].data = (void *)(uintptr_t)from;
	cpu_pointwise(PW_ADD, 2, in, &out);
}

enum fs_status cpu_embedding_grad(const struct view *grad, const struct view *ids, int64_t first, int64_t total,
				  const struct view *out, struct diag *d)
{
	struct view from_row = view_dims(grad, ids->rank, grad->rank - ids->rank);
	struct view rows = view_dims(grad, 0, ids->rank), to_row = view_drop(out, 0);
	struct walk w;
	cpu_fill((struct scalar){ .is_float = true }, out);
	walk_start(&w, 2, (const struct view *[]){ &rows, ids });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			int64_t id = index_at(ids, w.at[1] + i * w.step[1] * dtype_size(ids->dtype));
			if (id < -total || id >= total)
				return out_of_range(d, "embedding_grad", id, total);
			int64_t at = (id < 0 ? id + total : id) - first;
			if (at >= 0 && at < out->shape[0])
				put_row(&from_row, w.at[0] + i * w.step[0] * dtype_size(grad->dtype), &to_row,
					view_at(out, at * out->stride[0]), true);
		}
	return FS_OK;
}

enum fs_status cpu_scatter(int dim, const struct view *ids, const struct view *src, bool add,
			   const struct view *out, struct diag *d)
{
	struct view to = beside_ids(out, dim, ids), values = *src;
	struct view element = { .dtype = src->dtype }, target = { .dtype = out->dtype };
	if (src->rank == 0)
		values = view_broadcast(src, ids->rank, ids->shape);
	for (int i = 0; i < ids->rank; i++)
		values.shape[i] = ids->shape[i]; /* src may be larger */
	struct walk w;
	walk_start(&w, 3, (const struct view *[]){ ids, &values, &to });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			int64_t id = index_at(ids, w.at[0] + i * w.step[0] * dtype_size(ids->dtype));
			if (id < 0 || id >= out->shape[dim])
				return out_of_range(d, "scatter", id, out->shape[dim]);
			int64_t skip = i * w.step[2] + id * out->stride[dim];
			put_row(&element, w.at[1] + i * w.step[1] * dtype_size(src->dtype), &target,
				w.at[2] + skip * dtype_size(out->dtype), add);
		}
	return FS_OK;
}

/*
 * Advanced indexing of `base` against `dense` (the result of a read, the source of a write).  Dense
 * has base's whole dims, and where the indexed dims stood, the dims that all indices broadcast to;
 * these come first where a whole dim lies between two indexed ones.
 */
struct advanced {
	int count, indexed[VIEW_MAX_RANK]; /* dims of base that have an index */
	int lead;                          /* rank that the indices broadcast to */
	int place;                         /* where these dims begin in dense */
	int64_t lead_shape[VIEW_MAX_RANK];
	struct view at[VIEW_MAX_RANK]; /* the indices, broadcast */
	struct view base_row;          /* base's whole dims */
};

/* Raises the shape, aligned at the right, to that of one more index. */
static void broadcast_shape(const struct view *v, int rank, int64_t *shape)
{
	for (int d = 0; d < v->rank; d++)
		if (v->shape[d] != 1)
			shape[rank - v->rank + d] = v->shape[d];
}

static void advanced_init(struct advanced *a, const struct indices *ix, const struct view *base)
{
	memset(a, 0, sizeof *a);
	BUG_ON(ix->count > base->rank);
	for (int i = 0; i < ix->count; i++)
		if (ix->at[i].data) {
			a->indexed[a->count++] = i;
			a->lead = ix->at[i].rank > a->lead ? ix->at[i].rank : a->lead;
		}
	for (int d = 0; d < a->lead; d++)
		a->lead_shape[d] = 1;
	for (int i = 0; i < a->count; i++)
		broadcast_shape(&ix->at[a->indexed[i]], a->lead, a->lead_shape);
	for (int i = 0; i < a->count; i++)
		a->at[i] = view_broadcast(&ix->at[a->indexed[i]], a->lead, a->lead_shape);

	bool together = a->count && a->indexed[a->count - 1] - a->indexed[0] == a->count - 1;
	a->place = together ? a->indexed[0] : 0;
	a->base_row = *base;
	for (int i = a->count - 1; i >= 0; i--)
		a->base_row = view_drop(&a->base_row, a->indexed[i]);
}

/* The shape of dense. */
static int advanced_shape(const struct advanced *a, int64_t *shape)
{
	int rank = 0, d = 0;
	while (d < a->place)
		shape[rank++] = a->base_row.shape[d++];
	for (int i = 0; i < a->lead; i++)
		shape[rank++] = a->lead_shape[i];
	while (d < a->base_row.rank)
		shape[rank++] = a->base_row.shape[d++];
	BUG_ON(rank > VIEW_MAX_RANK);
	return rank;
}

/* Element offset in the base of the row at index position `at`. */
static enum fs_status base_offset(const struct advanced *a, const struct view *base, const int64_t *at,
				  int64_t *offset, struct diag *d)
{
	*offset = 0;
	for (int i = 0; i < a->count; i++) {
		const struct view *v = &a->at[i];
		int64_t skip = 0, count = base->shape[a->indexed[i]];
		for (int j = 0; j < v->rank; j++)
			skip += at[j] * v->stride[j];
		int64_t id = index_at(v, view_at(v, skip));
		if (id < -count || id >= count)
			return out_of_range(d, "index", id, count);
		*offset += (id < 0 ? id + count : id) * base->stride[a->indexed[i]];
	}
	return FS_OK;
}

static bool next_position(const struct advanced *a, int64_t *at)
{
	for (int d = a->lead - 1; d >= 0; d--) {
		if (++at[d] < a->lead_shape[d])
			return true;
		at[d] = 0;
	}
	return false;
}

enum mode { READ, WRITE, ADD };

static enum fs_status run_advanced(const struct advanced *a, const struct view *base, const struct view *dense,
				   enum mode mode, struct diag *d)
{
	int64_t at[VIEW_MAX_RANK] = { 0 }, offset;
	struct view row = *dense;
	for (int i = a->lead - 1; i >= 0; i--)
		row = view_drop(&row, a->place + i);
	if (view_count(dense) == 0)
		return FS_OK;
	do {
		int64_t skip = 0;
		TRY(base_offset(a, base, at, &offset, d));
		for (int j = 0; j < a->lead; j++)
			skip += at[j] * dense->stride[a->place + j];
		if (mode == READ)
			move_row(&a->base_row, view_at(base, offset), &row, view_at(dense, skip));
		else
			put_row(&row, view_at(dense, skip), &a->base_row, view_at(base, offset), mode == ADD);
	} while (next_position(a, at));
	return FS_OK;
}

enum fs_status cpu_index(const struct view *x, const struct indices *ix, const struct view *out, struct diag *d)
{
	struct advanced a;
	int64_t shape[2 * VIEW_MAX_RANK];
	advanced_init(&a, ix, x);
	BUG_ON(advanced_shape(&a, shape) != out->rank);
	return run_advanced(&a, x, out, READ, d);
}

enum fs_status cpu_index_put(const struct indices *ix, const struct view *src, bool accumulate,
			     const struct view *out, struct diag *d)
{
	struct advanced a;
	int64_t shape[2 * VIEW_MAX_RANK];
	advanced_init(&a, ix, out);
	int rank = advanced_shape(&a, shape);
	struct view wide = view_broadcast(src, rank, shape);
	return run_advanced(&a, out, &wide, accumulate ? ADD : WRITE, d);
}
