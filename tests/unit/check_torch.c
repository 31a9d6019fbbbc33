/*
 * The importer of torch.export programs.
 *
 * tests/data/torch/NAME.json are programs that torch 2.15 exported, NAME.out what they become; the
 * numbers of each .out were compared with torch's own when it was made.  UPDATE=1 rewrites them.
 * Wrong programs are made from mlp_training.json by one change each.
 */
#include <check.h>
#include <glob.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "files.h"
#include "torch.h"

#define DATA "tests/data/torch/"

struct imported {
	struct context *context;
	struct graph *graph;
	struct import_notes notes;
	enum fs_status status;
	struct diag diag;
};

static struct imported import_bytes(const void *bytes, size_t size, const struct import_options *o)
{
	struct imported r = { .context = context_create(NULL) };
	struct import_options with = o ? *o : (struct import_options){ 0 };
	with.notes = &r.notes;
	r.status = torch_import(bytes, size, "m.json", &with, r.context, &r.graph, &r.diag);
	return r;
}

static void imported_release(struct imported *r)
{
	graph_destroy(r->graph);
	context_destroy(r->context);
	vec_release(&r->notes.line);
}

static char *read_data(const char *path, size_t *size)
{
	char *bytes = (char *)slurp(path, size);
	ck_assert_msg(bytes != NULL, "%s", path);
	return bytes;
}

static struct imported import_path(const char *path, const struct import_options *o)
{
	size_t size;
	char *bytes = read_data(path, &size);
	struct imported r = import_bytes(bytes, size, o);
	free(bytes);
	return r;
}

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
	ck_assert_str_eq(r.diag.text, "m.json: --dim batch=2: the graph has no such dim; it has s77, s27");
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

static json_t *load(const char *path)
{
	json_t *j = json_load_file(path, 0, NULL);
	ck_assert_ptr_nonnull(j);
	return j;
}

static struct imported import_json(const json_t *program)
{
	char *text = json_dumps(program, 0);
	struct imported r = import_bytes(text, strlen(text), NULL);
	free(text);
	return r;
}

static json_t *graph_of(const json_t *program)
{
	return json_object_get(json_object_get(program, "graph_module"), "graph");
}

static json_t *node_of(const json_t *program, size_t i)
{
	return json_array_get(json_object_get(graph_of(program), "nodes"), i);
}

static json_t *type_of(const json_t *program, const char *value)
{
	return json_object_get(json_object_get(graph_of(program), "tensor_values"), value);
}

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
		{ "FloorDiv(Integer(1), Integer(0))", "FloorDiv cannot be evaluated" },
		{ "Pow(Integer(9), Integer(60))", "Pow cannot be evaluated" },
		{ "Add(Integer(1)", "'' is not understood" },
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

/* --- wrong programs, and their messages --- */

static void retarget(json_t *program, size_t node, const char *target)
{
	json_object_set_new(node_of(program, node), "target", json_string(target));
}

static void break_target(json_t *p)
{
	retarget(p, 0, "torch.ops.aten.grid_sampler_2d.default");
}

static void break_two_targets(json_t *p)
{
	retarget(p, 0, "torch.ops.aten.grid_sampler_2d.default");
	retarget(p, 1, "torch.ops.my.foo.default");
}

static void break_argument(json_t *p)
{
	json_t *in = json_object_get(node_of(p, 1), "inputs");
	json_array_append_new(in, json_pack("{s:s,s:{s:i}}", "name", "speed", "arg", "as_int", 3));
}

static void break_operand(json_t *p)
{
	json_t *in = json_array_get(json_object_get(node_of(p, 0), "inputs"), 0);
	json_object_set_new(in, "arg", json_pack("{s:{s:s}}", "as_tensor", "name", "y"));
}

static void break_type(json_t *p)
{
	json_object_set_new(type_of(p, "linear"), "dtype", json_integer(13));
}

static void break_shape(json_t *p)
{
	json_t *sizes = json_object_get(type_of(p, "p_fc1_weight"), "sizes");
	json_array_set_new(sizes, 1, json_pack("{s:i}", "as_int", 65));
}

static void break_name(json_t *p)
{
	json_object_set(node_of(p, 1), "outputs", json_object_get(node_of(p, 0), "outputs"));
}

