/* What main() of a test program ends with. */
#ifndef FS_TEST_SUITE_H
#define FS_TEST_SUITE_H

#include <check.h>

/* Runs it, prints what failed and frees it; the exit status. */
static inline int suite_run(Suite *s)
{
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
