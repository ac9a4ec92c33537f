/*
 * parent COMMAND [ARG]...
 *
 * Starts COMMAND, prints its process number, holds nothing, and sleeps: a parent to be
 * killed. Ends by itself after LIFETIME seconds.
 */
#include <stdio.h>
#include <unistd.h>

#define LIFETIME 150

int main(int argc, char **argv)
{
	const pid_t child = argc > 1 ? fork() : -1;

	if (child == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	printf("%d\n", (int)child);
	fflush(stdout);
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	alarm(LIFETIME);
	pause();
	return 0;
}
