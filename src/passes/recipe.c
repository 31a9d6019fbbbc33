#include "recipe.h"

#include <string.h>

static const struct recipe recipes[] = {
	/*  name                 forward   left                      right */
	{ "none",                DT_NONE, { SPAN_ONE, SPAN_ONE },   { SPAN_ONE, SPAN_ONE }, false },
	{ "tensorwise",          DT_E4M3, { SPAN_ALL, SPAN_ALL },   { SPAN_ALL, SPAN_ALL }, false },
	{ "rowwise",             DT_E4M3, { SPAN_ONE, SPAN_ALL },   { SPAN_ONE, SPAN_ALL }, false },
	{ "rowwise_with_gw_hp",  DT_E4M3, { SPAN_ONE, SPAN_ALL },   { SPAN_ONE, SPAN_ALL }, false },
};

enum fs_status recipe_find(const char *text, struct recipe *out, struct diag *d)
{
	size_t n = strcspn(text, ":");
	for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
		if (strlen(recipes[i].name) != n || memcmp(recipes[i].name, text, n) != 0)
			continue;
		*out = recipes[i];
		out->pow2 = text[n] != '\0';
		if (text[n] == '\0' || strcmp(text + n, ":pow2") == 0)
			return FS_OK;
	}
	return diag_set(d, FS_INVALID, "'%s' is no fp8 recipe; there are none, tensorwise, rowwise and rowwise_with_gw_hp, each also "
			"with :pow2 for scales that are powers of two", text);
}
