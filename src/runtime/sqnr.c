#include "sqnr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct power { double signal, noise; };

double sqnr_decibel(double signal, double noise)
{
	if (noise == 0)
		return INFINITY;
	return signal == 0 || isinf(noise) ? -INFINITY : 10 * log10(signal / noise);
}

static void add(struct power *p, double x, double reference)
{
	if (x == reference || (isnan(x) && isnan(reference)))
		p->noise += 0;
	else if (!isfinite(x) || !isfinite(reference))
		p->noise = INFINITY;
	else
		p->noise += (x - reference) * (x - reference);
	if (isfinite(reference))
		p->signal += reference * reference;
}

static int64_t count_of(const struct host_tensor *t)
{
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= t->dim[d];
	return n;
}

static double *as_f64(const struct host_tensor *t)
{
	double *out = malloc((size_t)count_of(t) * sizeof(*out) + 1);
	struct view from = view_of(t->data, t->dtype, t->rank, t->dim), to = view_of(out, DT_F64, t->rank, t->dim);
	if (out != NULL)
		cpu_copy(&from, &to);
	return out;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Row by row into rows[]; the sum of all. */
static struct power measure(const double *x, const double *reference, int64_t rows, int64_t row, double *out)
{
	struct power all = { 0, 0 };
	for (int64_t r = 0; r < rows; r++) {
		struct power p = { 0, 0 };
		for (int64_t i = r * row; i < (r + 1) * row; i++)
			add(&p, x[i], reference[i]);
		out[r] = sqnr_decibel(p.signal, p.noise);
		all.signal += p.signal;
		all.noise += p.noise;
	}
	return all;
}

enum fs_status sqnr_of(const struct host_tensor *x, const struct host_tensor *reference, struct sqnr *out,
		       struct diag *d)
{
	int64_t count = count_of(reference), row = reference->rank > 0 ? reference->dim[reference->rank - 1] : 1;
	int64_t rows = count == 0 ? 0 : count / row;
	double *a = as_f64(x), *b = as_f64(reference), *by_row = malloc((size_t)rows * sizeof(double) + 1);
	enum fs_status status = FS_OK;
	BUG_ON(count_of(x) != count);
	*out = (struct sqnr){ INFINITY, INFINITY, 0, 0 };
	if (a == NULL || b == NULL || by_row == NULL) {
		status = diag_set(d, FS_NOMEM, "out of memory");
	} else if (count > 0) {
		struct power p = measure(a, b, rows, row, by_row);
		*out = (struct sqnr){ .all = sqnr_decibel(p.signal, p.noise), .signal = p.signal, .noise = p.noise };
		qsort(by_row, (size_t)rows, sizeof(*by_row), ascending);
		out->rows = by_row[(rows - 1) / 100];
	}
	free(a);
	free(b);
	free(by_row);
	return status;
}

bool host_tensor_equal(const struct host_tensor *a, const struct host_tensor *b)
{
	return a->dtype == b->dtype && count_of(a) == count_of(b) &&
	       memcmp(a->data, b->data, (size_t)(count_of(a) * dtype_size(a->dtype))) == 0;
}
