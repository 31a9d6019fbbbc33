/*
 * Collectives of one rank: what it packs, what it asks of its communicator, what it unpacks.
 *
 * The communicator moves equal chunks.  A chunk is as large as the largest shard along the dims that
 * move, so that uneven shards fit; rank r's chunk holds the box that sender and receiver have in
 * common.  Where chunks lie in the tensor as they lie on the wire, nothing is copied.
 */
#include "exec_internal.h"

#include <stdlib.h>
#include <string.h>

struct move {
	const struct exec *e;
	struct node_id node, from;
	const struct type *in, *out;
	uint32_t axes;
	int ranks;
	int64_t chunk[MAX_RANK], count; /* shape and elements of a chunk */
};

static void move_init(struct move *m, const struct exec *e, struct node_id n)
{
	*m = (struct move){ .e = e, .node = n, .from = graph_operand(e->graph, n, 0), .ranks = 1, .count = 1 };
	m->in = graph_type(e->graph, m->from);
	m->out = graph_type(e->graph, n);
	m->axes = (uint32_t)graph_int(e->graph, n, ATTR_AXES, 0);
	for (int a = 0; a < e->mesh->count; a++)
		m->ranks *= m->axes >> a & 1 ? e->mesh->axis[a].size : 1;
	for (int d = 0; d < m->in->rank; d++) {
		bool moves = placement_axes_of(&m->in->place, d) != placement_axes_of(&m->out->place, d);
		int64_t in = placement_chunk(&m->in->place, e->mesh, d, m->in->dim[d]);
		int64_t out = placement_chunk(&m->out->place, e->mesh, d, m->in->dim[d]);
		m->chunk[d] = !moves ? e->views[m->from.i].shape[d] : in < out ? in : out;
		m->count *= m->chunk[d];
	}
}

/* Coordinates of rank r of the group: the first axis of the set is the major one. */
static void peer_coord(const struct move *m, int r, int32_t coord[MAX_AXES])
{
	memcpy(coord, m->e->coord, sizeof(m->e->coord));
	for (int a = m->e->mesh->count - 1; a >= 0; a--) {
		if (!(m->axes >> a & 1))
			continue;
		coord[a] = r % m->e->mesh->axis[a].size;
		r /= m->e->mesh->axis[a].size;
	}
}

static void box_of(const struct move *m, const struct type *t, const int32_t *coord, struct box *b)
{
	for (int d = 0; d < t->rank; d++) {
		struct extent x = placement_extent(&t->place, m->e->mesh, d, t->dim[d], coord);
		b->start[d] = x.start;
		b->size[d] = x.size;
	}
}

static void box_common(int rank, const struct box *a, const struct box *b, struct box *out)
{
	for (int d = 0; d < rank; d++) {
		int64_t a_end = a->start[d] + a->size[d], b_end = b->start[d] + b->size[d];
		int64_t end = a_end < b_end ? a_end : b_end;
		out->start[d] = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
		out->size[d] = end > out->start[d] ? end - out->start[d] : 0;
	}
}

/* The part of `tensor`, which holds box `whole`, that box `part` is; empty parts point to its start. */
static struct view part_of(const struct view *tensor, const struct box *whole, const struct box *part)
{
	struct view v = *tensor;
	bool empty = false;
	for (int d = 0; d < v.rank; d++)
		empty |= part->size[d] == 0;
	for (int d = 0; d < v.rank; d++)
		v = exec_part(&v, d, empty ? 0 : part->start[d] - whole->start[d], empty ? 0 : part->size[d]);
	return v;
}

static struct piece piece_of(const struct move *m, const struct view *tensor, int slot)
{
	struct piece p = { .tensor = *tensor, .offset = slot * m->count * dtype_size(tensor->dtype) };
	p.staged = view_of(NULL, tensor->dtype, tensor->rank, m->chunk);
	memcpy(p.staged.shape, tensor->shape, sizeof(tensor->shape));
	return p;
}

