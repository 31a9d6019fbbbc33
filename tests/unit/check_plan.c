/* Plans: lowering, memory, the file and its reader, what the verifier refuses, what show says. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lower.h"
#include "show.h"
#include "suite.h"

/* --- making plans --- */

static struct graph *parse(const char *text)
{
	struct context *c;
	struct graph *g;
	struct diag d = { 0 };
	ck_assert_msg(graph_parse(text, strlen(text), "t", &c, &g, &d) == FS_OK, "%s", d.text);
	return g;
}

static struct plan *lower(const char *text)
{
	static const struct matmul_report report[] = {
		{ "up", "mlp.up", "m.py:3", "mk,nk->mn", "rowwise", "", "grad_input", 16, 32, 64 },
		{ "gone", NULL, NULL, "mk,nk->mn", "none", "folded", NULL, 1, 2, 3 },
	};
	static const char *const command[] = { "mlp.json", "--fp8", "rowwise" };
	struct lower_options o = { "rowwise", "h100", true, report, 2, command, 3 };
	struct plan *p;
	struct diag d = { 0 };
	ck_assert_msg(lower_plan(parse(text), &o, &p, &d) == FS_OK, "%s", d.text);
	return p;
}

static char *read_file(const char *path)
{
	char *text = calloc(1, 1 << 20);
	FILE *f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s", path);
	ck_assert_int_gt(fread(text, 1, (1 << 20) - 1, f), 0);
	fclose(f);
	return text;
}

/* The node whose provenance (or name attribute) is `name`. */
static struct node_id find(const struct plan *p, const char *name)
{
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		struct node_id n = { i };
		const char *given = graph_string(p->graph, n, ATTR_NAME), *from = graph_prov(p->graph, n)->node;
		if ((given != NULL && strcmp(given, name) == 0) || (from != NULL && strcmp(from, name) == 0))
			return n;
	}
	ck_abort_msg("no node %s", name);
}

static struct storage *at(struct plan *p, const char *name)
{
	return &p->storage[find(p, name).i];
}

static int count_op(const struct plan *p, enum op op)
{
	int count = 0;
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		count += p->graph->nodes.items[i].op == op;
	return count;
}

/* Weights cast in setup, a buffer that each step writes, views, a copy before a reshape and a gather. */
#define MODEL \
	"mesh tp=2\nstage fp8\ngraph {\n" \
	"  %x = input \"x\" : bf16[16,64] (tp:S(0))\n" \
	"  %w = param \"w\" : bf16[32,64] (tp:S(0)) ; {\"--place 'w=tp:S(0)'\"}\n" \
	"  %b = param \"b\" {buffer=1} : f32[16] (tp:R)\n" \
	"  %aw = amax %w {dims=[1]} : f32[32,1] (tp:S(0))\n" \
	"  %sw = fp8_scale %aw {dtype=e4m3} : f32[32,1] (tp:S(0))\n" \
	"  %qw = fp8_cast %w, %sw {dtype=e4m3} : e4m3[32,64] (tp:S(0))\n" \
	"  %iw = reciprocal %sw : f32[32,1] (tp:S(0))\n" \
	"  %ax = amax %x {dims=[1]} : f32[16,1] (tp:S(0))\n" \
	"  %sx = fp8_scale %ax {dtype=e4m3} : f32[16,1] (tp:S(0))\n" \
	"  %qx = fp8_cast %x, %sx {dtype=e4m3} : e4m3[16,64] (tp:S(0))\n" \
	"  %ix = reciprocal %sx : f32[16,1] (tp:S(0))\n" \
	"  %gx = all_gather %qx {axis=tp} : e4m3[16,64] (tp:R)\n" \
	"  %gi = all_gather %ix {axis=tp} : f32[16,1] (tp:R)\n" \
	"  %up = scaled_matmul %gx, %qw, %gi, %iw {eq=\"mk,nk->mn\" role=\"grad_input\" dtype=bf16} : bf16[16,32] (tp:S(1)) ; up @ layers.3.mlp\n" \
	"  %t = permute %up {dims=[1,0]} : bf16[32,16] (tp:S(0))\n" \
	"  %flat = reshape %t {shape=[512]} : bf16[512] (tp:S(0))\n" \
	"  %all = all_gather %t {axis=tp} : bf16[32,16] (tp:R)\n" \
	"  %one = fill {value=-inf} : f32[16] (tp:R)\n" \
	"  %b2 = add %b, %one : f32[16] (tp:R)\n" \
	"  output \"flat\" = %flat\n  output \"all\" = %all\n  output \"scale\" = %sw\n" \
	"  output buffer \"b\" \"b_new\" = %b2\n}\n"

