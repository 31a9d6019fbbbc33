/*
 * Products of a training step against torchao's: each from its stored neighbours (one flipped code moves a value
 * by 2^-4 of itself), on one rank and on two.  Data: train_m* of the shared golden set, train_s* of tests/data/golden.
 *
 * Both torchao's numbers and ours are held to the bounds of the set's README around the exact sum of codes, which
 * are made here one by one, with scales in the loops of this file.
 */
#include "exec_test.h"
#include "golden.h"
#include "passes.h"
#include "scalar.h"
#include "suite.h"

/* --- the exact product --- */

struct operand { const float *data; int64_t stride_row, stride_k; char code; /* '4', '5'; 'h': high precision */ bool tensor; };

static double decoded(char code, float x, float scale)
{
	float y = x * scale;
	return code == '4' ? (double)e4m3_decode(e4m3_encode(y)) : (double)e5m2_decode(e5m2_encode(y));
}

static float scale_of(const struct operand *o, int64_t row, int64_t rows, int64_t k, bool pow2)
{
	float amax = 0;
	if (o->code == 'h')
		return 1;
	for (int64_t r = o->tensor ? 0 : row; r < (o->tensor ? rows : row + 1); r++)
		for (int64_t i = 0; i < k; i++)
			amax = fmaxf(amax, fabsf(o->data[r * o->stride_row + i * o->stride_k]));
	float scale = (o->code == '4' ? 448.0f : 57344.0f) / fmaxf(amax, 1e-12f);
	return pow2 ? exp2f(floorf(log2f(scale))) : scale;
}

static double value_of(const struct operand *o, int64_t row, int64_t i, float scale)
{
	float x = o->data[row * o->stride_row + i * o->stride_k];
	return o->code == 'h' ? (double)x : decoded(o->code, x, scale);
}

struct expected { double y[8192], abs[8192]; };

/* y[m,n] = sum over k of a[m,k] b[n,k], and of the magnitudes. */
static void exact_product(const struct operand *a, const struct operand *b, int64_t m, int64_t n, int64_t k, bool pow2,
			  struct expected *out)
{
	for (int64_t i = 0; i < m; i++) {
		float sa = scale_of(a, i, m, k, pow2);
		for (int64_t j = 0; j < n; j++) {
			float sb = scale_of(b, j, n, k, pow2);
			double y = 0, abs = 0;
			for (int64_t l = 0; l < k; l++) {
				double term = value_of(a, i, l, sa) * value_of(b, j, l, sb);
				y += term;
				abs += fabs(term);
			}
			out->y[i * n + j] = y * (double)(1 / sa) * (double)(1 / sb);
			out->abs[i * n + j] = abs * (double)(1 / sa) * (double)(1 / sb);
		}
	}
}

/* --- a case --- */

struct sizes { int64_t tokens, d, h, o; bool bias, bf16; };

struct train_case {
	const struct safetensors *file;
	const char *name, *recipe;
	struct sizes is;
	float *x, *a1, *go, *gh1, *w[2], *b[2];
	struct expected *want;
};

static float *numbers(const struct safetensors *f, const char *name, int64_t *count)
{
	struct view v = maybe(f, name);
	if (v.data == NULL)
		return NULL;
	float *data = malloc((size_t)view_count(&v) * sizeof(*data) + 1);
	struct view out = view_of(data, DT_F32, v.rank, v.shape);
	cpu_copy(&v, &out);
	if (count != NULL)
		*count = view_count(&v);
	free(v.data);
	return data;
}

static float *of_recipe(const struct train_case *c, const char *name)
{
	float *data = numbers(c->file, text("%s.emul.%s", c->recipe, name), NULL);
	ck_assert_msg(data != NULL, "%s has no %s of %s", c->name, name, c->recipe);
	return data;
}

/* Elements of a product against its exact sum; `bias`: added after, or NULL. */
static void check_near(const struct train_case *c, const char *whose, const char *what, const float *got, int64_t count,
			int64_t n, int64_t k, const float *bias)
{
	for (int64_t i = 0; i < count; i++) {
		double want = c->want->y[i], most = 1.01 * (double)(k + 6) * 0x1p-24 * c->want->abs[i], added = bias ? (double)bias[i % n] : 0;
		double step = c->is.bf16 ? 0x1p-8 : 0x1p-24;
		most = most * (1 + step) + step * fabs(want) + (bias ? step * fabs(want + added) * (1 + step) : 0) + 0x1p-133;
		ck_assert_msg(fabs((double)got[i] - want - added) <= most, "%s %s: %s's %s[%lld] is %.9g, not %.9g (+-%.3g)", c->name,
			      c->recipe, whose, what, (long long)i, (double)got[i], want + added, most);
	}
}

/* --- the program --- */

/* " : f32[m,n] PLACE" and the line's end. */
static void put_type(FILE *f, const struct train_case *c, int64_t m, int64_t n, const char *place)
{
	fprintf(f, " : %s[%lld", c->is.bf16 ? "bf16" : "f32", (long long)m);
	if (n > 0)
		fprintf(f, ",%lld", (long long)n);
	fprintf(f, "] %s\n", place);
}

