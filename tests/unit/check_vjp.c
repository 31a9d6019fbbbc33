/*
 * The gradient of every op against finite differences in f64.
 *
 * A case is a graph in text form that uses the op.  The gradients of all its floating-point inputs, for
 * a random gradient of the output %y, are those that --train gives; the other ones come from running
 * the graph itself with one element moved by h and 2h both ways (fourth order).  A, B, C stand for random sizes.
 * Inputs: x.. any numbers, all at least 0.01 apart and none within 0.004 of 0; p.. positive, u.. within
 * (-1, 1), i.. indices below A, b.. truth values.
 */
#include "exec.h"
#include "lower.h"
#include "passes.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct test_case { enum op op; const char *graph; } cases[] = {
	/* of one operand */
#define SMOOTH(op, text, input) { OP_##op, "%" input " = input \"" input "\" : f64[A,B]\n%y = " text " %" input " : f64[A,B]\n" }
	SMOOTH(NEG, "neg", "x"), SMOOTH(ABS, "abs", "x"), SMOOTH(RELU, "relu", "x"), SMOOTH(EXP, "exp", "x"),
	SMOOTH(EXP2, "exp2", "x"), SMOOTH(EXPM1, "expm1", "x"), SMOOTH(LOG, "log", "p"), SMOOTH(LOG2, "log2", "p"),
	SMOOTH(LOG1P, "log1p", "p"), SMOOTH(SQRT, "sqrt", "p"), SMOOTH(RSQRT, "rsqrt", "p"),
	SMOOTH(RECIPROCAL, "reciprocal", "p"), SMOOTH(SIN, "sin", "x"), SMOOTH(COS, "cos", "x"), SMOOTH(TAN, "tan", "u"),
	SMOOTH(SINH, "sinh", "x"), SMOOTH(COSH, "cosh", "x"), SMOOTH(TANH, "tanh", "x"), SMOOTH(ASIN, "asin", "u"),
	SMOOTH(ACOS, "acos", "u"), SMOOTH(ATAN, "atan", "x"), SMOOTH(ERF, "erf", "x"), SMOOTH(SIGMOID, "sigmoid", "x"),
	SMOOTH(SILU, "silu", "x"), SMOOTH(GELU, "gelu", "x"), SMOOTH(GELU_TANH, "gelu_tanh", "x"),
	SMOOTH(SOFTPLUS, "softplus", "x"), SMOOTH(MISH, "mish", "x"), SMOOTH(COPY, "copy", "x"),
	SMOOTH(BARRIER, "barrier", "x"),
	/* the same operand twice, and through two ops */
	{ OP_MUL, "%x = input \"x\" : f64[A,B]\n%s = mul %x, %x : f64[A,B]\n%y = mul %s, %x : f64[A,B]\n" },
	/* of two, with broadcasting */
