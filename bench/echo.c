/*
 * echo: waits for signals. Writes one byte when it does, and for each SIGUSR1 the moment
 * at which it had it, as a double of microseconds (CLOCK_MONOTONIC). SIGTERM ends it, and
 * so do LIFETIME seconds.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME 120

int main(void)
{
	struct timespec time;
	double moment;
	sigset_t usr1;
	int signo;

	alarm(LIFETIME);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	if (write(1, "", 1) != 1)
		return 1;
	while (sigwait(&usr1, &signo) == 0) {
		clock_gettime(CLOCK_MONOTONIC, &time);
		moment = (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
		if (write(1, &moment, sizeof(moment)) != sizeof(moment))
			return 1;
	}
	return 1;
}
