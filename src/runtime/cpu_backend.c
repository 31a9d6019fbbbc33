/* The CPU as a backend: memory is malloc's, every op runs to its end before run() returns. */
#include "cpu_lowering.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((int64_t)2 << 20)

static const struct lowering *const lowerings[OP_COUNT] = {
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) \
	[OP_##name] = &lower_##lower,
#include "ops.def"
#undef OP
};

static enum fs_status run_nothing(const struct instruction *i, struct diag *d)
{
	(void)d;
	BUG("%s is not an instruction", op_text(i->op));
}

const struct lowering lower_none = { run_nothing, NULL };
const struct lowering lower_collective = { run_nothing, NULL };

int64_t instruction_start(const struct instruction *i, int k, int dim)
{
	struct node_id n = k < 0 ? i->node : graph_operand(i->graph, i->node, k);
	const struct type *t = graph_type(i->graph, n);
	return placement_extent(&t->place, i->mesh, dim, t->dim[dim], i->coord).start;
}

/* The CPU needs no state of its own: all ranks share this. */
struct backend { int ranks; };
static struct backend the_cpu;

static enum fs_status cpu_create(struct backend **out, int rank, struct diag *d)
{
	(void)rank;
	*out = &the_cpu;
	return cpu_blas_load(d);
}

static void cpu_destroy(struct backend *b)
{
	(void)b;
}

static enum fs_status cpu_alloc(struct backend *b, int64_t bytes, void **out, struct diag *d)
{
	(void)b;
	*out = NULL;
	if (bytes == 0)
		return FS_OK;
	bool large = bytes >= HUGE_PAGE;
	if (bytes < 0 || posix_memalign(out, large ? HUGE_PAGE : 64, (size_t)bytes) != 0)
		return diag_set(d, FS_NOMEM, "out of memory: %lld bytes wanted", (long long)bytes);
#ifdef MADV_HUGEPAGE
	if (large)
		madvise(*out, (size_t)bytes, MADV_HUGEPAGE); /* only speed: whether it is heard does not matter */
#endif
	return FS_OK;
}

static void cpu_release(struct backend *b, void *memory)
{
	(void)b;
	free(memory);
}

static enum fs_status cpu_move(struct backend *b, void *to, const void *from, int64_t bytes, struct diag *d)
{
	(void)b, (void)d;
	if (bytes > 0)
		memcpy(to, from, (size_t)bytes);
	return FS_OK;
}

static int64_t cpu_workspace(struct backend *b, const struct instruction *i)
{
	(void)b;
	const struct lowering *l = lowerings[i->op];
	return l->workspace == NULL ? 0 : l->workspace(i);
}

static enum fs_status cpu_run(struct backend *b, const struct instruction *i, struct diag *d)
{
	(void)b;
	return lowerings[i->op]->run(i, d);
}

static enum fs_status copy_views(struct backend *b, const struct view *in, const struct view *out, struct diag *d)
{
	(void)b, (void)d;
	cpu_copy(in, out);
	return FS_OK;
}

static enum fs_status cpu_finish(struct backend *b, struct diag *d)
{
	(void)b, (void)d;
	return FS_OK;
}

const struct backend_ops cpu_backend = {
	.name = "cpu",
	.create = cpu_create,
	.destroy = cpu_destroy,
	.alloc = cpu_alloc,
	.release = cpu_release,
	.upload = cpu_move,
	.download = cpu_move,
	.workspace = cpu_workspace,
	.run = cpu_run,
	.copy = copy_views,
	.finish = cpu_finish,
};
