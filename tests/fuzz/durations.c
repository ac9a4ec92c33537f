/*
 * Durations: one that is accepted means the same when it is written out in full.
 *
 * with: options.c bad_option.c signals.c runtime.c descriptor.c rights.c
 */
#include "options.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void die(const char *format, ...)
{
	fputs(format, stderr);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char word[64], full[64];
	int64_t ns = -1, again = -1;

	if (size >= sizeof(word))
		return 0;
	memcpy(word, data, size);
	word[size] = '\0';
	if (!duration_parse(word, &ns)) {
		if (ns != -1)
			abort();
		return 0;
	}
	/* "0.1ns" of anything is not nothing. */
	if (ns < 0 || (ns == 0) != (strpbrk(word, "123456789") == NULL))
		abort();
	snprintf(full, sizeof(full), "%" PRId64 ".%09" PRId64 "s", ns / 1000000000,
		 ns % 1000000000);
	if (!duration_parse(full, &again) || again != ns)
		abort();
	return 0;
}
