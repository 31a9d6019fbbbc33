/* JSON graphs: what becomes of them, what is wrong with wrong ones, and that the schema knows every op; plan files. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph_json.h"
#include "tp_plan.h"
#include "suite.h"

#define HEAD "{\"fp8shard\":\"graph\",\"version\":1,"
#define X "\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[4,6]}},"
#define Y "\"outputs\":[\"y\"]}"

static struct context *context;
static struct graph *graph;
static struct diag diag;

static enum fs_status import_with(const char *text, const struct import_options *o, const char *mesh)
{
	struct mesh m = { 0 };
	diag = (struct diag){ 0 };
	if (mesh != NULL)
		ck_assert_int_eq(mesh_parse(&m, mesh, &diag), FS_OK);
	return graph_json_import(text, strlen(text), "g.json", o, mesh != NULL ? &m : NULL, &context, &graph, &diag);
}

/* The text form of a graph; the caller frees. */
static char *printed(const char *text, const struct import_options *o, const char *mesh)
{
	char *out = NULL;
	size_t size;
	enum fs_status status = import_with(text, o, mesh);
	ck_assert_msg(status == FS_OK, "%s", diag.text);
	ck_assert_msg(graph_verify(graph, &diag) == FS_OK, "%s", diag.text);
	FILE *f = open_memstream(&out, &size);
	graph_print(graph, f);
	fclose(f);
	graph_destroy(graph);
	context_destroy(context);
	return out;
}

static void holds_with(const char *text, const struct import_options *o, const char *mesh, const char *line)
{
	char *out = printed(text, o, mesh);
	ck_assert_msg(strstr(out, line) != NULL, "'%s' is not in\n%s", line, out);
	free(out);
}

static void holds(const char *text, const char *line)
{
	holds_with(text, NULL, NULL, line);
}

static void fails_with(const char *text, const struct import_options *o, const char *mesh, const char *message)
{
	ck_assert_int_eq(import_with(text, o, mesh), FS_INVALID);
	ck_assert_str_eq(diag.text, message);
}

static void fails(const char *text, const char *message)
{
	fails_with(text, NULL, NULL, message);
}

/* --- documents --- */

START_TEST(whole_graph)
{
	char *out = printed(HEAD "\"mesh\":\"tp=2\",\"inputs\":{\"x\":{\"dtype\":\"bf16\",\"shape\":[4,8],\"placement\":\"tp:S(0)\"}},"
			    "\"parameters\":{\"w\":{\"dtype\":\"bf16\",\"shape\":[8,16],\"placement\":\"tp:S(-1)\",\"tied\":[\"v\",\"u\"]}},"
			    "\"nodes\":[{\"op\":\"matmul\",\"in\":[\"x\",\"w\"],\"out\":\"h\",\"module\":\"fc\",\"source\":\"m.py:3\","
			    "\"placement\":\"tp:S(1)\"},{\"op\":\"gelu\",\"in\":[\"h\"],\"out\":\"y\"}],"
			    "\"outputs\":{\"z\":{\"value\":\"y\",\"placement\":\"tp:R\"}}}", NULL, NULL);
	ck_assert_str_eq(out, "mesh tp=2\n"
			      "graph {\n"
			      "  %x = input \"x\" : bf16[4,8] (tp:S(0)) ; x\n"
			      "  %w = param \"w\" {tied=\"v u\"} : bf16[8,16] (tp:S(1)) ; w\n"
			      "  %h.1 = matmul %x, %w {eq=\"mk,kn->mn\"} : bf16[4,16] ; h @ fc (m.py:3)\n"
			      "  %h = constrain %h.1 {axis=tp to=(tp:S(1))} : bf16[4,16] ; @ fc (m.py:3)\n"
			      "  %y = gelu %h : bf16[4,16]\n"
			      "  %z = constrain %y {axis=tp to=(tp:R)} : bf16[4,16]\n"
			      "  output \"z\" = %z\n"
			      "}\n");
	free(out);
}
END_TEST

