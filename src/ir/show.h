/* A plan for people, and for programs that ask what it costs. */
#ifndef FS_SHOW_H
#define FS_SHOW_H

#include "plan.h"

/*
 * Tables of the mesh, the memory of a rank, collectives and matmuls; or, `json`, one JSON object:
 * {"mesh":{"dp":2,"tp":4},"ranks":8,"recipe":...,"memory":{"params","state","arena","total"},
 *  "collectives":[{"op","axis":[...],"ranks","dtype","shape":[...],"bytes","section","module","node"}],
 *  "bytes": what a rank sends in a step, "setup_bytes": once,
 *  "matmuls":[{"node","module","m","n","k","recipe","reason","swapped"}]}
 */
enum fs_status plan_show(const struct plan *p, bool json, FILE *out);

#endif