START_TEST(sections)
{
	struct plan *p = lower(MODEL);
	ck_assert_int_eq(at(p, "aw")->memory, MEM_ARENA);
	ck_assert_int_eq(at(p, "aw")->section, SECTION_SETUP);
	ck_assert_int_eq(at(p, "sw")->memory, MEM_STATE); /* an output */
	ck_assert_int_eq(at(p, "qw")->memory, MEM_STATE);
	ck_assert_int_eq(at(p, "one")->memory, MEM_STATE);
	ck_assert_int_eq(at(p, "b2")->section, SECTION_STEP);
	ck_assert_int_eq(at(p, "w")->memory, MEM_PARAM);
	ck_assert_int_eq(at(p, "x")->memory, MEM_INPUT);
	ck_assert_int_eq(at(p, "t")->memory, MEM_VIEW);
	ck_assert_int_eq(at(p, "t")->base.i, find(p, "up").i);
	ck_assert_int_eq(at(p, "qw")->bytes, 16 * 64);
	ck_assert_int_eq(p->param_bytes, 16 * 64 * 2 + 64);
	ck_assert_int_eq(count_op(p, OP_COPY), 1); /* of t: for the reshape and for the gather */
	ck_assert_int_eq(p->matmuls.items[0].value.i, find(p, "up").i);
	ck_assert_int_eq(p->matmuls.items[1].value.i, 0);
	plan_destroy(p);
}
END_TEST

START_TEST(training_has_no_setup)
{
	struct plan *p = lower("graph {\n  %w = param \"w\" : f32[4,4]\n  %b = param \"b\" {buffer=1} : f32[4,4]\n"
			       "  %y = neg %w : f32[4,4]\n  %z = neg %b : f32[4,4]\n  %s = add %y, %z : f32[4,4]\n"
			       "  output grad_param \"w\" \"g\" = %s\n}\n");
	ck_assert_int_eq(at(p, "y")->section, SECTION_STEP);
	ck_assert_int_eq(at(p, "z")->section, SECTION_SETUP);
	plan_destroy(p);
}
END_TEST

/* Operands and results that are no matrices in memory. */
START_TEST(products)
{
	static const struct { const char *a, *b, *c, *eq; int copies; } cases[] = {
		{ "4,8", "16,8", "4,16", "mk,nk->mn", 0 },
		{ "4,3,8", "16,8", "16,4,3", "mik,nk->nmi", 0 },
		{ "4,3,8", "16,8", "4,16,3", "mik,nk->mni", 1 },
		{ "8,4,3", "16,3,8", "4,16", "kml,nlk->mn", 2 },
		{ "2,4,8", "2,16,8", "4,16,2", "bmk,bnk->mnb", 1 },
		{ "2,5,4,8", "2,5,16,8", "2,4,5,16", "bcmk,bcnk->bmcn", 0 },
	};
	char text[1024];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "graph {\n  %%a = input \"a\" : f32[%s]\n  %%b = input \"b\" : f32[%s]\n"
			 "  %%y = matmul %%a, %%b {eq=\"%s\"} : f32[%s]\n  %%z = neg %%y : f32[%s]\n  output \"z\" = %%z\n}\n",
			 cases[i].a, cases[i].b, cases[i].eq, cases[i].c, cases[i].c);
		struct plan *p = lower(text);
		ck_assert_msg(count_op(p, OP_COPY) == cases[i].copies, "%s: %d", cases[i].eq, count_op(p, OP_COPY));
		plan_destroy(p);
	}
}
END_TEST

