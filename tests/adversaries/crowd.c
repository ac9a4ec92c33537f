/*
 * crowd MARK COUNT [deep]
 *
 * COUNT sleeping processes, each in a session of its own: all children of one, or each
 * the child of the one before. Prints "ready" when all are there; then sleeps.
 */
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

/* Each level is a program of its own: a fork of a fork of a fork costs the kernel more
 * and more memory, and that is not what is tested. */
static int deeper(char **argv, int left)
{
	static char number[16];

	snprintf(number, sizeof(number), "%d", left);
	argv[2] = number;
	if (left == 0) {
		printf("ready\n");
		fflush(stdout);
		rest();
	}
	setsid();
	if (fork() == 0) {
		execv(argv[0], argv);
		_exit(1);
	}
	rest();
	return 1;
}

int main(int argc, char **argv)
{
	const int count = argc > 2 ? atoi(argv[2]) : 1;

	if (argc > 3)
		return deeper(argv, count - 1);
	for (int i = 0; i < count; i++) {
		const pid_t child = fork();
		if (child < 0)
			return 1;
		if (child == 0) {
			setsid();
			rest();
		}
	}
	printf("ready\n");
	fflush(stdout);
	rest();
}
