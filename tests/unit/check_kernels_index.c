/* Embedding, gather, scatter and advanced indexing; results as torch's, by hand. */
#include "kernel_test.h"

#include <math.h>

static struct diag diag;

START_TEST(embedding)
{
	float w[] = { 1, 2, 3, 4, 5, 6 }, y[8];
	int64_t ids[] = { 2, 0, 3, 1 };
	int32_t narrow[] = { 1, 1, 0, 2 };
	struct view weight = F32(w, 3, 2), out = F32(y, 2, 2, 2), i = I64(ids, 2, 2);
	diag.status = FS_OK;
	/* the shard has rows 1, 2 and 3 of 4 */
	ck_assert(cpu_embedding(&weight, &i, 1, 4, &out, &diag) == FS_OK);
	expect(&out, 3, 4, 0, 0, 5, 6, 1, 2);
	ck_assert(signbit(y[2]) && signbit(y[3])); /* -0 + x has the bits of x, also where that is -0 */
	struct view i32 = view_of(narrow, DT_I32, SHAPE(2, 2));
	ck_assert(cpu_embedding(&weight, &i32, 0, 3, &out, &diag) == FS_OK);
	expect(&out, 3, 4, 3, 4, 1, 2, 5, 6);
	ck_assert(cpu_embedding(&weight, &i, 0, 3, &out, &diag) == FS_INVALID);
	ck_assert_str_eq(diag.text, "embedding: index 3 is out of range for 3 rows");
}
END_TEST