static void put_source(FILE *f, const struct train_case *c, const char *op, const char *name, int64_t m, int64_t n, const char *place)
{
	fprintf(f, "  %%%s = %s \"%s\"", name, op, name);
	put_type(f, c, m, n, place);
}

static void put_op(FILE *f, const struct train_case *c, const char *line, int64_t m, int64_t n)
{
	fprintf(f, "  %%%s", line);
	put_type(f, c, m, n, "");
}

/* All products of the step, each from its neighbours, which are inputs. */
static char *program_of(const struct train_case *c, int ranks)
{
	const struct sizes *z = &c->is;
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);
	fprintf(f, "mesh tp=%d\ngraph {\n", ranks);
	put_source(f, c, "input", "x", z->tokens, z->d, "(tp:S(0))");
	put_source(f, c, "input", "a1", z->tokens, z->h, "");
	put_source(f, c, "input", "go", z->tokens, z->o, "(tp:S(0))");
	put_source(f, c, "input", "gh1", z->tokens, z->h, "");
	put_source(f, c, "param", "w1", z->h, z->d, "(tp:S(0))");
	put_source(f, c, "param", "w2", z->o, z->h, "(tp:S(1))");
	put_op(f, c, "h1 = matmul %x, %w1 {eq=\"mk,nk->mn\"}", z->tokens, z->h);
	put_op(f, c, "y = matmul %a1, %w2 {eq=\"mk,nk->mn\"}", z->tokens, z->o);
	put_op(f, c, "grad_a1 = matmul %go, %w2 {eq=\"mk,kn->mn\"}", z->tokens, z->h);
	put_op(f, c, "grad.w2 = matmul %go, %a1 {eq=\"km,kn->mn\"}", z->o, z->h);
	put_op(f, c, "grad_x = matmul %gh1, %w1 {eq=\"mk,kn->mn\"}", z->tokens, z->d);
	put_op(f, c, "grad.w1 = matmul %gh1, %x {eq=\"km,kn->mn\"}", z->h, z->d);
	put_op(f, c, "grad.b1 = sum %gh1 {dims=[0]}", z->h, 0);
	put_op(f, c, "grad.b2 = sum %go {dims=[0]}", z->o, 0);
	for (int i = 0; i < 4; i++)
		fprintf(f, "  output \"%s\" = %%%s\n", ((const char *[]){ "h1", "y", "grad.b1", "grad.b2" })[i],
			((const char *[]){ "h1", "y", "grad.b1", "grad.b2" })[i]);
	fputs("  output grad_param \"w1\" \"grad.w1\" = %grad.w1\n  output grad_param \"w2\" \"grad.w2\" = %grad.w2\n"
	      "  output grad_input \"x\" \"grad_x\" = %grad_x\n  output grad_input \"a1\" \"grad_a1\" = %grad_a1\n}\n", f);
	fclose(f);
	return out;
}

static struct plan *compiled(const char *program, const char *recipe)
{
	struct context *context;
	struct graph *g;
	struct plan *plan = NULL;
	struct compile c = { .reduce_f32 = true };
	struct pipeline_options passes = { .out = stdout };
	struct lower_options lower = { .recipe = recipe };
	struct diag d = { 0 };
	*vec_push(&c.recipes) = (struct request){ NULL, recipe, "--fp8" };
	*vec_push(&c.scopes) = (struct request){ "tp", "global", "--scale-scope" };
	ck_assert_msg(graph_parse(program, strlen(program), "case", &context, &g, &d) == FS_OK, "%s\n%s", d.text, program);
	ck_assert_msg(pipeline_run(&g, &c, &passes, &d) == FS_OK, "%s", d.text);
	ck_assert_msg(lower_plan(g, &lower, &plan, &d) == FS_OK, "%s", d.text);
	compile_release(&c);
	return plan;
}

/* --- against torchao --- */

/* A product of two matrices [rows, columns]; k_first: the contraction is the first dim. */
struct term { const float *data; int64_t rows, columns; bool k_first; char code; bool tensor; };

static struct operand operand_of(const struct term *t)
{
	return (struct operand){ t->data, t->k_first ? 1 : t->columns, t->k_first ? t->columns : 1, t->code, t->tensor };
}

/* The product as torchao and as the plan made it. */
static void check_one(const struct train_case *c, struct world *w, const char *ours, const char *theirs, struct term a, struct term b,
		      const float *bias)
{
	float got[8192], *stored = of_recipe(c, theirs);
	struct operand x = operand_of(&a), y = operand_of(&b);
	int64_t m = a.k_first ? a.columns : a.rows, k = a.k_first ? a.rows : a.columns, n = b.k_first ? b.columns : b.rows;
	exact_product(&x, &y, m, n, k, strcmp(c->recipe, "tensorwise") != 0, c->want);
	ck_assert_int_eq(output_of(w, ours, got), m * n);
	check_near(c, "torchao", theirs, stored, m * n, n, k, bias);
	check_near(c, "the plan", theirs, got, m * n, n, k, NULL);
	free(stored);
}

