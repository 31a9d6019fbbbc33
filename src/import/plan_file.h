/* A plan in a file. */
#ifndef FS_PLAN_FILE_H
#define FS_PLAN_FILE_H

#include "plan.h"

/* Reads and verifies it; on failure nothing is owned. */
enum fs_status plan_open(const char *path, struct plan **out, struct diag *d);

#endif
