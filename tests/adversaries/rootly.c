/*
 * rootly MARK
 *
 * To be installed set-user-ID root: becomes root altogether, with a child, so that the
 * user who ran it may not signal either. Ends by itself.
 */
#include <stdio.h>
#include <unistd.h>

#define LIFETIME 60

int main(void)
{
	if (setresuid(0, 0, 0) < 0)
		return 1;
	alarm(LIFETIME);
	if (fork() == 0) {
		alarm(LIFETIME);
		setsid();
		for (;;)
			pause();
	}
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}
