/*
 * Feeds each reader with damaged copies of real files: fuzz_readers [N [READER [FIRST]]].
 *
 * Input i of a reader depends on i alone: what a crash reports ("safetensors 1234") is run again
 * by `fuzz_readers 1 safetensors 1234`.  A reader may refuse or accept; it must not crash, hang,
 * leak (ASan says so) or fail without a message of one line.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "graph_json.h"
#include "plan.h"
#include "pt2.h"
#include "safetensors.h"
#include "file_view.h"
#include "torch.h"
#include "tp_plan.h"
#include "weights.h"

enum { SEEDS = 4, ROOM = 1 << 18, HANG_SECONDS = 20, READ_LIMIT = 1 << 16 };

struct input { unsigned char bytes[ROOM]; size_t size; };

struct seed { unsigned char *bytes; size_t size; };

struct reader {
	const char *name;
	enum fs_status (*read)(const unsigned char *bytes, size_t size, struct diag *d);
	void (*repair)(struct input *in); /* NULL, or makes checksums right again */
	const char *files[SEEDS];         /* from the repository's root */
};

/* --- readers: each opens the bytes and reads all that they are said to hold --- */

static enum fs_status read_safetensors(const unsigned char *bytes, size_t size, struct diag *d)
{
	struct safetensors f;
	static unsigned char out[READ_LIMIT];
	TRY(safetensors_open_memory(&f, "t", bytes, size, d));
	enum fs_status status = FS_OK;
	for (uint32_t i = 0; i < f.count && status == FS_OK; i++) {
		const int64_t start[FILE_VIEW_MAX_RANK] = { 0 };
		if (f.entries[i].bytes <= READ_LIMIT)
			status = safetensors_read_slice(&f, &f.entries[i], start, f.entries[i].dims, out, d);
	}
	safetensors_close(&f);
	return status;
}

static enum fs_status read_program(const struct pt2 *p, struct diag *d)
{
	char *text = NULL;
	size_t size;
	enum fs_status status = pt2_read_program(p, &text, &size, d);
	free(text);
	return status;
}

static enum fs_status read_pt2(const unsigned char *bytes, size_t size, struct diag *d)
{
	struct file file;
	struct pt2 p;
	static unsigned char out[READ_LIMIT];
	TRY(file_open_memory(&file, "t", bytes, size, d));
	TRY(pt2_open_take(&p, &file, NULL, d));
	enum fs_status status = read_program(&p, d);
	for (uint32_t i = 0; i < p.count && status == FS_OK; i++) {
		const int64_t start[FILE_VIEW_MAX_RANK] = { 0 };
		const struct file_view *v = &p.tensors[i].view;
		int64_t need;
		if (v->dtype != DT_NONE && file_view_dense_bytes(v->dtype, v->dims, v->rank, &need) && need <= READ_LIMIT)
			status = pt2_read_slice(&p, &p.tensors[i], start, v->dims, out, d);
	}
	pt2_close(&p);
	return status;
}

/* Through a file without a name, so that recognising it and pread are in it too. */
static enum fs_status read_weights(const unsigned char *bytes, size_t size, struct diag *d)
{
	struct weights w = { 0 };
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		BUG("no memory file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	enum fs_status status = weights_add(&w, path, d);
	weights_release(&w);
	close(fd);
	return status;
}

static char *print_graph(const struct graph *g)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	BUG_ON(f == NULL);
	graph_print(g, f);
	fclose(f);
	return text;
}

/* What is taken prints, what is printed parses, and prints the same. */
static enum fs_status read_text(const unsigned char *bytes, size_t size, struct diag *d)
{
	struct context *c, *again;
	struct graph *g, *back;
	struct diag unused = { 0 };
	TRY(graph_parse((const char *)bytes, size, "t", &c, &g, d));
	char *text = print_graph(g);
	if (graph_parse(text, strlen(text), "t", &again, &back, &unused) != FS_OK)
		BUG("what is printed does not parse: %s", unused.text);
	char *second = print_graph(back);
	BUG_ON(strcmp(text, second) != 0);
	enum fs_status status = graph_verify(back, d);
	graph_destroy(g);
	graph_destroy(back);
	context_destroy(c);
	context_destroy(again);
	free(text);
	free(second);
	return status;
}