/* True where the tensor's piece is the chunk, in the place that it has on the wire. */
static bool is_direct(const struct move *m, const struct view *tensor, const struct piece *p)
{
	if (memcmp(p->tensor.shape, m->chunk, sizeof(m->chunk[0]) * (size_t)tensor->rank) != 0)
		return false;
	for (int d = 0; d < tensor->rank; d++)
		if (p->tensor.shape[d] != 1 && p->tensor.stride[d] != p->staged.stride[d])
			return false;
	return (char *)p->tensor.data == (char *)tensor->data + p->offset;
}

static bool all_direct(const struct move *m, const struct view *tensor, const struct piece *p, int count)
{
	for (int k = 0; k < count; k++)
		if (!is_direct(m, tensor, &p[k]))
			return false;
	return true;
}

/*
 * The pieces of one side: of every peer where `scattered`, else of the whole tensor.  *count is 0 where
 * they need no copies.
 */
static enum fs_status make_pieces(const struct move *m, struct node_id n, bool scattered, bool sends,
				  struct piece **out, int *count, struct diag *d)
{
	const struct view *tensor = &m->e->views[n.i];
	struct box mine, other, part;
	int32_t coord[MAX_AXES];
	*count = scattered ? m->ranks : 1;
	*out = calloc((size_t)*count, sizeof(**out));
	if (*out == NULL)
		return exec_nomem(d);
	box_of(m, sends ? m->in : m->out, m->e->coord, &mine);
	for (int r = 0; r < *count; r++) {
		peer_coord(m, r, coord);
		box_of(m, sends ? m->out : m->in, coord, &other);
		if (scattered)
			box_common(tensor->rank, &mine, &other, &part);
		struct view piece = part_of(tensor, &mine, scattered ? &part : &mine);
		(*out)[r] = piece_of(m, &piece, r);
	}
	if (all_direct(m, tensor, *out, *count))
		*count = 0;
	return FS_OK;
}

/* --- communicators, one a set of axes --- */

static enum fs_status find_comm(struct exec *e, uint32_t axes, struct comm **out, struct diag *d)
{
	int set[MAX_AXES], count = 0;
	int32_t sizes[MAX_AXES];
	for (uint32_t i = 0; i < e->comms.count; i++)
		if (e->comms.items[i].axes == axes) {
			*out = e->comms.items[i].comm;
			return FS_OK;
		}
	for (int a = 0; a < e->mesh->count; a++) {
		sizes[a] = e->mesh->axis[a].size;
		if (axes >> a & 1)
			set[count++] = a;
	}
	TRY(comm_split_axes(e->o.world, e->mesh->count, sizes, count, set, out, d));
	struct exec_comm entry = { axes, *out };
	if (exec_push(&e->comms, entry))
		return FS_OK;
	comm_destroy(*out);
	return exec_nomem(d);
}

/* --- calls --- */

static const struct kind {
	enum comm_kind kind;
	bool send_scattered, recv_scattered;
} kinds[OP_COUNT] = {
	[OP_ALL_GATHER] = { COMM_ALL_GATHER, false, true },
	[OP_REDUCE_SCATTER] = { COMM_REDUCE_SCATTER, true, false },
	[OP_ALL_TO_ALL] = { COMM_ALL_TO_ALL, true, true },
	[OP_ALL_REDUCE] = { COMM_ALL_REDUCE, false, false },
};

static enum comm_reduce reduce_of(const struct exec *e, struct node_id n)
{
	const char *s = graph_string(e->graph, n, ATTR_REDUCE);
	if (s == NULL || strcmp(s, "sum") == 0)
		return COMM_SUM;
	return strcmp(s, "max") == 0 ? COMM_MAX : COMM_MIN;
}

static struct node_id behind_moves(const struct exec *e, struct node_id n)
{
	enum op op = graph_op(e->graph, n);
	while (op_is_view(op) || op_is_collective(op) || op == OP_SHARD || op == OP_COPY) {
		n = graph_operand(e->graph, n, 0);
		op = graph_op(e->graph, n);
	}
	return n;
}

/* True where the value is made of amaxes: not negative, or NaN, so that their bits are in order. */
static bool is_magnitude(const struct exec *e, struct node_id n)
{
	n = behind_moves(e, n);
	if (graph_op(e->graph, n) != OP_CAT)
		return graph_op(e->graph, n) == OP_AMAX;
	for (int k = 0; k < graph_node(e->graph, n)->count; k++)
		if (graph_op(e->graph, behind_moves(e, graph_operand(e->graph, n, k))) != OP_AMAX)
			return false;
	return true;
}