START_TEST(mesh_of_the_command_line)
{
	const char *text = HEAD "\"mesh\":\"tp=2\",\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[4],\"placement\":\"tp:S(0)\"}},"
				"\"nodes\":[],\"outputs\":[\"x\"]}";
	holds_with(text, NULL, "tp=4", "mesh tp=4\n");
	fails_with(text, NULL, "dp=4", "g.json: input 'x': 'tp:S(0)': the mesh has no axis 'tp' (it has dp=4)");
}
END_TEST

START_TEST(named_dims)
{
	const char *text = HEAD "\"dims\":{\"B\":8,\"T\":null},\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[\"B\",\"T\",6]}},"
				"\"nodes\":[{\"op\":\"reshape\",\"in\":[\"x\"],\"out\":\"y\",\"shape\":[\"B\",-1]}]," Y;
	struct import_dim dims[] = { { "T", 5 }, { "B", 2 }, { "C", 1 } };
	struct import_options o = { .dims = dims, .dim_count = 1 };
	holds_with(text, &o, NULL, "reshape %x {shape=[8,30]} : f32[8,30]");
	o.dim_count = 2;
	holds_with(text, &o, NULL, "reshape %x {shape=[2,30]} : f32[2,30]");
	o.dim_count = 3;
	fails_with(text, &o, NULL, "--dim C: g.json has no dim of that name under \"dims\"");
	fails(text, "g.json: input 'x': the dim 'T' has no size; give --dim T=SIZE");
	fails(HEAD "\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[\"N\"]}},\"nodes\":[],\"outputs\":[\"x\"]}",
	      "g.json: input 'x': the dim 'N' is not listed under \"dims\"");
}
END_TEST

START_TEST(outputs)
{
	const char *graph_of = HEAD "\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[4]}},"
				    "\"parameters\":{\"b\":{\"dtype\":\"f32\",\"shape\":[4],\"buffer\":true}},"
				    "\"nodes\":[{\"op\":\"add\",\"in\":[\"x\",\"b\"],\"out\":\"y\"}],\"outputs\":%s}";
	char text[1024];
	snprintf(text, sizeof(text), graph_of, "{\"b'\":{\"value\":\"y\",\"kind\":\"buffer\",\"target\":\"b\"}}");
	holds(text, "output buffer \"b\" \"b'\" = %y");
	snprintf(text, sizeof(text), graph_of, "{\"z\":{\"value\":\"y\",\"kind\":\"buffer\"}}");
	fails(text, "g.json: output 'z': this kind needs a target, the tensor that it is of");
	snprintf(text, sizeof(text), graph_of, "{\"z\":{\"value\":\"y\",\"target\":\"b\"}}");
	fails(text, "g.json: output 'z': only outputs of kind buffer, grad_param and grad_input have a target");
	snprintf(text, sizeof(text), graph_of, "{\"z\":{\"value\":\"y\",\"kind\":\"users\"}}");
	fails(text, "g.json: output 'z': unknown kind 'users'; there are user, buffer, loss, grad_param and grad_input");
	snprintf(text, sizeof(text), graph_of, "{\"z\":\"q\"}");
	fails(text, "g.json: output 'z': nothing has the name 'q'");
	snprintf(text, sizeof(text), graph_of, "[]");
	fails(text, "g.json: outputs: there are none, so nothing is to be computed");
}
END_TEST

