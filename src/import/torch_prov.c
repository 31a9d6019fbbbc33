/* Where a node of the file comes from: module path and source line, and messages that say it. */
#include "torch_impl.h"

#include <stdarg.h>
#include <string.h>

struct span { const char *at; size_t size; };

/* Field number `field` of the last entry of "key,path,type;key,path,type". */
static struct span stack_field(const char *stack, int field)
{
	const char *last = strrchr(stack, ';');
	const char *at = last == NULL ? stack : last + 1;
	for (; field > 0; field--) {
		at = strchr(at, ',');
		if (at == NULL)
			return (struct span){ "", 0 };
		at++;
	}
	return (struct span){ at, strcspn(at, ",") };
}

#define FRAME "File \""

/* The frame before `end` whose text begins last, or NULL. */
static const char *frame_before(const char *trace, const char *end)
{
	size_t size = strlen(FRAME);
	for (const char *at = end; (size_t)(at - trace) >= size;) {
		at = memrchr(trace, 'F', (size_t)(at - trace));
		if (at == NULL)
			return NULL;
		if (strncmp(at, FRAME, size) == 0)
			return at + size;
	}
	return NULL;
}

static bool is_torch(struct span path)
{
	static const char inside[] = "site-packages/torch/";
	return memmem(path.at, path.size, inside, sizeof(inside) - 1) != NULL;
}

/* "modeling_llama.py:212" of a frame that reads: path", line 212, in forward */
static const char *frame_text(struct import *im, struct span path)
{
	char text[160];
	static const char line[] = "\", line ";
	const char *slash = memrchr(path.at, '/', path.size);
	const char *base = slash == NULL ? path.at : slash + 1;
	const char *number = path.at + path.size;
	if (strncmp(number, line, sizeof(line) - 1) != 0)
		return NULL;
	number += sizeof(line) - 1;
	size_t digits = strspn(number, "0123456789");
	int n = snprintf(text, sizeof(text), "%.*s:%.*s", (int)(path.at + path.size - base), base, (int)digits, number);
	return n > 0 && (size_t)n < sizeof(text) && digits > 0 ? context_intern(im->context, text) : NULL;
}

/* The innermost frame outside of torch, or the innermost. */
static const char *source_of(struct import *im, const char *trace)
{
	const char *last = NULL;
	for (const char *at = frame_before(trace, trace + strlen(trace)); at != NULL;
	     at = frame_before(trace, at - strlen(FRAME))) {
		struct span path = { at, strcspn(at, "\"\n") };
		last = last ? last : frame_text(im, path);
		if (!is_torch(path))
			return frame_text(im, path);
	}
	return last;
}

struct prov_id prov_read(struct import *im, const char *node, const json_t *metadata)
{
	struct prov p = { .node = node };
	const char *trace = text_of(metadata, "stack_trace"), *stack = text_of(metadata, "nn_module_stack");
	if (stack != NULL) {
		struct span path = stack_field(stack, 1);
		p.module = path.size > 0 ? context_intern_n(im->context, path.at, path.size) : NULL;
	}
	if (trace != NULL)
		p.source = source_of(im, trace);
	return context_prov(im->context, &p);
}

/* --- messages --- */

static void describe(struct import *im, struct prov_id at, char *out, size_t size)
{
	const struct prov *p = context_prov_get(im->context, at);
	const char *module = p->module ? p->module : "", *source = p->source ? p->source : "";
	bool both = *module && *source;
	snprintf(out, size, "%s%s%s%s%s%s", p->node ? p->node : "a node", *module || *source ? " (" : "", module,
		 both ? ", " : "", source, *module || *source ? ")" : "");
}

void call_fail(struct call *c, enum fs_status status, const char *format, ...)
{
	char text[512], where[256];
	va_list list;
	if (failed(c))
		return;
	c->status = status;
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	describe(c->im, c->prov, where, sizeof(where));
	diag_set(c->im->diag, status, "%s: %s: %s", where, c->text, text);
}

void call_lacks(struct call *c, const char *format, ...)
{
	char text[256];
	va_list list;
	if (failed(c))
		return;
	c->status = FS_UNSUPPORTED;
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	const char *what = context_intern(c->im->context, text);
	for (uint32_t i = 0; i < c->im->lacks.count; i++)
		if (c->im->lacks.items[i].what == what)
			return;
	*vec_push(&c->im->lacks) = (struct lack){ what, c->prov };
}

enum fs_status lacks_report(struct import *im)
{
	char more[512] = "";
	if (im->lacks.count == 0)
		return FS_OK;
	const struct lack *first = &im->lacks.items[0];
	const struct prov *p = context_prov_get(im->context, first->at);
	for (uint32_t i = 1; i < im->lacks.count; i++) {
		size_t used = strlen(more);
		const struct prov *q = context_prov_get(im->context, im->lacks.items[i].at);
		snprintf(more + used, sizeof(more) - used, "%s%s (node %s)", i == 1 ? "" : ", ", im->lacks.items[i].what,
			 q->node ? q->node : "?");
	}
	char count[64] = "";
	if (im->lacks.count > 1)
		snprintf(count, sizeof(count), "; %u other%s too: ", im->lacks.count - 1, im->lacks.count > 2 ? "s" : "");
	const char *source = p->source ? p->source : "";
	return diag_set(im->diag, FS_UNSUPPORTED, "%s is not supported, at %s (%s%snode %s)%s%s", first->what,
			p->module ? p->module : "the top module", source, *source ? ", " : "", p->node ? p->node : "?",
			count, more);
}
