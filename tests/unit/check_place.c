/* What rules of plans mean: patterns, nearest names, styles, recipes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "recipe.h"
#include "style.h"
#include "suite.h"

START_TEST(patterns)
{
	static const struct { const char *pattern, *name; bool match; } cases[] = {
		{ "fc1", "fc1", true },
		{ "fc1", "fc10", false },
		{ "fc1", "fc1.weight", false },
		{ "layers.*.mlp.up_proj", "layers.3.mlp.up_proj", true },
		{ "layers.*.mlp.up_proj", "layers.31.mlp.up_proj", true },
		{ "layers.*.mlp.up_proj", "layers.mlp.up_proj", false },
		{ "layers.*.mlp.up_proj", "layers.3.4.mlp.up_proj", false },
		{ "layers.*.mlp.*", "layers.0.mlp.up_proj", true },
		{ "layers.*.mlp.*", "layers.0.mlp", false },
		{ "*", "lm_head", true },
		{ "*", "model.norm", true }, /* "model." may be left out */
		{ "*", "layers.0", false },
		{ "up*", "up_proj", false }, /* a star is a whole atom */
		{ "layers.*.q", "model.layers.0.q", true },
		{ "model.layers.*.q", "layers.0.q", true },
		{ "model.layers.*.q", "model.layers.0.q", true },
		{ "layers.*.q", "decoder.layers.0.q", true }, /* so may other base models' names */
		{ "layers.*.q", "encoder.layers.0.q", false },
		{ "model", "model", true },
		{ "", "", true },
		{ "", "x", false },
		{ "a.", "a", false },
		{ "**", "lm_head", true },
		{ "**", "layers.0.mlp", true },
		{ "**.weight", "weight", true }, /* any number: none, too */
		{ "**.weight", "layers.0.up.weight", true },
		{ "**.weight", "layers.0.up.bias", false },
		{ "layers.**.weight", "model.layers.0.up.weight", true },
		{ "layers.**.weight", "h.0.up.weight", false },
		{ "layers.**", "layers", true },
		{ "**.b.**.d", "a.b.c.b.d.d", true },
		{ "**.b.**.d", "a.b.c.b.d.e", false },
		{ "**.b.*.d", "a.b.b.c.d", true },
		{ "a..b", "a.b", false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_msg(pattern_match(cases[i].pattern, cases[i].name) == cases[i].match, "'%s' and '%s'", cases[i].pattern,
			      cases[i].name);
}
END_TEST

static void check_nearest(const char *const *names, int count, const char *pattern, const char *want)
{
	struct name_list l = { 0 };
	char out[512];
	for (int i = 0; i < count; i++)
		*vec_push(&l.names) = names[i];
	names_nearest(&l, pattern, out, sizeof(out));
	ck_assert_str_eq(out, want);
	vec_release(&l.names);
}

START_TEST(nearest_names)
{
	static const char *const names[] = { "model.layers.0.q_proj", "model.layers.1.q_proj", "model.layers.10.k_proj", "lm_head",
					     "model.norm" };
	check_nearest(names, 5, "layers.*.q_prj", "'model.layers.*.q_proj' (2), 'model.layers.*.k_proj', 'model.norm'");
	check_nearest(names, 5, "lmhead", "'lm_head', 'model.norm', 'model.layers.*.q_proj' (2)");
	check_nearest(names, 1, "", "'model.layers.*.q_proj'");
	check_nearest(names, 0, "x", "");
	char longest[400];
	const char *one = longest;
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	char want[200] = "'";
	memset(want + 1, 'a', 128);
	strcpy(want + 129, "'");
	check_nearest(&one, 1, longest, want);
}
END_TEST

