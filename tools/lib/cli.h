/*
 * The command line of fp8shard: options as a table (cli_options.c), help made of it (cli_help.c), what
 * a compile says at its end (cli_report.c).
 */
#ifndef FS_CLI_H
#define FS_CLI_H

#include "import.h"
#include "passes.h"
#include "plan.h"

/* Exit status: what a user or a file got wrong. */
enum { EXIT_USER = 1 };

enum command_bit { FOR_COMPILE = 1, FOR_OPT = 2, FOR_SHOW = 4, FOR_PASSES = 8, FOR_EXPLAIN = 16, FOR_PLAN = 32, FOR_ESTIMATE = 64 };

struct cli;
struct command {
	const char *name;
	enum command_bit bit;
	int files; /* that it takes at most; the first must be there */
	const char *usage, *summary, *example;
	enum fs_status (*run)(struct cli *c, struct diag *d);
};

/* Everything that options say; strings are those of argv, or live in `strings`. */
struct cli {
	const struct command *command;
	struct arena strings;
	const char *input, *second, *output, *report; /* second: what explain is asked about, or compared with */
	VEC(const char *) given; /* of compile: the file and the options that decide what the plan is */
	VEC(const char *) plans; /* the files of --plan */
	struct mesh mesh;
	bool has_mesh;
	struct compile compile;
	VEC(struct import_dim) dims;
	struct import_notes notes;
	int64_t memory;    /* --memory: bytes of a rank; 0: any */
	const char *only;  /* --passes */
	const char *dump, *dump_dir;
	int64_t nodes; /* 0: not said */
	bool print_changed, timing, json, diff, markdown, help;
};

void cli_release(struct cli *c);

/* --- cli_options.c --- */

struct option {
	const char *name;     /* "--mesh", "-o" */
	const char *argument; /* "AXIS=SIZE,..."; NULL: none; "[=PASS,...]": may be left out */
	unsigned commands;    /* which take it; FOR_PLAN: it decides what the plan is */
	bool repeats;
	const char *help;     /* lines separated by \n */
	enum fs_status (*set)(struct cli *c, const char *value, struct diag *d);
};
extern const struct option cli_options[];
extern const int cli_option_count;

/*
 * Reads what follows the command.  What is no option of it, or lacks its argument, or a missing file
 * is `usage`; a bad value is not.
 */
enum fs_status cli_parse(struct cli *c, int count, char **argv, bool *usage, struct diag *d);

/* --- cli_help.c --- */

extern const struct command cli_commands[];
extern const int cli_command_count;
void cli_help(FILE *out);
void cli_command_help(const struct command *command, FILE *out);
/* The table of passes, for people or as docs/passes.md. */
void cli_passes(bool markdown, FILE *out);

/* --- cli_report.c --- */

/* What became of every matmul, as a table. */
void report_table(const struct compile *c, FILE *out);
/*
 * --report: the table and more, as text, or as JSON where the file's name says so.  `failed` NULL: all
 * went well; else c may be NULL.
 */
enum fs_status report_write(const char *path, const char *input, const struct compile *c, const char *failed,
			    struct diag *d);

/* --- cli_budget.c --- */

enum fs_status parse_bytes(const char *text, int64_t *out, struct diag *d);
/* --memory: sets how many blocks of the forward are computed again, the least that fits; FS_INVALID where none does. */
enum fs_status fit_memory(struct cli *c, struct diag *d);

/* --- cli_estimate.c --- */

/* What a run of the plan in this file takes. target NULL: the plan's, or the default; nodes 0: as few as there can be. */
enum fs_status estimate_file(const char *path, const char *target, int64_t nodes, bool json, FILE *out, struct diag *d);

/* --- cli_explain.c, cli_diff.c --- */

/* Why the collectives of plan `path` are there: those that `about` names, or all (NULL). */
enum fs_status explain_plan(const char *path, const char *about, bool json, FILE *out, struct diag *d);
/* The collectives of two plans, side by side. */
enum fs_status explain_diff(const char *a, const char *b, bool json, FILE *out, struct diag *d);

double seconds_now(void);

#endif
