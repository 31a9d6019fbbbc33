/* safetensors: what is written is read back, what is wrong is refused in one line. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "files.h"
#include "safetensors.h"
#include "file_view.h"
#include "suite.h"

static const float matrix[6] = { 1, 2, 3, 4, 5, 6 };
static const int32_t scalar[1] = { -7 };
static const int64_t dims_2_3[2] = { 2, 3 }, dims_0_4[2] = { 0, 4 };

static const struct safetensors_item items[] = {
	{ "b.weight", DT_F32, 2, dims_2_3, matrix },
	{ "a", DT_I32, 0, NULL, scalar },
	{ "empty", DT_BF16, 2, dims_0_4, NULL },
};
static const struct safetensors_pair metadata[] = { { "format", "pt" }, { "made \"by\"", "test\n" } };

static char *folder;

static const char *in_folder(const char *name)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void set_up(void)
{
	folder = make_temporary_folder();
}

static void tear_down(void)
{
	remove_folder(folder);
	free(folder);
}

/* A file in memory from its header and the number of data bytes: 0, 1, 2, ... */
static unsigned char *make_file(const char *header, size_t data, size_t *size)
{
	size_t n = strlen(header);
	unsigned char *bytes = calloc(1, 8 + n + data + 1);
	memcpy(bytes, &(uint64_t){ n }, 8);
	memcpy(bytes + 8, header, n);
	for (size_t i = 0; i < data; i++)
		bytes[8 + n + i] = (unsigned char)i;
	*size = 8 + n + data;
	return bytes;
}

START_TEST(what_is_written_is_read)
{
	struct diag d = { 0 };
	struct safetensors f;
	const char *path = in_folder("w.safetensors");
	ck_assert_int_eq(safetensors_write(path, items, 3, metadata, 2, &d), FS_OK);
	ck_assert_int_eq(files_in(folder), 1);
	ck_assert_int_eq(safetensors_open(&f, path, &d), FS_OK);
	ck_assert_uint_eq(f.count, 3);
	ck_assert_str_eq(safetensors_metadata(&f, "made \"by\""), "test\n");
	ck_assert_ptr_null(safetensors_metadata(&f, "no"));
	ck_assert_ptr_null(safetensors_find(&f, "no"));
	for (int i = 0; i < 3; i++) {
		char bytes[24];
		const struct safetensors_entry *e = safetensors_find(&f, items[i].name);
		ck_assert_ptr_nonnull(e);
		ck_assert_int_eq(e->dtype, items[i].dtype);
		ck_assert_int_eq(e->rank, items[i].rank);
		ck_assert_int_eq(safetensors_read(&f, e, 0, e->bytes, bytes, &d), FS_OK);
		if (e->bytes > 0)
			ck_assert_mem_eq(bytes, items[i].data, (size_t)e->bytes);
	}
	safetensors_close(&f);
}
END_TEST

START_TEST(equal_input_gives_equal_bytes)
{
	struct diag d = { 0 };
	size_t size, again_size;
	safetensors_write(in_folder("w"), items, 3, NULL, 0, &d);
	unsigned char *bytes = slurp(in_folder("w"), &size);
	safetensors_write(in_folder("w"), items, 3, NULL, 0, &d);
	unsigned char *again = slurp(in_folder("w"), &again_size);
	ck_assert_uint_eq(size, again_size);
	ck_assert_mem_eq(bytes, again, size);
	ck_assert_uint_eq(bytes[0] % 8, 0);
	ck_assert_mem_eq(bytes + 8, "{\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}", 63);
	free(bytes);
	free(again);
}
END_TEST

