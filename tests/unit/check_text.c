/* The text form from inside: what tests/ir cannot say in text. */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir.h"
#include "suite.h"

static char *print(const struct graph *g)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	graph_print(g, f);
	fclose(f);
	return text;
}

struct program { struct context *context; struct graph *graph; };

static struct program parse(const char *text)
{
	struct program p;
	struct diag d = { 0 };
	enum fs_status status = graph_parse(text, strlen(text), "t", &p.context, &p.graph, &d);
	ck_assert_msg(status == FS_OK, "%s", d.text);
	return p;
}

static void release(struct program *p)
{
	graph_destroy(p->graph);
	context_destroy(p->context);
}

/* The message of bytes that must not parse; from memory that ends where they end. */
static const char *refused(const char *bytes, size_t size)
{
	static struct diag d;
	struct context *c = NULL;
	struct graph *g = NULL;
	char *exact = malloc(size + (size == 0));
	memcpy(exact, bytes, size);
	d = (struct diag){ 0 };
	ck_assert_int_eq(graph_parse(exact, size, "t", &c, &g, &d), FS_INVALID);
	ck_assert(c == NULL && g == NULL);
	ck_assert(d.text[0] != '\0' && strpbrk(d.text, "\n\r") == NULL);
	free(exact);
	return d.text;
}

static struct node_id source(struct graph *g, const char *name, const char *node, const struct type *t)
{
	struct attrs a = { 0 };
	struct prov prov = { .node = node, .module = "m" };
	attrs_string(&a, ATTR_NAME, name);
	attrs_int(&a, ATTR_DTYPE, t->dtype);
	attrs_ints(&a, ATTR_SHAPE, t->dim, t->rank);
	return graph_append(g, OP_INPUT, NULL, 0, &a, t, context_prov(g->context, &prov));
}

static struct node_id unary(struct graph *g, enum op op, struct node_id x, const struct prov *prov)
{
	return graph_append(g, op, &x, 1, NULL, graph_type(g, x), context_prov(g->context, prov));
}

static bool same(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

START_TEST(provenance_comes_back_whole)
{
	static const char *const some[] = { NULL, "", "h", "12", "h.1", "a b", "%h", "x ; y @ z (w) [v]",
					    "\"\\\n\t\x01\xc3\xa9" };
	enum { N = sizeof(some) / sizeof(some[0]) };
	struct context *c = context_create(NULL);
	struct graph *g = graph_create(c, STAGE_GLOBAL);
	struct type t = type_make(DT_F32, 0, NULL);
	struct node_id x = source(g, "h", "h", &t);
	for (int i = 0; i < N * N; i++)
		unary(g, OP_NEG, x, &(struct prov){ some[i % N], some[i / N], some[(i + 1) % N], some[(i + 2) % N], some[(i + 3) % N] });
	char *text = print(g);
	struct program back = parse(text);
	ck_assert_uint_eq(back.graph->nodes.count, g->nodes.count);
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		const struct prov *a = graph_prov(g, (struct node_id){ i });
		const struct prov *b = graph_prov(back.graph, (struct node_id){ i });
		ck_assert(same(a->node, b->node) && same(a->module, b->module));
		ck_assert(same(a->source, b->source) && same(a->pass, b->pass) && same(a->rule, b->rule));
	}
	release(&back);
	free(text);
	graph_destroy(g);
	context_destroy(c);
}
END_TEST

START_TEST(nothing_is_merged_or_simplified)
{
	struct program p = parse("graph {\n %x = input \"x\" : f32[2]\n %a = neg %x : f32[2]\n %b = neg %x : f32[2]\n"
				 " %c = copy %x : f32[2]\n output \"y\" = %b\n}\n");
	ck_assert_uint_eq(p.graph->nodes.count, 5);
	ck_assert_uint_eq(p.graph->outputs.items[0].value.i, 3);
	release(&p);
}
END_TEST

