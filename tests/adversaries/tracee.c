/*
 * tracee
 *
 * Asks its parent to trace it, as some do to keep debuggers off, and goes on: each signal
 * now stops it until the parent says so. Exits with 9.
 */
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
		return 77;
	/* Its end is a SIGCHLD. */
	if (fork() == 0)
		_exit(0);
	wait(NULL);
	usleep(100000);
	return 9;
}