/* What is taken is a sound graph, and prints as one. */
static enum fs_status read_graph(const unsigned char *bytes, size_t size, struct diag *d)
{
	struct context *c, *again;
	struct graph *g, *back;
	struct diag unused = { 0 };
	TRY(graph_json_import((const char *)bytes, size, "t", NULL, NULL, &c, &g, d));
	if (graph_verify(g, &unused) != FS_OK)
		BUG("an unsound graph: %s", unused.text);
	char *text = print_graph(g);
	if (graph_parse(text, strlen(text), "t", &again, &back, &unused) != FS_OK)
		BUG("what is printed does not parse: %s", unused.text);
	free(text);
	graph_destroy(g);
	graph_destroy(back);
	context_destroy(c);
	context_destroy(again);
	return FS_OK;
}

/* What is taken is a sound graph. */
static enum fs_status import_torch(const unsigned char *bytes, size_t size, const struct import_options *o, struct diag *d)
{
	struct context *c = context_create(NULL);
	struct graph *g;
	struct diag unused = { 0 };
	enum fs_status status = torch_import((const char *)bytes, size, "t", o, c, &g, d);
	if (status == FS_OK) {
		if (graph_verify(g, &unused) != FS_OK)
			BUG("an unsound graph: %s", unused.text);
		graph_destroy(g);
	}
	context_destroy(c);
	return status;
}

static enum fs_status read_torch(const unsigned char *bytes, size_t size, struct diag *d)
{
	return import_torch(bytes, size, NULL, d);
}

/* With a size bound, which the conditions of the export are held to. */
static enum fs_status read_torch_dims(const unsigned char *bytes, size_t size, struct diag *d)
{
	const struct import_dim dim = { "s6", 8 };
	return import_torch(bytes, size, &(struct import_options){ .dims = &dim, .dim_count = 1 }, d);
}

static enum fs_status read_plan(const unsigned char *bytes, size_t size, struct diag *d)
{
	struct plan *p;
	TRY(plan_read((const char *)bytes, size, "t", &p, d));
	plan_destroy(p);
	return FS_OK;
}

static void repair_plan(struct input *in)
{
	plan_rehash((char *)in->bytes, in->size);
}

static enum fs_status read_tp_plan(const unsigned char *bytes, size_t size, struct diag *d)
{
	struct arena strings = { 0 };
	tp_rules rules = { 0 };
	enum fs_status status = tp_plan_parse((const char *)bytes, size, "t", &strings, &rules, d);
	vec_release(&rules);
	arena_release(&strings);
	return status;
}

static uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Right checksums in both headers of each record, so that damage reaches what reads the records. */
static void repair_zip(struct input *in)
{
	for (size_t at = 0; at + 46 <= in->size; at++) {
		unsigned char *entry = in->bytes + at;
		if (memcmp(entry, "PK\1\2", 4) != 0)
			continue;
		size_t local = get32(entry + 42), size = get32(entry + 24);
		if (local + 30 > in->size || memcmp(in->bytes + local, "PK\3\4", 4) != 0)
			continue;
		unsigned char *header = in->bytes + local;
		size_t data = local + 30 + (get32(header + 26) & 0xffff) + (get32(header + 26) >> 16);
		if (data > in->size || size > in->size - data)
			continue;
		uint32_t crc = (uint32_t)crc32_z(0, in->bytes + data, size);
		memcpy(entry + 16, &crc, 4);
		memcpy(header + 14, &crc, 4);
	}
}

#define DATA "tests/data/import/"
#define TINY DATA "tiny"
#define IR "tests/ir/"
#define TORCH "tests/data/torch/"