START_TEST(constants)
{
	static const struct { const char *constant, *line; } good[] = {
		{ "{\"dtype\":\"f32\",\"data\":[[1,2.5],[3,\"inf\"]]}", "{data=[1, 2.5, 3, inf]} : f32[2,2]" },
		{ "{\"dtype\":\"i64\",\"shape\":[2,1],\"data\":[7,-8]}", "{data=[7, -8]} : i64[2,1]" },
		{ "{\"dtype\":\"bool\",\"data\":[true,false]}", "{data=[true, false]} : bool[2]" },
		{ "{\"dtype\":\"bf16\",\"data\":0.5}", "{data=[0.5]} : bf16[]" },
		{ "{\"dtype\":\"f32\",\"shape\":[0],\"data\":[]}", "{data=[]} : f32[0]" },
		{ "{\"dtype\":\"i32\",\"shape\":[1],\"data\":\"b64:AQAAAA==\"}", "{data=[1]} : i32[1]" },
	};
	static const struct { const char *constant, *message; } bad[] = {
		{ "{\"dtype\":\"i8\",\"data\":[128]}", "element 0 is none of type i8" },
		{ "{\"dtype\":\"i8\",\"data\":[1.5]}", "element 0 is none of type i8" },
		{ "{\"dtype\":\"f32\",\"data\":[\"1\"]}", "element 0 is none of type f32" },
		{ "{\"dtype\":\"f32\",\"data\":[[1,2],[3]]}", "data has fewer than the 4 elements of its shape" },
		{ "{\"dtype\":\"f32\",\"data\":[[1],[2,3]]}", "data is not nested as its shape says" },
		{ "{\"dtype\":\"f32\",\"shape\":[3],\"data\":[1,2]}", "data has fewer than the 3 elements of its shape" },
		{ "{\"dtype\":\"f32\",\"shape\":[1,2],\"data\":[1,2,3]}", "data has more than the 2 elements of its shape" },
		{ "{\"dtype\":\"f32\",\"shape\":[99999999999,99999999999],\"data\":[1]}", "has too many elements" },
		{ "{\"dtype\":\"f32\",\"shape\":[9999999999],\"data\":[1]}", "data has fewer than the 9999999999 elements of its shape" },
		{ "{\"dtype\":\"i32\",\"shape\":[1],\"data\":\"b64:AQAA\"}", "data is not b64: and base64 of 4 bytes" },
		{ "{\"dtype\":\"i32\"}", "has no data" },
		{ "{\"data\":1}", "needs a dtype, as in \"dtype\": \"bf16\"" },
		{ "{\"dtype\":\"f33\",\"data\":1}", "unknown element type 'f33'; nearest: 'f32'" },
		{ "{\"dtype\":\"f32\",\"data\":1,\"size\":1}", "unknown key 'size'; there are: dtype shape data" },
	};
	char text[512], want[512];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), HEAD "\"constants\":{\"c\":%s},\"nodes\":[],\"outputs\":[\"c\"]}", good[i].constant);
		holds(text, good[i].line);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), HEAD "\"constants\":{\"c\":%s},\"nodes\":[],\"outputs\":[\"c\"]}", bad[i].constant);
		snprintf(want, sizeof(want), "g.json: constant 'c': %s", bad[i].message);
		fails(text, want);
	}
}
END_TEST

START_TEST(wrong_documents)
{
	fails("{\"fp8shard\":\"graph\"", "g.json:1:19: '}' expected near end of file");
	fails("{\"a\":1,\"a\":1}", "g.json:1:10: duplicate object key near '\"a\"'");
	fails("{\"fp8shard\":\"plan\"}", "g.json: document: is no graph: it does not say \"fp8shard\": \"graph\"");
	fails("{\"fp8shard\":\"graph\",\"version\":2}", "g.json: document: \"version\" is not 1, the only one that there is");
	fails(HEAD "\"node\":[]}", "g.json: document: unknown key 'node'; there are: "
				   "fp8shard version comment mesh dims inputs parameters constants nodes outputs");
	fails(HEAD "\"mesh\":3}", "g.json: mesh: is no string, as in \"dp=2,tp=4\"");
	fails(HEAD "\"nodes\":{}}", "g.json: nodes: is no list");
	fails(HEAD "\"inputs\":[]}", "g.json: inputs: is no object of names");
	fails(HEAD "\"inputs\":{\"x\":4}}", "g.json: input 'x': is no object with the keys dtype shape placement");
	fails(HEAD "\"inputs\":{\"x\":{\"dtype\":\"f32\"}}}", "g.json: input 'x': needs a shape: a list of at most 8 sizes");
	fails(HEAD "\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[-1]}}}", "g.json: input 'x': a size is -1");
	fails(HEAD "\"inputs\":{\"x\\ny\":{\"dtype\":\"f32\",\"shape\":[]}}}",
	      "g.json: input 'x\\x0ay': a name is empty or has control characters");
	fails(HEAD "\"mesh\":\"tp=2\",\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[2],\"placement\":\"tp:P\"}}}",
	      "g.json: input 'x': 'tp:P': a value that is given or kept cannot be partial");
	fails(HEAD X "\"parameters\":{\"x\":{\"dtype\":\"f32\",\"shape\":[]}}}",
	      "g.json: parameter 'x': another value has this name already");
}
END_TEST