/* Headers, bytes of data behind them, and what is said. */
static const struct wrong { const char *header; size_t data; const char *message; } wrongs[] = {
	{ "{\"fc1.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,12]}}", 12,
	  "t: tensor 'fc1.weight': data_offsets [0, 12] do not match f32[2,2] (16 bytes): the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
	  "t: tensor 'x': unused bytes stand before its data: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
	  "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
	  "t: tensor 'y': its data overlaps another tensor's: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 3,
	  "t: its tensors have 2 bytes, but 3 follow the header: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1,
	  "t: tensor 'x': its data ends after the file does: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[-2],\"data_offsets\":[0,2]}}", 2,
	  "t: tensor 'x': its shape is not a list of sizes: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,2],\"data_offsets\":[0,0]}}", 0,
	  "t: tensor 'x': f64[4611686018427387904,2] has more bytes than can be: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,0]}}", 2,
	  "t: tensor 'x': its data_offsets are not in order: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2.0]}}", 2,
	  "t: tensor 'x': its data_offsets are not two numbers: the file is damaged" },
	{ "{\"x\":{\"dtype\":8,\"shape\":[2],\"data_offsets\":[0,2]}}", 2,
	  "t: tensor 'x': it has no dtype: the file is damaged" },
	{ "{\"x\":{\"dtype\":\"U8\",\"data_offsets\":[0,2]}}", 2,
	  "t: tensor 'x': it has no shape: the file is damaged" },
	{ "{\"x\":3}", 0, "t: tensor 'x': it has no dtype: the file is damaged" },
	{ "{\"x\\n\":3}", 0, "t: a tensor's name is empty or has control characters" },
	{ "{\"__metadata__\":{\"a\":1}}", 0, "t: __metadata__ 'a' is not a string: the file is damaged" },
	{ "{\"__metadata__\":[]}", 0, "t: __metadata__ is not an object: the file is damaged" },
	{ "[]", 0, "t: the header is not a JSON object: not a safetensors file" },
	{ "", 0, "t: header, byte 0: '[' or '{' expected near end of file: not a safetensors file, or damaged" },
	{ "{\"x\":{},\"x\":{}}", 0,
	  "t: header, byte 11: duplicate object key near '\"x\"': not a safetensors file, or damaged" },
};

START_TEST(wrong_headers_are_refused)
{
	const struct wrong *w = &wrongs[_i];
	struct diag d = { 0 };
	struct safetensors f;
	size_t size;
	unsigned char *bytes = make_file(w->header, w->data, &size);
	ck_assert_int_ne(safetensors_open_memory(&f, "t", bytes, size, &d), FS_OK);
	ck_assert_str_eq(d.text, w->message);
	free(bytes);
}
END_TEST

START_TEST(lengths_are_checked)
{
	static const unsigned char huge[16] = { 0, 0, 0, 0, 1 }, cut[9] = { 99 };
	struct safetensors f;
	struct diag a = { 0 }, b = { 0 }, c = { 0 };
	safetensors_open_memory(&f, "t", huge, 16, &a);
	ck_assert_str_eq(a.text, "t: the header would have 4294967296 bytes, more than 100000000: "
				 "not a safetensors file");
	safetensors_open_memory(&f, "t", cut, 9, &b);
	ck_assert_str_eq(b.text, "t: the header has 99 bytes, the file 9: it is cut short");
	safetensors_open_memory(&f, "t", cut, 7, &c);
	ck_assert_str_eq(c.text, "t: 7 bytes are too few for a safetensors file");
}
END_TEST

START_TEST(deep_json_is_refused)
{
	struct diag d = { 0 };
	struct safetensors f;
	size_t size;
	char *header = malloc(1000001);
	memset(header, '[', 1000000);
	header[1000000] = '\0';
	unsigned char *bytes = make_file(header, 0, &size);
	ck_assert_int_eq(safetensors_open_memory(&f, "t", bytes, size, &d), FS_INVALID);
	free(bytes);
	free(header);
}
END_TEST

START_TEST(unknown_types_are_listed_not_read)
{
	struct diag d = { 0 };
	struct safetensors f;
	size_t size;
	char byte;
	unsigned char *bytes = make_file("{\"x\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]},"
					 "\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}  ", 3, &size);
	ck_assert_int_eq(safetensors_open_memory(&f, "t", bytes, size, &d), FS_OK);
	ck_assert_int_eq(safetensors_read(&f, safetensors_find(&f, "y"), 0, 1, &byte, &d), FS_OK);
	ck_assert_int_eq(byte, 2);
	ck_assert_int_eq(safetensors_read(&f, safetensors_find(&f, "x"), 0, 1, &byte, &d), FS_UNSUPPORTED);
	ck_assert_str_eq(d.text, "t: tensor 'x': elements of type 'F4' cannot be read");
	safetensors_close(&f);
	free(bytes);
}
END_TEST