START_TEST(second_results)
{
	struct plan *p = lower("graph {\n  %x = input \"x\" : f32[8,64]\n  %v = topk %x {dim=1 k=4} : f32[8,4]\n"
			       "  %i = proj %v {index=1} : i64[8,4]\n  %a = input \"a\" : e5m2[3,4,8]\n"
			       "  %b = input \"b\" : e4m3[16,8]\n"
			       "  %y = scaled_matmul %a, %b {eq=\"mik,nk->mni\" dtype=f64 exact=1} : f64[3,16,4]\n"
			       "  %l = proj %y {index=1 dtype=f64} : f64[3,16,4]\n  %s = add %y, %l : f64[3,16,4]\n"
			       "  output \"i\" = %i\n  output \"s\" = %s\n}\n");
	ck_assert_int_eq(at(p, "i")->memory, MEM_ARENA);
	ck_assert_int_eq(count_op(p, OP_PERMUTE), 2);
	ck_assert_int_eq(count_op(p, OP_COPY), 2);
	plan_destroy(p);
}
END_TEST

START_TEST(sharded_constant)
{
	struct plan *p = lower("mesh a=2, b=2\nstage local\ngraph {\n"
			       "  %c = const {data=[1,2,3,4,5,6]} : i64[6] (b:S(0), a:S(0))\n"
			       "  %x = input \"x\" : i64[6] (b:S(0), a:S(0))\n"
			       "  %y = add %c, %x : i64[6] (b:S(0), a:S(0))\n  output \"y\" = %y\n}\n");
	ck_assert_int_eq(count_op(p, OP_SHARD), 2);
	ck_assert_int_eq(at(p, "c")->memory, MEM_CONST);
	plan_destroy(p);
}
END_TEST

/* --- the file --- */

static char *write_plan(struct plan *p, size_t *size)
{
	char *text;
	struct diag d = { 0 };
	ck_assert_msg(plan_write(p, &text, size, &d) == FS_OK, "%s", d.text);
	ck_assert_int_eq(strlen(text), *size);
	return text;
}

static void check_round_trip(const char *program)
{
	struct plan *p = lower(program), *again = NULL;
	struct diag d = { 0 };
	size_t size, size_again;
	char *text = write_plan(p, &size);
	ck_assert_msg(plan_read(text, size, "plan.json", &again, &d) == FS_OK, "%s", d.text);
	ck_assert_uint_eq(p->hash, again->hash);
	ck_assert_int_eq(again->arena_bytes, p->arena_bytes);
	ck_assert_uint_eq(again->command.count, 3);
	ck_assert_str_eq(again->command.items[2], "rowwise");
	ck_assert_str_eq(again->matmuls.items[0].role, "grad_input");
	char *text_again = write_plan(again, &size_again);
	ck_assert_str_eq(text, text_again);
	free(text);
	free(text_again);
	plan_destroy(p);
	plan_destroy(again);
}

START_TEST(round_trips)
{
	static const char *const files[] = {
		"tests/ir/fp8.ir", "tests/ir/collectives.ir", "tests/ir/ops.ir", "tests/ir/constants.ir", "tests/ir/names.ir",
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char *text = read_file(files[i]);
		check_round_trip(text);
		free(text);
	}
	check_round_trip(MODEL);
	check_round_trip("graph {\n}\n");
	check_round_trip("graph {\n  %x = fill {value=-0} : f32[2]\n  %y = fill {value=inf} : f32[2]\n"
			 "  %z = fill {value=0.1} : f32[2]\n  output \"a \\\"b\\\"\\n\\\\\" = %x\n  output \"y\" = %y\n"
			 "  output \"z\" = %z\n}\n");
}
END_TEST

/* What stands in the doc between the line `fence` and the next ```, from `*at` on. */
static char *doc_block(const char **at, const char *fence)
{
	const char *from = strstr(*at, fence);
	ck_assert_ptr_nonnull(from);
	from += strlen(fence);
	*at = strstr(from, "\n```\n");
	ck_assert_ptr_nonnull(*at);
	char *made = strndup(from, (size_t)(*at + 1 - from));
	*at += 5;
	return made;
}

