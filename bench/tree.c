/*
 * tree wide|deep COUNT THREADS
 *
 * COUNT sleeping processes, each in a session of its own and with THREADS threads: all
 * but one are children of the first, or each is the child of the one before. Each writes
 * one byte when all its threads are there. Ends by itself after LIFETIME seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIFETIME 120
#define STACK	 16384

/* Does not return: nothing that comes here is caught. */
static void *rest(void *barrier)
{
	pthread_barrier_wait(barrier);
	pause();
	return NULL;
}

static int settle(int threads)
{
	pthread_barrier_t barrier;
	pthread_attr_t attributes;
	pthread_t thread;

	alarm(LIFETIME);
	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&thread, &attributes, rest, &barrier) != 0)
			return 1;
	pthread_barrier_wait(&barrier);
	if (write(1, "", 1) != 1)
		return 1;
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	static char fewer[16];
	const int count = argc == 4 ? atoi(argv[2]) : 1;
	const int threads = argc == 4 ? atoi(argv[3]) : 1;
	const int deep = argc == 4 && strcmp(argv[1], "deep") == 0;
	pid_t child = 1;

	/* Each level is a program of its own: forks of forks of forks cost the kernel
	 * more and more, and that is not what is measured. */
	if (deep && count > 1 && (child = fork()) == 0) {
		setsid();
		snprintf(fewer, sizeof(fewer), "%d", count - 1);
		argv[2] = fewer;
		execv(argv[0], argv);
		return 1;
	}
	for (int i = 1; !deep && i < count && child > 0; i++)
		if ((child = fork()) == 0)
			setsid();
	return child < 0 ? 1 : settle(threads);
}