/* Opens and, where that works, reads all: nothing may crash, errors have a message. */
static bool try_bytes(const unsigned char *bytes, size_t size)
{
	struct diag d = { 0 };
	struct safetensors f;
	char *copy = malloc(size + 1); /* exact, so that ASan sees a read behind the end */
	memcpy(copy, bytes, size);
	bool ok = safetensors_open_memory(&f, "t", copy, size, &d) == FS_OK;
	ck_assert(ok || d.text[0] != '\0');
	for (uint32_t i = 0; ok && i < f.count; i++) {
		char *dst = malloc((size_t)f.entries[i].bytes + 1);
		safetensors_read(&f, &f.entries[i], 0, f.entries[i].bytes, dst, &d);
		free(dst);
	}
	if (ok)
		safetensors_close(&f);
	free(copy);
	return ok;
}

START_TEST(damaged_files_do_not_crash)
{
	struct diag d = { 0 };
	size_t size;
	safetensors_write(in_folder("w"), items, 3, metadata, 2, &d);
	unsigned char *bytes = slurp(in_folder("w"), &size);
	for (size_t n = 0; n < size; n++)
		ck_assert(!try_bytes(bytes, n));
	for (size_t bit = 0; bit < 8 * size; bit++) {
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		try_bytes(bytes, size);
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	ck_assert(try_bytes(bytes, size));
	free(bytes);
}
END_TEST

/* --- views --- */

static void fill_strided(const struct file_view *v, const unsigned char *file, const int64_t *start,
			 const int64_t *extent, unsigned char *dst)
{
	int64_t n = 1, size = dtype_size(v->dtype);
	for (int i = 0; i < v->rank; i++)
		n *= extent[i];
	for (int64_t k = 0; k < n; k++) {
		int64_t rest = k, at = 0;
		for (int i = v->rank - 1; i >= 0; i--) {
			at += (start[i] + rest % extent[i]) * v->strides[i];
			rest /= extent[i];
		}
		memcpy(dst + k * size, file + v->offset + at * size, (size_t)size);
	}
}

/* Random dims in random order, with gaps, repeats, and a random box of them. */
static void check_random_view(uint64_t *r, const unsigned char *bytes, size_t size)
{
	int64_t dims[4], strides[4], start[4], extent[4], step = 1;
	unsigned char got[65536], expected[65536];
	struct file_view v = { .dtype = next_random(r) % 2 ? DT_F32 : DT_BF16, .dims = dims, .strides = strides };
	v.rank = (int)(next_random(r) % 5);
	v.offset = (int64_t)(next_random(r) % 7);
	int first = (int)(next_random(r) % 4);
	for (int k = 0; k < v.rank; k++) {
		int i = (first + k) % v.rank;
		dims[i] = 1 + (int64_t)(next_random(r) % 7);
		strides[i] = next_random(r) % 8 == 0 ? 0 : step;
		step *= dims[i] + (next_random(r) % 4 == 0);
		start[i] = (int64_t)(next_random(r) % (uint64_t)dims[i]);
		extent[i] = 1 + (int64_t)(next_random(r) % (uint64_t)(dims[i] - start[i]));
	}
	struct file f;
	struct diag d = { 0 };
	int64_t span, bytes_out;
	ck_assert(file_view_span(&v, &span) && v.offset + span <= (int64_t)size);
	ck_assert(file_view_dense_bytes(v.dtype, extent, v.rank, &bytes_out) && bytes_out <= (int64_t)sizeof(got));
	file_open_memory(&f, "t", bytes, size, &d);
	ck_assert_int_eq(file_view_read(&f, &v, start, extent, got, &d), FS_OK);
	fill_strided(&v, bytes, start, extent, expected);
	ck_assert_mem_eq(got, expected, (size_t)bytes_out);
	file_close(&f);
}

START_TEST(boxes_of_strided_tensors)
{
	uint64_t r = 1;
	size_t size = 65536;
	unsigned char *bytes = malloc(size);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)next_random(&r);
	for (int i = 0; i < 20000; i++)
		check_random_view(&r, bytes, size);
	free(bytes);
}
END_TEST

