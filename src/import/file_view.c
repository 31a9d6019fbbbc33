/*
 * Reading a box out of a tensor in a file.
 *
 * The box is a loop nest of dims with a stride in the file and one in memory.  Dims of one
 * element go, dims that continue each other in both places merge, and the file's order rules:
 * so a whole tensor is one read, and a transposed one is read in runs of the file.
 */
#include "file_view.h"

#include <string.h>

#define RUN_BUFFER ((int64_t)64 << 10)

struct loop { int64_t n, from, to; }; /* strides in elements: in the file, in memory */

struct box {
	const struct file *file;
	int64_t size; /* bytes of an element */
	int depth;
	struct loop loops[FILE_VIEW_MAX_RANK];
};

bool file_view_numel(const int64_t *dims, int rank, int64_t *numel)
{
	int64_t n = 1;
	bool empty = false;
	for (int i = 0; i < rank; i++) {
		if (dims[i] < 0 || !mul_size(n, dims[i] > 0 ? dims[i] : 1, &n))
			return false;
		empty |= dims[i] == 0;
	}
	*numel = empty ? 0 : n;
	return true;
}

bool file_view_dense_bytes(enum dtype t, const int64_t *dims, int rank, int64_t *bytes)
{
	int64_t n;
	return file_view_numel(dims, rank, &n) && mul_size(n, dtype_size(t), bytes);
}

bool file_view_span(const struct file_view *v, int64_t *bytes)
{
	int64_t numel, last = 0, step;
	if (!file_view_numel(v->dims, v->rank, &numel))
		return false;
	*bytes = 0;
	if (numel == 0)
		return true;
	if (v->strides == NULL)
		return mul_size(numel, dtype_size(v->dtype), bytes);
	for (int i = 0; i < v->rank; i++)
		if (v->strides[i] < 0 || !mul_size(v->dims[i] - 1, v->strides[i], &step) ||
		    !add_size(last, step, &last))
			return false;
	return add_size(last, 1, &last) && mul_size(last, dtype_size(v->dtype), bytes);
}

/* Where `a` is an outer loop in the file's order; repeated elements (stride 0) are outermost. */
static bool outer(const struct loop *a, const struct loop *b)
{
	return b->from != 0 && (a->from == 0 || a->from > b->from);
}

static void sort_loops(struct box *b)
{
	for (int i = 1; i < b->depth; i++)
		for (int j = i; j > 0 && outer(&b->loops[j], &b->loops[j - 1]); j--) {
			struct loop l = b->loops[j];
			b->loops[j] = b->loops[j - 1];
			b->loops[j - 1] = l;
		}
}

static void merge_loops(struct box *b)
{
	int depth = 0;
	for (int i = 0; i < b->depth; i++) {
		struct loop inner = b->loops[i], *last = depth > 0 ? &b->loops[depth - 1] : NULL;
		if (last != NULL && last->from == inner.n * inner.from && last->to == inner.n * inner.to)
			*last = (struct loop){ last->n * inner.n, inner.from, inner.to };
		else
			b->loops[depth++] = inner;
	}
	b->depth = depth;
}

/* Fills the loops and gives the offset of the box's first element. */
static int64_t box_init(struct box *b, const struct file_view *v, const int64_t *start, const int64_t *extent)
{
	int64_t dense = 1, to = 1, first = 0;
	b->depth = 0;
	for (int i = v->rank - 1; i >= 0; i--) {
		BUG_ON(start[i] < 0 || start[i] > v->dims[i] || extent[i] > v->dims[i] - start[i]);
		int64_t from = v->strides != NULL ? v->strides[i] : dense;
		first += start[i] * from;
		if (extent[i] > 1)
			b->loops[b->depth++] = (struct loop){ extent[i], from, to };
		dense *= v->dims[i];
		to *= extent[i];
	}
	for (int i = 0; i < b->depth / 2; i++) {
		struct loop l = b->loops[i];
		b->loops[i] = b->loops[b->depth - 1 - i];
		b->loops[b->depth - 1 - i] = l;
	}
	sort_loops(b);
	merge_loops(b);
	if (b->depth == 0)
		b->loops[b->depth++] = (struct loop){ 1, 1, 1 };
	return v->offset + first * b->size;
}

static void scatter(unsigned char *to, int64_t to_step, const unsigned char *from, int64_t from_step,
		    int64_t n, size_t size)
{
	for (int64_t i = 0; i < n; i++)
		memcpy(to + i * to_step, from + i * from_step, size);
}

/* The innermost loop: one read where both sides are dense, else reads of bounded size. */
static enum fs_status read_run(const struct box *b, int64_t offset, unsigned char *dst, struct diag *d)
{
	const struct loop *l = &b->loops[b->depth - 1];
	if (l->from == 1 && l->to == 1)
		return file_read(b->file, offset, l->n * b->size, dst, d);
	unsigned char buffer[RUN_BUFFER];
	int64_t step = l->from * b->size, most = step == 0 ? l->n : RUN_BUFFER / step;
	for (int64_t i = 0, n; i < l->n; i += n) {
		n = most < 1 ? 1 : most < l->n - i ? most : l->n - i;
		TRY(file_read(b->file, offset + i * step, (n - 1) * step + b->size, buffer, d));
		scatter(dst + i * l->to * b->size, l->to * b->size, buffer, step, n, (size_t)b->size);
	}
	return FS_OK;
}

static enum fs_status read_box(const struct box *b, int64_t offset, unsigned char *dst, struct diag *d)
{
	int64_t at[FILE_VIEW_MAX_RANK] = { 0 }, to = 0;
	for (;;) {
		TRY(read_run(b, offset, dst + to, d));
		int i = b->depth - 2;
		for (; i >= 0; i--) {
			const struct loop *l = &b->loops[i];
			offset += l->from * b->size;
			to += l->to * b->size;
			if (++at[i] < l->n)
				break;
			offset -= l->n * l->from * b->size;
			to -= l->n * l->to * b->size;
			at[i] = 0;
		}
		if (i < 0)
			return FS_OK;
	}
}

enum fs_status file_view_read(const struct file *f, const struct file_view *v, const int64_t *start,
			 const int64_t *extent, void *dst, struct diag *d)
{
	struct box b = { .file = f, .size = dtype_size(v->dtype) };
	int64_t numel;
	BUG_ON(v->rank > FILE_VIEW_MAX_RANK || !file_view_numel(extent, v->rank, &numel));
	if (numel == 0)
		return FS_OK;
	int64_t offset = box_init(&b, v, start, extent);
	return read_box(&b, offset, dst, d);
}

struct file_view_text file_view_describe(const char *dtype, const int64_t *dims, int rank)
{
	struct file_view_text t;
	int at = snprintf(t.s, sizeof(t.s), "%.20s[", dtype);
	for (int i = 0; i < rank; i++) {
		if (at > (int)sizeof(t.s) - 32) {
			at += snprintf(t.s + at, sizeof(t.s) - (size_t)at, ",...");
			break;
		}
		at += snprintf(t.s + at, sizeof(t.s) - (size_t)at, "%s%lld", i > 0 ? "," : "", (long long)dims[i]);
	}
	snprintf(t.s + at, sizeof(t.s) - (size_t)at, "]");
	return t;
}
