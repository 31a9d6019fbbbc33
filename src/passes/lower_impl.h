/* Private to lower.c and lower_memory.c. */
#ifndef FS_LOWER_IMPL_H
#define FS_LOWER_IMPL_H

#include "plan.h"

/* Sections, memory and offsets of all nodes of p->graph; the totals. */
enum fs_status lower_memory(struct plan *p, struct diag *d);

#endif
