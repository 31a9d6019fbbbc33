/*
 * Inside of type inference: op_infer() (infer.c) checks arity and attributes by the op's row, then
 * calls the function that the row names.  Those see attributes that are there and in range by
 * themselves, and check what hangs on several of them, on dtypes and on shapes.
 */
#ifndef FS_INFER_H
#define FS_INFER_H

#include "ir.h"

/* Attribute keys as bit masks: from the attrs column of ops.def (op.c). */
struct attr_set { uint64_t must, may; };
struct attr_set op_attrs(enum op op);

struct infer {
	const struct context *context;
	enum op op;
	const struct type *const *in;
	int count;
	const struct attrs *attrs;
	struct type *out;
	struct diag *diag;
};

/* The functions of the infer column (infer_shape.c, infer_math.c, infer_product.c). */
#define OP(name, text, least, most, stages, function, ...) enum fs_status function(const struct infer *i);
#include "ops.def"
#undef OP

/* --- infer.c --- */

/* FS_INVALID, "<op>: <message>". */
enum fs_status infer_fail(const struct infer *i, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* NULL where it is missing. */
const struct attr *infer_attr(const struct infer *i, enum attr_key k);
int64_t infer_int(const struct infer *i, enum attr_key k, int64_t otherwise);
/* The dims of ATTR_DIMS as a bit mask. */
uint32_t infer_dims(const struct infer *i);

/* The result: sets *i->out, or fails where there are too many dims or elements. */
enum fs_status infer_result(const struct infer *i, enum dtype dtype, int rank, const int64_t *dim);
/* The shape of operand 0. */
enum fs_status infer_like(const struct infer *i, enum dtype dtype);

/* Operand k has a float type (f64, f32, f16, bf16), an integer type that may index, exactly this type. */
enum fs_status infer_need_float(const struct infer *i, int k);
enum fs_status infer_need_index(const struct infer *i, int k);
enum fs_status infer_need_dtype(const struct infer *i, int k, enum dtype dtype);

/* Right-aligned broadcast of `more` into dim[*rank]. */
enum fs_status infer_broadcast(const struct infer *i, const struct type *more, int64_t dim[MAX_RANK], int *rank);

#endif
