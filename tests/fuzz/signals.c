/*
 * Names of signals: the number of a name that is accepted has a name that means it.
 *
 * with: signals.c
 */
#include "signals.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char word[64], name[SIGNAL_NAME_SIZE];

	if (size >= sizeof(word))
		return 0;
	memcpy(word, data, size);
	word[size] = '\0';
	const int signo = signal_by_name(word);
	if (signo < 0 || signo > SIGNAL_MAX)
		abort();
	/* Two are libc's own and have no name. */
	if (signo == 0 || signo == 32 || signo == 33)
		return 0;
	signal_name(signo, name);
	if (signal_by_name(name) != signo || signal_by_name(name + 3) != signo)
		abort();
	for (char *c = name; *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	if (signal_by_name(name) != signo)
		abort();
	return 0;
}
