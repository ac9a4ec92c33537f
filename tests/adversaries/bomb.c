/*
 * bomb MARK [group]
 *
 * Every process forks for ever, each child in a session of its own (or all in one group).
 * ONLY TO BE RUN under a limit of the pids cgroup. Ends by itself after LIFETIME seconds.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME 90

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + LIFETIME;
	const int sessions = argc < 3 || strcmp(argv[2], "group") != 0;

	printf("ready\n");
	fflush(stdout);
	while (time(NULL) < end)
		if (fork() == 0 && sessions)
			setsid();
	return 0;
}