START_TEST(embedding_grad)
{
	float g[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, w[6];
	int64_t ids[] = { 2, 0, -2, 1 };
	struct view grad = F32(g, 2, 2, 2), out = F32(w, 3, 2), i = I64(ids, 2, 2);
	diag.status = FS_OK;
	/* the shard has rows 1, 2 and 3 of 4 */
	ck_assert(cpu_embedding_grad(&grad, &i, 1, 4, &out, &diag) == FS_OK);
	expect(&out, 7, 8, 6, 8, 0, 0);
	ck_assert(cpu_embedding_grad(&grad, &i, 0, 2, &out, &diag) == FS_INVALID);
	ck_assert_str_eq(diag.text, "embedding_grad: index 2 is out of range for 2 rows");
}
END_TEST

START_TEST(gather)
{
	float x[] = { 1, 2, 3, 4, 5, 6 }, y[4];
	int64_t ids[] = { 2, 0, 1, 1 };
	struct view m = F32(x, 2, 3), i = I64(ids, 2, 2), out = F32(y, 2, 2), one = F32(y, 1, 3);
	diag.status = FS_OK;
	ck_assert(cpu_gather(1, &m, &i, &out, &diag) == FS_OK);
	expect(&out, 3, 1, 5, 5);
	int64_t rows[] = { 1, 0, 1 };
	struct view r = I64(rows, 1, 3);
	ck_assert(cpu_gather(0, &m, &r, &one, &diag) == FS_OK);
	expect(&one, 4, 2, 6);
	ids[3] = -1;
	ck_assert(cpu_gather(1, &m, &i, &out, &diag) == FS_INVALID);
	ck_assert_str_eq(diag.text, "gather: index -1 is out of range for 3 rows");
}
END_TEST

START_TEST(scatter)
{
	float src[] = { 1, 2, 3, 4 }, y[6] = { 0 }, nine = 9;
	int64_t ids[] = { 2, 0, 1, 1 };
	struct view s = F32(src, 2, 2), i = I64(ids, 2, 2), out = F32(y, 2, 3), scalar = { .data = &nine, .dtype = DT_F32 };
	diag.status = FS_OK;
	ck_assert(cpu_scatter(1, &i, &s, false, &out, &diag) == FS_OK);
	expect(&out, 2, 0, 1, 0, 4, 0);
	ck_assert(cpu_scatter(1, &i, &s, true, &out, &diag) == FS_OK);
	expect(&out, 4, 0, 2, 0, 11, 0);
	ck_assert(cpu_scatter(1, &i, &scalar, false, &out, &diag) == FS_OK);
	expect(&out, 9, 0, 9, 0, 9, 0);
	ids[0] = 3;
	ck_assert(cpu_scatter(1, &i, &s, false, &out, &diag) == FS_INVALID);
}
END_TEST

/* x[2,3,4] holds its own flat indices. */
static float x[24];
static struct view cube(void)
{
	for (int i = 0; i < 24; i++)
		x[i] = (float)i;
	return F32(x, 2, 3, 4);
}

START_TEST(index_one_dim)
{
	struct view m = cube();
	int64_t ids[] = { -1, 0 };
	float y[24];
	struct indices ix = { .count = 2, .at = { { .data = NULL }, I64(ids, 2) } };
	struct view out = F32(y, 2, 2, 4);
	diag.status = FS_OK;
	ck_assert(cpu_index(&m, &ix, &out, &diag) == FS_OK); /* x[:, [-1, 0]] */
	expect(&out, 8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15);
	ids[1] = 3;
	ck_assert(cpu_index(&m, &ix, &out, &diag) == FS_INVALID);
	ck_assert_str_eq(diag.text, "index: index 3 is out of range for 3 rows");
}
END_TEST

START_TEST(index_several_dims)
{
	struct view m = cube();
	int64_t i[] = { 0, 1 }, j[] = { 2, 0 }, column[] = { 1, 0 };
	float y[24];
	struct view out = F32(y, 2, 4), apart = F32(y, 2, 3), grid = F32(y, 2, 2, 4);
	struct indices rows = { .count = 2, .at = { I64(i, 2), I64(j, 2) } };
	diag.status = FS_OK;
	ck_assert(cpu_index(&m, &rows, &out, &diag) == FS_OK); /* x[[0, 1], [2, 0]] */
	expect(&out, 8, 9, 10, 11, 12, 13, 14, 15);
	/* a whole dim lies between: the index dim comes first */
	struct indices split = { .count = 3, .at = { I64(i, 2), { .data = NULL }, I64(j, 2) } };
	ck_assert(cpu_index(&m, &split, &apart, &diag) == FS_OK);
	expect(&apart, 2, 6, 10, 12, 16, 20);
	/* indices broadcast: x[[[1], [0]], [2, 0]] */
	struct indices outer = { .count = 2, .at = { I64(column, 2, 1), I64(j, 2) } };
	ck_assert(cpu_index(&m, &outer, &grid, &diag) == FS_OK);
	expect(&grid, 20, 21, 22, 23, 12, 13, 14, 15, 8, 9, 10, 11, 0, 1, 2, 3);
}
END_TEST

START_TEST(index_put)
{
	float y[6] = { 0 }, row[] = { 1, 2, 3 }, five = 5;
	int64_t ids[] = { 1, 1 }, j[] = { 0, 2 };
	struct view out = F32(y, 2, 3);
	struct indices rows = { .count = 1, .at = { I64(ids, 2) } };
	struct indices both = { .count = 2, .at = { I64(ids, 2), I64(j, 2) } };
	struct view src = F32(row, 3), scalar = { .data = &five, .dtype = DT_F32 };
	diag.status = FS_OK;
	ck_assert(cpu_index_put(&rows, &src, true, &out, &diag) == FS_OK);
	expect(&out, 0, 0, 0, 2, 4, 6);
	ck_assert(cpu_index_put(&both, &scalar, false, &out, &diag) == FS_OK);
	expect(&out, 0, 0, 0, 5, 4, 5);
	struct indices columns = { .count = 2, .at = { { .data = NULL }, I64(j, 2) } };
	ck_assert(cpu_index_put(&columns, &scalar, true, &out, &diag) == FS_OK);
	expect(&out, 5, 0, 5, 10, 4, 10);
}
END_TEST

START_TEST(empty_index)
{
	struct view m = cube();
	float y[1] = { 7 };
	int64_t none[1];
	struct indices ix = { .count = 1, .at = { I64(none, 0) } };
	struct view out = F32(y, 0, 3, 4);
	diag.status = FS_OK;
	ck_assert(cpu_index(&m, &ix, &out, &diag) == FS_OK);
	struct view ids = I64(none, 0), rows = F32(y, 0, 3, 4);
	ck_assert(cpu_embedding(&m, &ids, 0, 2, &rows, &diag) == FS_OK);
	ck_assert_float_eq(y[0], 7);
}
END_TEST

int main(void)
{
	return RUN_SUITE("kernels_index", embedding, embedding_grad, gather, scatter, index_one_dim, index_several_dims, index_put,
			 empty_index);
}
