/*
 * signals MARK
 *
 * Takes every signal that can be taken and prints a line for each: number, code, value.
 * Prints "ready" first. Ends by SIGKILL, or by itself after a while.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	const uint64_t all = ~UINT64_C(0);
	const struct timespec patience = {150, 0};
	siginfo_t info;

	/* Raw: libc would leave out two real-time signals. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (syscall(SYS_rt_sigtimedwait, &all, &info, &patience, sizeof(all)) > 0) {
		printf("%d %d %d %d\n", info.si_signo, info.si_code,
		       info.si_value.sival_int, (int)info.si_pid);
		fflush(stdout);
	}
	return 0;
}
