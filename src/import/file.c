/* Files of file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITER_BUFFER ((size_t)64 << 10)

static enum fs_status system_error(struct diag *d, const char *name, const char *what)
{
	return diag_set(d, errno == ENOMEM ? FS_NOMEM : FS_IO, "%s: %s: %s", name, what, strerror(errno));
}

static enum fs_status check_regular(struct file *f, struct diag *d)
{
	struct stat st;
	if (fstat(f->fd, &st) != 0)
		return system_error(d, f->name, "cannot be read");
	if (S_ISDIR(st.st_mode))
		return diag_set(d, FS_IO, "%s: is a folder, where a file is expected", f->name);
	if (!S_ISREG(st.st_mode))
		return diag_set(d, FS_IO, "%s: is not a regular file: copy it to one first", f->name);
	f->size = st.st_size;
	return FS_OK;
}

enum fs_status file_open(struct file *f, const char *path, struct diag *d)
{
	*f = (struct file){ .fd = -1, .name = strdup(path) };
	if (f->name == NULL)
		return diag_set(d, FS_NOMEM, "%s: out of memory", path);
	enum fs_status status;
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (f->fd < 0)
		status = system_error(d, path, "cannot be opened");
	else
		status = check_regular(f, d);
	if (status != FS_OK)
		file_close(f);
	return status;
}

enum fs_status file_open_memory(struct file *f, const char *name, const void *bytes, size_t size,
				struct diag *d)
{
	static const unsigned char none[1];
	*f = (struct file){ .fd = -1, .name = strdup(name), .size = (int64_t)size };
	if (f->name == NULL)
		return diag_set(d, FS_NOMEM, "%s: out of memory", name);
	f->bytes = size > 0 ? bytes : none;
	return FS_OK;
}

static enum fs_status read_fd(const struct file *f, int64_t offset, int64_t size, char *dst, struct diag *d)
{
	while (size > 0) {
		ssize_t n = pread(f->fd, dst, (size_t)size, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return system_error(d, f->name, "cannot be read");
		if (n == 0)
			return diag_set(d, FS_IO, "%s: became shorter while it was read", f->name);
		dst += n;
		offset += n;
		size -= n;
	}
	return FS_OK;
}

enum fs_status file_read(const struct file *f, int64_t offset, int64_t size, void *dst, struct diag *d)
{
	if (offset < 0 || size < 0 || offset > f->size || size > f->size - offset)
		return diag_set(d, FS_INVALID, "%s: ends at byte %lld, but holds %lld bytes from byte %lld on: "
				"the file is damaged", f->name, (long long)f->size, (long long)size,
				(long long)offset);
	if (size == 0)
		return FS_OK;
	if (f->bytes == NULL)
		return read_fd(f, offset, size, dst, d);
	memcpy(dst, f->bytes + offset, (size_t)size);
	return FS_OK;
}

enum fs_status file_read_text(const struct file *f, int64_t offset, int64_t size, char **text, struct diag *d)
{
	*text = NULL;
	if (offset < 0 || size < 0 || offset > f->size || size > f->size - offset)
		return file_read(f, offset, size, NULL, d);
	char *p = malloc((size_t)size + 1);
	if (p == NULL)
		return diag_set(d, FS_NOMEM, "%s: out of memory: %lld bytes", f->name, (long long)size);
	enum fs_status status = file_read(f, offset, size, p, d);
	if (status != FS_OK) {
		free(p);
		return status;
	}
	p[size] = '\0';
	*text = p;
	return FS_OK;
}

void file_close(struct file *f)
{
	if (f->name != NULL && f->fd >= 0)
		close(f->fd);
	free(f->name);
	*f = (struct file){ .fd = -1 };
}

/* --- writing --- */

static char *join(const char *path, unsigned number)
{
	size_t room = strlen(path) + 48;
	char *s = malloc(room);
	if (s != NULL)
		snprintf(s, room, "%s.tmp-%ld-%u", path, (long)getpid(), number);
	return s;
}

static void open_temporary(struct file_writer *w)
{
	static atomic_uint next;
	do {
		free(w->temporary);
		w->temporary = join(w->path, atomic_fetch_add(&next, 1));
		if (w->temporary == NULL) {
			errno = ENOMEM;
			return;
		}
		w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	} while (w->fd < 0 && errno == EEXIST);
}

static enum fs_status writer_failed(struct file_writer *w, struct diag *d)
{
	enum fs_status status = system_error(d, w->path, "cannot be written");
	file_writer_abort(w);
	return status;
}

enum fs_status file_writer_open(struct file_writer *w, const char *path, struct diag *d)
{
	struct stat st;
	bool there = stat(path, &st) == 0;
	*w = (struct file_writer){ .fd = -1 };
	/* A link is followed, so that its target is replaced and not the link.  What is no file (a pipe) may have no path. */
	w->path = there && S_ISREG(st.st_mode) ? realpath(path, NULL) : strdup(path);
	w->buffer = malloc(WRITER_BUFFER);
	if (w->path == NULL || w->buffer == NULL) {
		enum fs_status status = system_error(d, path, "cannot be written");
		file_writer_abort(w);
		return status;
	}
	if (there && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (there && !S_ISREG(st.st_mode))
		w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
	else
		open_temporary(w);
	return w->fd < 0 ? writer_failed(w, d) : FS_OK;
}

static bool write_all(int fd, const unsigned char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

static bool writer_flush(struct file_writer *w)
{
	size_t used = w->used;
	w->used = 0;
	return write_all(w->fd, w->buffer, used);
}

enum fs_status file_writer_add(struct file_writer *w, const void *bytes, size_t size, struct diag *d)
{
	bool ok = size <= WRITER_BUFFER - w->used || writer_flush(w);
	if (ok && size > WRITER_BUFFER) {
		ok = write_all(w->fd, bytes, size);
	} else if (ok && size > 0) {
		memcpy(w->buffer + w->used, bytes, size);
		w->used += size;
	}
	return ok ? FS_OK : writer_failed(w, d);
}

static bool sync_and_close(struct file_writer *w)
{
	/* Terminals and pipes cannot be synced. */
	bool ok = fsync(w->fd) == 0 || errno == EINVAL || errno == EROFS;
	int reason = errno;
	int fd = w->fd;
	w->fd = -1;
	if (close(fd) != 0)
		return false;
	errno = reason;
	return ok;
}

enum fs_status file_writer_commit(struct file_writer *w, struct diag *d)
{
	if (!writer_flush(w) || !sync_and_close(w))
		return writer_failed(w, d);
	if (w->temporary != NULL && rename(w->temporary, w->path) != 0)
		return writer_failed(w, d);
	free(w->temporary);
	w->temporary = NULL;
	file_writer_abort(w);
	return FS_OK;
}

void file_writer_abort(struct file_writer *w)
{
	if (w->path == NULL && w->buffer == NULL)
		return;
	if (w->fd >= 0)
		close(w->fd);
	if (w->temporary != NULL)
		unlink(w->temporary);
	free(w->temporary);
	free(w->path);
	free(w->buffer);
	*w = (struct file_writer){ .fd = -1 };
}

enum fs_status file_write_whole(const char *path, const void *bytes, size_t size, struct diag *d)
{
	struct file_writer w;
	TRY(file_writer_open(&w, path, d));
	TRY(file_writer_add(&w, bytes, size, d));
	return file_writer_commit(&w, d);
}

/* --- names --- */

bool file_same(const char *a, const char *b)
{
	struct stat x, y;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool name_is_printable(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

bool name_is_plain(const char *s)
{
	return name_is_printable(s) && strchr(s, '/') == NULL && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}