START_TEST(types_in_small_buffers)
{
	struct mesh m;
	struct diag d = { 0 };
	struct type t = type_make(DT_BF16, 2, (const int64_t[]){ 4096, 16384 });
	char text[64], whole[64];
	ck_assert_int_eq(mesh_parse(&m, "dp=2,tp=4", &d), FS_OK);
	ck_assert_int_eq(placement_parse(&t.place, &m, 2, "tp:S(0), dp:S(0)", &d), FS_OK);
	type_text(&t, &m, whole, sizeof(whole));
	ck_assert_str_eq(whole, "bf16[4096,16384] (tp:S(0), dp:S(0))");
	for (size_t size = 1; size < sizeof(text); size++) {
		memset(text, 'x', sizeof(text));
		type_text(&t, &m, text, size);
		ck_assert_uint_lt(strlen(text), size);
		ck_assert_int_eq(strncmp(text, whole, strlen(text)), 0);
	}
	type_text(&t, NULL, text, sizeof(text));
	ck_assert_str_eq(text, "bf16[4096,16384]");
	t.place.count = 0;
	placement_text(&t.place, &m, text, sizeof(text));
	ck_assert_str_eq(text, "(dp:R, tp:R)");
}
END_TEST

START_TEST(nodes_are_described)
{
	struct program p = parse("graph {\n %x = input \"a\\nb\" : f32[2]\n %2 = neg %x : f32[2]\n"
				 " %n = neg %2 : f32[2] ; linear_3 @ layers.3.mlp.up_proj (modeling.py:212)\n}\n");
	static const char *const want[] = { "", "a?b", "neg %2", "linear_3 (layers.3.mlp.up_proj, modeling.py:212)" };
	char text[100];
	for (uint32_t i = 1; i < 4; i++) {
		node_describe(p.graph, (struct node_id){ i }, text, sizeof(text));
		ck_assert_str_eq(text, want[i]);
	}
	release(&p);
}
END_TEST

START_TEST(bytes_that_are_no_text)
{
	ck_assert_ptr_nonnull(strstr(refused("", 0), "t:1:1: expected"));
	ck_assert_ptr_nonnull(strstr(refused("graph {\n\0}\n", 11), "t:2:1: expected"));
	ck_assert_ptr_nonnull(strstr(refused("mesh dp=2\0,tp=2\ngraph {\n}\n", 26), "mesh"));
	ck_assert_ptr_nonnull(strstr(refused("graph {\n %x = input \"a\0b\" : f32[2]\n}\n", 37), "t:2:15: a string"));
	ck_assert_ptr_nonnull(strstr(refused("graph {\n %x = input \"a\\x00\" : f32[2]\n}\n", 39), "NUL"));
	refused("\xff\xfe\x00", 3);
}
END_TEST

/* Every beginning of every file under tests/ir. */
static void parse_beginnings(const char *path)
{
	FILE *f = fopen(path, "rb");
	char text[8192];
	ck_assert_ptr_nonnull(f);
	size_t size = fread(text, 1, sizeof(text), f);
	fclose(f);
	for (size_t n = 0; n <= size; n++) {
		struct program p;
		struct diag d = { 0 };
		char *exact = malloc(n + (n == 0));
		memcpy(exact, text, n);
		if (graph_parse(exact, n, path, &p.context, &p.graph, &d) == FS_OK)
			release(&p);
		else
			ck_assert(d.text[0] != '\0');
		free(exact);
	}
}

START_TEST(beginnings_of_files)
{
	DIR *dir = opendir("tests/ir");
	int count = 0;
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		const char *dot = strrchr(e->d_name, '.');
		char path[512];
		if (dot == NULL || strcmp(dot, ".ir") != 0)
			continue;
		snprintf(path, sizeof(path), "tests/ir/%s", e->d_name);
		parse_beginnings(path);
		count++;
	}
	ck_assert_ptr_nonnull(dir);
	closedir(dir);
	ck_assert_int_gt(count, 40);
}
END_TEST

START_TEST(long_words_numbers_lists)
{
	enum { LONG = 100000 };
	static const char *const heads[] = { "", "mesh ", "stage ", "graph {\n %", "graph {\n %x = ",
					     "graph {\n %x = input \"",
					     "graph {\n %x = fill {value=", "graph {\n %x = fill {value=1} : f32[",
					     "graph {\n %x = fill {value=1} : f32[] (", "graph {\n %x = fill {value=1} : f32[] ; ",
					     "graph {\n %x = const {data=[", "graph {\n %x = const {data=\"b64:" };
	static const char *const repeated[] = { "x", "1", "(", "[", "1,", "%a, ", "a=1 ", "\\", "\"", "{", "#", "tp=2,", ";", "@" };
	char *text = malloc(LONG + 100);
	for (size_t h = 0; h < sizeof(heads) / sizeof(heads[0]); h++)
		for (size_t r = 0; r < sizeof(repeated) / sizeof(repeated[0]); r++) {
			size_t size = strlen(heads[h]), step = strlen(repeated[r]);
			memcpy(text, heads[h], size);
			for (; size + step < LONG; size += step)
				memcpy(text + size, repeated[r], step);
			refused(text, size);
		}
	free(text);
}
END_TEST

