#include "run_train.h"
#include "host.h"
#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char train_help[] =
	"training, of a plan compiled with --train --loss LOSS --optimizer NAME:\n"
	"  --train            runs steps, each with a batch of its own\n"
	"  --data FILE        .safetensors: a tensor for each input, of one dim more: a row a step\n"
	"  --tokens TYPE      FILE is nothing but tokens of this type (u8, u16, u32): the inputs\n"
	"                     input_ids and labels are windows of it and the same one token on\n"
	"  --seed N           where windows begin (0)\n"
	"  --steps N          the number of the last step\n"
	"  --lr X             the learning rate (0.001)\n"
	"  --warmup N         in the first N steps it grows to X, by the same each step (0)\n"
	"  --lr-schedule NAME what it does then: constant, or cosine: falls to 0 after the last step\n"
	"  --log FILE         writes a JSON object a step\n"
	"  --checkpoint DIR   writes parameters and states, the last ones; what was there before goes\n"
	"                     when the new is whole\n"
	"  --every N          after each N steps (100), and at the end\n"
	"  --resume DIR       goes on from the checkpoint in DIR, on any mesh, in place of --weights\n";

/* --- options --- */

static enum fs_status parse_number(const char *name, const char *text, int64_t least, int64_t *out, struct diag *d)
{
	char *end;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || n < least)
		return diag_set(d, FS_INVALID, "--%s '%.100s': a number of %lld or more wanted", name, text, (long long)least);
	*out = n;
	return FS_OK;
}

static enum fs_status parse_seed(struct train_options *o, const char *text, struct diag *d)
{
	int64_t seed;
	TRY(parse_number("seed", text, 0, &seed, d));
	o->seed = (uint64_t)seed;
	o->has_seed = true;
	return FS_OK;
}

static enum fs_status parse_rate(struct train_options *o, const char *text, struct diag *d)
{
	char *end;
	o->lr = strtod(text, &end);
	o->has_lr = true;
	if (end != text && *end == '\0' && o->lr >= 0 && isfinite((float)o->lr))
		return FS_OK;
	return diag_set(d, FS_INVALID, "--lr '%.100s': a number of 0 or more wanted", text);
}

static enum fs_status parse_tokens(struct train_options *o, const char *text, struct diag *d)
{
	static const struct { const char *name; int bytes; } types[] = { { "u8", 1 }, { "u16", 2 }, { "u32", 4 } };
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i].name, text) == 0) {
			o->token_bytes = types[i].bytes;
			return FS_OK;
		}
	return diag_set(d, FS_INVALID, "--tokens '%.100s': u8, u16 or u32 wanted", text);
}

static enum fs_status parse_schedule(struct train_options *o, const char *text, struct diag *d)
{
	o->cosine = strcmp(text, "cosine") == 0;
	if (o->cosine || strcmp(text, "constant") == 0)
		return FS_OK;
	return diag_set(d, FS_INVALID, "--lr-schedule '%.100s': constant or cosine wanted", text);
}

enum { TRAIN, DATA, TOKENS, SEED, STEPS, LR, WARMUP, SCHEDULE, LOG, CHECKPOINT, EVERY, RESUME };
const char *const train_option_names[] = {
	[TRAIN] = "train", [DATA] = "data=", [TOKENS] = "tokens=", [SEED] = "seed=", [STEPS] = "steps=", [LR] = "lr=",
	[WARMUP] = "warmup=", [SCHEDULE] = "lr-schedule=", [LOG] = "log=", [CHECKPOINT] = "checkpoint=", [EVERY] = "every=",
	[RESUME] = "resume=", NULL,
};

static enum fs_status take_name(const char *name, const char *value, const char **out, struct diag *d)
{
	*out = value;
	return *value != '\0' ? FS_OK : diag_set(d, FS_INVALID, "--%s: a name wanted", name);
}

