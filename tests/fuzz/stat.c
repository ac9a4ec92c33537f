/*
 * Lines of /proc/PID/stat, in a file that stands for it: no name confuses the fields
 * behind it. The first byte says how much of the input is the name of a line that is
 * whole; 0: the input is all there is.
 *
 * with: proc.c descriptor.c
 */
#include "proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int proc, file;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[] = "/dev/shm/treewrap-fuzz-XXXXXX";

	(void)argc, (void)argv;
	if (mkdtemp(path) == NULL)
		return 1;
	proc = open(path, O_RDONLY | O_DIRECTORY);
	if (mkdirat(proc, "7", 0700) < 0)
		return 1;
	file = openat(proc, "7/stat", O_RDWR | O_CREAT, 0600);
	return file < 0;
}

static bool read_line(const void *text, size_t size, struct proc_stat *stat)
{
	if (ftruncate(file, 0) < 0 || pwrite(file, text, size, 0) != (ssize_t)size)
		abort();
	const bool read = proc_read_stat(proc, 7, stat);
	if (read && memchr(stat->command, '\0', sizeof(stat->command)) == NULL)
		abort();
	return read;
}

/* Is there something behind the name? Its absence is not to be read as fields. */
static bool has_state(const uint8_t *data, size_t size)
{
	char text[1024];

	if (size > sizeof(text) - 1)
		size = sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	const char *end = strrchr(text, ')');
	return end != NULL && strlen(end) > 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proc_stat stat;
	char line[512], name[PROC_COMMAND_SIZE] = "";

	if (size == 0)
		return 0;
	size--;
	if (data[0] == 0) {
		if (read_line(data + 1, size, &stat) && !has_state(data + 1, size))
			abort();
		return 0;
	}
	memcpy(name, data + 1, size < sizeof(name) - 1 ? size : sizeof(name) - 1);
	const int length =
		snprintf(line, sizeof(line),
			 "7 (%s) S 4194304 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 65536 0 "
			 "18446744073709551615 9 10\n",
			 name);
	if (!read_line(line, (size_t)length, &stat) || strcmp(stat.command, name) != 0 ||
	    stat.state != 'S' || stat.parent != 4194304 || stat.threads != 65536 ||
	    stat.start != UINT64_MAX)
		abort();
	return 0;
}
