/*
 * conts MARK WIDTH [forks]
 *
 * WIDTH processes, in groups of their own, each of which sends SIGCONT to all of its
 * relatives for ever, so that none of them stays stopped, and ignores what it is sent.
 * With "forks" each also forks a child that sleeps, all the time: ONLY TO BE RUN under a
 * limit of the pids cgroup then. Ends by itself after LIFETIME seconds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME 60
#define MOST	 4096

static volatile pid_t *relatives;
static volatile int *count;

/* For those that come after us to find us. */
static void join(void)
{
	const int place = __atomic_fetch_add((int *)count, 1, __ATOMIC_SEQ_CST);

	relatives[place % MOST] = getpid();
}

static void rouse(time_t end, int forks)
{
	while (time(NULL) < end) {
		const int known = *count < MOST ? *count : MOST;
		for (int i = 0; i < known; i++)
			if (relatives[i] > 1)
				kill(relatives[i], SIGCONT);
		if (forks && fork() == 0)
			join();
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + LIFETIME;
	const int width = argc > 2 ? atoi(argv[2]) : 1;
	const int forks = argc > 3;
	char *shared = mmap(NULL, (MOST + 1) * sizeof(pid_t), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return 1;
	count = (volatile int *)shared;
	relatives = (volatile pid_t *)shared + 1;
	for (int signo = 1; signo <= 64; signo++)
		signal(signo, SIG_IGN);
	join();
	for (int i = 0; i < width; i++) {
		if (fork() != 0)
			continue;
		setpgid(0, 0);
		join();
		rouse(end, forks);
	}
	printf("ready\n");
	fflush(stdout);
	rouse(end, 0);
}