/* The gradient of a bias: a sum of the gradient itself. */
static void check_bias(const struct train_case *c, struct world *w, const char *ours, const char *theirs, const float *grad, int64_t n)
{
	static const float ones[256] = { [0 ... 255] = 1 };
	if (c->is.bias)
		check_one(c, w, ours, theirs, (struct term){ ones, 1, c->is.tokens, false, 'h', true },
			  (struct term){ grad, c->is.tokens, n, true, 'h', true }, NULL);
}

static void check_products(const struct train_case *c, struct world *w)
{
	bool tensor = strcmp(c->recipe, "tensorwise") == 0, high = strcmp(c->recipe, "rowwise_with_gw_hp") == 0;
	char grad = tensor ? '5' : '4', gw = high ? 'h' : grad, act = high ? 'h' : '4';
	const struct sizes *z = &c->is;
	struct term x = { c->x, z->tokens, z->d, false, '4', tensor }, a1 = { c->a1, z->tokens, z->h, false, '4', tensor };
	struct term w1 = { c->w[0], z->h, z->d, false, '4', tensor }, w2 = { c->w[1], z->o, z->h, false, '4', tensor };
	struct term go = { c->go, z->tokens, z->o, false, grad, tensor }, gh1 = { c->gh1, z->tokens, z->h, false, grad, tensor };
	check_one(c, w, "h1", "h1", x, w1, c->b[0]);
	check_one(c, w, "y", "y", a1, w2, c->b[1]);
	w1.k_first = w2.k_first = true;
	w1.tensor = w2.tensor = tensor || high;
	check_one(c, w, "grad_a1", "grad_a1", go, w2, NULL);
	check_one(c, w, "grad_x", "grad_x", gh1, w1, NULL);
	x.k_first = a1.k_first = go.k_first = gh1.k_first = true;
	x.code = a1.code = act;
	go.code = gh1.code = gw;
	check_one(c, w, "grad.w1", "grad.fc1.weight", gh1, x, NULL);
	check_one(c, w, "grad.w2", "grad.fc2.weight", go, a1, NULL);
	check_bias(c, w, "grad.b1", "grad.fc1.bias", c->gh1, z->h);
	check_bias(c, w, "grad.b2", "grad.fc2.bias", c->go, z->o);
}

static void run_case(struct train_case *c, int ranks)
{
	char plan_recipe[64], *program = program_of(c, ranks);
	struct diag d = { 0 };
	snprintf(plan_recipe, sizeof(plan_recipe), "%s%s", c->recipe, strcmp(c->recipe, "tensorwise") == 0 ? "" : ":pow2");
	struct plan *plan = compiled(program, plan_recipe);
	struct program given = { program, { { "x", c->x }, { "a1", c->a1 }, { "go", c->go }, { "gh1", c->gh1 },
					    { "w1", c->w[0] }, { "w2", c->w[1] } } };
	struct world w = { .plan = plan, .program = &given };
	ck_assert_msg(world_run(&w, &d) == FS_OK, "%s", d.text);
	check_products(c, &w);
	world_release(&w);
	plan_destroy(plan);
	free(program);
}

static void check_recipe(const struct safetensors *f, const char *name, const char *recipe)
{
	struct train_case c = { .file = f, .name = name, .recipe = recipe };
	int64_t x, w1, go;
	c.x = numbers(f, "x", &x);
	c.go = numbers(f, "grad_out", &go);
	c.w[0] = numbers(f, "param.fc1.weight", &w1);
	c.w[1] = numbers(f, "param.fc2.weight", NULL);
	c.b[0] = numbers(f, "param.fc1.bias", NULL);
	c.b[1] = numbers(f, "param.fc2.bias", NULL);
	c.a1 = of_recipe(&c, "a1");
	c.gh1 = of_recipe(&c, "grad_h1");
	const struct safetensors_entry *shape[2] = { safetensors_find(f, "param.fc1.weight"), safetensors_find(f, "x") };
	c.is = (struct sizes){ shape[1]->dims[0], shape[1]->dims[1], shape[0]->dims[0], go / shape[1]->dims[0],
			       c.b[0] != NULL, shape[0]->dtype == DT_BF16 };
	c.want = malloc(sizeof(*c.want));
	run_case(&c, 1);
	run_case(&c, 2);
	for (int i = 0; i < 2; i++)
		free(c.w[i]), free(c.b[i]);
	free(c.x), free(c.go), free(c.a1), free(c.gh1), free(c.want);
}

START_TEST(torchao)
{
	static const char *const recipes[] = { "tensorwise", "rowwise", "rowwise_with_gw_hp" };
	static const char *const names[] = { "train_s0", "train_s1", "train_m0", "train_m1", "train_m2" };
	struct safetensors f;
	if (!golden_find(&f, names[_i / 3])) {
		printf("skipped: %s is not there\n", names[_i / 3]);
		return;
	}
	check_recipe(&f, names[_i / 3], recipes[_i % 3]);
	safetensors_close(&f);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("train");
	TCase *all = tcase_create("train");
	tcase_add_loop_test(all, torchao, 0, 15);
	suite_add_tcase(suite, all);
	return suite_run(suite);
}