/* The example of docs/plan.md. */
START_TEST(documented)
{
	static const struct matmul_report report = { "up", "mlp.up", NULL, "mk,nk->mn", "none",
						     "a dim is no multiple of 16", NULL, 4, 6, 8 };
	struct lower_options o = { "rowwise", "h100", false, &report, 1, NULL, 0 };
	char *doc = read_file("docs/plan.md");
	const char *at = doc;
	char *program = doc_block(&at, "\n```\n"), *wanted = doc_block(&at, "\n```json\n");
	struct plan *p;
	struct diag d = { 0 };
	size_t size;
	ck_assert_int_eq(lower_plan(parse(program), &o, &p, &d), FS_OK);
	char *text = write_plan(p, &size);
	ck_assert_str_eq(text, wanted);
	free(text);
	free(wanted);
	free(program);
	free(doc);
	plan_destroy(p);
}
END_TEST

/* The first `from` of the text replaced by `to`, and the hash put right. */
static char *edited(const char *text, const char *from, const char *to)
{
	const char *where = strstr(text, from);
	ck_assert_msg(where != NULL, "no %s", from);
	char *made = calloc(1, strlen(text) + strlen(to) + 1);
	memcpy(made, text, (size_t)(where - text));
	strcat(made, to);
	strcat(made, where + strlen(from));
	plan_rehash(made, strlen(made));
	return made;
}

START_TEST(refuses)
{
	static const struct { const char *from, *to, *message; } cases[] = {
		{ "\"version\":1", "\"version\":2", "p: a plan of version 2; this program reads version 1: compile again" },
		{ "\"fp8shard\":\"plan\"", "\"fp8shard\":\"map\"", "p: not a plan: it has no \"fp8shard\": \"plan\"; fp8shard compile writes plans" },
		{ "\"mesh\":\"tp=2\"", "\"mesh\":\"tp=0\"", "p: mesh 'tp=0': the size of 'tp' must be a number from 1 to 1048576" },
		{ "\"exact\":true", "\"exact\":1", "p: not a plan: 'exact' must be true or false" },
		{ "\"params\":2112", "\"params\":2176", "p: memory 'params' has 2176 bytes, its values end at 2112" },
		{ "\"params\":2112", "\"params\":2113", "p: memory 'params' has 2113 bytes, its values end at 2112" },
		{ "\"params\":2112", "\"params\":9223372036854775807", "p: memory 'params' has 9223372036854775807 bytes, its values end at 2112" },
		{ "\"params\":", "\"params\":-", "p: not a plan: 'params' is -2112, not 0 to 9223372036854775807" },
		{ "bf16[16,64] (tp:S(0))", "bf16[16,-4] (tp:S(0))", "p: type 0: 'bf16[16,-4] (tp:S(0))' is no type" },
		{ "bf16[16,64] (tp:S(0))", "bf16[16,64] (pp:S(0))", "p: type 0: ' (pp:S(0))': the mesh has no axis 'pp' (it has tp=2)" },
		{ "\"op\":\"param\"", "\"op\":\"parm\"", "p: node 2: 'parm' is no op" },
		{ "\"in\":[2]", "\"in\":[4]", "p: node 4: operand 0 is no node before it" },
		{ "\"in\":[2]", "\"in\":[0]", "p: node 4: operand 0 is no node before it" },
		{ "\"type\":1", "\"type\":99", "p: node 2: 'type' is 99, not 0 to 12" },
		{ "\"dims\":[1]", "\"dims\":1", "p: node 4: attribute 'dims' must be a list of up to 8 numbers" },
		{ "\"dims\":[1]", "\"dims\":[7]", "p: aw: amax: no dim 7 in an operand of 2 dims" },
		{ "\"dims\":[1]", "\"dimz\":[1]", "p: node 4: 'dimz' is no attribute" },
		{ "\"axis\":[\"tp\"]", "\"axis\":[\"tp\",\"tp\"]", "p: node 12: attribute 'axis' must be a list of axes of the mesh, each once" },
		{ "\"setup\",\"arena\"", "\"setup\",\"moon\"", "p: node 4: 'at' says 'moon', which is none of its words" },
		{ "\"source\",\"param\"", "\"source\",\"arena\"", "p: node 2, w: param has no such section or memory" },
		{ "\"step\",\"arena\"", "\"setup\",\"arena\"", "p: node 8, ax: is setup and reads node 1, which is not" },
		{ "\"input\",0,1024", "\"input\",0,1023", "p: node 1, x: has 1023 bytes, which its type does not say" },
		{ "\"input\",0,1024", "\"input\",0,-1", "p: node 1: 'at' says -1 where 0 to 9223372036854775807 is wanted" },
		{ "\"input\",0,1024", "\"input\",0", "p: node 1: 'at' must be a list of section, memory, offset (of a view: its base) and bytes" },
		{ "\"view\",14", "\"view\",0", "p: node 15, t: is no view of node 0" },
		{ "\"command\":[\"mlp.json\"", "\"command\":[1", "p: not a plan: 'command' must be a list of strings" },
		{ "\"rule\":0", "\"rule\":1", "p: node 2: 'rule' is 1, not 0 to 0" },
		{ "\"name\":\"flat\"", "\"name\":null", "p: output 0: 'name' must be a string" },
		{ "\"kind\":\"buffer\",\"target\":\"b\"", "\"kind\":\"buffer\"", "p: output 'b_new' has no target" },
	};
	struct plan *p = lower(MODEL), *made = NULL;
	size_t size;
	char *text = write_plan(p, &size);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct diag d = { 0 };
		char *bad = edited(text, cases[i].from, cases[i].to);
		ck_assert_msg(plan_read(bad, strlen(bad), "p", &made, &d) != FS_OK, "%s", cases[i].to);
		ck_assert_str_eq(d.text, cases[i].message);
		free(bad);
	}
	free(text);
	plan_destroy(p);
}
END_TEST

