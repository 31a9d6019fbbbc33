/* .pt2 archives and the weights in them: real ones of torch, and hand-made wrong ones. */
#include <check.h>
#include <sys/stat.h>
#include <zlib.h>

#include "files.h"
#include "pt2.h"
#include "safetensors.h"
#include "weights.h"
#include "suite.h"

#define TINY "tests/data/import/tiny"

/* --- a maker of zip archives that can lie --- */

struct part {
	const char *name, *bytes;
	int method, flag;
	int shift;        /* added to where the directory says it is */
	int grow;         /* added to its size, in both headers */
	bool wrong_crc;
};

struct buffer { unsigned char bytes[16384]; size_t size; };

static void put(struct buffer *b, uint64_t value, int bytes)
{
	for (; bytes > 0; bytes--, value >>= 8)
		b->bytes[b->size++] = (unsigned char)value;
}

static void put_text(struct buffer *b, const char *s)
{
	memcpy(b->bytes + b->size, s, strlen(s));
	b->size += strlen(s);
}

/* What both headers share, from "version needed" to "extra length". */
static void put_common(struct buffer *b, const struct part *p)
{
	size_t size = strlen(p->bytes);
	put(b, 10, 2);
	put(b, (uint64_t)p->flag, 2);
	put(b, (uint64_t)p->method, 2);
	put(b, 0, 4);
	put(b, crc32(0, (const unsigned char *)p->bytes, (uInt)size) + p->wrong_crc, 4);
	put(b, size + (uint64_t)p->grow, 4);
	put(b, size + (uint64_t)p->grow, 4);
	put(b, strlen(p->name), 2);
	put(b, 0, 2);
}

static void make_zip(struct buffer *b, const struct part *parts, int count)
{
	size_t at[16];
	b->size = 0;
	for (int i = 0; i < count; i++) {
		at[i] = b->size;
		put(b, 0x04034b50, 4);
		put_common(b, &parts[i]);
		put_text(b, parts[i].name);
		put_text(b, parts[i].bytes);
	}
	size_t directory = b->size;
	for (int i = 0; i < count; i++) {
		put(b, 0x02014b50, 4);
		put(b, 10, 2);
		put_common(b, &parts[i]);
		put(b, 0, 10);
		put(b, at[i] + (uint64_t)(int64_t)parts[i].shift, 4);
		put_text(b, parts[i].name);
	}
	size_t end = b->size;
	put(b, 0x06054b50, 4);
	put(b, 0, 4);
	put(b, (uint64_t)count, 2);
	put(b, (uint64_t)count, 2);
	put(b, end - directory, 4);
	put(b, directory, 4);
	put(b, 0, 2);
}

static enum fs_status open_bytes(struct pt2 *p, const void *bytes, size_t size, const char *model,
				 struct diag *d)
{
	struct file file;
	TRY(file_open_memory(&file, "t", bytes, size, d));
	return pt2_open_take(p, &file, model, d);
}

static enum fs_status open_parts(struct pt2 *p, const struct part *parts, struct diag *d)
{
	static struct buffer b;
	int count = 0;
	while (count < 16 && parts[count].name != NULL)
		count++;
	make_zip(&b, parts, count);
	return open_bytes(p, b.bytes, b.size, NULL, d);
}

/* --- archives that are refused --- */

#define PROGRAM { .name = "m/models/model.json", .bytes = "{}" }
#define CONFIG(text) { .name = "m/data/weights/model_weights_config.json", .bytes = "{\"config\":{" text "}}" }
#define META(dtype, sizes, strides, offset)                                                        \
	"\"tensor_meta\":{\"dtype\":" dtype ",\"sizes\":[" sizes "],\"strides\":[" strides "]," \
	"\"storage_offset\":{\"as_int\":" offset "}}"
#define ENTRY(name, path, meta) \
	"\"" name "\":{\"path_name\":\"" path "\",\"is_param\":true,\"use_pickle\":false," meta "}"
#define N(n) "{\"as_int\":" #n "}"
#define DATA(text) { .name = "m/data/weights/weight_0", .bytes = text }

