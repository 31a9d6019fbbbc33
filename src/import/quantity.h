/*
 * Numbers that sizes are computed with: integers and quotients exactly, and what Python computes in
 * doubles (true division, float(), roots) in doubles.
 */
#ifndef FS_QUANTITY_H
#define FS_QUANTITY_H

#include "base.h"

struct quantity {
	int64_t num, den; /* den > 0: num / den in lowest terms; den = 0: the double */
	double real;
};

struct quantity quantity_of(int64_t n);
struct quantity quantity_of_real(double v);
/* False: 0 below, or out of range. */
bool quantity_of_quotient(int64_t num, int64_t den, struct quantity *out);
double quantity_real(struct quantity q);
/* False: it is no integer, or out of range. */
bool quantity_integer(struct quantity q, int64_t *out);

/* A function or operator by sympy's class name: "Add", "FloorDiv", "GreaterThan" (>=). */
struct quantity_function;
const struct quantity_function *quantity_function(const char *name, size_t size);
/* Of two arguments, functions that are defined for two fold over more from the left.  Truth is 1 or 0.
   False: overflow, division by zero, or not so many arguments. */
bool quantity_apply(const struct quantity_function *f, const struct quantity *arg, int count, struct quantity *out);

#endif