START_TEST(refuses_changes)
{
	struct plan *p = lower(MODEL), *made = NULL;
	struct diag d = { 0 };
	size_t size;
	char *text = write_plan(p, &size), message[128];
	snprintf(message, sizeof(message), "p was changed after it was written (hash %016llx): compile again",
		 (unsigned long long)p->hash);
	text[size - 3] = ' '; /* "matmuls" is still JSON */
	*strstr(text, "\"rowwise\"") = '"';
	strstr(text, "rowwise")[0] = 'R';
	ck_assert_int_eq(plan_read(text, size, "p", &made, &d), FS_INVALID);
	if (strstr(d.text, "line") == NULL)
		ck_assert_str_eq(d.text, message);
	d = (struct diag){ 0 };
	ck_assert_int_eq(plan_read(text, size / 2, "p", &made, &d), FS_INVALID);
	ck_assert_int_eq(strncmp(d.text, "p: not a plan: line ", 20), 0);
	d = (struct diag){ 0 };
	ck_assert_int_eq(plan_read("", 0, "p", &made, &d), FS_INVALID);
	free(text);
	plan_destroy(p);
}
END_TEST

/* Whatever becomes of a byte, the reader takes it or says why not. */
START_TEST(damaged)
{
	static const char some[] = "0123456789-\"[]{},:eaxSRP(";
	struct plan *p = lower(MODEL), *made;
	uint64_t r = 1;
	size_t size;
	int taken = 0;
	char *text = write_plan(p, &size), *bad = malloc(size);
	for (int i = 0; i < 4000; i++) {
		struct diag d = { 0 };
		memcpy(bad, text, size);
		for (int k = 0; k <= i % 3; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			bad[(r >> 33) % size] = some[(r >> 20) % (sizeof(some) - 1)];
		}
		plan_rehash(bad, size);
		if (plan_read(bad, size, "p", &made, &d) == FS_OK) {
			plan_destroy(made);
			taken++;
		} else {
			ck_assert(d.text[0] != '\0' && strpbrk(d.text, "\n\r") == NULL);
		}
	}
	ck_assert_int_gt(taken, 100);
	free(bad);
	free(text);
	plan_destroy(p);
}
END_TEST

/* --- the verifier --- */

