/* Archives of archive.h, through minizip. */
#include "archive.h"

#include <minizip/unzip.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL_HEADER = 30 }; /* bytes before the name */

/* --- minizip's view of a struct file; it reads byte by byte, so there is a window --- */

struct stream {
	const struct file *file;
	int64_t at, window, filled;
	bool failed;
	struct diag diag;
	unsigned char bytes[4096];
};

static voidpf stream_open(voidpf opaque, const void *name, int mode)
{
	(void)name;
	(void)mode;
	return opaque;
}

static bool stream_fill(struct stream *s)
{
	int64_t left = s->file->size - s->at;
	s->window = s->at;
	s->filled = left < (int64_t)sizeof(s->bytes) ? left : (int64_t)sizeof(s->bytes);
	if (file_read(s->file, s->window, s->filled, s->bytes, &s->diag) == FS_OK)
		return true;
	s->filled = 0;
	s->failed = true;
	return false;
}

static uLong stream_read(voidpf opaque, voidpf stream, void *dst, uLong size)
{
	struct stream *s = opaque;
	uLong done = 0;
	(void)stream;
	while (done < size && s->at < s->file->size) {
		if ((s->at < s->window || s->at >= s->window + s->filled) && !stream_fill(s))
			break;
		uLong n = (uLong)(s->window + s->filled - s->at);
		n = n < size - done ? n : size - done;
		memcpy((unsigned char *)dst + done, s->bytes + (s->at - s->window), n);
		s->at += (int64_t)n;
		done += n;
	}
	return done;
}

static uLong stream_write(voidpf opaque, voidpf stream, const void *bytes, uLong size)
{
	(void)opaque;
	(void)stream;
	(void)bytes;
	(void)size;
	return 0;
}

static ZPOS64_T stream_tell(voidpf opaque, voidpf stream)
{
	const struct stream *s = opaque;
	(void)stream;
	return (ZPOS64_T)s->at;
}

static long stream_seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
	struct stream *s = opaque;
	int64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR ? s->at :
		       origin == ZLIB_FILEFUNC_SEEK_END ? s->file->size : 0;
	(void)stream;
	if (offset > (ZPOS64_T)(s->file->size - base))
		return -1;
	s->at = base + (int64_t)offset;
	return 0;
}

static int stream_nothing(voidpf opaque, voidpf stream)
{
	(void)opaque;
	(void)stream;
	return 0;
}

static unzFile open_directory(struct stream *s)
{
	zlib_filefunc64_def io = {
		.zopen64_file = stream_open, .zread_file = stream_read, .zwrite_file = stream_write,
		.ztell64_file = stream_tell, .zseek64_file = stream_seek, .zclose_file = stream_nothing,
		.zerror_file = stream_nothing, .opaque = s,
	};
	return unzOpen2_64(s->file->name, &io);
}

/*
 * The end record must end the file: minizip is content with a part of it, so that a file cut
 * short by a few bytes would pass.
 */
static bool has_end(const struct file *f)
{
	enum { END = 22, COMMENT = 65535 };
	int64_t size = f->size < END + COMMENT ? f->size : END + COMMENT;
	char *tail = NULL;
	struct diag d = { 0 };
	if (file_read_text(f, f->size - size, size, &tail, &d) != FS_OK)
		return false;
	bool found = false;
	for (int64_t at = size - END; at >= 0 && !found; at--) {
		const unsigned char *p = (const unsigned char *)tail + at;
		found = memcmp(p, "PK\5\6", 4) == 0 && at + END + (p[20] | p[21] << 8) == size;
	}
	free(tail);
	return found;
}

/* --- records --- */

static enum fs_status damaged(const struct archive *a, const char *name, const char *what, struct diag *d)
{
	return diag_set(d, FS_INVALID, "%s: record '%.200s' %s: the file is damaged", a->file.name, name, what);
}

/* The name leads nowhere else: no "..", not absolute, no empty part. */
static bool stays_inside(const char *name)
{
	if (!name_is_printable(name) || strchr(name, '\\') != NULL)
		return false;
	for (const char *part = name; *part != '\0';) {
		size_t n = strcspn(part, "/");
		if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && memcmp(part, "..", 2) == 0))
			return false;
		part += n + (part[n] == '/');
	}
	return true;
}

static enum fs_status read_name(struct archive *a, unzFile zip, unz_file_info64 *info, char **name,
				struct diag *d)
{
	if (unzGetCurrentFileInfo64(zip, info, NULL, 0, NULL, 0, NULL, 0) != UNZ_OK)
		return diag_set(d, FS_INVALID, "%s: the zip directory cannot be read at record %u: "
				"the file is damaged", a->file.name, a->count);
	*name = arena_alloc(&a->arena, info->size_filename + 1);
	if (unzGetCurrentFileInfo64(zip, info, *name, info->size_filename, NULL, 0, NULL, 0) != UNZ_OK)
		return diag_set(d, FS_INVALID, "%s: the name of record %u cannot be read: the file is damaged",
				a->file.name, a->count);
	if (strlen(*name) != info->size_filename || !stays_inside(*name))
		return diag_set(d, FS_INVALID, "%s: the name of record %u leads out of the archive: refused",
				a->file.name, a->count);
	return FS_OK;
}