/* --- nodes --- */

/* One node on x f32[4,6], w f32[6,3], b f32[2,3,4,6], h bf16[4,6], i i64[4,6]. */
static void node_text(char *text, size_t size, const char *node)
{
	snprintf(text, size, HEAD "\"inputs\":{\"x\":{\"dtype\":\"f32\",\"shape\":[4,6]},\"w\":{\"dtype\":\"f32\",\"shape\":[6,3]},"
		 "\"b\":{\"dtype\":\"f32\",\"shape\":[2,3,4,6]},\"h\":{\"dtype\":\"bf16\",\"shape\":[4,6]},"
		 "\"i\":{\"dtype\":\"i64\",\"shape\":[4,6]},\"s\":{\"dtype\":\"bf16\",\"shape\":[]},"
		 "\"v\":{\"dtype\":\"f32\",\"shape\":[6]}},\"nodes\":[%s]," Y, node);
}

static void node_gives(const char *node, const char *line)
{
	char text[1024];
	node_text(text, sizeof(text), node);
	holds(text, line);
}

static void node_fails(const char *node, const char *message)
{
	char text[1024], want[512];
	node_text(text, sizeof(text), node);
	snprintf(want, sizeof(want), "g.json: node 'y': %s", message);
	fails(text, want);
}

START_TEST(products)
{
	node_gives("{\"op\":\"matmul\",\"in\":[\"x\",\"w\"],\"out\":\"y\"}", "matmul %x, %w {eq=\"mk,kn->mn\"} : f32[4,3]");
	node_gives("{\"op\":\"matmul\",\"in\":[\"b\",\"w\"],\"out\":\"y\"}", "matmul %b, %w {eq=\"mijk,kn->mijn\"} : f32[2,3,4,3]");
	node_gives("{\"op\":\"matmul\",\"in\":[\"x\",\"v\"],\"out\":\"y\"}", "matmul %x, %v {eq=\"mk,k->m\"} : f32[4]");
	node_gives("{\"op\":\"matmul\",\"in\":[\"v\",\"w\"],\"out\":\"y\"}", "matmul %v, %w {eq=\"k,kn->n\"} : f32[3]");
	node_gives("{\"op\":\"transpose\",\"in\":[\"b\"],\"out\":\"t\",\"perm\":[0,1,-1,2]},"
		   "{\"op\":\"matmul\",\"in\":[\"b\",\"t\"],\"out\":\"y\"}", "{eq=\"bcmk,bckn->bcmn\"} : f32[2,3,4,4]");
	node_gives("{\"op\":\"matmul\",\"in\":[\"x\",\"x\"],\"out\":\"y\",\"eq\":\"az,bz->ab\"}", "{eq=\"mk,nk->mn\"} : f32[4,4]");
	node_gives("{\"op\":\"linear\",\"in\":[\"b\",\"x\"],\"out\":\"y\"}", "{eq=\"mijk,nk->mijn\"} : f32[2,3,4,4]");
	node_gives("{\"op\":\"slice\",\"in\":[\"v\"],\"out\":\"u\",\"dim\":0,\"end\":4},"
		   "{\"op\":\"linear\",\"in\":[\"x\",\"x\",\"u\"],\"out\":\"z\"},{\"op\":\"relu\",\"in\":[\"z\"],\"out\":\"y\"}", "add");
	node_fails("{\"op\":\"linear\",\"in\":[\"x\",\"v\"],\"out\":\"y\"}",
		   "linear: x has 2 dims and the weight 1; x [.., K] and a weight [N, K] wanted");
	node_fails("{\"op\":\"matmul\",\"in\":[\"x\",\"x\"],\"out\":\"y\"}", "matmul: letter 'k' is 6 in a and 4 in b");
	node_fails("{\"op\":\"matmul\",\"in\":[\"x\",2],\"out\":\"y\"}", "operand 1 is a number; matmul takes values only");
	node_fails("{\"op\":\"matmul\",\"in\":[\"x\"],\"out\":\"y\"}", "matmul: 1 operands; 2 to 2 wanted");
}
END_TEST