/* Linear weights [N,K], GPT-2's [K,N], tables, biases, tied tables, norms. */
START_TEST(styles)
{
	static const struct param_use linear = { .rank = 2, .dim_n = 0, .dim_k = 1 }, conv1d = { .rank = 2, .dim_n = 1, .dim_k = 0 },
		table = { .rank = 2, .dim_n = -1, .dim_k = -1, .embedding = true },
		tied = { .rank = 2, .dim_n = 0, .dim_k = 1, .embedding = true },
		bias = { .rank = 1, .dim_n = -1, .dim_k = -1, .bias = true }, norm = { .rank = 1, .dim_n = -1, .dim_k = -1 },
		plane = { .rank = 2, .dim_n = -1, .dim_k = -1 }, scalar = { .rank = 0, .dim_n = -1, .dim_k = -1 };
	static const struct { const char *style; const struct param_use *use; bool as_table; int dim; } cases[] = {
		{ "colwise", &linear, false, 0 },    { "rowwise", &linear, false, 1 },
		{ "colwise", &conv1d, false, 1 },    { "rowwise", &conv1d, false, 0 },
		{ "colwise_rep", &linear, false, 0 }, { "rowwise_rep", &linear, false, 1 },
		{ "colwise", &table, false, 1 },     { "rowwise", &table, false, 0 },
		{ "embedding_rowwise", &table, true, 0 }, { "embedding_colwise", &table, true, 1 },
		{ "rowwise", &tied, false, 1 },      { "embedding_rowwise", &tied, true, 0 },
		{ "colwise", &tied, false, 0 },      { "colwise", &tied, true, 1 },
		{ "colwise", &bias, false, 0 },      { "rowwise", &bias, false, -1 },
		{ "colwise", &norm, false, 0 },      { "sequence_parallel", &norm, false, -1 },
		{ "replicate", &linear, false, -1 }, { "colwise", &plane, false, STYLE_NO_ROLE },
		{ "rowwise", &plane, false, STYLE_NO_ROLE }, { "colwise", &scalar, false, -1 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct style *s = style_find(cases[i].style);
		ck_assert_ptr_nonnull(s);
		ck_assert_msg(style_dim(s, cases[i].use, cases[i].as_table) == cases[i].dim, "case %zu: %s", i, cases[i].style);
	}
	ck_assert_ptr_null(style_find("columnwise"));
	ck_assert_ptr_null(style_find(""));
}
END_TEST

/* All are named in the message for one that is not known. */
START_TEST(style_list)
{
	char names[512], *save = NULL;
	int count = 0;
	style_names(names, sizeof(names));
	for (char *s = strtok_r(names, ", ", &save); s != NULL; s = strtok_r(NULL, ", ", &save), count++)
		ck_assert_msg(style_find(s) != NULL, "%s", s);
	ck_assert_int_ge(count, 16);
}
END_TEST

static void spell_cast(const struct casting *c, char *text, bool next)
{
	char *end = text + strlen(text);
	if (next)
		*end++ = ' ';
	strcpy(end, c->dtype == DT_NONE ? "-" : c->span == SPAN_TENSOR ? "t" : "r");
	if (c->dtype != DT_NONE)
		strcat(end, c->dtype == DT_E5M2 ? "5" : "4");
}

START_TEST(recipes)
{
	static const char *const wrong[] = { "", "Rowwise", "rowwise:", "rowwise:pow", "rowwise:pow22", ":pow2", "row", "rowwise_with_gw" };
	struct recipe r;
	struct diag d = { 0 };
	static const char *const names[] = { "none", "tensorwise", "rowwise:pow2", "rowwise_with_gw_hp" };
	/* torchao's Float8LinearConfig.from_recipe_name: t a scale of the tensor, r of rows; 4 e4m3, 5 e5m2; - high precision */
	static const char *const casts[] = { "-- -- --", "t4t4 t5t4 t5t4", "r4r4 r4r4 r4r4", "r4r4 r4t4 --" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char text[32] = "";
		ck_assert(recipe_find(names[i], &r, &d) == FS_OK && r.pow2 == (strchr(names[i], ':') != NULL));
		for (int k = 0; k < 2 * PRODUCT_ROLES; k++)
			spell_cast(&r.operand[k / 2][k % 2], text, k == 2 || k == 4);
		ck_assert_str_eq(text, casts[i]);
		ck_assert(recipe_casts(&r, PRODUCT_GRAD_WEIGHT) == (i == 1 || i == 2));
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct diag why = { 0 };
		ck_assert_msg(recipe_find(wrong[i], &r, &why) == FS_INVALID, "'%s'", wrong[i]);
		ck_assert_ptr_nonnull(strstr(why.text, "tensorwise, rowwise"));
	}
}
END_TEST

/* A weight may stand behind any number of casts. */
START_TEST(deep_casts)
{
	struct mesh mesh = { .count = 1, .axis = { { "tp", 2 } } };
	struct context *context = context_create(&mesh);
	struct graph *g = graph_create(context, STAGE_GLOBAL);
	struct type t = type_make(DT_F32, 2, (const int64_t[]){ 16, 32 }), x = type_make(DT_F32, 2, (const int64_t[]){ 8, 32 });
	struct attrs none = { 0 }, eq = { 0 };
	struct prov_id prov = { 0 };
	attrs_string(&eq, ATTR_EQ, context_intern(context, "mk,nk->mn"));
	struct node_id w = graph_append(g, OP_PARAM, NULL, 0, &none, &t, prov), n = w;
	for (int i = 0; i < 200000; i++)
		n = graph_append(g, OP_COPY, &n, 1, &none, &t, prov);
	struct node_id in[2] = { graph_append(g, OP_INPUT, NULL, 0, &none, &x, prov), n };
	graph_emit(g, OP_MATMUL, in, 2, &eq, prov);
	struct uses u = uses_make(g);
	param_users users = { 0 };
	struct param_use use;
	style_users(g, &u, w, &users);
	style_uses(g, w, &users, &use);
	ck_assert_uint_eq(users.count, 1);
	ck_assert_int_eq(use.dim_n, 0);
	ck_assert_int_eq(use.dim_k, 1);
	vec_release(&users);
	uses_release(&u);
	graph_destroy(g);
	context_destroy(context);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("place");
	TCase *t = tcase_create("place");
	tcase_add_test(t, patterns);
	tcase_add_test(t, nearest_names);
	tcase_add_test(t, styles);
	tcase_add_test(t, style_list);
	tcase_add_test(t, recipes);
	tcase_add_test(t, deep_casts);
	suite_add_tcase(s, t);
	return suite_run(s);
}
