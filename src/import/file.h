/*
 * Bytes read at offsets, from a file or from memory, and files that appear whole or not at all.
 *
 * Reading is by pread, never mmap: a file that shrinks meanwhile is an error, not a SIGBUS.
 * Several threads may read one struct file at a time.  Messages begin with the file's name.
 */
#ifndef FS_FILE_H
#define FS_FILE_H

#include "base.h"

struct file {
	char *name;                 /* as messages print it */
	const unsigned char *bytes; /* memory, borrowed; NULL: fd */
	int fd;
	int64_t size;
};

/* A regular file.  On failure nothing is owned. */
enum fs_status file_open(struct file *f, const char *path, struct diag *d);
/* `bytes` stays the caller's and must outlive `f`. */
enum fs_status file_open_memory(struct file *f, const char *name, const void *bytes, size_t size,
				struct diag *d);
enum fs_status file_read(const struct file *f, int64_t offset, int64_t size, void *dst, struct diag *d);
/* The bytes at `offset` and a NUL, from malloc: the caller frees *text. */
enum fs_status file_read_text(const struct file *f, int64_t offset, int64_t size, char **text,
			      struct diag *d);
void file_close(struct file *f); /* {0} and a closed file are fine */

/*
 * A file being written under a temporary name beside its own.  file_writer_commit() gives it its
 * name; file_writer_abort() removes it, and after a commit does nothing.  What is not a regular
 * file (/dev/stdout) is written in place.
 */
struct file_writer {
	char *path, *temporary; /* temporary NULL: in place */
	unsigned char *buffer;
	size_t used;
	int fd;
};

enum fs_status file_writer_open(struct file_writer *w, const char *path, struct diag *d);
enum fs_status file_writer_add(struct file_writer *w, const void *bytes, size_t size, struct diag *d);
/* Writes out, syncs, closes, renames.  On failure the temporary file is gone. */
enum fs_status file_writer_commit(struct file_writer *w, struct diag *d);
void file_writer_abort(struct file_writer *w);
/* All of it in one call. */
enum fs_status file_write_whole(const char *path, const void *bytes, size_t size, struct diag *d);

/* True where both name one regular file that there is. */
bool file_same(const char *a, const char *b);
/* True where a message can hold `s`: not empty, no control characters. */
bool name_is_printable(const char *s);
/* True where `s` names something in a folder itself: no '/', not ".." and not ".". */
bool name_is_plain(const char *s);

#endif