#define BROADCAST(op, text, a, b)                                                                    \
	{ OP_##op, "%" a " = input \"" a "\" : f64[A,1,B]\n%" b " = input \"" b "\" : f64[C,1]\n"    \
		   "%y = " text " %" a ", %" b " : f64[A,C,B]\n" }
	BROADCAST(ADD, "add", "x", "x1"), BROADCAST(SUB, "sub", "x", "x1"), BROADCAST(MUL, "mul", "x", "x1"),
	BROADCAST(DIV, "div", "x", "p1"), BROADCAST(POW, "pow", "p", "x1"), BROADCAST(MAXIMUM, "maximum", "x", "x1"),
	BROADCAST(MINIMUM, "minimum", "x", "x1"), BROADCAST(ATAN2, "atan2", "p", "x1"),
	BROADCAST(REMAINDER, "remainder", "x", "p1"), BROADCAST(FMOD, "fmod", "x", "p1"),
	{ OP_WHERE, "%b = input \"b\" : bool[A,1]\n%x = input \"x\" : f64[B]\n%x1 = input \"x1\" : f64[A,B]\n"
		    "%y = where %b, %x, %x1 : f64[A,B]\n" },
	{ OP_CAST, "%x = input \"x\" : f64[A,B]\n%s = silu %x : f64[A,B]\n%y = cast %s {dtype=f64} : f64[A,B]\n" },
	/* products */
	{ OP_MATMUL, "%x = input \"x\" : f64[A,B]\n%x1 = input \"x1\" : f64[C,B]\n%y = matmul %x, %x1 {eq=\"mk,nk->mn\"} : f64[A,C]\n" },
	{ OP_MATMUL, "%x = input \"x\" : f64[A,C,2,B]\n%x1 = input \"x1\" : f64[A,B,3]\n"
		     "%y = matmul %x, %x1 {eq=\"bmik,bkn->bnim\"} : f64[A,3,2,C]\n" },
	{ OP_MATMUL, "%x = input \"x\" : f64[A,B]\n%y = matmul %x, %x {eq=\"mk,nk->mn\"} : f64[A,A]\n" },
	{ OP_SDPA, "%x = input \"x\" : f64[A,B,4]\n%x1 = input \"x1\" : f64[A,C,4]\n%x2 = input \"x2\" : f64[A,C,3]\n"
		   "%y = sdpa %x, %x1, %x2 {scale=0.5} : f64[A,B,3]\n" },
	{ OP_SDPA, "%x = input \"x\" : f64[2,4,B,A]\n%x1 = input \"x1\" : f64[2,2,C,A]\n%x2 = input \"x2\" : f64[2,2,C,3]\n"
		   "%y = sdpa %x, %x1, %x2 {scale=0.7 causal=1} : f64[2,4,B,3]\n" },
	{ OP_SDPA, "%x = input \"x\" : f64[A,4,B,2]\n%x1 = input \"x1\" : f64[A,2,C,2]\n%x2 = input \"x2\" : f64[A,2,C,2]\n"
		   "%x3 = input \"x3\" : f64[4,1,C]\n%y = sdpa %x, %x1, %x2, %x3 {scale=0.7} : f64[A,4,B,2]\n" },
	{ OP_SDPA, "%x = input \"x\" : f64[A,2,B,2]\n%x1 = input \"x1\" : f64[A,2,C,2]\n%x2 = input \"x2\" : f64[A,2,C,2]\n"
		   "%b = input \"b\" : bool[A,1,B,C]\n%y = sdpa %x, %x1, %x2, %b {scale=0.7} : f64[A,2,B,2]\n" },
	/* views */
	{ OP_RESHAPE, "%x = input \"x\" : f64[A,6,B]\n%y = reshape %x {shape=[A,2,3,B]} : f64[A,2,3,B]\n" },
	{ OP_PERMUTE, "%x = input \"x\" : f64[A,B,C]\n%y = permute %x {dims=[2,0,1]} : f64[C,A,B]\n" },
	{ OP_EXPAND, "%x = input \"x\" : f64[A,1,B]\n%y = expand %x {shape=[A,C,B]} : f64[A,C,B]\n" },
	{ OP_SLICE, "%x = input \"x\" : f64[A,7,B]\n%y = slice %x {dim=1 start=2 end=5} : f64[A,3,B]\n" },
	{ OP_SLICE, "%x = input \"x\" : f64[A,7]\n%y = slice %x {dim=1 start=1 end=7 step=2} : f64[A,3]\n" },
	{ OP_SLICE, "%x = input \"x\" : f64[A,8,B]\n%y = slice %x {dim=1 start=1 end=8 step=3} : f64[A,3,B]\n" },
	{ OP_SLICE, "%x = input \"x\" : f64[1,1,2,1,5,1,B,1]\n%y = slice %x {dim=4 start=0 end=5 step=2} : f64[1,1,2,1,3,1,B,1]\n" },
	{ OP_SLICE, "%x = input \"x\" : f64[A,7]\n%y = slice %x {dim=1 start=2 end=2} : f64[A,0]\n" },
	{ OP_SLICE, "%x = input \"x\" : f64[A,7]\n%y = slice %x {dim=1 start=7 end=7} : f64[A,0]\n" },
	{ OP_CAT, "%x = input \"x\" : f64[A,2]\n%x1 = input \"x1\" : f64[A,B]\n%y = cat %x, %x1, %x {dim=1} : f64[A,4+B]\n" },
	{ OP_TRIU, "%x = input \"x\" : f64[A,B,C]\n%y = triu %x {diagonal=1} : f64[A,B,C]\n" },
	{ OP_TRIL, "%x = input \"x\" : f64[A,B,C]\n%y = tril %x {diagonal=-1} : f64[A,B,C]\n" },
	/* by index */
	{ OP_EMBEDDING, "%x = input \"x\" : f64[A,B]\n%i = input \"i\" : i64[2,C]\n%y = embedding %x, %i : f64[2,C,B]\n" },
	{ OP_EMBEDDING_GRAD, "%x = input \"x\" : f64[2,C,B]\n%i = input \"i\" : i64[2,C]\n"
			     "%y = embedding_grad %x, %i {shape=[A,B]} : f64[A,B]\n" },
	{ OP_GATHER, "%x = input \"x\" : f64[B,A]\n%i = input \"i\" : i64[B,C]\n%y = gather %x, %i {dim=1} : f64[B,C]\n" },
	{ OP_GATHER, "%x = input \"x\" : f64[B,A,C]\n%i = input \"i\" : i64[B,1,C]\n%y = gather %x, %i {dim=1} : f64[B,1,C]\n" },
	{ OP_SCATTER, "%x = input \"x\" : f64[A,B]\n%i = input \"i\" : i64[1,B]\n%x1 = input \"x1\" : f64[1,B]\n"
		      "%y = scatter %x, %i, %x1 {dim=0} : f64[A,B]\n" },
	{ OP_SCATTER, "%x = input \"x\" : f64[A,B]\n%i = input \"i\" : i64[C,B]\n%x1 = input \"x1\" : f64[C,B]\n"
		      "%y = scatter %x, %i, %x1 {dim=0 accumulate=1} : f64[A,B]\n" },
	{ OP_INDEX, "%x = input \"x\" : f64[B,A,2]\n%i = input \"i\" : i64[C]\n%y = index %x, %i {dims=[1]} : f64[B,C,2]\n" },
	{ OP_INDEX, "%x = input \"x\" : f64[A,B,A]\n%i = input \"i\" : i64[C,1]\n%i1 = input \"i1\" : i64[2]\n"
		    "%y = index %x, %i, %i1 {dims=[0,2]} : f64[C,2,B]\n" },
	{ OP_INDEX_PUT, "%x = input \"x\" : f64[A,B]\n%i = input \"i\" : i64[1]\n%x1 = input \"x1\" : f64[1,B]\n"
			"%y = index_put %x, %i, %x1 {dims=[0]} : f64[A,B]\n" },
	{ OP_INDEX_PUT, "%x = input \"x\" : f64[A,B]\n%i = input \"i\" : i64[C]\n%x1 = input \"x1\" : f64[1,B]\n"
			"%y = index_put %x, %i, %x1 {dims=[0] accumulate=1} : f64[A,B]\n" },
	/* reductions */
	{ OP_SUM, "%x = input \"x\" : f64[A,B,C]\n%y = sum %x {dims=[1]} : f64[A,C]\n" },
	{ OP_SUM, "%x = input \"x\" : f64[A,B,C]\n%y = sum %x {dims=[0,2] keepdim=1} : f64[1,B,1]\n" },
	{ OP_MEAN, "%x = input \"x\" : f64[A,B,C]\n%y = mean %x {dims=[0,2]} : f64[B]\n" },
	{ OP_REDUCE_MAX, "%x = input \"x\" : f64[A,B,C]\n%y = max %x {dims=[0,1]} : f64[C]\n" },
	{ OP_REDUCE_MIN, "%x = input \"x\" : f64[A,B,C]\n%y = min %x {dims=[1] keepdim=1} : f64[A,1,C]\n" },
	{ OP_PROD, "%x = input \"x\" : f64[A,B]\n%y = prod %x {dims=[1]} : f64[A]\n" },
	{ OP_PROD, "%x = input \"x\" : f64[A,B]\n%b = input \"b\" : bool[A,B]\n%0 = fill {value=0} : f64[]\n"
		   "%z = where %b, %x, %0 : f64[A,B]\n%y = prod %z {dims=[1] keepdim=1} : f64[A,1]\n" },
	{ OP_NORM, "%x = input \"x\" : f64[A,B,C]\n%y = norm %x {dims=[0,2] ord=2.0} : f64[B]\n" },
	{ OP_NORM, "%x = input \"x\" : f64[A,B]\n%y = norm %x {dims=[1] ord=1.0} : f64[A]\n" },
	{ OP_NORM, "%x = input \"x\" : f64[A,B]\n%y = norm %x {dims=[1] ord=3.5} : f64[A]\n" },
	{ OP_NORM, "%x = input \"x\" : f64[A,B]\n%y = norm %x {dims=[1] ord=inf keepdim=1} : f64[A,1]\n" },
	/* along a dim */
	{ OP_SOFTMAX, "%x = input \"x\" : f64[A,B,C]\n%y = softmax %x {dim=1} : f64[A,B,C]\n" },
	{ OP_LOG_SOFTMAX, "%x = input \"x\" : f64[A,B]\n%y = log_softmax %x {dim=1} : f64[A,B]\n" },
	{ OP_CUMSUM, "%x = input \"x\" : f64[A,B,C]\n%y = cumsum %x {dim=1} : f64[A,B,C]\n" },
	{ OP_TOPK, "%x = input \"x\" : f64[A,6]\n%y = topk %x {dim=1 k=3} : f64[A,3]\n" },
	{ OP_SORT, "%x = input \"x\" : f64[B,A]\n%y = sort %x {dim=0} : f64[B,A]\n" },
	{ OP_RMS_NORM, "%x = input \"x\" : f64[A,B,3]\n%y = rms_norm %x {dims=[2] eps=0.01} : f64[A,B,3]\n" },
	{ OP_RMS_NORM, "%x = input \"x\" : f64[A,B,3]\n%y = rms_norm %x {dims=[1,2] eps=0.1} : f64[A,B,3]\n" },
	{ OP_LAYER_NORM, "%x = input \"x\" : f64[A,B,4]\n%y = layer_norm %x {dims=[2] eps=0.01} : f64[A,B,4]\n" },
	{ OP_LAYER_NORM, "%x = input \"x\" : f64[A,2,3]\n%x1 = input \"x1\" : f64[2,3]\n%x2 = input \"x2\" : f64[2,3]\n"
			 "%y = layer_norm %x, %x1, %x2 {dims=[1,2] eps=0.01} : f64[A,2,3]\n" },
};
#define CASES ((int)(sizeof(cases) / sizeof(cases[0])))

