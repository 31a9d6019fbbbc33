/*
 * A zip archive of stored records, as torch writes them: one folder at the root, no compression.
 *
 * What an archive says is checked when it is opened: names stay inside, records lie in the file,
 * do not overlap, are there once.  Compressed and encrypted records are refused.
 */
#ifndef FS_ARCHIVE_H
#define FS_ARCHIVE_H

#include "file.h"

#include <stdatomic.h>

struct archive_record {
	const char *name; /* without the root folder */
	int64_t offset;   /* of its bytes, from the start of the file */
	int64_t size;
	uint32_t crc;
};

struct archive {
	struct file file;
	struct arena arena;
	const char *root; /* the one folder, without '/'; "" where records lie at the top */
	struct archive_record *records; /* in the order of the directory */
	atomic_bool *sound;             /* by record: its bytes were seen to match its checksum */
	uint32_t count;
	struct hash_table by_name;
};

/* True where the file begins as a zip does. */
bool archive_is_zip(const struct file *f);
/* Takes over an open file, also where it fails. */
enum fs_status archive_open_take(struct archive *a, struct file *file, struct diag *d);
void archive_close(struct archive *a); /* {0} and a closed archive are fine */
/* NULL where there is none. */
const struct archive_record *archive_find(const struct archive *a, const char *name);
/* Reads the record once, however often and by however many threads it is asked: does it match its checksum? */
enum fs_status archive_check(const struct archive *a, const struct archive_record *r, struct diag *d);
/* The record and a NUL, its CRC checked; from malloc: the caller frees *text. */
enum fs_status archive_read_text(const struct archive *a, const struct archive_record *r, char **text,
				 struct diag *d);

#endif