enum fs_status train_option(struct train_options *o, const char *name, const char *value, struct diag *d)
{
	size_t size = strlen(name);
	int which = 0;
	while (strncmp(train_option_names[which], name, size) != 0 || strcspn(train_option_names[which], "=") != size)
		which++;
	o->first = o->first != NULL ? o->first : name;
	switch (which) {
	case TRAIN: o->on = true; return FS_OK;
	case DATA: return take_name(name, value, &o->data, d);
	case TOKENS: return parse_tokens(o, value, d);
	case SEED: return parse_seed(o, value, d);
	case STEPS: return parse_number(name, value, 1, &o->steps, d);
	case LR: return parse_rate(o, value, d);
	case WARMUP: return parse_number(name, value, 0, &o->warmup, d);
	case SCHEDULE: return parse_schedule(o, value, d);
	case LOG: return take_name(name, value, &o->log, d);
	case CHECKPOINT: return take_name(name, value, &o->checkpoint, d);
	case EVERY: return parse_number(name, value, 1, &o->every, d);
	default: return take_name(name, value, &o->resume, d);
	}
}

enum fs_status train_options_check(const struct train_options *o, struct diag *d)
{
	if (!o->on && o->first != NULL)
		return diag_set(d, FS_INVALID, "--%s goes with --train", o->first);
	if (!o->on)
		return FS_OK;
	if (o->data == NULL || o->steps == 0)
		return diag_set(d, FS_INVALID, "--train: %s is missing", o->data == NULL ? "--data FILE" : "--steps N");
	if (o->has_seed && o->token_bytes == 0)
		return diag_set(d, FS_INVALID, "--seed says where windows of a file of tokens begin: give --tokens TYPE, too");
	return FS_OK;
}

/* --- the learning rate --- */

/* Of step `step`, from 0. */
static double rate(const struct train_options *o, int64_t step)
{
	if (step < o->warmup)
		return o->lr * (double)(step + 1) / (double)o->warmup;
	if (!o->cosine)
		return o->lr;
	return o->lr * 0.5 * (1 + cos(acos(-1) * (double)(step - o->warmup) / (double)(o->steps - o->warmup)));
}

/* --- what is said --- */