static const struct wrong { struct part parts[5]; const char *message; } wrongs[] = {
	{ { { .name = "m/a", .bytes = "x" }, { .name = "m/a", .bytes = "x" } },
	  "t: record 'm/a' is there twice: the file is damaged" },
	{ { { .name = "m/../a", .bytes = "x" } }, "t: the name of record 0 leads out of the archive: refused" },
	{ { { .name = "/a", .bytes = "x" } }, "t: the name of record 0 leads out of the archive: refused" },
	{ { { .name = "m/a\n", .bytes = "x" } }, "t: the name of record 0 leads out of the archive: refused" },
	{ { { .name = "m/a", .bytes = "x", .method = 8 } },
	  "t: record 'm/a' is compressed (method 8): torch.export.save stores records, pass the file as it was "
	  "saved" },
	{ { { .name = "m/a", .bytes = "x", .flag = 1 } }, "t: record 'm/a' is encrypted: not supported" },
	{ { { .name = "m/a", .bytes = "x", .grow = 100000 } },
	  "t: record 'm/a' ends after the file does: the file is damaged" },
	{ { { .name = "m/a", .bytes = "xyz", .grow = 1 }, { .name = "m/b", .bytes = "x" } },
	  "t: record 'm/b' overlaps another one: the file is damaged" },
	{ { { .name = "m/a", .bytes = "xyz", .shift = 1 } },
	  "t: record 'm/a' differs in its header and in the directory: the file is damaged" },
	{ { { .name = "m/a", .bytes = "x" }, { .name = "n/a", .bytes = "x" } },
	  "t: records 'm/...' and 'n/a': more than one folder at the root: not an archive of torch" },
	{ { { .name = "m/a", .bytes = "x" } },
	  "t: holds no models/*.json: not an archive of torch.export.save" },
	{ { { .name = "serialized_exported_program.json", .bytes = "{}" }, { .name = "version", .bytes = "1" } },
	  "t: is an exported program of an older torch: save the model with torch.export.save of a newer torch" },
	{ { { .name = "m/data.pkl", .bytes = "x" } },
	  "t: is a file of torch.save or TorchScript, not of torch.export.save: save the model with "
	  "torch.export.save of a newer torch" },
	{ { PROGRAM, { .name = "m/models/other.json", .bytes = "{}" } },
	  "t: holds 2 programs (model, other): save each in a file of its own" },
	{ { PROGRAM, { .name = "m/byteorder", .bytes = "big" } },
	  "t: its byte order is not 'little': save it on a little-endian machine" },
	{ { PROGRAM, { .name = "m/data/weights/model_weights_config.json", .bytes = "{}", .wrong_crc = true } },
	  "t: record 'data/weights/model_weights_config.json' does not match its checksum: the file is damaged" },
	{ { PROGRAM, { .name = "m/data/weights/model_weights_config.json", .bytes = "{}" } },
	  "t: record 'data/weights/model_weights_config.json' has no object 'config': the file is damaged" },
	{ { PROGRAM, CONFIG("\"a\":3") }, "t: tensor 'a': its entry is not an object: the file is damaged" },
	{ { PROGRAM, CONFIG("\"a\":{}") }, "t: tensor 'a': it has no tensor_meta: the file is damaged" },
	{ { PROGRAM, CONFIG(ENTRY("a", "weight_0", META("7", N(2), N(1), "-1"))) },
	  "t: tensor 'a': its tensor_meta lacks dtype, sizes or storage_offset: the file is damaged" },
	{ { PROGRAM, CONFIG(ENTRY("a", "weight_0", META("7", N(2), "", "0"))) },
	  "t: tensor 'a': its sizes and strides are not lists of as_int: the file is damaged" },
	{ { PROGRAM, CONFIG(ENTRY("a", "weight_0", META("7", N(2), N(1), "0"))) },
	  "t: tensor 'a': there is no record 'data/weights/weight_0': the file is damaged" },
	{ { PROGRAM, CONFIG(ENTRY("a", "../x", META("7", N(2), N(1), "0"))) },
	  "t: tensor 'a': its path_name is not the name of a record: the file is damaged" },
	{ { PROGRAM, DATA("12345678"), CONFIG(ENTRY("a", "weight_0", META("7", N(2), N(1), "1"))) },
	  "t: tensor 'a': f32[2] ends behind the 8 bytes of record 'data/weights/weight_0': the file is damaged" },
	{ { PROGRAM, DATA("12345678"), CONFIG(ENTRY("a", "weight_0", META("7", N(2), N(4611686018427387904), "0"))) },
	  "t: tensor 'a': f32[2] ends behind the 8 bytes of record 'data/weights/weight_0': the file is damaged" },
	{ { PROGRAM, DATA("12345678"),
	    CONFIG(ENTRY("a", "weight_0", META("7", N(4294967296) "," N(4294967296), N(0) "," N(0), "0"))) },
	  "t: tensor 'a': it has more elements than can be: the file is damaged" },
};

