/*
 * seize MARK
 *
 * A process of it traces its parent's parent, which started it (the reaper, say), and
 * holds it, so far as that is allowed. Prints "ready" first, and "held" or "refused"
 * then.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIFETIME 20

int main(void)
{
	const pid_t victim = getppid();

	printf("ready\n");
	fflush(stdout);
	/* Once treewrap has got its hands free: what it gives up it gives up by then. */
	usleep(200000);
	alarm(LIFETIME);
	if (fork() == 0) {
		setsid();
		alarm(LIFETIME);
		const int held = ptrace(PTRACE_SEIZE, victim, 0, 0) == 0 &&
				 ptrace(PTRACE_INTERRUPT, victim, 0, 0) == 0;
		printf("%s\n", held ? "held" : "refused");
		fflush(stdout);
	}
	for (;;)
		pause();
}
