/*
 * crowd MARK COUNT [deep]
 *
 * COUNT sleeping processes, each in a session of its own: all children of one, or each
 * the child of the one before. Prints "ready" when all are there; then sleeps.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIFETIME 150

static void rest(void)
{
	alarm(LIFETIME);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const int count = argc > 2 ? atoi(argv[2]) : 1;

	for (int i = 0; i < count; i++) {
		const pid_t child = fork();
		if (child < 0)
			return 1;
		if ((child == 0) != (argc > 3)) {
			setsid();
			rest();
		}
	}
	printf("ready\n");
	fflush(stdout);
	rest();
}