START_TEST(far_strides_and_long_runs)
{
	size_t size = 400000;
	unsigned char *bytes = malloc(size), got[40000], expected[40000];
	struct diag d = { 0 };
	struct file f;
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 2654435761u >> 13);
	file_open_memory(&f, "t", bytes, size, &d);
	struct file_view far = { DT_F32, 1, (int64_t[]){ 3 }, (int64_t[]){ 40000 }, 4 };
	struct file_view transposed = { DT_F32, 2, (int64_t[]){ 2, 30000 }, (int64_t[]){ 1, 3 }, 0 };
	file_view_read(&f, &far, (int64_t[]){ 1 }, (int64_t[]){ 2 }, got, &d);
	fill_strided(&far, bytes, (int64_t[]){ 1 }, (int64_t[]){ 2 }, expected);
	ck_assert_mem_eq(got, expected, 8);
	file_view_read(&f, &transposed, (int64_t[]){ 1, 20001 }, (int64_t[]){ 1, 9999 }, got, &d);
	fill_strided(&transposed, bytes, (int64_t[]){ 1, 20001 }, (int64_t[]){ 1, 9999 }, expected);
	ck_assert_mem_eq(got, expected, 9999 * 4);
	file_close(&f);
	free(bytes);
}
END_TEST

START_TEST(a_slice_of_a_file)
{
	struct diag d = { 0 };
	struct safetensors f;
	float got[2];
	safetensors_write(in_folder("w"), items, 3, NULL, 0, &d);
	ck_assert_int_eq(safetensors_open(&f, in_folder("w"), &d), FS_OK);
	const struct safetensors_entry *e = safetensors_find(&f, "b.weight");
	ck_assert_int_eq(safetensors_read_slice(&f, e, (int64_t[]){ 0, 1 }, (int64_t[]){ 2, 1 }, got, &d), FS_OK);
	ck_assert(got[0] == 2 && got[1] == 5);
	ck_assert_int_eq(safetensors_read_slice(&f, e, (int64_t[]){ 2, 0 }, (int64_t[]){ 0, 3 }, got, &d), FS_OK);
	safetensors_close(&f);
}
END_TEST

/* --- the system says no --- */

START_TEST(a_file_that_shrinks)
{
	struct diag d = { 0 };
	struct safetensors f;
	float got[6];
	const char *path = in_folder("w");
	safetensors_write(path, items, 3, NULL, 0, &d);
	ck_assert_int_eq(safetensors_open(&f, path, &d), FS_OK);
	ck_assert_int_eq(truncate(path, f.entries[0].offset), 0);
	ck_assert_int_eq(safetensors_read(&f, safetensors_find(&f, "b.weight"), 0, 24, got, &d), FS_IO);
	ck_assert_ptr_nonnull(strstr(d.text, "w: became shorter while it was read"));
	safetensors_close(&f);
}
END_TEST

START_TEST(no_such_file)
{
	struct diag a = { 0 }, b = { 0 }, c = { 0 };
	struct safetensors f;
	ck_assert_int_eq(safetensors_open(&f, "/no/w.safetensors", &a), FS_IO);
	ck_assert_str_eq(a.text, "/no/w.safetensors: cannot be opened: No such file or directory");
	ck_assert_int_eq(safetensors_open(&f, "/tmp", &b), FS_IO);
	ck_assert_str_eq(b.text, "/tmp: is a folder, where a file is expected");
	ck_assert_int_eq(safetensors_write("/no/w.safetensors", items, 3, NULL, 0, &c), FS_IO);
	ck_assert_str_eq(c.text, "/no/w.safetensors: cannot be written: No such file or directory");
}
END_TEST

START_TEST(a_full_disk)
{
	struct diag d = { 0 };
	ck_assert_int_eq(safetensors_write("/dev/full", items, 3, NULL, 0, &d), FS_IO);
	ck_assert_str_eq(d.text, "/dev/full: cannot be written: No space left on device");
}
END_TEST

