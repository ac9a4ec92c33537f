/*
 * patricide MARK COUNT [stop] [fork]
 *
 * Kills its parent, and when it has been given a new one that too, up to COUNT in all;
 * with "stop" each is stopped first. With "fork" the work is done by a child in a session
 * of its own that has lost its parent. Beside it a process sleeps. ONLY TO BE RUN where
 * what comes after treewrap may be killed. Ends by itself after LIFETIME seconds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME 60

static void rest(void)
{
	alarm(LIFETIME);
	for (;;)
		pause();
}

static int is_given(char **argv, const char *word)
{
	for (; *argv != NULL; argv++)
		if (strcmp(*argv, word) == 0)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + LIFETIME;
	const int count = argc > 2 ? atoi(argv[2]) : 1;
	const int stop = is_given(argv, "stop");
	pid_t parent = 0;

	if (fork() == 0) {
		setsid();
		rest();
	}
	if (is_given(argv, "fork")) {
		const pid_t old = getpid();
		if (fork() > 0)
			_exit(0);
		setsid();
		while (getppid() == old)
			;
	}
	printf("ready\n");
	fflush(stdout);
	for (int killed = 0; killed < count && time(NULL) < end;) {
		if (getppid() == parent)
			continue;
		parent = getppid();
		/* Number 1 takes nothing from its own namespace. */
		if (stop)
			kill(parent, SIGSTOP);
		kill(parent, SIGKILL);
		killed++;
	}
	rest();
}
