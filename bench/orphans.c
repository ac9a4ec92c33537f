/*
 * orphans COUNT [stay]
 *
 * Two makers hand COUNT processes over to whoever adopts orphans, FAMILY at a time; each
 * dies as soon as it is an orphan. With "stay" that happens each time SIGUSR1 comes; one
 * byte says that it waits for that, and one more each time that all have been made.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAMILY	 50
#define MAKERS	 2
#define LIFETIME 120

/* The pipe's end is open for writing in the parent alone: its end is their end. */
static void parent(void)
{
	int end[2];
	char byte;

	if (pipe(end) < 0)
		_exit(1);
	for (int i = 0; i < FAMILY; i++) {
		if (fork() == 0) {
			close(end[1]);
			_exit(read(end[0], &byte, 1) != 0);
		}
	}
	_exit(0);
}

static void make(int families)
{
	for (int i = 0; i < families; i++) {
		const pid_t child = fork();

		if (child == 0)
			parent();
		if (child < 0 || waitpid(child, NULL, 0) < 0)
			_exit(1);
	}
	_exit(0);
}

static int make_all(int count)
{
	int failed = 0, status;
	pid_t maker[MAKERS];

	for (int i = 0; i < MAKERS; i++) {
		maker[i] = fork();
		if (maker[i] == 0)
			make(count / FAMILY / MAKERS);
	}
	for (int i = 0; i < MAKERS; i++)
		failed |= waitpid(maker[i], &status, 0) < 0 || status != 0;
	return failed;
}

int main(int argc, char **argv)
{
	const int count = argc > 1 ? atoi(argv[1]) : FAMILY;
	sigset_t usr1;
	int signo;

	if (argc < 3)
		return make_all(count);
	alarm(LIFETIME);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	while (write(1, "", 1) == 1 && sigwait(&usr1, &signo) == 0)
		if (make_all(count) != 0)
			return 1;
	return 1;
}