START_TEST(wrong_archives_are_refused)
{
	struct diag d = { 0 };
	struct pt2 p;
	ck_assert_int_ne(open_parts(&p, wrongs[_i].parts, &d), FS_OK);
	ck_assert_str_eq(d.text, wrongs[_i].message);
}
END_TEST

START_TEST(damaged_weights_are_not_given)
{
	static const struct part parts[] = { PROGRAM,
		{ .name = "m/data/weights/weight_0", .bytes = "12345678", .wrong_crc = true },
		CONFIG(ENTRY("a", "weight_0", META("7", N(2), N(1), "0"))), { 0 } };
	struct diag d = { 0 };
	struct pt2 p;
	float two[2];
	ck_assert_msg(open_parts(&p, parts, &d) == FS_OK, "%s", d.text);
	const int64_t start[1] = { 0 }, extent[1] = { 2 };
	ck_assert_int_ne(pt2_read_slice(&p, pt2_find(&p, "a"), start, extent, two, &d), FS_OK);
	ck_assert_str_eq(d.text, "t: record 'data/weights/weight_0' does not match its checksum: the file is damaged");
	pt2_close(&p);
}
END_TEST

START_TEST(weights_that_the_file_cannot_give)
{
	static const struct part parts[] = { PROGRAM, { .name = "m/data/weights/weight_0", .bytes = "" },
		CONFIG(ENTRY("none", "weight_0", META("7", N(2), N(1), "0")) ","
		       ENTRY("empty", "weight_0", META("7", N(0), N(1), "0")) ","
		       ENTRY("complex", "weight_0", META("9", N(1), N(1), "0")) ","
		       "\"custom\":{\"path_name\":\"c\",\"use_pickle\":true,\"tensor_meta\":null}"), { 0 } };
	static const char *const messages[][2] = {
		{ "none", "t holds no data for 'none': pass --weights" },
		{ "complex", "t: 'complex' has elements of a type that cannot be read" },
		{ "custom", "t: 'custom' is kept as a pickle: re-save it with a newer torch, or pass --weights "
			    "x.safetensors" },
	};
	struct diag d = { 0 };
	struct pt2 p;
	ck_assert_msg(open_parts(&p, parts, &d) == FS_OK, "%s", d.text);
	const int64_t zero[1] = { 0 };
	ck_assert_int_eq(pt2_read_slice(&p, pt2_find(&p, "empty"), zero, zero, NULL, &d), FS_OK);
	for (int i = 0; i < 3; i++) {
		struct diag e = { 0 };
		ck_assert_int_ne(pt2_read_slice(&p, pt2_find(&p, messages[i][0]), zero, zero, NULL, &e), FS_OK);
		ck_assert_str_eq(e.text, messages[i][1]);
	}
	pt2_close(&p);
}
END_TEST

START_TEST(a_program_by_name)
{
	static const struct part parts[] = { PROGRAM, { .name = "m/models/other.json", .bytes = "[1]" },
					     { .name = "m/folder/", .bytes = "" } };
	static struct buffer b;
	struct diag d = { 0 }, e = { 0 };
	struct pt2 p;
	char *text;
	size_t size;
	make_zip(&b, parts, 3);
	ck_assert_int_eq(open_bytes(&p, b.bytes, b.size, "other", &d), FS_OK);
	ck_assert_int_eq(pt2_read_program(&p, &text, &size, &d), FS_OK);
	ck_assert(size == 3 && strcmp(text, "[1]") == 0);
	free(text);
	pt2_close(&p);
	ck_assert_int_eq(open_bytes(&p, b.bytes, b.size, "third", &e), FS_INVALID);
	ck_assert_str_eq(e.text, "t: holds no program 'models/third.json'");
}
END_TEST

