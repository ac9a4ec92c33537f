/* Promises: the word at fault is named, also in the middle of "-xyz". */
#include "bad_option.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

void bad_option_text(int complaint, char **argv, const char *shorts, char *text,
		     size_t size)
{
	const char *word = argv[optind - 1];

	if (complaint == ':')
		snprintf(text, size, "%s needs a value", word);
	/* In the middle of "-xyz" WORD is the word before: go by the letter. */
	else if (optopt > 0 && optopt < 256 && strchr(shorts, optopt) == NULL)
		snprintf(text, size, "unknown option '-%c'", optopt);
	else if (optopt == 0)
		snprintf(text, size, "unknown option '%s'", word);
	else
		snprintf(text, size, "'%s' takes no value", word);
}