static void refuse(const char *name, const char *message, void (*change)(struct storage *s))
{
	struct plan *p = lower(MODEL);
	struct diag d = { 0 };
	struct storage *s = at(p, name);
	change(s);
	ck_assert_int_eq(plan_verify(p, &d), FS_INVALID);
	ck_assert_msg(strstr(d.text, message) != NULL, "%s: %s", name, d.text);
	plan_destroy(p);
}

static void move_far(struct storage *s) { s->offset = INT64_MAX - 63; }
static void move_odd(struct storage *s) { s->offset = 32; }
static void move_to_start(struct storage *s) { s->offset = 0; }
static void move_back(struct storage *s) { s->offset = -64; }
static void no_state(struct storage *s) { s->memory = MEM_ARENA; s->offset = 0; }
static void to_state(struct storage *s) { s->memory = MEM_STATE; s->offset = 0; }
static void to_view(struct storage *s) { s->memory = MEM_VIEW; s->base.i = 1; }
static void to_setup(struct storage *s) { s->section = SECTION_SETUP; }
static void other_base(struct storage *s) { s->base.i--; }
static void more_bytes(struct storage *s) { s->bytes++; }

START_TEST(verifier)
{
	refuse("qx", "lies outside of its memory", move_far);
	refuse("qx", "lies outside of its memory", move_odd);
	refuse("qw", "lies outside of its memory", move_back);
	refuse("b", "overlaps node", move_to_start);
	refuse("iw", "overlaps node", move_to_start);
	refuse("sw", "is an output, but setup does not keep it", no_state);
	refuse("qw", "reads node 6, which setup does not keep", no_state);
	refuse("qx", "is run in each step, but kept as state", to_state);
	refuse("b2", "has no such section or memory", to_view);
	refuse("b2", "is setup and reads node", to_setup);
	refuse("t", "is no view of node", other_base);
	refuse("gx", "which its type does not say", more_bytes);
}
END_TEST

/* Two values that live at once put in one place, wherever that is. */
START_TEST(verifier_sees_overlaps)
{
	struct plan *p = lower(MODEL);
	struct lifetime *life = plan_lifetimes(p);
	int tried = 0;
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		for (uint32_t k = i + 1; k < p->graph->nodes.count; k++) {
			struct storage *a = &p->storage[i], *b = &p->storage[k];
			struct diag d = { 0 };
			if (a->memory != MEM_ARENA || b->memory != MEM_ARENA || a->section != b->section ||
			    life[i].to < life[k].from || b->bytes > p->arena_bytes - a->offset)
				continue;
			int64_t was = b->offset;
			b->offset = a->offset;
			ck_assert_int_eq(plan_verify(p, &d), FS_INVALID);
			ck_assert_ptr_nonnull(strstr(d.text, "overlaps node"));
			b->offset = was;
			tried++;
		}
	ck_assert_int_gt(tried, 10);
	free(life);
	plan_destroy(p);
}
END_TEST

/* --- show --- */

static char *show(const struct plan *p, bool json)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(plan_show(p, json, f), FS_OK);
	fclose(f);
	return text;
}

/* The Megatron MLP with sequence parallelism of the issue. */
START_TEST(shows_bytes)
{
	struct plan *p = lower("mesh tp=8\nstage local\ngraph {\n  %x = input \"x\" : bf16[4096,4096] (tp:S(0))\n"
			       "  %w = param \"w\" : bf16[16384,4096] (tp:S(0))\n  %v = param \"v\" : bf16[4096,16384] (tp:S(1))\n"
			       "  %g = all_gather %x {axis=tp} : bf16[4096,4096] (tp:R) ; g @ layers.0.mlp\n"
			       "  %h = matmul %g, %w {eq=\"mk,nk->mn\"} : bf16[4096,16384] (tp:S(1))\n"
			       "  %s = relu %h : bf16[4096,16384] (tp:S(1))\n"
			       "  %o = matmul %s, %v {eq=\"mk,nk->mn\"} : bf16[4096,4096] (tp:P(sum))\n"
			       "  %r = reduce_scatter %o {axis=tp dim=0 reduce=\"sum\"} : bf16[4096,4096] (tp:S(0))\n"
			       "  output \"y\" = %r\n}\n");
	char *text = show(p, true);
	json_t *root = json_loads(text, 0, NULL), *all = json_object_get(root, "collectives");
	ck_assert_ptr_nonnull(root);
	ck_assert_int_eq(json_integer_value(json_object_get(root, "bytes")), 58720256);
	ck_assert_int_eq(json_integer_value(json_object_get(root, "ranks")), 8);
	ck_assert_int_eq(json_array_size(all), 2);
	ck_assert_str_eq(json_string_value(json_object_get(json_array_get(all, 0), "op")), "all_gather");
	ck_assert_str_eq(json_string_value(json_object_get(json_array_get(all, 0), "module")), "layers.0.mlp");
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(all, 1), "bytes")), 29360128);
	ck_assert_int_eq(json_array_size(json_object_get(root, "matmuls")), 2);
	json_decref(root);
	free(text);
	plan_destroy(p);
}
END_TEST