START_TEST(a_file_size_limit_leaves_nothing)
{
	struct diag d = { 0 };
	struct rlimit old, small;
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){ 100, old.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	enum fs_status status = safetensors_write(in_folder("w"), items, 3, NULL, 0, &d);
	setrlimit(RLIMIT_FSIZE, &old);
	ck_assert_int_eq(status, FS_IO);
	ck_assert_ptr_nonnull(strstr(d.text, "w: cannot be written: File too large"));
	ck_assert_int_eq(files_in(folder), 0);
}
END_TEST

START_TEST(what_cannot_be_written)
{
	struct diag a = { 0 }, b = { 0 }, c = { 0 };
	const struct safetensors_item twice[2] = { items[1], items[1] };
	const struct safetensors_item huge = { "h", DT_F32, 1, (int64_t[]){ INT64_MAX }, NULL };
	const struct safetensors_item bad = { "\xff", DT_I32, 0, NULL, scalar };
	ck_assert_int_eq(safetensors_write(in_folder("w"), twice, 2, NULL, 0, &a), FS_INVALID);
	ck_assert_ptr_nonnull(strstr(a.text, "w: tensor 'a' is there twice"));
	ck_assert_int_eq(safetensors_write(in_folder("w"), &huge, 1, NULL, 0, &b), FS_INVALID);
	ck_assert_int_eq(safetensors_write(in_folder("w"), &bad, 1, NULL, 0, &c), FS_INVALID);
	ck_assert_int_eq(files_in(folder), 0);
}
END_TEST

START_TEST(a_link_is_followed)
{
	struct diag d = { 0 };
	char target[4096], link[4096];
	size_t size;
	snprintf(target, sizeof(target), "%s/target", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	spill(target, "x", 1);
	ck_assert_int_eq(symlink(target, link), 0);
	ck_assert_int_eq(file_write_whole(link, "yes", 3, &d), FS_OK);
	unsigned char *bytes = slurp(target, &size);
	ck_assert(size == 3 && memcmp(bytes, "yes", 3) == 0);
	free(bytes);
}
END_TEST

/* --- real files --- */

static int open_all(const char *models, const char *name)
{
	static const char *const files[] = { "weights", "inputs", "expected", "fp8_expected", "train", "loss" };
	int n = 0;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[8192];
		struct diag d = { 0 };
		struct safetensors f;
		snprintf(path, sizeof(path), "%s/%s/%s.safetensors", models, name, files[i]);
		if (access(path, R_OK) != 0)
			continue;
		ck_assert_msg(safetensors_open(&f, path, &d) == FS_OK, "%s", d.text);
		for (uint32_t k = 0; k < f.count; k++)
			ck_assert_int_ne(f.entries[k].dtype, DT_NONE);
		safetensors_close(&f);
		n++;
	}
	return n;
}

START_TEST(real_files_open)
{
	char models[4096];
	const char *shared = shared_folder("check_safetensors real_files_open");
	if (shared == NULL)
		return;
	snprintf(models, sizeof(models), "%s/models", shared);
	int n = 0;
	DIR *dir = opendir(models);
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
		n += open_all(models, e->d_name);
	if (dir != NULL)
		closedir(dir);
	ck_assert_int_gt(n, 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("safetensors");
	TCase *c = tcase_create("all");
	suite_add_tcase(suite, c);
	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_test(c, what_is_written_is_read);
	tcase_add_test(c, equal_input_gives_equal_bytes);
	tcase_add_loop_test(c, wrong_headers_are_refused, 0, sizeof(wrongs) / sizeof(wrongs[0]));
	tcase_add_test(c, lengths_are_checked);
	tcase_add_test(c, deep_json_is_refused);
	tcase_add_test(c, unknown_types_are_listed_not_read);
	tcase_add_test(c, damaged_files_do_not_crash);
	tcase_add_test(c, boxes_of_strided_tensors);
	tcase_add_test(c, far_strides_and_long_runs);
	tcase_add_test(c, a_slice_of_a_file);
	tcase_add_test(c, a_file_that_shrinks);
	tcase_add_test(c, no_such_file);
	tcase_add_test(c, a_full_disk);
	tcase_add_test(c, a_file_size_limit_leaves_nothing);
	tcase_add_test(c, what_cannot_be_written);
	tcase_add_test(c, a_link_is_followed);
	tcase_add_test(c, real_files_open);
	return suite_run(suite);
}