struct progress {
	const struct train_options *options;
	FILE *log;
	bool verbose;
	int64_t size;          /* of a batch, in units */
	const char *unit;
	double seconds;        /* of a step, smoothed; 0: none yet */
	double said;           /* when the last line was printed */
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *time_text(double seconds, char out[32])
{
	long long s = (long long)(seconds + 0.5);
	if (s >= 3600)
		snprintf(out, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(out, 32, "%lld:%02lld", s / 60, s % 60);
	return out;
}

static void say_step(struct progress *p, int64_t done, const struct train_result *r, double lr)
{
	char left[32];
	bool last = done == p->options->steps;
	if (!p->verbose && !last && p->said != 0 && now() - p->said < 1)
		return;
	p->said = now();
	printf("step %lld  loss %.5f", (long long)done, r->loss);
	if (!isnan(r->grad_norm))
		printf("  grad_norm %.4g", r->grad_norm);
	printf("  lr %.3g  %.4g %s/s  %s left\n", lr, (double)p->size / p->seconds, p->unit,
	       time_text(p->seconds * (double)(p->options->steps - done), left));
	fflush(stdout);
}

static enum fs_status log_step(const struct progress *p, int64_t done, const struct train_result *r, double lr, struct diag *d)
{
	if (p->log == NULL)
		return FS_OK;
	fprintf(p->log, "{\"step\":%lld,\"loss\":%.9g", (long long)done, r->loss);
	if (!isnan(r->grad_norm))
		fprintf(p->log, ",\"grad_norm\":%.9g", r->grad_norm);
	fprintf(p->log, ",\"lr\":%.9g,\"seconds\":%.6f}\n", lr, r->seconds);
	if (fflush(p->log) == 0 && !ferror(p->log))
		return FS_OK;
	return diag_set(d, FS_IO, "--log %s: %s", p->options->log, strerror(errno));
}

static enum fs_status open_log(struct progress *p, bool going_on, struct diag *d)
{
	if (p->options->log == NULL)
		return FS_OK;
	p->log = fopen(p->options->log, going_on ? "a" : "w");
	return p->log != NULL ? FS_OK : diag_set(d, FS_IO, "--log %s: %s", p->options->log, strerror(errno));
}

/* --- the run --- */

static enum fs_status one_step(struct train *t, struct progress *p, int64_t step, struct diag *d)
{
	struct train_result r;
	double lr = rate(p->options, step);
	TRY(train_step(t, step, lr, &r, d));
	p->seconds = p->seconds == 0 ? r.seconds : 0.9 * p->seconds + 0.1 * r.seconds;
	say_step(p, step + 1, &r, lr);
	return log_step(p, step + 1, &r, lr, d);
}

static enum fs_status save(const struct train *t, const struct train_options *o, uint64_t seed, int64_t done, struct diag *d)
{
	struct checkpoint c = { done, seed };
	if (o->checkpoint == NULL || (done % o->every != 0 && done != o->steps))
		return FS_OK;
	return checkpoint_write(o->checkpoint, t->plan, t->session.execs, t->session.ranks, &c, d);
}

static enum fs_status write_outputs(const struct train *t, const char *path, struct diag *d)
{
	struct host_tensors outputs;
	TRY(outputs_gather(t->plan, t->session.execs, t->session.ranks, &outputs, d));
	enum fs_status status = outputs_write(&outputs, path, d);
	host_tensors_release(&outputs);
	return status;
}

static enum fs_status run_steps(struct train *t, struct progress *p, const struct checkpoint *from, const char *output,
				struct diag *d)
{
	const struct train_options *o = p->options;
	for (int64_t step = from->step; step < o->steps; step++) {
		TRY(one_step(t, p, step, d));
		TRY(save(t, o, t->batches->seed, step + 1, d));
	}
	return output != NULL ? write_outputs(t, output, d) : FS_OK;
}

static enum fs_status open_batches(const struct train_options *o, const struct plan *p, const struct checkpoint *from,
				   struct batches *b, struct diag *d)
{
	if (o->token_bytes != 0)
		return batches_open_tokens(b, p, o->data, o->token_bytes, o->resume != NULL ? from->seed : o->seed, d);
	TRY(batches_open(b, p, o->data, d));
	if (o->steps > b->steps)
		return diag_set(d, FS_INVALID, "%s: rows for %lld steps; --steps wants %lld", o->data, (long long)b->steps, (long long)o->steps);
	return FS_OK;
}

static enum fs_status check_run(const struct train_options *o, const struct plan *p, const struct checkpoint *from, struct diag *d)
{
	TRY(train_check(p, d));
	if (o->has_lr && !node_is(batches_lr(p)))
		return diag_set(d, FS_INVALID, "--lr: the plan has no learning rate");
	if (o->resume != NULL && o->has_seed && o->seed != from->seed)
		return diag_set(d, FS_INVALID, "--seed %llu: the checkpoint's is %llu; without --seed it goes on with that",
				(unsigned long long)o->seed, (unsigned long long)from->seed);
	return FS_OK;
}

static enum fs_status run_train(struct progress *p, struct train *t, const struct plan *plan, const struct params *params,
				const struct checkpoint *from, const struct batches *b, const char *output, struct diag *d)
{
	const struct train_options *o = p->options;
	if (o->checkpoint != NULL)
		TRY(checkpoint_prepare(o->checkpoint, o->resume != NULL ? from->step : -1, d));
	TRY(open_log(p, o->resume != NULL, d));
	TRY(train_create(t, plan, params, b, d));
	return run_steps(t, p, from, output, d);
}

enum fs_status train_run(const struct train_options *o, const struct plan *plan, const struct params *params,
			 const struct checkpoint *from, const char *output, bool verbose, struct diag *d)
{
	struct progress p = { .options = o, .verbose = verbose };
	struct train t = { 0 };
	struct batches b = { 0 };
	TRY(check_run(o, plan, from, d));
	if (from->step >= o->steps) {
		printf("step %lld is done: --steps %lld leaves nothing to do\n", (long long)from->step, (long long)o->steps);
		return FS_OK;
	}
	p.size = batches_size(plan, &p.unit);
	enum fs_status status = open_batches(o, plan, from, &b, d);
	if (status == FS_OK)
		status = run_train(&p, &t, plan, params, from, &b, output, d);
	train_destroy(&t);
	batches_close(&b);
	if (p.log != NULL)
		fclose(p.log);
	return status;
}