/* Ops whose column in ops.def names a function. */
static const struct { enum op op; const char *vjp; } columns[] = {
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) { OP_##name, #vjp },
#include "ops.def"
#undef OP
};

/* --- numbers --- */

static uint64_t state;

static uint64_t random_below(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % n;
}

/* Numbers that are a multiple of 1/64 apart, in random order. */
static double spaced(int64_t i, int64_t count, uint64_t salt)
{
	uint64_t at = ((uint64_t)i * 7919 + salt) % (uint64_t)(count * 97 % 7919 == 0 ? count + 1 : 251);
	return ((double)at - 125) / 64 + 0.0051;
}

static void fill(const char *name, enum dtype t, int64_t count, int64_t below, void *data)
{
	uint64_t salt = random_below(251);
	for (int64_t i = 0; i < count; i++) {
		double x = spaced(i + name[strlen(name) - 1], 251, salt);
		if (t == DT_I64)
			((int64_t *)data)[i] = (int64_t)random_below((uint64_t)below);
		else if (t == DT_BOOL)
			((uint8_t *)data)[i] = random_below(3) > 0;
		else
			((double *)data)[i] = name[0] == 'p' ? 0.7 + fabs(x) / 3 : name[0] == 'u' ? x / 2.2 : x;
	}
}

