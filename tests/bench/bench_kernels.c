/* Giga-elements per second of the other kernels, on a [1024, 4096] operand. */
#include <stdlib.h>
#include <time.h>

#include "kernels.h"

#define ROWS 1024
#define COLUMNS 4096
#define SHAPE2(a, b) 2, (const int64_t[]){ a, b }

struct operands {
	struct view f32, f32_out, bf16, bf16_out, codes, one, row, column, transposed;
	void *space;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct view make(enum dtype t, int64_t rows, int64_t columns)
{
	struct view v = view_of(calloc((size_t)(rows * columns), (size_t)dtype_size(t)), t, SHAPE2(rows, columns));
	for (int64_t i = 0; i < rows * columns; i++) {
		double x = (double)(i * 2654435761u >> 16 & 0xfff) / 1024 - 2;
		struct view from = { .data = &x, .dtype = DT_F64 };
		struct view to = { .data = (char *)v.data + i * dtype_size(t), .dtype = t };
		cpu_copy(&from, &to);
	}
	return v;
}

static void copy(struct operands *o) { cpu_copy(&o->f32, &o->f32_out); }
static void transpose(struct operands *o) { cpu_copy(&o->transposed, &o->f32_out); }
static void to_bf16(struct operands *o) { cpu_copy(&o->f32, &o->bf16); }
static void to_f32(struct operands *o) { cpu_copy(&o->bf16, &o->f32_out); }
static void decode(struct operands *o) { cpu_copy(&o->codes, &o->f32_out); }
static void silu_f32(struct operands *o) { cpu_pointwise(PW_SILU, 1, &o->f32, &o->f32_out); }
static void silu_bf16(struct operands *o) { cpu_pointwise(PW_SILU, 1, &o->bf16, &o->bf16_out); }
static void gelu_f32(struct operands *o) { cpu_pointwise(PW_GELU, 1, &o->f32, &o->f32_out); }
static void mul_f32(struct operands *o)
{
	cpu_pointwise(PW_MUL, 2, (const struct view[]){ o->f32, o->f32 }, &o->f32_out);
}
static void mul_bf16(struct operands *o)
{
	cpu_pointwise(PW_MUL, 2, (const struct view[]){ o->bf16, o->bf16 }, &o->bf16_out);
}
static void amax_all(struct operands *o) { cpu_amax(3, &o->f32, &o->one); }
static void amax_rows(struct operands *o) { cpu_amax(2, &o->bf16, &o->column); }
static void amax_columns(struct operands *o) { cpu_amax(1, &o->f32, &o->row); }
static void cast_all(struct operands *o) { cpu_fp8_cast(&o->f32, &o->one, &o->codes); }
static void cast_rows(struct operands *o) { cpu_fp8_cast(&o->bf16, &o->column, &o->codes); }
static void sum_rows(struct operands *o)
{
	cpu_reduce(&(struct reduce){ .op = REDUCE_SUM, .dims = 2 }, &o->f32, &o->column);
}
static void sum_columns(struct operands *o)
{
	cpu_reduce(&(struct reduce){ .op = REDUCE_SUM, .dims = 1 }, &o->f32, &o->row);
}
static void softmax(struct operands *o) { cpu_softmax(1, false, false, &o->f32, &o->f32_out, o->space); }
static void rms_norm(struct operands *o)
{
	cpu_rms_norm(&o->bf16, 1, 1e-5, false, &o->bf16_out, o->space);
}

static const struct { const char *name; void (*run)(struct operands *o); } benches[] = {
	{ "copy f32", copy }, { "transpose f32", transpose }, { "f32 to bf16", to_bf16 }, { "bf16 to f32", to_f32 },
	{ "e4m3 to f32", decode }, { "mul f32", mul_f32 }, { "mul bf16", mul_bf16 }, { "silu f32", silu_f32 },
	{ "silu bf16", silu_bf16 }, { "gelu f32", gelu_f32 }, { "amax f32, all", amax_all },
	{ "amax bf16, rows", amax_rows }, { "amax f32, columns", amax_columns }, { "cast f32, all", cast_all },
	{ "cast bf16, rows", cast_rows }, { "sum f32, rows", sum_rows }, { "sum f32, columns", sum_columns },
	{ "softmax f32", softmax }, { "rms_norm bf16", rms_norm },
};

int main(void)
{
	struct operands o = { .f32 = make(DT_F32, ROWS, COLUMNS), .f32_out = make(DT_F32, ROWS, COLUMNS),
			      .bf16 = make(DT_BF16, ROWS, COLUMNS), .bf16_out = make(DT_BF16, ROWS, COLUMNS),
			      .codes = make(DT_E4M3, ROWS, COLUMNS), .one = make(DT_F32, 1, 1),
			      .row = make(DT_F32, 1, COLUMNS), .column = make(DT_F32, ROWS, 1) };
	o.transposed = view_of(o.f32.data, DT_F32, SHAPE2(ROWS, COLUMNS));
	o.transposed.stride[0] = 1;
	o.transposed.stride[1] = ROWS;
	o.space = malloc(COLUMNS * 4 * 8);
	for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
		double best = 1e9;
		for (int run = 0; run < 7; run++) {
			double t = now();
			benches[i].run(&o);
			t = now() - t;
			best = t < best ? t : best;
		}
		printf("%-18s %6.2f Gelem/s\n", benches[i].name, 1e-9 * ROWS * COLUMNS / best);
	}
	return 0;
}