static const struct reader readers[] = {
	{ "safetensors", read_safetensors, NULL, { TINY ".safetensors" } },
	{ "text", read_text, NULL, { IR "ops.ir", IR "fp8.ir", IR "names.ir", IR "constants.ir" } },
	{ "graph", read_graph, NULL, { DATA "graph.json" } },
	{ "torch", read_torch, NULL, { TORCH "mlp_training.json", TORCH "hops_training.json", TORCH "scaled_mm.json",
				       TORCH "symbolic_dims.json" } },
	{ "torch_dims", read_torch_dims, NULL, { "tests/data/dims/branch/model.json" } },
	{ "plan", read_plan, repair_plan, { "tests/data/plan/model.json" } },
	{ "tp_plan", read_tp_plan, NULL, { DATA "tp_plan.json" } },
	{ "pt2", read_pt2, repair_zip, { TINY ".pt2" } },
	{ "weights", read_weights, repair_zip, { TINY ".safetensors.index.json", TINY ".safetensors", TINY ".pt2" } },
};

/* --- damage --- */

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static size_t below(uint64_t *r, size_t n)
{
	return n == 0 ? 0 : (size_t)(next_random(r) % n);
}

static void replace(struct input *in, size_t at, size_t old, const void *bytes, size_t size)
{
	if (at > in->size || old > in->size - at || in->size - old + size > ROOM)
		return;
	memmove(in->bytes + at + size, in->bytes + at + old, in->size - at - old);
	memcpy(in->bytes + at, bytes, size);
	in->size += size - old;
}

static void flip_bit(struct input *in, uint64_t *r, const struct seed *other)
{
	(void)other;
	if (in->size > 0)
		in->bytes[below(r, in->size)] ^= (unsigned char)(1 << below(r, 8));
}

static void set_byte(struct input *in, uint64_t *r, const struct seed *other)
{
	static const char some[] = "\0\xff\x80\x7f\"\\[]{},:-.e019n/";
	(void)other;
	if (in->size > 0)
		in->bytes[below(r, in->size)] = (unsigned char)some[below(r, sizeof(some))];
}

static void set_number(struct input *in, uint64_t *r, const struct seed *other)
{
	static const uint64_t some[] = { 0, 1, 0xffff, 0x10000, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX,
					 1u << 31, (uint64_t)1 << 63, 100000000, 100000001 };
	size_t size = (size_t)2 << below(r, 3);
	uint64_t n = some[below(r, sizeof(some) / sizeof(some[0]))] + below(r, 3) - 1;
	(void)other;
	if (in->size >= size)
		memcpy(in->bytes + below(r, in->size - size + 1), &n, size);
}

/* A number written in digits becomes another one. */
static void set_digits(struct input *in, uint64_t *r, const struct seed *other)
{
	static const char *const some[] = { "0", "1", "-1", "3", "255", "4294967296", "9223372036854775807",
					    "9223372036854775808", "4611686018427387904", "1e3", "1.0" };
	size_t at = below(r, in->size), end, tries = 0;
	(void)other;
	while (at < in->size && tries++ < 200 && (in->bytes[at] < '0' || in->bytes[at] > '9'))
		at++;
	for (end = at; end < in->size && in->bytes[end] >= '0' && in->bytes[end] <= '9'; end++)
		;
	const char *text = some[below(r, sizeof(some) / sizeof(some[0]))];
	if (end > at)
		replace(in, at, end - at, text, strlen(text));
}

static void cut(struct input *in, uint64_t *r, const struct seed *other)
{
	size_t at = below(r, in->size), n = below(r, in->size - at);
	(void)other;
	replace(in, at, n % 64, "", 0);
}

static void cut_end(struct input *in, uint64_t *r, const struct seed *other)
{
	(void)other;
	in->size = below(r, 2) ? below(r, in->size) : in->size - below(r, in->size < 64 ? in->size : 64);
}

static void splice(struct input *in, uint64_t *r, const struct seed *other)
{
	size_t from = below(r, other->size), n = below(r, other->size - from) % 256;
	size_t at = below(r, in->size);
	replace(in, at, below(r, 2) && n <= in->size - at ? n : 0, other->bytes + from, n);
}