/* --- graphs --- */

/* The case's graph with sizes for A, B, C; "4+B" is one size. */
static char *expand(const struct test_case *t, const int64_t size[3])
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	fputs("graph {\n", f);
	for (const char *s = t->graph; *s != '\0'; s++)
		if (strncmp(s, "4+B", 3) == 0)
			fprintf(f, "%d", (int)(4 + size[1])), s += 2;
		else if (*s >= 'A' && *s <= 'C' && strchr("[,", s[-1]) != NULL)
			fprintf(f, "%d", (int)size[*s - 'A']);
		else
			fputc(*s, f);
	fputs("output \"y\" = %y\n}\n", f);
	fclose(f);
	return text;
}

/* A plan for one rank with its memory; a node is found by its name. */
struct program { struct plan *plan; struct exec *exec; };

static struct program build(const char *text, bool train)
{
	struct program p = { 0 };
	struct context *context;
	struct graph *g;
	struct compile c = { .exact = true };
	struct pipeline_options passes = { .out = stdout };
	struct lower_options lower = { .exact = true, .recipe = "none" };
	struct exec_options o = { 0 };
	struct diag d = { 0 };
	ck_assert_msg(graph_parse(text, strlen(text), "case", &context, &g, &d) == FS_OK, "%s\n%s", d.text, text);
	if (train) {
		c.train.on = true;
		*vec_push(&c.train.cotangents) = "y";
		for (uint32_t i = 1; i < g->nodes.count; i++)
			if (graph_op(g, (struct node_id){ i }) == OP_INPUT && graph_type(g, (struct node_id){ i })->dtype == DT_F64)
				*vec_push(&c.train.input_gradients) = graph_string(g, (struct node_id){ i }, ATTR_NAME);
	}
	ck_assert_msg(pipeline_run(&g, &c, &passes, &d) == FS_OK, "%s\n%s", d.text, text);
	ck_assert_msg(lower_plan(g, &lower, &p.plan, &d) == FS_OK, "%s", d.text);
	ck_assert_msg(exec_create(p.plan, &o, &p.exec, &d) == FS_OK, "%s", d.text);
	ck_assert_msg(exec_setup(p.exec, &d) == FS_OK, "%s", d.text);
	compile_release(&c);
	return p;
}

