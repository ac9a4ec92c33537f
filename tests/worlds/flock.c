/*
 * flock FD              waits for the lock of an open file
 * flock -n FILE true    0 if the lock is free
 *
 * As util-linux has it, so far as core.sh needs it: for rooms that hold busybox alone.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

int main(int argc, char **argv)
{
	if (argc == 2)
		return flock(atoi(argv[1]), LOCK_EX) < 0;
	const int fd = open(argv[2], O_RDONLY);
	return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0;
}