START_TEST(numbers)
{
	node_gives("{\"op\":\"mul\",\"in\":[\"h\",0.3],\"out\":\"y\"}", "fill {value=0.3} : f32[]");
	node_gives("{\"op\":\"mul\",\"in\":[\"h\",0.3],\"out\":\"y\"}", "mul %h, %y.1 : bf16[4,6]");
	node_gives("{\"op\":\"add\",\"in\":[2,\"h\"],\"out\":\"y\"}", ": bf16[4,6]");
	node_gives("{\"op\":\"add\",\"in\":[\"i\",2],\"out\":\"y\"}", "fill {value=2} : i64[]");
	node_gives("{\"op\":\"add\",\"in\":[\"i\",0.5],\"out\":\"y\"}", ": f32[4,6]");
	node_gives("{\"op\":\"mul\",\"in\":[\"s\",0.5],\"out\":\"y\"}", ": bf16[]");
	node_gives("{\"op\":\"gt\",\"in\":[\"x\",0],\"out\":\"t\"},{\"op\":\"where\",\"in\":[\"t\",\"h\",0],\"out\":\"y\"}", ": bf16[4,6]");
	node_fails("{\"op\":\"softmax\",\"in\":[1],\"out\":\"y\"}", "operand 0 is a number; softmax takes values only");
}
END_TEST

START_TEST(conveniences)
{
	node_gives("{\"op\":\"rmsnorm\",\"in\":[\"x\",\"v\"],\"out\":\"y\"}", "rms_norm %x {dims=[1] eps=1e-06}");
	node_gives("{\"op\":\"rmsnorm\",\"in\":[\"x\",\"x\"],\"out\":\"y\",\"eps\":0.5}", "rms_norm %x {dims=[0,1] eps=0.5}");
	node_gives("{\"op\":\"layernorm\",\"in\":[\"x\",\"v\",\"v\"],\"out\":\"y\"}", "layer_norm %x, %v, %v {dims=[1] eps=1e-05}");
	node_gives("{\"op\":\"softmax\",\"in\":[\"x\"],\"out\":\"y\"}", "softmax %x {dim=1}");
	node_gives("{\"op\":\"sum\",\"in\":[\"x\"],\"out\":\"y\",\"keepdim\":true}", "sum %x {dims=[0,1] keepdim=1} : f32[1,1]");
	node_gives("{\"op\":\"mean\",\"in\":[\"b\"],\"out\":\"y\",\"dims\":[-1,0]}", "mean %b {dims=[0,3]} : f32[3,4]");
	node_gives("{\"op\":\"slice\",\"in\":[\"x\"],\"out\":\"y\",\"dim\":-1,\"start\":-2}", "slice %x {start=4 end=6 dim=1} : f32[4,2]");
	node_gives("{\"op\":\"reshape\",\"in\":[\"x\"],\"out\":\"y\",\"shape\":[3,-1]}", "reshape %x {shape=[3,8]} : f32[3,8]");
	node_gives("{\"op\":\"iota\",\"out\":\"y\",\"dtype\":\"i64\",\"shape\":[5]}", "iota {start=0 step=1} : i64[5]");
	node_gives("{\"op\":\"fill\",\"out\":\"y\",\"dtype\":\"f32\",\"shape\":[2],\"value\":\"-inf\"}", "fill {value=-inf} : f32[2]");
	node_gives("{\"op\":\"sdpa\",\"in\":[\"b\",\"b\",\"b\"],\"out\":\"y\",\"causal\":true}",
		   "sdpa %b, %b, %b {scale=0.4082482904638631 causal=1} : f32[2,3,4,6]");
	node_gives("{\"op\":\"topk\",\"in\":[\"x\"],\"out\":[\"t\",\"y\"],\"dim\":1,\"k\":2}", "%y = proj %t {index=1} : i64[4,2]");
	node_gives("{\"op\":\"rope\",\"in\":[\"h\",\"h\",\"h\"],\"out\":\"y\"}", "cat");
	node_gives("{\"op\":\"gelu_grad\",\"in\":[\"h\",\"h\"],\"out\":\"y\"}", "erf");
	node_gives("{\"op\":\"silu_grad\",\"in\":[\"h\",\"h\"],\"out\":\"y\"}", ": bf16[4,6]");
	node_gives("{\"op\":\"cast\",\"in\":[\"x\"],\"out\":\"y\",\"dtype\":\"e4m3\"}", "cast %x {dtype=e4m3} : e4m3[4,6]");
}
END_TEST

