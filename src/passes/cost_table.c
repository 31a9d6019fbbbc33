/* See cost_table.h.  Loops run over the last, contiguous dim; costs are below 2^61, so one sum of
 * two never overflows and is clamped only where it is stored. */
#include "cost_table.h"

#include "eliminate.h"

#include <string.h>

/* Joins neighbouring dims that one stride walks, and drops dims of size 1: longer inner loops. */
static struct table_dims join_dims(const struct table_dims *d)
{
	struct table_dims j;
	j.rank = 0;
	for (uint32_t k = 0; k < d->rank; k++) {
		uint32_t last = j.rank - 1;
		if (d->size[k] == 1)
			continue;
		if (j.rank > 0 && j.stride[last] == d->stride[k] * d->size[k]) {
			j.size[last] *= d->size[k];
			j.stride[last] = d->stride[k];
			continue;
		}
		j.size[j.rank] = d->size[k];
		j.stride[j.rank++] = d->stride[k];
	}
	if (j.rank == 0) {
		j.size[0] = 1;
		j.stride[j.rank++] = 0;
	}
	return j;
}

/* Steps to the next row (all dims but the last); false after the last one. */
static bool next_row(const struct table_dims *d, uint32_t *at, const uint64_t **from)
{
	for (uint32_t k = d->rank - 1; k-- > 0;) {
		*from += d->stride[k];
		if (++at[k] < d->size[k])
			return true;
		*from -= d->stride[k] * d->size[k];
		at[k] = 0;
	}
	return false;
}

static void copy_row(uint64_t *to, const uint64_t *from, size_t n, size_t stride)
{
	if (stride == 1)
		memcpy(to, from, n * sizeof(*to));
	else
		for (size_t i = 0; i < n; i++)
			to[i] = from[i * stride];
}

static void add_row(uint64_t *to, const uint64_t *from, size_t n, size_t stride)
{
	for (size_t i = 0; i < n; i++)
		to[i] = elim_add(to[i], from[i * stride]);
}

typedef void row_fn(uint64_t *to, const uint64_t *from, size_t n, size_t stride);

static inline void each_row(uint64_t *to, const uint64_t *from, const struct table_dims *dims, row_fn *row)
{
	struct table_dims d = join_dims(dims);
	uint32_t at[TABLE_RANK];
	memset(at, 0, d.rank * sizeof(*at));
	size_t n = d.size[d.rank - 1], stride = d.stride[d.rank - 1];
	do {
		row(to, from, n, stride);
		to += n;
	} while (next_row(&d, at, &from));
}

void table_copy(uint64_t *to, const uint64_t *from, const struct table_dims *dims)
{
	each_row(to, from, dims, copy_row);
}

void table_add(uint64_t *to, const uint64_t *from, const struct table_dims *dims)
{
	each_row(to, from, dims, add_row);
}

/* best[i] = min(best[i], c + row[i]) */
static void lower(uint64_t *restrict best, const uint64_t *restrict row, uint64_t c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t sum = c + row[i];
		best[i] = sum < best[i] ? sum : best[i];
	}
}

static bool any_finite(const uint64_t *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (row[i] < ELIM_INF)
			return true;
	return false;
}

static void fill_inf(uint64_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = ELIM_INF;
}

bool table_min(uint64_t *out, const uint64_t *a, size_t labels, size_t rest)
{
	fill_inf(out, rest);
	for (size_t v = 0; v < labels; v++)
		lower(out, a + v * rest, 0, rest);
	return any_finite(out, rest);
}

bool table_min_sum(uint64_t *out, const uint64_t *a, const uint64_t *b, size_t labels,
		   size_t nx, size_t ny, size_t nz)
{
	fill_inf(out, nx * ny * nz);
	for (size_t xy = 0; xy < nx * ny; xy++)
		for (size_t v = 0; v < labels; v++) {
			uint64_t c = a[v * nx * ny + xy];
			if (c < ELIM_INF)
				lower(out + xy * nz, b + (v * ny + xy % ny) * nz, c, nz);
		}
	return any_finite(out, nx * ny * nz);
}
