/*
 * next_byte LOGITS.safetensors LABELS.safetensors [WINDOW]: how well a byte-level model guesses.
 *
 * LOGITS holds one tensor [windows, bytes, 256] of bf16 or f32, LABELS `labels`, i64 [windows, bytes]:
 * the byte that comes next.  Prints the mean cross-entropy and, of one window (the last), the text
 * and the model's best guess of each byte.
 */
#include "safetensors.h"
#include "scalar.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define BYTES 256

struct guesses {
	int64_t windows, length;
	float *logits;   /* [windows, length, BYTES] */
	int64_t *labels; /* [windows, length] */
};

static void *must_alloc(int64_t size)
{
	void *p = malloc((size_t)size);
	if (p == NULL)
		BUG("out of memory");
	return p;
}

static enum fs_status read_all(const struct safetensors *f, const struct safetensors_entry *e, void **out, struct diag *d)
{
	*out = must_alloc(e->bytes + 1);
	return safetensors_read(f, e, 0, e->bytes, *out, d);
}

static void widen(const uint16_t *from, float *to, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		to[i] = bf16_decode(from[i]);
}

static enum fs_status read_logits(const char *path, struct guesses *g, struct diag *d)
{
	struct safetensors f;
	void *raw;
	TRY(safetensors_open(&f, path, d));
	const struct safetensors_entry *e = f.entries;
	if (f.count != 1 || e->rank != 3 || e->dims[2] != BYTES || (e->dtype != DT_BF16 && e->dtype != DT_F32))
		return diag_set(d, FS_INVALID, "%s: one tensor [windows, bytes, 256] of bf16 or f32 expected", path);
	g->windows = e->dims[0];
	g->length = e->dims[1];
	TRY(read_all(&f, e, &raw, d));
	if (e->dtype == DT_BF16) {
		int64_t count = g->windows * g->length * BYTES;
		g->logits = must_alloc(count * (int64_t)sizeof(float));
		widen(raw, g->logits, count);
		free(raw);
	} else {
		g->logits = raw;
	}
	safetensors_close(&f);
	return FS_OK;
}

static enum fs_status read_labels(const char *path, struct guesses *g, struct diag *d)
{
	struct safetensors f;
	void *raw;
	TRY(safetensors_open(&f, path, d));
	const struct safetensors_entry *e = safetensors_find(&f, "labels");
	if (e == NULL || e->dtype != DT_I64 || e->bytes != g->windows * g->length * (int64_t)sizeof(int64_t))
		return diag_set(d, FS_INVALID, "%s: labels, i64 [%lld,%lld], expected", path, (long long)g->windows,
				(long long)g->length);
	TRY(read_all(&f, e, &raw, d));
	g->labels = raw;
	safetensors_close(&f);
	return FS_OK;
}

static int best_of(const float *logits)
{
	int best = 0;
	for (int i = 1; i < BYTES; i++)
		best = logits[i] > logits[best] ? i : best;
	return best;
}

/* -log softmax(logits)[label] */
static double cross_entropy(const float *logits, int64_t label)
{
	double top = logits[best_of(logits)], sum = 0;
	for (int i = 0; i < BYTES; i++)
		sum += exp(logits[i] - top);
	return top + log(sum) - logits[label];
}

static double mean_loss(const struct guesses *g)
{
	double sum = 0;
	int64_t count = g->windows * g->length;
	for (int64_t i = 0; i < count; i++)
		sum += cross_entropy(&g->logits[i * BYTES], g->labels[i] & (BYTES - 1));
	return sum / (double)count;
}

static void print_byte(int64_t byte)
{
	putchar(isprint((int)byte) ? (int)byte : ' ');
}

static void print_window(const struct guesses *g, int64_t window)
{
	int64_t right = 0;
	printf("text   ");
	for (int64_t i = 0; i < g->length; i++)
		print_byte(g->labels[window * g->length + i]);
	printf("\nguess  ");
	for (int64_t i = window * g->length; i < (window + 1) * g->length; i++) {
		int guess = best_of(&g->logits[i * BYTES]);
		print_byte(guess);
		right += guess == g->labels[i];
	}
	printf("\n%lld of %lld bytes right\n", (long long)right, (long long)g->length);
}

int main(int argc, char **argv)
{
	struct diag d = { 0 };
	struct guesses g = { 0 };
	if (argc < 3) {
		fprintf(stderr, "usage: next_byte LOGITS.safetensors LABELS.safetensors [WINDOW]\n");
		return 2;
	}
	if (read_logits(argv[1], &g, &d) != FS_OK || read_labels(argv[2], &g, &d) != FS_OK) {
		fprintf(stderr, "next_byte: %s\n", d.text);
		return 1;
	}
	int64_t window = argc > 3 ? atoll(argv[3]) : g.windows - 1;
	printf("next-byte loss %.4f\n", mean_loss(&g));
	if (window >= 0 && window < g.windows)
		print_window(&g, window);
	free(g.logits);
	free(g.labels);
	return 0;
}