START_TEST(shows_tables)
{
	struct plan *p = lower(MODEL);
	char *text = show(p, false);
	ck_assert_str_eq(text,
		"mesh tp=2: 2 ranks, fp8 rowwise, exact, placed for h100\n\n"
		"memory of a rank\n"
		"  parameters        0.002 MB\n"
		"  state             0.001 MB\n"
		"  arena             0.002 MB\n"
		"  total             0.005 MB\n\n"
		"collectives: a rank sends 1056 bytes in a step\n"
		"  collective  axes  ranks  local type   bytes  count  section  module\n"
		"  all_gather  tp        2  e4m3[16,64]    512      1  step\n"
		"  all_gather  tp        2  f32[16,1]       32      1  step\n"
		"  all_gather  tp        2  bf16[32,16]    512      1  step\n\n"
		"matmuls: 2, of them 1 in fp8\n"
		"  module  role         M   N   K  recipe   reason\n"
		"  mlp.up  grad_input  16  32  64  rowwise\n"
		"  gone                 1   2   3  none     folded\n");
	free(text);
	plan_destroy(p);
}
END_TEST

/* What ranks send under a ring, of padded chunks. */
START_TEST(collective_costs)
{
	struct plan *p = lower("mesh a=3, b=2\nstage local\ngraph {\n  %x = input \"x\" : f32[10,4] (a:S(0), b:R)\n"
			       "  %g = all_gather %x {axis=a} : f32[10,4] (a:R, b:R) ; g\n"
			       "  %m = max %x {dims=[0,1]} : f32[] (a:P(max), b:R)\n"
			       "  %r = all_reduce %m {axis=a reduce=\"max\"} : f32[] (a:R, b:R) ; r\n"
			       "  %t = all_to_all %x {axis=a from=0 to_dim=1} : f32[10,4] (a:S(1), b:R) ; t\n"
			       "  output \"g\" = %g\n  output \"r\" = %r\n  output \"t\" = %t\n}\n");
	ck_assert_int_eq(collective_bytes(p->graph, find(p, "g")), 2 * 4 * 4 * 4); /* 10 rows: 4, 4, 2 */
	ck_assert_int_eq(collective_bytes(p->graph, find(p, "r")), 6);             /* 2 * 2/3 * 4 bytes */
	ck_assert_int_eq(collective_bytes(p->graph, find(p, "t")), 2 * 4 * 2 * 4); /* 4 columns: 2, 2, 0 */
	ck_assert_int_eq(collective_ranks(p->graph, find(p, "t")), 3);
	plan_destroy(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan");
	TCase *t = tcase_create("plan");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, sections);
	tcase_add_test(t, training_has_no_setup);
	tcase_add_test(t, products);
	tcase_add_test(t, second_results);
	tcase_add_test(t, sharded_constant);
	tcase_add_test(t, round_trips);
	tcase_add_test(t, documented);
	tcase_add_test(t, refuses);
	tcase_add_test(t, refuses_changes);
	tcase_add_test(t, damaged);
	tcase_add_test(t, verifier);
	tcase_add_test(t, verifier_sees_overlaps);
	tcase_add_test(t, shows_bytes);
	tcase_add_test(t, shows_tables);
	tcase_add_test(t, collective_costs);
	suite_add_tcase(s, t);
	return suite_run(s);
}