START_TEST(wrong_nodes)
{
	node_fails("{\"op\":\"sofmax\",\"in\":[\"x\"],\"out\":\"y\"}", "unknown op 'sofmax'; nearest: 'softmax'");
	node_fails("{\"op\":\"all_gather\",\"in\":[\"x\"],\"out\":\"y\"}", "unknown op 'all_gather'; nearest: 'gather'");
	node_fails("{\"op\":\"softmax\",\"in\":[\"x\"],\"out\":\"y\",\"dimm\":1}",
		   "unknown key 'dimm'; there are: op in out module source placement dim");
	node_fails("{\"op\":\"relu\",\"in\":[\"q\"],\"out\":\"y\"}", "nothing above has the name 'q'");
	node_fails("{\"op\":\"relu\",\"in\":[\"z\"],\"out\":\"y\"},{\"op\":\"relu\",\"in\":[\"y\"],\"out\":\"z\"}",
		   "'z' is defined by a later node; put that one before");
	node_fails("{\"op\":\"relu\",\"in\":[\"x\"],\"out\":\"y\"},{\"op\":\"exp\",\"in\":[\"x\"],\"out\":\"y\"}",
		   "another value has this name already");
	node_fails("{\"op\":\"relu\",\"in\":\"x\",\"out\":\"y\"}", "'in' is no list of at most 4096 operands");
	node_fails("{\"op\":\"relu\",\"in\":[null],\"out\":\"y\"}", "operand 0 is neither a name nor a number");
	node_fails("{\"op\":\"relu\",\"in\":[\"x\"],\"out\":[\"y\",\"z\"]}",
		   "only topk and sort have two results: \"out\": [values, indices]");
	node_fails("{\"op\":\"softmax\",\"in\":[\"x\"],\"out\":\"y\",\"dim\":2}", "softmax: no dim 2 in an operand of 2 dims");
	node_fails("{\"op\":\"reshape\",\"in\":[\"x\"],\"out\":\"y\",\"shape\":[-1,-1]}", "'shape' has -1 more than once");
	node_fails("{\"op\":\"reshape\",\"in\":[\"x\"],\"out\":\"y\",\"shape\":[5,-1]}", "24 elements do not fill the -1 of 'shape'");
	node_fails("{\"op\":\"transpose\",\"in\":[\"x\"],\"out\":\"y\"}",
		   "transpose: needs 'perm', the operand's dim that each dim of the result is");
	node_fails("{\"op\":\"rms_norm\",\"in\":[\"x\"],\"out\":\"y\",\"eps\":\"tiny\"}", "'eps' is no number (nor \"inf\", \"-inf\", \"nan\")");
	node_fails("{\"op\":\"relu\",\"in\":[\"x\"],\"out\":\"y\",\"placement\":\"tp:S(0)\"}",
		   "'tp:S(0)': there is no mesh, so no axis 'tp'; give --mesh");
	fails(HEAD "\"nodes\":[{\"op\":\"relu\"}]," Y, "g.json: node '0': needs an \"op\" and an \"out\", both strings");
}
END_TEST

/* --- the schema --- */

/* The attribute keys of a variant of nodes, as graph_json_op_keys() gives them. */
static void variant_keys(json_t *variant, char *out, size_t size)
{
	const char *key;
	json_t *v;
	out[0] = '\0';
	json_object_foreach(json_object_get(variant, "properties"), key, v)
		if (strcmp(key, "op") != 0)
			snprintf(out + strlen(out), size - strlen(out), "%s%s", out[0] ? " " : "", key);
}

