/*
 * chain MARK WIDTH [plain]
 *
 * WIDTH chains of processes, each of which forks its successor, which starts a session
 * (unless plain), and exits: nobody stays long enough to be caught by his number. Ends by
 * itself after LIFETIME seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME 60

static void run(time_t end, int sessions)
{
	while (time(NULL) < end) {
		if (fork() > 0)
			_exit(0);
		if (sessions)
			setsid();
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + LIFETIME;
	const int width = argc > 2 ? atoi(argv[2]) : 1;

	for (int i = 0; i < width; i++)
		if (fork() == 0)
			run(end, argc < 4);
	printf("ready\n");
	fflush(stdout);
	sleep(LIFETIME);
	return 0;
}