/* Opens and, where that works, reads all: nothing may crash, errors have a message. */
static bool try_bytes(const unsigned char *bytes, size_t size)
{
	struct diag d = { 0 };
	struct pt2 p;
	unsigned char *copy = malloc(size + 1);
	memcpy(copy, bytes, size);
	bool ok = open_bytes(&p, copy, size, NULL, &d) == FS_OK;
	ck_assert(ok || d.text[0] != '\0');
	for (uint32_t i = 0; ok && i < p.count; i++) {
		const struct file_view *v = &p.tensors[i].view;
		char out[4096];
		int64_t start[FILE_VIEW_MAX_RANK] = { 0 }, need;
		if (v->dtype != DT_NONE && file_view_dense_bytes(v->dtype, v->dims, v->rank, &need) && need <= 4096)
			pt2_read_slice(&p, &p.tensors[i], start, v->dims, out, &d);
	}
	if (ok)
		pt2_close(&p);
	free(copy);
	return ok;
}

START_TEST(damaged_files_do_not_crash)
{
	size_t size;
	unsigned char *bytes = slurp(TINY ".pt2", &size);
	ck_assert_ptr_nonnull(bytes);
	for (size_t n = 0; n < size; n++)
		ck_assert_msg(!try_bytes(bytes, n), "cut at %zu", n);
	for (size_t i = 0; i < size; i++) {
		bytes[i] ^= (unsigned char)(1 << i % 8);
		try_bytes(bytes, size);
		bytes[i] ^= (unsigned char)(1 << i % 8);
	}
	ck_assert(try_bytes(bytes, size));
	free(bytes);
}
END_TEST

/* --- weights --- */

/* Compares what both have, whole and in halves; returns how many. */
static int compare(const struct safetensors *f, const struct weights *w)
{
	int n = 0;
	for (uint32_t i = 0; i < f->count; i++) {
		const struct safetensors_entry *e = &f->entries[i];
		const struct weight *t = weights_find(w, e->name);
		struct diag d = { 0 };
		int64_t start[FILE_VIEW_MAX_RANK] = { 0 }, extent[FILE_VIEW_MAX_RANK];
		if (t == NULL)
			continue;
		char *a = calloc(1, (size_t)e->bytes + 1), *b = calloc(1, (size_t)e->bytes + 1);
		ck_assert_msg(weights_require(w, e->name, e->dtype, e->rank, e->dims, &t, &d) == FS_OK, "%s", d.text);
		ck_assert_int_eq(safetensors_read(f, e, 0, e->bytes, a, &d), FS_OK);
		ck_assert_int_eq(weights_read(t, b, &d), FS_OK);
		ck_assert_mem_eq(a, b, (size_t)e->bytes + 1);
		for (int k = 0; k < e->rank; k++) {
			start[k] = e->dims[k] / 2;
			extent[k] = e->dims[k] - start[k];
		}
		ck_assert_int_eq(safetensors_read_slice(f, e, start, extent, a, &d), FS_OK);
		ck_assert_int_eq(weights_read_slice(t, start, extent, b, &d), FS_OK);
		ck_assert_mem_eq(a, b, (size_t)e->bytes + 1);
		free(a);
		free(b);
		n++;
	}
	return n;
}

static int compare_files(const char *pt2, const char *safetensors)
{
	struct diag d = { 0 };
	struct safetensors f;
	struct weights w = { 0 };
	ck_assert_msg(safetensors_open(&f, safetensors, &d) == FS_OK, "%s", d.text);
	ck_assert_msg(weights_add(&w, pt2, &d) == FS_OK, "%s", d.text);
	int n = compare(&f, &w);
	weights_release(&w);
	safetensors_close(&f);
	return n;
}

START_TEST(strided_offset_and_constant)
{
	ck_assert_int_eq(compare_files(TINY ".pt2", TINY ".safetensors"), 7);
	ck_assert_int_eq(compare_files(TINY ".safetensors", TINY ".safetensors"), 7);
}
END_TEST

START_TEST(ties_are_seen)
{
	struct diag d = { 0 };
	struct weights w = { 0 };
	ck_assert_msg(weights_add(&w, TINY ".pt2", &d) == FS_OK, "%s", d.text);
	const struct weight *emb = weights_find(&w, "emb.weight"), *head = weights_find(&w, "head.weight");
	ck_assert(weights_tied(emb, head) && weights_tied(emb, emb));
	ck_assert(!weights_tied(emb, weights_find(&w, "t")));
	weights_release(&w);
}
END_TEST