static json_t *variant_of(json_t *variants, const char *op)
{
	json_t *v, *found = NULL, *name;
	size_t i, k;
	json_array_foreach(variants, i, v)
		json_array_foreach(json_object_get(json_object_get(json_object_get(v, "properties"), "op"), "enum"), k, name)
			if (strcmp(json_string_value(name), op) == 0) {
				ck_assert_msg(found == NULL, "the schema has %s twice", op);
				found = v;
			}
	return found;
}

START_TEST(schema_knows_the_ops)
{
	json_error_t e;
	json_t *schema = json_load_file("docs/graph.schema.json", JSON_REJECT_DUPLICATES, &e), *v;
	ck_assert_msg(schema != NULL, "line %d: %s", e.line, e.text);
	json_t *variants = json_object_get(json_object_get(json_object_get(schema, "$defs"), "node"), "oneOf");
	size_t i, listed = 0;
	for (int k = 1; k < graph_json_op_count(); k++) {
		char want[256], have[256];
		v = variant_of(variants, graph_json_op(k));
		ck_assert_msg(v != NULL, "the schema lacks %s", graph_json_op(k));
		graph_json_op_keys(k, want, sizeof(want));
		variant_keys(v, have, sizeof(have));
		ck_assert_str_eq(have, want);
	}
	json_array_foreach(variants, i, v)
		listed += json_array_size(json_object_get(json_object_get(json_object_get(v, "properties"), "op"), "enum"));
	ck_assert_uint_eq(listed, (size_t)graph_json_op_count() - 1);
	json_decref(schema);
}
END_TEST

/* --- plan files --- */

static enum fs_status plan(const char *text, tp_rules *out, struct arena *a)
{
	diag = (struct diag){ 0 };
	return tp_plan_parse(text, strlen(text), "tp.json", a, out, &diag);
}

START_TEST(plan_files)
{
	struct arena a = { 0 };
	tp_rules rules = { 0 };
	ck_assert_int_eq(plan("{\"layers.*.q\":\"colwise\",\"lm_head\":\"tp:S(0)\"}", &rules, &a), FS_OK);
	ck_assert_uint_eq(rules.count, 2);
	ck_assert_str_eq(rules.items[0].pattern, "layers.*.q");
	ck_assert_str_eq(rules.items[0].value, "colwise");
	ck_assert_str_eq(rules.items[1].value, "tp:S(0)");
	ck_assert_str_eq(rules.items[1].origin, "tp.json");
	ck_assert_int_eq(plan("{\"a\":{\"b\":\"colwise\"}}", &rules, &a), FS_INVALID);
	ck_assert_str_eq(diag.text, "tp.json: 'a' is an object; a style or a placement wanted, as in \"a\": \"colwise\"");
	ck_assert_int_eq(plan("{\"a\":null}", &rules, &a), FS_INVALID);
	ck_assert_str_eq(diag.text, "tp.json: 'a' is null; a style or a placement wanted, as in \"a\": \"colwise\"");
	ck_assert_int_eq(plan("[1]", &rules, &a), FS_INVALID);
	ck_assert_str_eq(diag.text, "tp.json: is a list; an object {\"PATTERN\": \"STYLE\", ...} wanted");
	ck_assert_int_eq(plan("{\"fp8shard\":\"plan\"}", &rules, &a), FS_INVALID);
	ck_assert_int_eq(plan("{", &rules, &a), FS_INVALID);
	ck_assert_int_eq(plan("{\"a\":\"x\",\"a\":\"y\"}", &rules, &a), FS_INVALID);
	vec_release(&rules);
	arena_release(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("graph_json");
	TCase *t = tcase_create("graph_json");
	tcase_add_test(t, whole_graph);
	tcase_add_test(t, mesh_of_the_command_line);
	tcase_add_test(t, named_dims);
	tcase_add_test(t, outputs);
	tcase_add_test(t, constants);
	tcase_add_test(t, wrong_documents);
	tcase_add_test(t, products);
	tcase_add_test(t, numbers);
	tcase_add_test(t, conveniences);
	tcase_add_test(t, wrong_nodes);
	tcase_add_test(t, schema_knows_the_ops);
	tcase_add_test(t, plan_files);
	suite_add_tcase(s, t);
	return suite_run(s);
}
