/*
 * orphans MARK COUNT
 *
 * Hands COUNT processes over to whoever adopts orphans, and lets them die: half before
 * and half after they are handed over. Exits with 0 when all have been made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const int count = argc > 2 ? atoi(argv[2]) : 1;

	for (int i = 0; i < count; i++) {
		const pid_t child = fork();
		if (child == 0) {
			if (fork() == 0) {
				if (i % 2 == 0)
					usleep(2000);
				_exit(0);
			}
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) < 0)
			return 1;
	}
	return 0;
}