static enum fs_status check_method(const struct archive *a, const char *name, const unz_file_info64 *info,
				   struct diag *d)
{
	if (info->flag & (1 | 1 << 6 | 1 << 13))
		return diag_set(d, FS_UNSUPPORTED, "%s: record '%.200s' is encrypted: not supported",
				a->file.name, name);
	if (info->compression_method != 0)
		return diag_set(d, FS_UNSUPPORTED, "%s: record '%.200s' is compressed (method %lu): "
				"torch.export.save stores records, pass the file as it was saved",
				a->file.name, name, info->compression_method);
	return FS_OK;
}

static enum fs_status locate(const struct archive *a, unzFile zip, struct archive_record *r,
			     const unz_file_info64 *info, struct diag *d)
{
	int method, level;
	if (info->compressed_size != info->uncompressed_size)
		return damaged(a, r->name, "is stored, but with two sizes", d);
	if (unzOpenCurrentFile2(zip, &method, &level, 1) != UNZ_OK)
		return damaged(a, r->name, "differs in its header and in the directory", d);
	ZPOS64_T offset = unzGetCurrentFileZStreamPos64(zip), size = (ZPOS64_T)a->file.size;
	unzCloseCurrentFile(zip);
	if (method != 0 || offset > size || info->uncompressed_size > size - offset)
		return damaged(a, r->name, "ends after the file does", d);
	r->offset = (int64_t)offset;
	r->size = (int64_t)info->uncompressed_size;
	r->crc = (uint32_t)info->crc;
	return FS_OK;
}

static enum fs_status add_record(struct archive *a, unzFile zip, struct diag *d)
{
	unz_file_info64 info;
	char *name = NULL;
	TRY(read_name(a, zip, &info, &name, d));
	if (info.size_filename > 0 && name[info.size_filename - 1] == '/')
		return FS_OK; /* a folder's own record, from other zip programs */
	TRY(check_method(a, name, &info, d));
	struct archive_record *r = &a->records[a->count];
	r->name = name;
	TRY(locate(a, zip, r, &info, d));
	if (archive_find(a, name) != NULL)
		return damaged(a, name, "is there twice", d);
	hash_insert(&a->by_name, hash_string(name), a->count++);
	return FS_OK;
}

static enum fs_status add_records(struct archive *a, unzFile zip, struct diag *d)
{
	unz_global_info64 all;
	/* 46 bytes is a record's least in the directory. */
	if (unzGetGlobalInfo64(zip, &all) != UNZ_OK || all.number_entry > (ZPOS64_T)a->file.size / 46)
		return diag_set(d, FS_INVALID, "%s: the zip directory counts more records than fit: "
				"the file is damaged", a->file.name);
	if (all.number_entry == 0)
		return diag_set(d, FS_INVALID, "%s: an archive without records", a->file.name);
	a->records = arena_array(&a->arena, all.number_entry, sizeof(*a->records));
	a->sound = arena_array(&a->arena, all.number_entry, sizeof(*a->sound));
	int more = unzGoToFirstFile(zip);
	for (ZPOS64_T i = 0; i < all.number_entry && more == UNZ_OK; i++) {
		TRY(add_record(a, zip, d));
		more = unzGoToNextFile(zip);
	}
	if (more != UNZ_END_OF_LIST_OF_FILE)
		return diag_set(d, FS_INVALID, "%s: the zip directory cannot be read after record %u: "
				"the file is damaged", a->file.name, a->count);
	return FS_OK;
}

/* --- the records together --- */

static int by_offset(const void *left, const void *right)
{
	const struct archive_record *a = *(struct archive_record *const *)left;
	const struct archive_record *b = *(struct archive_record *const *)right;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->size < b->size ? -1 : a->size > b->size;
}

/* A record needs room for its header, with its name, behind the record before it. */
static enum fs_status check_overlaps(struct archive *a, struct diag *d)
{
	struct archive_record **sorted = arena_array(&a->arena, a->count, sizeof(struct archive_record *));
	int64_t end = 0;
	for (uint32_t i = 0; i < a->count; i++)
		sorted[i] = &a->records[i];
	if (a->count > 0)
		qsort(sorted, a->count, sizeof(*sorted), by_offset);
	for (uint32_t i = 0; i < a->count; i++) {
		int64_t header = LOCAL_HEADER + (int64_t)strlen(sorted[i]->name);
		if (sorted[i]->offset - header < end)
			return damaged(a, sorted[i]->name, "overlaps another one", d);
		end = sorted[i]->offset + sorted[i]->size;
	}
	return FS_OK;
}

