/*
 * A hash of what each kernel gives on fixed random operands.  Builds by gcc and by clang, with and
 * without sanitizers, print the same text: diff <(build-gcc/...) <(build-clang/...).
 */
#include "../unit/kernel_test.h"

static void print_hash(const char *name, const struct view *v)
{
	size_t size = (size_t)(view_count(v) * dtype_size(v->dtype));
	printf("%-24s %016llx\n", name, (unsigned long long)hash_bytes(v->data, size, 0));
}

static const enum dtype floats[] = { DT_F32, DT_BF16, DT_F64 };

static void pointwise_bits(enum pointwise_op op)
{
	for (int t = 0; t < 3; t++) {
		struct view in[3], out = random_view(floats[t], SHAPE(3, 1001));
		char name[64];
		for (int i = 0; i < 3; i++)
			in[i] = random_view(floats[t], SHAPE(3, 1001));
		snprintf(name, sizeof name, "%s %s", pointwise_text(op), dtype_text(floats[t]));
		cpu_pointwise(op, pointwise_arity(op), in, &out);
		print_hash(name, &out);
		for (int i = 0; i < 3; i++)
			free(in[i].data);
		free(out.data);
	}
}

static void row_bits(enum dtype t)
{
	struct view x = random_view(t, SHAPE(9, 1001)), y = random_view(t, SHAPE(9, 1001)), s = random_view(t, SHAPE(9, 1));
	void *space = malloc(1001 * 64);
	cpu_softmax(1, false, false, &x, &y, space);
	print_hash("softmax", &y);
	cpu_softmax(1, true, true, &x, &y, space);
	print_hash("log_softmax exact", &y);
	cpu_rms_norm(&x, 1, 1e-5, false, &y, space);
	print_hash("rms_norm", &y);
	cpu_layer_norm(&x, NULL, NULL, 1, 1e-5, false, &y, space);
	print_hash("layer_norm", &y);
	for (int op = REDUCE_SUM; op <= REDUCE_MIN; op++) {
		cpu_reduce(&(struct reduce){ .op = (enum reduce_op)op, .dims = 2, .count = 7 }, &x, &s);
		print_hash("reduce", &s);
	}
	free(space), free(x.data), free(y.data), free(s.data);
}

static void product_bits(enum dtype t, bool exact)
{
	struct diag d = { .status = FS_OK };
	struct gemm g = { .a = random_view(t, SHAPE(70, 333)), .b = random_view(t, SHAPE(333, 50)),
			  .c = random_view(t, SHAPE(70, 50)), .exact = exact };
	struct view q = random_view(t, SHAPE(2, 4, 30, 16)), out = random_view(t, SHAPE(2, 4, 30, 16));
	struct sdpa s = { .q = q, .k = q, .v = q, .out = out, .scale = 0.25, .causal = true, .group = 1, .exact = exact };
	void *space = workspace(cpu_gemm_workspace(&g) + cpu_sdpa_workspace(&s));
	if (cpu_gemm(&g, space, &d) != FS_OK || cpu_sdpa(&s, space, &d) != FS_OK)
		BUG("%s", d.text);
	print_hash(exact ? "gemm exact" : "gemm", &g.c);
	print_hash(exact ? "sdpa exact" : "sdpa", &out);
	free(space), free(g.a.data), free(g.b.data), free(g.c.data), free(q.data), free(out.data);
}

int main(void)
{
	for (int op = 0; op < PW_COUNT; op++)
		if (op < PW_BITWISE_AND || op == PW_WHERE)
			if (op != PW_BITWISE_NOT)
				pointwise_bits((enum pointwise_op)op);
	for (int t = 0; t < 3; t++)
		row_bits(floats[t]);
	for (int i = 0; i < 6; i++)
		product_bits(floats[i / 2], i & 1);
	return 0;
}