static void release(struct program *p)
{
	exec_destroy(p->exec);
	plan_destroy(p->plan);
}

static struct node_id input_of(const struct program *p, const char *name)
{
	const struct graph *g = p->plan->graph;
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (graph_op(g, (struct node_id){ i }) == OP_INPUT && strcmp(graph_string(g, (struct node_id){ i }, ATTR_NAME), name) == 0)
			return (struct node_id){ i };
	return NODE_NONE;
}

static int64_t output_of(const struct program *p, const char *name, double *out)
{
	const struct graph *g = p->plan->graph;
	struct diag d = { 0 };
	for (uint32_t i = 0; i < g->outputs.count; i++)
		if (strcmp(g->outputs.items[i].name, name) == 0) {
			struct node_id n = g->outputs.items[i].value;
			ck_assert_msg(exec_load(p->exec, n, DT_F64, out, &d) == FS_OK, "%s", d.text);
			return type_count(graph_type(g, n));
		}
	ck_abort_msg("no output %s", name);
	return 0;
}

static void set(const struct program *p, const char *name, enum dtype t, const void *data)
{
	struct diag d = { 0 };
	struct node_id n = input_of(p, name);
	if (node_is(n)) /* an input that the gradient does not need is still there */
		ck_assert_msg(exec_store(p->exec, n, t, data, &d) == FS_OK, "%s", d.text);
}

static void step(const struct program *p)
{
	struct diag d = { 0 };
	ck_assert_msg(exec_step(p->exec, &d) == FS_OK, "%s", d.text);
}

/* --- the comparison --- */

#define MOST 4096
#define MOST_INPUTS 8

struct input { const char *name; enum dtype dtype; int64_t count; double data[MOST]; };

/* The inner product of the output with its gradient, one element of an input moved by `by`. */
static double moved(const struct program *p, struct input *in, int64_t at, double by, const double *cotangent)
{
	static double y[MOST];
	double was = in->data[at], sum = 0;
	in->data[at] = was + by;
	set(p, in->name, in->dtype, in->data);
	in->data[at] = was;
	step(p);
	int64_t n = output_of(p, "y", y);
	for (int64_t i = 0; i < n; i++)
		sum += y[i] * cotangent[i];
	return sum;
}

static double difference(const struct program *p, struct input *in, int64_t at, const double *cotangent)
{
	const double h = 0x1p-10;
	double far = moved(p, in, at, 2 * h, cotangent) - moved(p, in, at, -2 * h, cotangent);
	double near = moved(p, in, at, h, cotangent) - moved(p, in, at, -h, cotangent);
	return (8 * near - far) / (12 * h);
}

