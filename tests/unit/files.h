/* What the unit tests of readers share: places, whole files in memory, a random number. */
#ifndef FS_TEST_FILES_H
#define FS_TEST_FILES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"

/* The folder of real exports, or NULL (said on stderr) where a clone stands alone. */
static inline const char *shared_folder(const char *test)
{
	const char *s = getenv("FP8SHARD_SHARED");
	if (s == NULL)
		s = "../shared";
	if (access(s, R_OK) == 0)
		return s;
	fprintf(stderr, "skipped: %s: no folder %s (set FP8SHARD_SHARED)\n", test, s);
	return NULL;
}

/* A fresh folder; the caller frees the name. */
static inline char *make_temporary_folder(void)
{
	char *s = strdup("/tmp/fp8shard-test-XXXXXX");
	if (mkdtemp(s) == NULL)
		BUG("no temporary folder");
	return s;
}

static inline void remove_folder(const char *folder)
{
	DIR *d = opendir(folder);
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
		char path[8192];
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		unlink(path);
	}
	if (d != NULL)
		closedir(d);
	rmdir(folder);
}

static inline int files_in(const char *folder)
{
	int n = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	if (d != NULL)
		closedir(d);
	return n;
}

/* All bytes of a file, from malloc; NULL where it cannot be read. */
static inline unsigned char *slurp(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	*size = 0;
	if (f == NULL)
		return NULL;
	fseek(f, 0, SEEK_END);
	*size = (size_t)ftell(f);
	rewind(f);
	unsigned char *bytes = malloc(*size + 1);
	size_t got = fread(bytes, 1, *size, f);
	fclose(f);
	BUG_ON(got != *size);
	return bytes;
}

static inline void spill(const char *path, const void *bytes, size_t size)
{
	FILE *f = fopen(path, "wb");
	BUG_ON(f == NULL || fwrite(bytes, 1, size, f) != size || fclose(f) != 0);
}

static inline uint64_t next_random(uint64_t *state) /* splitmix64 */
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#endif