/* --- the verifier, of graphs that no text gives --- */

static const char *verdict(const struct graph *g)
{
	static struct diag d;
	d = (struct diag){ 0 };
	return graph_verify(g, &d) == FS_OK ? "" : d.text;
}

START_TEST(broken_arrays_are_found)
{
	struct program p = parse("graph {\n %x = input \"x\" : f32[2]\n %y = neg %x : f32[2]\n output \"y\" = %y\n}\n");
	struct graph *g = p.graph;
	struct node kept = g->nodes.items[2];
	ck_assert_str_eq(verdict(g), "");
	g->operands.items[0] = (struct node_id){ 2 };
	ck_assert_ptr_nonnull(strstr(verdict(g), "is not above it"));
	g->operands.items[0] = NODE_NONE;
	ck_assert_ptr_nonnull(strstr(verdict(g), "is not above it"));
	g->operands.items[0] = (struct node_id){ 1 };
	g->nodes.items[2].first = 7;
	ck_assert_ptr_nonnull(strstr(verdict(g), "out of range"));
	g->nodes.items[2] = kept;
	g->nodes.items[2].op = OP_COUNT;
	ck_assert_ptr_nonnull(strstr(verdict(g), "unknown"));
	g->nodes.items[2] = kept;
	g->nodes.items[2].type = context_type(p.context, &(struct type){ .dtype = DT_F32, .rank = 1, .dim = { 3 } });
	ck_assert_ptr_nonnull(strstr(verdict(g), "the type is f32[3], the op gives f32[2]"));
	g->nodes.items[2] = kept;
	g->outputs.items[0].value.i = 9;
	ck_assert_ptr_nonnull(strstr(verdict(g), "output 'y' has no value"));
	release(&p);
}
END_TEST

/* --- size --- */

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All named alike, which is the worst case of making names unique. */
START_TEST(many_nodes_are_quick)
{
	enum { NODES = 50000 };
	struct mesh m;
	struct diag d = { 0 };
	ck_assert_int_eq(mesh_parse(&m, "tp=4", &d), FS_OK);
	struct context *c = context_create(&m);
	struct graph *g = graph_create(c, STAGE_LOCAL);
	struct type t = type_make(DT_BF16, 2, (const int64_t[]){ 64, 64 });
	placement_set(&t.place, 0, &(struct part){ 0, PART_SHARD, 1 });
	struct node_id x = source(g, "x", NULL, &t);
	for (int i = 1; i < NODES; i++)
		x = unary(g, i % 2 ? OP_NEG : OP_SILU, x, &(struct prov){ .node = "layer", .module = "layers.0.mlp" });
	double start = seconds();
	char *text = print(g);
	double printed = seconds();
	struct program back = parse(text);
	double parsed = seconds();
	ck_assert_str_eq(verdict(back.graph), "");
	double verified = seconds();
	char *again = print(back.graph);
	ck_assert_str_eq(text, again);
	printf("text: %d nodes: print %.0f ms, parse %.0f ms, verify %.0f ms\n", NODES, 1e3 * (printed - start),
	       1e3 * (parsed - printed), 1e3 * (verified - parsed));
	ck_assert(verified - start < 10); /* linear: even under ASan a tenth of this */
	free(text);
	free(again);
	release(&back);
	graph_destroy(g);
	context_destroy(c);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("text");
	TCase *c = tcase_create("all");
	suite_add_tcase(suite, c);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, provenance_comes_back_whole);
	tcase_add_test(c, nothing_is_merged_or_simplified);
	tcase_add_test(c, types_in_small_buffers);
	tcase_add_test(c, nodes_are_described);
	tcase_add_test(c, bytes_that_are_no_text);
	tcase_add_test(c, beginnings_of_files);
	tcase_add_test(c, long_words_numbers_lists);
	tcase_add_test(c, broken_arrays_are_found);
	tcase_add_test(c, many_nodes_are_quick);
	return suite_run(suite);
}
