/*
 * The importer of torch.export programs.
 *
 * tests/data/torch/NAME.json are programs that torch 2.15 exported, NAME.out what they become; the
 * numbers of each .out were compared with torch's own when it was made.  UPDATE=1 rewrites them.
 */
#include <glob.h>
#include <zlib.h>

#include "torch_program.h"
#include "suite.h"

static char *printed(const struct graph *g)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	graph_print(g, f);
	fclose(f);
	return text;
}

/* --- programs and what they become --- */

static void update(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void check_golden(const char *path)
{
	char out[512];
	struct diag d = { 0 };
	snprintf(out, sizeof(out), "%.*s.out", (int)(strlen(path) - strlen(".json")), path);
	struct imported r = import_path(path, NULL);
	ck_assert_msg(r.status == FS_OK, "%s: %s", path, r.diag.text);
	ck_assert_msg(graph_verify(r.graph, &d) == FS_OK, "%s: %s", path, d.text);
	char *is = printed(r.graph);
	if (getenv("UPDATE") != NULL)
		update(out, is);
	size_t size;
	char *want = read_data(out, &size);
	ck_assert_msg(strlen(is) == size && memcmp(is, want, size) == 0, "%s is not what %s becomes:\n%s", out, path, is);
	free(want);
	free(is);
	imported_release(&r);
}

START_TEST(programs)
{
	glob_t g;
	ck_assert_int_eq(glob(DATA "*.json", 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++)
		check_golden(g.gl_pathv[i]);
	globfree(&g);
}
END_TEST

static char *gunzip(const char *path, size_t *size)
{
	size_t room = (size_t)64 << 20;
	char *bytes = malloc(room);
	gzFile f = gzopen(path, "rb");
	ck_assert_ptr_nonnull(f);
	*size = 0;
	for (int n; (n = gzread(f, bytes + *size, 1 << 20)) > 0;)
		*size += (size_t)n;
	gzclose(f);
	return bytes;
}

/* All exports of ../shared: types inferred are those of the file, and the graph verifies. */
static void check_shared(const char *pattern)
{
	char path[1024];
	glob_t g;
	const char *shared = shared_folder("torch");
	if (shared == NULL)
		return;
	snprintf(path, sizeof(path), "%s/%s", shared, pattern);
	ck_assert_int_eq(glob(path, 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		size_t size;
		struct diag d = { 0 };
		char *bytes = gunzip(g.gl_pathv[i], &size);
		struct imported r = import_bytes(bytes, size, NULL);
		ck_assert_msg(r.status == FS_OK, "%s: %s", g.gl_pathv[i], r.diag.text);
		ck_assert_msg(graph_verify(r.graph, &d) == FS_OK, "%s: %s", g.gl_pathv[i], d.text);
		imported_release(&r);
		free(bytes);
	}
	globfree(&g);
}

START_TEST(shared_models)
{
	check_shared("models/*/model.json");
}
END_TEST

START_TEST(shared_graphs)
{
	check_shared("graphs/*.json.gz");
}
END_TEST

/* --- provenance --- */

static struct node_id node_named(const struct graph *g, const char *name)
{
	for (uint32_t i = g->nodes.count; i-- > 1;) {
		const char *node = graph_prov(g, (struct node_id){ i })->node;
		if (node != NULL && strcmp(node, name) == 0)
			return (struct node_id){ i };
	}
	ck_abort_msg("no node %s", name);
	return NODE_NONE;
}

START_TEST(provenance)
{
	struct imported r = import_path(DATA "quirks_training.json", NULL);
	ck_assert_int_eq(r.status, FS_OK);
	const struct prov *p = graph_prov(r.graph, node_named(r.graph, "embedding"));
	ck_assert_str_eq(p->module, "emb");
	ck_assert_str_eq(p->source, "quirks.py:46"); /* not torch's sparse.py */
	p = graph_prov(r.graph, node_named(r.graph, "linear"));
	ck_assert_ptr_null(p->module); /* the top */
	imported_release(&r);
}
END_TEST

/* --- tied parameters --- */

static const char *tie(void *context, const char *fqn)
{
	(void)context;
	return strcmp(fqn, "emb.weight") == 0 ? "head.weight" : NULL;
}

START_TEST(tied)
{
	struct import_options o = { .tied = tie };
	struct imported r = import_path(DATA "quirks_training.json", &o);
	int found = 0;
	ck_assert_int_eq(r.status, FS_OK);
	for (uint32_t i = 1; i < r.graph->nodes.count; i++) {
		struct node_id n = { i };
		const char *name = graph_op(r.graph, n) == OP_PARAM ? graph_string(r.graph, n, ATTR_NAME) : "";
		ck_assert_str_ne(name, "emb.weight");
		if (strcmp(name, "head.weight") == 0) {
			ck_assert_str_eq(graph_string(r.graph, n, ATTR_TIED), "emb.weight");
			found++;
		}
	}
	ck_assert_int_eq(found, 1);
	imported_release(&r);
}
END_TEST

/* --- symbolic dims: x is [s77, s27, 8], s77 from 1 to 16, s27 from 3 to 64 --- */

static struct imported import_dims(const char *name, int64_t size)
{
	struct import_dim dim = { name, size };
	struct import_options o = { .dims = &dim, .dim_count = name != NULL };
	return import_path(DATA "symbolic_dims.json", &o);
}

START_TEST(dims_hints)
{
	struct imported r = import_dims(NULL, 0);
	ck_assert_int_eq(r.status, FS_OK);
	ck_assert_uint_eq(r.notes.line.count, 2);
	ck_assert_ptr_nonnull(strstr(r.notes.line.items[0], " = 2, as in the export's example inputs"));
	imported_release(&r);
}
END_TEST

START_TEST(dims_bound)
{
	struct imported r = import_dims("s77", 5);
	ck_assert_msg(r.status == FS_OK, "%s", r.diag.text);
	ck_assert_uint_eq(r.notes.line.count, 1);
	const struct type *t = graph_type(r.graph, r.graph->outputs.items[0].value);
	ck_assert_int_eq(t->dim[0], 5);
	ck_assert_int_eq(t->dim[1], 6);
	imported_release(&r);
}
END_TEST

START_TEST(dims_wrong)
{
	struct imported r = import_dims("s77", 17);
	ck_assert_str_eq(r.diag.text, "m.json: dim s77 = 17 is outside the range that the export declares: 1 to 16");
	imported_release(&r);
	r = import_dims("batch", 2);
	ck_assert_str_eq(r.diag.text, "m.json: --dim batch=2: the graph has no such dim; it has s77 (x.shape[0]), s27 (x.shape[1])");
	imported_release(&r);
}
END_TEST

/* What tracing took for granted, of x [5, 6, 8]. */
static struct imported import_guard(const char *guard, int64_t size)
{
	struct import_dim dim = { "s77", size };
	struct import_options o = { .dims = &dim, .dim_count = size > 0 };
	json_t *program = load(DATA "symbolic_dims.json");
	json_object_set_new(program, "guards_code", json_pack("[s,s]", "L['x'].size()[2] == 8", guard));
	char *text = json_dumps(program, 0);
	struct imported r = import_bytes(text, strlen(text), &o);
	free(text);
	json_decref(program);
	return r;
}

START_TEST(guards)
{
	static const struct { const char *text; enum { HOLDS, FAILS, UNKNOWN } want; } rows[] = {
		{ "L['x'].size()[0] > 4", HOLDS },
		{ "L['x'].size()[0] != 5", FAILS },
		{ "(L['x'].size()[0] % 2) == 0", FAILS },
		{ "((6*L['x'].size()[0]) % 10) == 0", HOLDS },
		{ "L['flat_args'][0].size()[0] - L['x'].size()[1] - 1 == -2", HOLDS },
		{ "-7 // 2 == -4 and (-7) % 3 == 2", HOLDS },
		{ "2 + 3*2**2 == 14 and 7 / 2 == 3.5", HOLDS },
		{ "1 <= L['x'].size()[0] < 6 != 7", HOLDS },
		{ "1 < 3 < 2", FAILS },
		{ "1 == 2 or not (1 == 2 and 1 == 1)", HOLDS },
		{ "1 == 1 or 1 == 2 and 1 == 2", HOLDS },
		{ "math.trunc(0.5*torch.sym_float(L['x'].size()[0])) == 2", HOLDS },
		{ "math.ceil(0.5*float(L['x'].size()[0])) == max(3, 1, min(2, 9))", HOLDS },
		{ "math.floor(torch._sym_sqrt(L['x'].size()[0])) == 2", HOLDS },
		{ "math.trunc(0.29*float(100)) == 28", HOLDS }, /* in doubles, as Python */
		{ "L['x'].size()[0] // (5 - L['x'].size()[0]) == 1", UNKNOWN },
		{ "L['y'].size()[0] == 1", UNKNOWN },
		{ "L['x'].size()[9] == 1", UNKNOWN },
		{ "L['flat_args'][1].size()[0] == 1", UNKNOWN },
		{ "isprime(L['x'].size()[0])", UNKNOWN },
		{ "L['x'].size()[0] == 5 5", UNKNOWN },
		{ "", UNKNOWN },
	};
	static const char *const says[] = { NULL, "the export does not hold for these sizes; it relies on: ",
					    "is not known; it relies on: " };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct imported r = import_guard(rows[i].text, 5);
		ck_assert_msg((r.status == FS_OK) == (rows[i].want == HOLDS), "%s: %s", rows[i].text, r.diag.text);
		if (rows[i].want != HOLDS)
			ck_assert_msg(strstr(r.diag.text, says[rows[i].want]) != NULL, "%s: %s", rows[i].text, r.diag.text);
		imported_release(&r);
	}
	struct imported r = import_guard("isprime(L['x'].size()[0])", 0); /* the sizes of the export itself */
	ck_assert_msg(r.status == FS_OK, "%s", r.diag.text);
	imported_release(&r);
}
END_TEST

/* Deep nesting is refused, not a full stack. */
START_TEST(guards_deep)
{
	char text[2048];
	memset(text, '(', 1000);
	memset(text + 1000, '\0', 1);
	struct imported r = import_guard(text, 5);
	ck_assert_int_eq(r.status, FS_UNSUPPORTED);
	imported_release(&r);
	for (size_t i = 0; i < 1000; i += 4)
		memcpy(text + i, i % 8 == 0 ? "not " : " -- ", 4);
	r = import_guard(text, 5);
	ck_assert_int_eq(r.status, FS_UNSUPPORTED);
	imported_release(&r);
}
END_TEST

/* Which branch is taken hangs on the size bound. */
START_TEST(dims_branch)
{
	struct import_dim dim = { "s77", 3 };
	struct import_options o = { .dims = &dim, .dim_count = 1 };
	for (dim.size = 3; dim.size <= 5; dim.size += 2) {
		struct imported r = import_path(DATA "symbolic_branch.json", &o);
		ck_assert_msg(r.status == FS_OK, "%s", r.diag.text);
		ck_assert_int_eq(graph_op(r.graph, r.graph->outputs.items[0].value), dim.size > 4 ? OP_SIN : OP_COS);
		imported_release(&r);
	}
}
END_TEST

/* --- expressions, as a size of the input --- */

static void set_size(const json_t *program, const char *value, size_t dim, const char *expression)
{
	json_t *size = json_pack("{s:{s:s,s:n}}", "as_expr", "expr_str", expression, "hint");
	json_array_set_new(json_object_get(type_of(program, value), "sizes"), dim, size);
}

START_TEST(expressions)
{
	static const struct { const char *text; int64_t value; } rows[] = {
		{ "Integer(32)", 32 },
		{ "Add(Integer(2), Mul(Integer(-3), Integer(-10)))", 32 },
		{ "Mul(Rational(1, 2), Integer(64))", 32 },
		{ "FloorDiv(Integer(65), Integer(2))", 32 },
		{ "CeilDiv(Integer(63), Integer(2))", 32 },
		{ "Pow(Integer(2), Integer(5))", 32 },
		{ "Max(Integer(3), Integer(32), Mod(Integer(7), Integer(4)))", 32 },
		{ "floor(Mul(Rational(-65, 2), Integer(-1)))", 32 },
		{ "TruncToInt(Mul(Float('0.65000000000000002', precision=53), ToFloat(Integer(50))))", 32 },
		{ "TruncToInt(FloatPow(ToFloat(Integer(1025)), Float('0.5', precision=53)))", 32 },
		{ "CeilToInt(IntTrueDiv(Integer(63), Integer(2)))", 32 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *program = load(DATA "mlp_training.json");
		set_size(program, "x", 1, rows[i].text);
		struct imported r = import_json(program);
		ck_assert_msg(r.status == FS_OK, "%s: %s", rows[i].text, r.diag.text);
		json_decref(program);
		imported_release(&r);
	}
}
END_TEST

START_TEST(expressions_wrong)
{
	static const char *const rows[][2] = {
		{ "Symbol('s0')", "the size of dim s0 is not known" },
		{ "Foo(Integer(1))", "Foo is not known" },
		{ "Mul(Rational(1, 2), Integer(3))", "it is no integer" },
		{ "FloorDiv(Integer(1), Integer(0))", "FloorDiv has no value here, or one too large" },
		{ "Pow(Integer(9), Integer(60))", "Pow has no value here, or one too large" },
		{ "Add(Integer(1)", "'' is not understood" },
		{ "Float('0.5', precision=53)", "it is no integer" },
		{ "Float('', precision=53)", "'', precision=53)' is not understood" },
		{ "IntTrueDiv(Integer(1), Integer(0))", "IntTrueDiv has no value here, or one too large" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[256];
		json_t *program = load(DATA "mlp_training.json");
		set_size(program, "x", 1, rows[i][0]);
		struct imported r = import_json(program);
		snprintf(want, sizeof(want), "m.json: input 'x': size '%s': %s", rows[i][0], rows[i][1]);
		ck_assert_str_eq(r.diag.text, want);
		json_decref(program);
		imported_release(&r);
	}
}
END_TEST

/* --- the style of 2023: every tag of a union written, null where it is not set; "meta" around types --- */

static void fill_union(json_t *u)
{
	static const char *const tags[] = { "as_none", "as_tensor", "as_tensors", "as_int", "as_ints", "as_float",
					    "as_string", "as_sym_int", "as_bool" };
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (json_object_get(u, tags[i]) == NULL)
			json_object_set_new(u, tags[i], json_null());
}

START_TEST(old_style)
{
	json_t *program = load(DATA "mlp_training.json"), *node, *item, *type;
	size_t i, k;
	const char *name;
	json_object_set_new(program, "schema_version", json_integer(1));
	json_array_foreach(json_object_get(graph_of(program), "nodes"), i, node) {
		json_object_del(node, "name");
		json_array_foreach(json_object_get(node, "inputs"), k, item)
			fill_union(json_object_get(item, "arg"));
		json_array_foreach(json_object_get(node, "outputs"), k, item)
			fill_union(item);
	}
	json_t *old = json_object();
	json_object_foreach(json_object_get(graph_of(program), "tensor_values"), name, type)
		json_object_set_new(old, name, json_pack("{s:O}", "meta", type));
	json_object_set_new(graph_of(program), "tensor_values", old);
	struct imported r = import_json(program), now = import_path(DATA "mlp_training.json", NULL);
	ck_assert_msg(r.status == FS_OK, "%s", r.diag.text);
	char *was = printed(r.graph), *is = printed(now.graph);
	ck_assert_str_eq(was, is);
	free(was);
	free(is);
	json_decref(program);
	imported_release(&r);
	imported_release(&now);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("torch");
	TCase *t = tcase_create("torch");
	tcase_set_timeout(t, 600);
	tcase_add_test(t, programs);
	tcase_add_test(t, shared_models);
	tcase_add_test(t, shared_graphs);
	tcase_add_test(t, provenance);
	tcase_add_test(t, tied);
	tcase_add_test(t, dims_hints);
	tcase_add_test(t, dims_bound);
	tcase_add_test(t, dims_wrong);
	tcase_add_test(t, guards);
	tcase_add_test(t, guards_deep);
	tcase_add_test(t, dims_branch);
	tcase_add_test(t, expressions);
	tcase_add_test(t, expressions_wrong);
	tcase_add_test(t, old_style);
	suite_add_tcase(s, t);
	return suite_run(s);
}