/* Takes the root folder off the names.  Files at the top are the older layout's. */
static enum fs_status strip_root(struct archive *a, struct diag *d)
{
	size_t n = a->count > 0 ? strcspn(a->records[0].name, "/") : 0;
	bool flat = a->count == 0 || a->records[0].name[n] == '\0';
	a->root = flat ? "" : arena_printf(&a->arena, "%.*s", (int)n, a->records[0].name);
	hash_release(&a->by_name);
	for (uint32_t i = 0; i < a->count; i++) {
		struct archive_record *r = &a->records[i];
		if (!flat && (strncmp(r->name, a->root, n) != 0 || r->name[n] != '/'))
			return diag_set(d, FS_INVALID, "%s: records '%s/...' and '%.200s': more than one folder "
					"at the root: not an archive of torch", a->file.name, a->root, r->name);
		r->name += flat ? 0 : n + 1;
		hash_insert(&a->by_name, hash_string(r->name), i);
	}
	return FS_OK;
}

static enum fs_status load(struct archive *a, struct diag *d)
{
	struct stream s = { .file = &a->file };
	unzFile zip = has_end(&a->file) ? open_directory(&s) : NULL;
	if (zip == NULL && s.failed)
		return diag_set(d, s.diag.status, "%s", s.diag.text);
	if (zip == NULL)
		return diag_set(d, FS_INVALID, "%s: its zip directory is missing: the file is cut short or damaged",
				a->file.name);
	enum fs_status status = add_records(a, zip, d);
	unzClose(zip);
	if (status == FS_OK)
		status = check_overlaps(a, d);
	return status != FS_OK ? status : strip_root(a, d);
}

bool archive_is_zip(const struct file *f)
{
	unsigned char b[4];
	struct diag d = { 0 };
	if (f->size < 4 || file_read(f, 0, 4, b, &d) != FS_OK)
		return false;
	return memcmp(b, "PK\3\4", 4) == 0 || memcmp(b, "PK\5\6", 4) == 0;
}

enum fs_status archive_open_take(struct archive *a, struct file *file, struct diag *d)
{
	*a = (struct archive){ .file = *file };
	*file = (struct file){ .fd = -1 };
	enum fs_status status = load(a, d);
	if (status != FS_OK)
		archive_close(a);
	return status;
}

void archive_close(struct archive *a)
{
	file_close(&a->file);
	arena_release(&a->arena);
	hash_release(&a->by_name);
	*a = (struct archive){ .file.fd = -1 };
}

struct wanted { const struct archive *archive; const char *name; };

static bool same_name(const void *context, uint32_t index)
{
	const struct wanted *w = context;
	return strcmp(w->archive->records[index].name, w->name) == 0;
}

const struct archive_record *archive_find(const struct archive *a, const char *name)
{
	struct wanted w = { a, name };
	uint32_t i = hash_find(&a->by_name, hash_string(name), same_name, &w);
	return i == UINT32_MAX ? NULL : &a->records[i];
}

static enum fs_status match_checksum(const struct archive *a, const struct archive_record *r, uLong crc, struct diag *d)
{
	return crc == r->crc ? FS_OK : damaged(a, r->name, "does not match its checksum", d);
}

#define CHECK_BYTES ((int64_t)1 << 20)

enum fs_status archive_check(const struct archive *a, const struct archive_record *r, struct diag *d)
{
	atomic_bool *sound = &a->sound[r - a->records];
	enum fs_status status = FS_OK;
	uLong crc = 0;
	if (atomic_load(sound))
		return FS_OK;
	unsigned char *chunk = malloc(CHECK_BYTES);
	if (chunk == NULL)
		return diag_set(d, FS_NOMEM, "%s: out of memory", a->file.name);
	for (int64_t at = 0; at < r->size && status == FS_OK; at += CHECK_BYTES) {
		int64_t size = r->size - at < CHECK_BYTES ? r->size - at : CHECK_BYTES;
		status = file_read(&a->file, r->offset + at, size, chunk, d);
		if (status == FS_OK)
			crc = crc32_z(crc, chunk, (size_t)size);
	}
	free(chunk);
	if (status != FS_OK)
		return status;
	TRY(match_checksum(a, r, crc, d));
	atomic_store(sound, true);
	return FS_OK;
}

enum fs_status archive_read_text(const struct archive *a, const struct archive_record *r, char **text,
				 struct diag *d)
{
	TRY(file_read_text(&a->file, r->offset, r->size, text, d));
	enum fs_status status = match_checksum(a, r, crc32_z(0, (const unsigned char *)*text, (size_t)r->size), d);
	if (status != FS_OK) {
		free(*text);
		*text = NULL;
	}
	return status;
}