START_TEST(real_archives_equal_their_safetensors)
{
	static const char *const models[] = { "hops-inference", "hops-training", "llama-joint-sdpa", "llama-joint",
					      "llama-tiny-bf16-training", "mlp-training", "moe-tiny-training",
					      "quirks-core", "quirks-inference", "quirks-training" };
	const char *shared = shared_folder("check_pt2 real_archives_equal_their_safetensors");
	for (size_t i = 0; shared != NULL && i < sizeof(models) / sizeof(models[0]); i++) {
		char pt2[4096], safetensors[4096];
		snprintf(pt2, sizeof(pt2), "%s/models/%s/model.pt2", shared, models[i]);
		snprintf(safetensors, sizeof(safetensors), "%s/models/%s/weights.safetensors", shared, models[i]);
		ck_assert_int_gt(compare_files(pt2, safetensors), 0);
	}
}
END_TEST

START_TEST(constants_of_an_archive_without_weights)
{
	char path[4096], weights[4096];
	const char *shared = shared_folder("check_pt2 constants_of_an_archive_without_weights");
	if (shared == NULL)
		return;
	struct diag d = { 0 };
	struct weights w = { 0 };
	const char *name = "layers.0.attention.wq.weight";
	snprintf(path, sizeof(path), "%s/models/llama-block-training/model.pt2", shared);
	snprintf(weights, sizeof(weights), "%s/models/llama-block-training/weights.safetensors", shared);
	ck_assert_msg(weights_add(&w, path, &d) == FS_OK, "%s", d.text);
	ck_assert_int_eq(weights_find(&w, "sin")->state, WEIGHT_READABLE);
	ck_assert_int_eq(weights_find(&w, name)->state, WEIGHT_NO_DATA);
	ck_assert(!weights_tied(weights_find(&w, name), weights_find(&w, "layers.0.attention.wo.weight")));
	ck_assert_msg(weights_add(&w, weights, &d) == FS_OK, "%s", d.text);
	ck_assert_int_eq(weights_find(&w, name)->state, WEIGHT_READABLE);
	weights_release(&w);
}
END_TEST

/* --- sources and their mistakes --- */

static char *folder;

