/*
 * Wrong torch programs: their messages, and that nothing else happens.  They are made from the programs
 * under tests/data/torch by one change each.
 */
#include <glob.h>

#include "torch_program.h"
#include "suite.h"

/* --- messages --- */

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
		  "m.json: aten.grid_sampler_2d is not supported, at fc1 (gen.py:296, node linear)" },
		{ break_two_targets, FS_UNSUPPORTED,
		  "m.json: aten.grid_sampler_2d is not supported, at fc1 (gen.py:296, node linear); 1 other too: "
		  "my.foo (node gelu)" },
		{ break_argument, FS_UNSUPPORTED,
		  "m.json: aten.gelu.default with argument 'speed' is not supported, at the top module (gen.py:296, "
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
			 "not supported, at the top module (node used)");
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
	Suite *s = suite_create("torch_wrong");
	TCase *t = tcase_create("torch_wrong");
	tcase_set_timeout(t, 3600);
	tcase_add_test(t, messages);
	tcase_add_test(t, not_json);
	tcase_add_test(t, stale_view);
	tcase_add_test(t, hostile);
	suite_add_tcase(s, t);
	return suite_run(s);
}
