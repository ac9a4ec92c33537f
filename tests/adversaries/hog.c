/*
 * hog MARK
 *
 * Takes memory without end, with children in sessions of their own that do the same.
 * Prints "ready" first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE	 (256 * 1024)
#define LIFETIME 60

int main(void)
{
	printf("ready\n");
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		if (fork() == 0) {
			setsid();
			break;
		}
	}
	alarm(LIFETIME);
	for (;;) {
		char *piece = malloc(PIECE);
		if (piece != NULL)
			memset(piece, 1, PIECE);
		usleep(200);
	}
}