static const char *in_folder(const char *name)
{
	static char paths[4][4096];
	static int next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void write_shard(const char *file, const char *name, float value)
{
	struct diag d = { 0 };
	const int64_t dims[1] = { 1 };
	const struct safetensors_item item = { name, DT_F32, 1, dims, &value };
	ck_assert_int_eq(safetensors_write(in_folder(file), &item, 1, NULL, 0, &d), FS_OK);
}

static void set_up(void)
{
	folder = make_temporary_folder();
	write_shard("s1", "a", 1);
	write_shard("s2", "b", 2);
}

static void tear_down(void)
{
	remove_folder(folder);
	free(folder);
}

static void write_index(const char *json)
{
	spill(in_folder("model.safetensors.index.json"), json, strlen(json));
}

START_TEST(an_index_and_a_folder)
{
	write_index(" {\"metadata\":{\"total_size\":8},\"weight_map\":{\"a\":\"s1\",\"b\":\"s2\"},\"x\":[]}");
	for (int i = 0; i < 2; i++) {
		struct diag d = { 0 };
		struct weights w = { 0 };
		float got = 0;
		const char *path = i == 0 ? folder : in_folder("model.safetensors.index.json");
		ck_assert_msg(weights_add(&w, path, &d) == FS_OK, "%s", d.text);
		ck_assert_uint_eq(w.list.count, 2);
		ck_assert_int_eq(weights_read(weights_find(&w, "b"), &got, &d), FS_OK);
		ck_assert(got == 2);
		weights_release(&w);
	}
}
END_TEST

static const struct bad_index { const char *json, *message; } bad_indexes[] = {
	{ "{\"weight_map\":{\"a\":\"../s1\"}}", "weight_map: the file of 'a' is not a name in the index's own "
						 "folder: refused" },
	{ "{\"weight_map\":{\"a\":\"/s1\"}}", "the file of 'a' is not a name in the index's own folder: refused" },
	{ "{\"weight_map\":{\"a\":\"..\"}}", "the file of 'a' is not a name in the index's own folder: refused" },
	{ "{\"weight_map\":{\"a\":3}}", "the file of 'a' is not a name in the index's own folder: refused" },
	{ "{\"weight_map\":{\"a\":\"s2\"}}", "'a' is not in s2: index and files do not belong together" },
	{ "{\"weight_map\":{\"a\":\"s3\"}}", "/s3: cannot be opened: No such file or directory" },
	{ "{\"weight_mop\":{\"a\":\"s3\"}}", "JSON without 'weight_map': not an index of safetensors files" },
	{ "{\"weight_map\":{\"a\":\"s1\"}", "line 1: '}' expected near end of file" },
	{ "hello", "neither a safetensors file, nor an index of such files, nor a .pt2" },
	{ "", "neither a safetensors file, nor an index of such files, nor a .pt2" },
};

START_TEST(bad_indexes_are_refused)
{
	struct diag d = { 0 };
	struct weights w = { 0 };
	write_index(bad_indexes[_i].json);
	ck_assert_int_ne(weights_add(&w, in_folder("model.safetensors.index.json"), &d), FS_OK);
	ck_assert_msg(strstr(d.text, bad_indexes[_i].message) != NULL, "%s", d.text);
	weights_release(&w);
}
END_TEST

START_TEST(what_a_model_needs)
{
	const int64_t dims[2] = { 1, 2 };
	const struct weight *t;
	struct weights w = { 0 };
	struct diag a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }, e = { 0 };
	weights_require(&w, "a", DT_F32, 1, dims, &t, &a);
	ck_assert_str_eq(a.text, "no weights for 'a': pass --weights");
	ck_assert_int_eq(weights_add(&w, in_folder("s1"), &b), FS_OK);
	ck_assert_int_eq(weights_require(&w, "a", DT_F32, 1, dims, &t, &b), FS_OK);
	ck_assert_int_eq(weights_require(&w, "a", DT_BF16, 2, dims, &t, &b), FS_INVALID);
	ck_assert_ptr_nonnull(strstr(b.text, "/s1: 'a' is f32[1], but the model has bf16[1,2]: these weights "
					     "belong to another model"));
	weights_require(&w, "c", DT_F32, 1, dims, &t, &c);
	ck_assert_ptr_nonnull(strstr(c.text, "/s1: no weight 'c'"));
	write_shard("s3", "a", 3);
	ck_assert_int_eq(weights_add(&w, in_folder("s3"), &d), FS_INVALID);
	ck_assert_ptr_nonnull(strstr(d.text, "'a' is in /"));
	ck_assert_ptr_nonnull(strstr(d.text, "/s3: pass only one of them"));
	weights_release(&w);
	mkdir(in_folder("empty"), 0777);
	ck_assert_int_eq(weights_add(&w, in_folder("empty"), &e), FS_IO);
	rmdir(in_folder("empty"));
	weights_release(&w);
}
END_TEST

START_TEST(pickled_weights_say_what_to_do)
{
	static const struct part parts[] = { PROGRAM, { .name = "m/data/weights/model.pt", .bytes = "x" } };
	static struct buffer b;
	struct diag d = { 0 };
	struct weights w = { 0 };
	const struct weight *t;
	make_zip(&b, parts, 2);
	spill(in_folder("old.pt2"), b.bytes, b.size);
	ck_assert_int_eq(weights_add(&w, in_folder("old.pt2"), &d), FS_OK);
	ck_assert_int_eq(weights_require(&w, "a", DT_F32, 0, NULL, &t, &d), FS_UNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(d.text, "old.pt2 keeps its weights as a pickle: re-save it with a newer torch"));
	weights_release(&w);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pt2");
	TCase *c = tcase_create("all");
	suite_add_tcase(suite, c);
	tcase_set_timeout(c, 300);
	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_loop_test(c, wrong_archives_are_refused, 0, sizeof(wrongs) / sizeof(wrongs[0]));
	tcase_add_test(c, weights_that_the_file_cannot_give);
	tcase_add_test(c, damaged_weights_are_not_given);
	tcase_add_test(c, a_program_by_name);
	tcase_add_test(c, damaged_files_do_not_crash);
	tcase_add_test(c, strided_offset_and_constant);
	tcase_add_test(c, ties_are_seen);
	tcase_add_test(c, real_archives_equal_their_safetensors);
	tcase_add_test(c, constants_of_an_archive_without_weights);
	tcase_add_test(c, an_index_and_a_folder);
	tcase_add_loop_test(c, bad_indexes_are_refused, 0, sizeof(bad_indexes) / sizeof(bad_indexes[0]));
	tcase_add_test(c, what_a_model_needs);
	tcase_add_test(c, pickled_weights_say_what_to_do);
	return suite_run(suite);
}
