/* How far two tensors are apart. */
#ifndef FS_SQNR_H
#define FS_SQNR_H

#include "host.h"

/*
 * Signal to noise of `x` against `reference`, in dB: infinite where all elements are equal (NaN equals
 * NaN; so do empty tensors), -infinite where one is finite and the other is not, or where a zero
 * reference has noise.
 */
struct sqnr {
	double all;
	double rows; /* what the worst 1 % of rows (of the last dim) do not exceed */
	double signal, noise; /* sums of squares */
};

double sqnr_decibel(double signal, double noise);
enum fs_status sqnr_of(const struct host_tensor *x, const struct host_tensor *reference, struct sqnr *out,
		       struct diag *d);
/* Equal types, shapes and bytes. */
bool host_tensor_equal(const struct host_tensor *a, const struct host_tensor *b);

#endif
