/* What getopt_long(3) could not take, in words; for treewrap and treewrapctl. */
#ifndef BAD_OPTION_H
#define BAD_OPTION_H

#include <stddef.h>

/*
 * The word that getopt_long(3) stumbled over, and why, into TEXT. COMPLAINT is what it
 * returned, '?' or ':'; SHORTS are its short options. To be called right after it.
 */
void bad_option_text(int complaint, char **argv, const char *shorts, char *text,
		     size_t size);

#endif