/* The type on the wire: bytes for what is only moved, u32 for amaxes. */
static enum dtype wire_dtype(const struct exec *e, struct node_id n, enum comm_kind kind)
{
	enum dtype t = e->views[n.i].dtype;
	bool reduces = kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER;
	if (t == DT_BOOL || (!reduces && dtype_size(t) == 1))
		return DT_U8;
	if (reduces && t == DT_F32 && reduce_of(e, n) == COMM_MAX && is_magnitude(e, n))
		return DT_U32;
	return t;
}

static int64_t aligned(int64_t bytes)
{
	return (bytes + 63) & ~(int64_t)63;
}

/* Where the staged chunks of both sides lie in the workspace. */
static void stage(struct transfer *t, const struct move *m, const struct kind *k)
{
	int64_t bytes = m->count * dtype_size(t->call.dtype);
	int64_t send = t->sends == 0 ? 0 : aligned(bytes * (k->send_scattered ? m->ranks : 1));
	int64_t recv = t->recvs == 0 ? 0 : aligned(bytes * (k->recv_scattered ? m->ranks : 1));
	t->recv_offset = send;
	t->workspace = send + recv;
}

static enum fs_status fill_transfer(struct exec *e, struct transfer *t, struct node_id n, struct diag *d)
{
	struct move m;
	const struct kind *k = &kinds[graph_op(e->graph, n)];
	move_init(&m, e, n);
	TRY(find_comm(e, m.axes, &t->comm, d));
	t->call = (struct collective){
		.kind = k->kind, .send = e->views[m.from.i].data, .recv = e->views[n.i].data,
		.count = (size_t)m.count, .dtype = wire_dtype(e, n, k->kind), .reduce = reduce_of(e, n),
	};
	TRY(make_pieces(&m, m.from, k->send_scattered, true, &t->send, &t->sends, d));
	TRY(make_pieces(&m, n, k->recv_scattered, false, &t->recv, &t->recvs, d));
	stage(t, &m, k);
	return FS_OK;
}

static int group_size(const struct exec *e, struct node_id n)
{
	struct move m;
	move_init(&m, e, n);
	return m.ranks;
}

enum fs_status exec_emit_transfer(struct exec *e, struct node_id n, struct diag *d)
{
	if (group_size(e, n) == 1)
		return exec_emit(e, n, OP_COPY, 1, &e->views[graph_operand(e->graph, n, 0).i], &e->views[n.i], d);
	struct work w = { .node = n, .transfer = calloc(1, sizeof(*w.transfer)) };
	if (w.transfer == NULL || !exec_push(&e->work, w)) {
		free(w.transfer);
		return exec_nomem(d);
	}
	return fill_transfer(e, w.transfer, n, d);
}

static void bind_pieces(struct piece *p, int count, char *memory)
{
	for (int k = 0; k < count; k++)
		p[k].staged.data = memory + p[k].offset;
}

void transfer_bind(struct transfer *t, char *workspace)
{
	bind_pieces(t->send, t->sends, workspace + t->send_offset);
	bind_pieces(t->recv, t->recvs, workspace + t->recv_offset);
	if (t->sends > 0)
		t->call.send = workspace + t->send_offset;
	if (t->recvs > 0)
		t->call.recv = workspace + t->recv_offset;
}

enum fs_status transfer_run(struct exec *e, struct transfer *t, struct diag *d)
{
	if (t->call.count == 0)
		return FS_OK; /* so it is on every rank of the group */
	for (int k = 0; k < t->sends; k++)
		TRY(e->ops->copy(e->backend, &t->send[k].tensor, &t->send[k].staged, d));
	TRY(e->ops->finish(e->backend, d));
	TRY(comm_run(t->comm, &t->call, d));
	for (int k = 0; k < t->recvs; k++)
		TRY(e->ops->copy(e->backend, &t->recv[k].staged, &t->recv[k].tensor, d));
	return FS_OK;
}

void transfer_destroy(struct transfer *t)
{
	if (t == NULL)
		return;
	free(t->send);
	free(t->recv);
	free(t);
}