static void break_version(json_t *p)
{
	json_object_set_new(p, "schema_version", json_pack("{s:i,s:i}", "major", 9, "minor", 1));
}

static void break_no_version(json_t *p)
{
	json_object_del(p, "schema_version");
}

static void break_module(json_t *p)
{
	json_object_del(p, "graph_module");
}

static void break_nodes(json_t *p)
{
	json_object_set_new(graph_of(p), "nodes", json_integer(7));
}

static void break_output(json_t *p)
{
	json_array_clear(json_object_get(graph_of(p), "nodes"));
}

START_TEST(messages)
{
	static const struct { void (*change)(json_t *p); enum fs_status status; const char *text; } rows[] = {
		{ break_target, FS_UNSUPPORTED,
		  "m.json: aten.grid_sampler_2d is not supported\n  at fc1 (gen.py:296, node linear)" },
		{ break_two_targets, FS_UNSUPPORTED,
		  "m.json: aten.grid_sampler_2d is not supported\n  at fc1 (gen.py:296, node linear); 1 other too: "
		  "my.foo (node gelu)" },
		{ break_argument, FS_UNSUPPORTED,
		  "m.json: aten.gelu.default with argument 'speed' is not supported\n  at the top module (gen.py:296, "
		  "node gelu)" },
		{ break_operand, FS_INVALID,
		  "m.json: linear (fc1, gen.py:296): aten.linear.default: operand 'y' is not known here" },
		{ break_type, FS_INVALID,
		  "m.json: linear (fc1, gen.py:296): aten.linear.default: result 'linear' is f32[4,32,512], but the file "
		  "says bf16[4,32,512]" },
		{ break_shape, FS_INVALID,
		  "m.json: linear (fc1, gen.py:296): aten.linear.default: matmul: letter 'k' is 128 in a and 65 in b" },
		{ break_name, FS_INVALID,
		  "m.json: gelu (gen.py:296): aten.gelu.default: the name 'linear' is given twice" },
		{ break_version, FS_UNSUPPORTED,
		  "m.json: schema version 9 of torch.export; 8 and older are known" },
		{ break_no_version, FS_INVALID, "m.json: no exported program: it has no 'schema_version'" },
		{ break_module, FS_INVALID, "m.json: no exported program: it has no 'graph_module' with a 'graph'" },
		{ break_nodes, FS_INVALID, "m.json: graph: no 'nodes' or no 'tensor_values'" },
		{ break_output, FS_INVALID, "m.json: an output is not known: 'linear_1'" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *program = load(DATA "mlp_training.json");
		rows[i].change(program);
		struct imported r = import_json(program);
		ck_assert_str_eq(r.diag.text, rows[i].text);
		ck_assert_int_eq(r.status, rows[i].status);
		ck_assert_ptr_null(r.graph);
		json_decref(program);
		imported_release(&r);
	}
}
END_TEST

START_TEST(not_json)
{
	struct imported r = import_bytes("{\n\"a\": ]", 8, NULL);
	ck_assert_int_eq(r.status, FS_INVALID);
	ck_assert_ptr_nonnull(strstr(r.diag.text, "m.json: line 2: "));
	imported_release(&r);
	r = import_bytes("7", 1, NULL);
	ck_assert_int_eq(r.status, FS_INVALID);
	imported_release(&r);
}
END_TEST

/* A view that is read after its tensor was changed in place. */
START_TEST(stale_view)
{
	json_t *program = load(DATA "quirks_training.json");
	json_t *node = json_pack("{s:s,s:[{s:s,s:{s:{s:s}}},{s:s,s:{s:i}},{s:s,s:{s:i}}],s:[{s:{s:s}}],s:{}}", "target",
				 "torch.ops.aten.select.int", "inputs", "name", "self", "arg", "as_tensor", "name",
				 "embedding", "name", "dim", "arg", "as_int", 0, "name", "index", "arg", "as_int", 0,
				 "outputs", "as_tensor", "name", "view", "metadata");
	json_t *use = json_pack("{s:s,s:[{s:s,s:{s:{s:s}}}],s:[{s:{s:s}}],s:{}}", "target", "torch.ops.aten.neg.default",
				"inputs", "name", "self", "arg", "as_tensor", "name", "view", "outputs", "as_tensor",
				"name", "used", "metadata");
	json_t *nodes = json_object_get(graph_of(program), "nodes"); /* 1: embedding; 2: embedding += .. */
	json_array_insert_new(nodes, 2, node);
	json_array_insert_new(nodes, 4, use);
	struct imported r = import_json(program);
	ck_assert_str_eq(r.diag.text,
			 "m.json: aten.neg.default of a view or copy whose tensor was changed in place before ('view') is "
			 "not supported\n  at the top module (node used)");
	json_decref(program);
	imported_release(&r);
}
END_TEST

/* --- hostile programs: every value of a program replaced by others; an answer, whatever it is --- */

static void import_hostile(const json_t *program)
{
	struct imported r = import_json(program);
	if (r.status == FS_OK)
		ck_assert_ptr_nonnull(r.graph);
	else
		ck_assert_msg(strncmp(r.diag.text, "m.json: ", 8) == 0, "%s", r.diag.text);
	imported_release(&r);
}

static json_t *odd_value(int i)
{
	switch (i) {
	case 0: return json_null();
	case 1: return json_integer(-3);
	case 2: return json_integer(INT64_MAX);
	case 3: return json_string("x");
	case 4: return json_real(0.5);
	case 5: return json_array();
	case 6: return json_object();
	case 7: return json_integer(INT64_MIN);
	default: return json_pack("{s:{s:s}}", "as_tensor", "name", "x");
	}
}
#define ODD_VALUES 9

static void replace_in(const json_t *program, json_t *at);

static void replace_in_object(const json_t *program, json_t *object)
{
	const char *key;
	json_t *value;
	void *next;
	json_object_foreach_safe(object, next, key, value) {
		json_incref(value);
		for (int i = 0; i < ODD_VALUES; i++) {
			json_object_set_new(object, key, odd_value(i));
			import_hostile(program);
		}
		json_object_set(object, key, value);
		replace_in(program, value);
		json_decref(value);
	}
}

static void replace_in_array(const json_t *program, json_t *array)
{
	for (size_t k = 0; k < json_array_size(array); k++) {
		json_t *value = json_incref(json_array_get(array, k));
		for (int i = 0; i < ODD_VALUES; i++) {
			json_array_set_new(array, k, odd_value(i));
			import_hostile(program);
		}
		json_array_set_new(array, k, value);
		replace_in(program, value);
	}
}

static void replace_in(const json_t *program, json_t *at)
{
	if (json_is_object(at))
		replace_in_object(program, at);
	else if (json_is_array(at))
		replace_in_array(program, at);
}

static void check_hostile(const char *path)
{
	json_t *program = load(path);
	replace_in(program, program);
	json_decref(program);
}

/* A few of the programs; with SOAK=1 all. */
START_TEST(hostile)
{
	glob_t g;
	if (getenv("SOAK") != NULL) {
		ck_assert_int_eq(glob(DATA "*.json", 0, NULL, &g), 0);
		for (size_t i = 0; i < g.gl_pathc; i++)
			check_hostile(g.gl_pathv[i]);
		globfree(&g);
	}
	check_hostile(DATA "mlp_training.json");
	check_hostile(DATA "in_place_buffer.json");
	check_hostile(DATA "symbolic_branch.json");
	check_hostile(DATA "patches.json");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("torch");
	TCase *t = tcase_create("torch");
	tcase_set_timeout(t, 3600);
	tcase_add_test(t, programs);
	tcase_add_test(t, shared_models);
	tcase_add_test(t, shared_graphs);
	tcase_add_test(t, provenance);
	tcase_add_test(t, tied);
	tcase_add_test(t, dims_hints);
	tcase_add_test(t, dims_bound);
	tcase_add_test(t, dims_wrong);
	tcase_add_test(t, dims_branch);
	tcase_add_test(t, expressions);
	tcase_add_test(t, expressions_wrong);
	tcase_add_test(t, old_style);
	tcase_add_test(t, messages);
	tcase_add_test(t, not_json);
	tcase_add_test(t, stale_view);
	tcase_add_test(t, hostile);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