static void compare_input(const struct program *forward, struct input *in, const double *gradient, const double *cotangent,
			  const char *text)
{
	double wanted[MOST], most = 1;
	for (int64_t i = 0; i < in->count; i++) {
		wanted[i] = difference(forward, in, i, cotangent);
		most = fmax(most, fabs(wanted[i]));
	}
	set(forward, in->name, in->dtype, in->data);
	for (int64_t i = 0; i < in->count; i++)
		ck_assert_msg(fabs(gradient[i] - wanted[i]) <= 1e-8 * most, "grad.%s[%d]: %.12g, by differences %.12g, of\n%s", in->name,
			      (int)i, gradient[i], wanted[i], text);
}

/* Inputs as the forward has them, the same in both. */
static int make_inputs(const struct program *forward, const struct program *backward, const int64_t size[3], struct input *in)
{
	const struct graph *g = forward->plan->graph;
	int count = 0;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(g, n) != OP_INPUT)
			continue;
		struct input *x = &in[count++];
		x->name = graph_string(g, n, ATTR_NAME);
		x->dtype = (enum dtype)graph_type(g, n)->dtype;
		x->count = type_count(graph_type(g, n));
		fill(x->name, x->dtype, x->count, size[0], x->data);
		set(forward, x->name, x->dtype, x->data);
		set(backward, x->name, x->dtype, x->data);
	}
	return count;
}

static void check_case(const struct test_case *t, const int64_t size[3])
{
	static struct input in[MOST_INPUTS];
	static double cotangent[MOST], gradient[MOST];
	char *text = expand(t, size), name[40];
	struct program forward = build(text, false), backward = build(text, true);
	int count = make_inputs(&forward, &backward, size, in);
	fill("x9", DT_F64, MOST, 1, cotangent);
	set(&backward, "grad.y", DT_F64, cotangent);
	step(&backward);
	for (int k = 0; k < count; k++) {
		if (in[k].dtype != DT_F64)
			continue;
		snprintf(name, sizeof(name), "grad.%s", in[k].name);
		ck_assert_int_eq(output_of(&backward, name, gradient), in[k].count);
		compare_input(&forward, &in[k], gradient, cotangent, text);
	}
	release(&forward);
	release(&backward);
	free(text);
}

START_TEST(finite_differences)
{
	static const int64_t sizes[][3] = { { 2, 3, 4 }, { 3, 1, 2 }, { 1, 5, 1 }, { 4, 2, 3 } };
	for (int k = 0; k < 4; k++) {
		state = (uint64_t)(_i * 4 + k);
		check_case(&cases[_i], sizes[k]);
	}
}
END_TEST

static bool is_graph(const char *text)
{
	struct context *context;
	struct graph *g;
	struct diag d = { 0 };
	if (graph_parse(text, strlen(text), "case", &context, &g, &d) != FS_OK)
		return false;
	graph_destroy(g);
	context_destroy(context);
	return true;
}

/* Dims of nothing: where the op takes them, so does its gradient. */
START_TEST(empty)
{
	static const int64_t sizes[][3] = { { 2, 0, 3 }, { 2, 3, 0 }, { 0, 2, 3 }, { 0, 0, 0 } };
	for (int k = 0; k < 4; k++) {
		char *text = expand(&cases[_i], sizes[k]);
		if (is_graph(text)) {
			struct program p = build(text, true);
			release(&p);
		}
		free(text);
	}
}
END_TEST

/* An op that plans have gets a case with its column. */
START_TEST(every_op_has_a_case)
{
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		int found = !op_in_stage(columns[i].op, STAGE_FP8) || strcmp(columns[i].vjp, "zero") == 0 || strcmp(columns[i].vjp, "none") == 0;
		for (int k = 0; k < CASES; k++)
			found += cases[k].op == columns[i].op;
		ck_assert_msg(found > 0, "no case for '%s'", op_text(columns[i].op));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("vjp");
	TCase *t = tcase_create("vjp");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, finite_differences, 0, CASES);
	tcase_add_loop_test(t, empty, 0, CASES);
	tcase_add_test(t, every_op_has_a_case);
	suite_add_tcase(s, t);
	return suite_run(s);
}
