/* The table of targets, and finding a row by name. */
#include "torch_impl.h"

#include <string.h>

static const struct target targets[] = {
#define TARGET(name, handler, op, alias, autocast) { name, handler, op, alias, autocast },
#include "torch.def"
#undef TARGET
};

void targets_init(struct import *im)
{
	for (uint32_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		hash_insert(&im->targets, hash_bytes(targets[i].name, strlen(targets[i].name), 0), i);
}

struct key { const char *name; size_t size; };

static bool same_target(const void *key, uint32_t i)
{
	const struct key *k = key;
	return strncmp(targets[i].name, k->name, k->size) == 0 && targets[i].name[k->size] == '\0';
}

const struct target *target_find(const struct import *im, const char *name, size_t size)
{
	struct key key = { name, size };
	uint32_t i = hash_find(&im->targets, hash_bytes(name, size, 0), same_target, &key);
	return i == UINT32_MAX ? NULL : &targets[i];
}
