/*
 * Graphs too wide for one elimination: blocks of variables in order, each solved exactly.
 *
 * First a start, unless one is given: block after block over the factors among the variables so far, those
 * before held.
 * Then descent: each block, and blocks shifted by half, given all others, until nothing gets cheaper;
 * the cost never rises.  The number of blocks doubles until each fits.
 */
#include "eliminate.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS 4096
#define MOST_SWEEPS 8

struct blocks {
	const struct factor_graph *fg;
	struct factor_graph sorted;  /* factors by their last variable */
	uint32_t *factors_below;     /* [v]: how many factors have only variables < v */
	bool *free;
	uint64_t max_cells;
	uint32_t *pick;
	struct elim_result *result;
};

static uint32_t last_variable(const struct factor_graph *fg, const struct factor *f)
{
	uint32_t last = 0;
	for (uint32_t i = 0; i < f->arity; i++) {
		uint32_t v = fg->scopes.items[f->first + i];
		last = v > last ? v : last;
	}
	return last;
}

/* Counting sort of the factors by their last variable. */
static void sort_factors(struct blocks *b)
{
	const struct factor_graph *fg = b->fg;
	uint32_t variables = fg->labels.count;
	b->sorted = *fg;
	b->sorted.factors.items = malloc(sizeof(*fg->factors.items) * (fg->factors.count + 1u));
	b->factors_below = calloc(variables + 2u, sizeof(*b->factors_below));
	uint32_t *at = calloc(variables + 2u, sizeof(*at));
	if (b->sorted.factors.items == NULL || b->factors_below == NULL || at == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < fg->factors.count; i++)
		b->factors_below[last_variable(fg, &fg->factors.items[i]) + 1]++;
	for (uint32_t v = 1; v <= variables; v++)
		b->factors_below[v] += b->factors_below[v - 1];
	memcpy(at, b->factors_below, sizeof(*at) * (variables + 1u));
	for (uint32_t i = 0; i < fg->factors.count; i++)
		b->sorted.factors.items[at[last_variable(fg, &fg->factors.items[i])]++] = fg->factors.items[i];
	free(at);
}

/* Minimizes over the variables [begin, end), counting the factors among variables below `seen`. */
static enum elim_status solve_block(struct blocks *b, uint32_t begin, uint32_t end, uint32_t seen)
{
	struct elim_result r = { 0 };
	struct factor_graph part = b->sorted;
	part.factors.count = b->factors_below[seen];
	memset(b->free + begin, 1, end - begin);
	enum elim_status status = eliminate_given(&part, b->free, b->max_cells, b->pick, &r);
	memset(b->free + begin, 0, end - begin);
	b->result->cost = r.cost;
	b->result->cells += r.cells;
	b->result->where = r.where;
	if (r.widest > b->result->widest) {
		b->result->widest = r.widest;
		b->result->width = r.width;
	}
	return status;
}

/* All blocks of `size` variables that start at `first`, first + size, ... */
static enum elim_status solve_blocks(struct blocks *b, uint32_t first, uint32_t size, bool growing)
{
	uint32_t variables = b->fg->labels.count;
	for (uint32_t begin = first; begin < variables; begin += size) {
		uint32_t end = variables - begin < size ? variables : begin + size;
		enum elim_status status = solve_block(b, begin, end, growing ? end : variables);
		if (status != ELIM_OK)
			return status;
	}
	return ELIM_OK;
}

static enum elim_status descend(struct blocks *b, uint32_t size, bool begun)
{
	uint64_t before;
	uint32_t sweeps = 0;
	enum elim_status status = solve_blocks(b, 0, size, !begun);
	do {
		before = b->result->cost;
		if (status == ELIM_OK)
			status = solve_blocks(b, size / 2, size, false);
		if (status == ELIM_OK)
			status = solve_blocks(b, 0, size, false);
	} while (status == ELIM_OK && b->result->cost < before && ++sweeps < MOST_SWEEPS);
	return status;
}

enum elim_status eliminate_blocks(const struct factor_graph *fg, uint64_t max_cells, uint32_t fewest, bool begun,
				  uint32_t *pick, struct elim_result *result)
{
	struct blocks b = { .fg = fg, .max_cells = max_cells, .pick = pick, .result = result };
	uint32_t variables = fg->labels.count;
	enum elim_status status = ELIM_TOO_WIDE;
	sort_factors(&b);
	b.free = calloc(variables + 1u, sizeof(*b.free));
	if (b.free == NULL)
		BUG("out of memory");
	for (uint32_t n = fewest > 2 ? fewest : 2; n <= MOST_BLOCKS && n <= variables && status == ELIM_TOO_WIDE; n *= 2) {
		*result = (struct elim_result){ .blocks = n };
		if (!begun)
			memset(pick, 0, sizeof(*pick) * variables);
		status = descend(&b, (variables + n - 1) / n, begun);
	}
	free(b.free);
	free(b.factors_below);
	free(b.sorted.factors.items);
	return status;
}