static void nest(struct input *in, uint64_t *r, const struct seed *other)
{
	char deep[4000];
	(void)other;
	memset(deep, "[{\""[below(r, 3)], sizeof(deep));
	replace(in, below(r, in->size), 0, deep, below(r, sizeof(deep)));
}

static void (*const damages[])(struct input *, uint64_t *, const struct seed *) = {
	flip_bit, flip_bit, set_byte, set_byte, set_number, set_number, set_digits, set_digits,
	set_digits, cut, cut_end, splice, splice, nest,
};

static void make_input(struct input *in, const struct reader *reader, const struct seed *seeds, int count,
		       uint64_t number)
{
	uint64_t r = number * 0x2545f4914f6cdd1du + 1;
	const struct seed *from = &seeds[below(&r, (size_t)count)];
	memcpy(in->bytes, from->bytes, from->size);
	in->size = from->size;
	for (size_t n = 1 + below(&r, 4); n > 0; n--)
		damages[below(&r, sizeof(damages) / sizeof(damages[0]))](in, &r, &seeds[below(&r, (size_t)count)]);
	if (reader->repair != NULL && below(&r, 4) != 0)
		reader->repair(in);
}

/* --- the driver --- */

static const char *volatile current_reader;
static volatile unsigned long long current_number;

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void say_where(void)
{
	char line[200];
	int n = snprintf(line, sizeof(line), "fuzz_readers: died at input: %s %llu\n", current_reader, current_number);
	if (write(STDERR_FILENO, line, (size_t)n) != n)
		_exit(3);
}

static void on_signal(int number)
{
	say_where();
	signal(number, SIG_DFL);
	raise(number);
}

static void watch(void)
{
	signal(SIGALRM, on_signal);
	signal(SIGABRT, on_signal);
	if (__sanitizer_set_death_callback != NULL)
		__sanitizer_set_death_callback(say_where);
	else
		signal(SIGSEGV, on_signal);
}

static void load_seed(struct seed *s, const char *path)
{
	struct file file;
	struct diag d = { 0 };
	char *text = NULL;
	if (file_open(&file, path, &d) != FS_OK || file_read_text(&file, 0, file.size, &text, &d) != FS_OK)
		BUG("%s", d.text);
	s->bytes = (unsigned char *)text;
	s->size = (size_t)file.size;
	BUG_ON(s->size > ROOM);
	file_close(&file);
}

/* True where the reader took it. */
static bool try_input(const struct reader *reader, const struct input *in)
{
	struct diag d = { 0 };
	unsigned char *exact = malloc(in->size); /* so that ASan sees a read behind the end */
	BUG_ON(exact == NULL && in->size > 0);
	if (in->size > 0)
		memcpy(exact, in->bytes, in->size);
	enum fs_status status = reader->read(exact, in->size, &d);
	free(exact);
	BUG_ON(status != d.status);
	BUG_ON(status != FS_OK && (d.text[0] == '\0' || strpbrk(d.text, "\n\r") != NULL));
	return status == FS_OK;
}

static void run(const struct reader *reader, unsigned long long first, unsigned long long n)
{
	static struct input in;
	struct seed seeds[SEEDS];
	int count = 0;
	unsigned long long taken = 0;
	for (; count < SEEDS && reader->files[count] != NULL; count++)
		load_seed(&seeds[count], reader->files[count]);
	current_reader = reader->name;
	for (unsigned long long i = first; i < first + n; i++) {
		current_number = i;
		make_input(&in, reader, seeds, count, i);
		alarm(HANG_SECONDS);
		taken += try_input(reader, &in);
	}
	alarm(0);
	printf("fuzz: %-12s %llu inputs, %llu taken\n", reader->name, n, taken);
	for (int i = 0; i < count; i++)
		free(seeds[i].bytes);
}

int main(int argc, char **argv)
{
	unsigned long long n = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
	unsigned long long first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	watch();
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
		if (argc < 3 || strcmp(argv[2], readers[i].name) == 0)
			run(&readers[i], first, n);
	return 0;
}
