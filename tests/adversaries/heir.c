/*
 * heir MARK
 *
 * A member takes the number of one that has just been killed and fetched by its own
 * parent, so that who remembers the killed by number takes it for dead; and it goes on to
 * make orphans, so that there is always somebody else to kill. Needs CAP_SYS_ADMIN, to
 * ask for a number. The command itself ends when all is in place: what is left over is to
 * be killed. Says "heir" on standard output when the number has been taken.
 */
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Killed after the victim and before us: the time that we have to take its number. */
#define CROWD 4000

static pid_t fork_as(pid_t number)
{
	struct clone_args how = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&number,
		.set_tid_size = 1,
	};

	return (pid_t)syscall(SYS_clone3, &how, sizeof(how));
}

static void sleep_for_ever(void)
{
	for (;;)
		pause();
}

/* An orphan each millisecond, also where others want the CPU: no round of killing is to
 * find nobody but us. */
static void be_heir(void)
{
	const struct timespec pause = {0, 1000000};
	const struct sched_param as_the_reaper = {.sched_priority = 1};

	sched_setscheduler(0, SCHED_FIFO, &as_the_reaper);
	for (;;) {
		if (fork() == 0) {
			if (fork() == 0)
				sleep_for_ever();
			_exit(0);
		}
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	volatile pid_t *victim = mmap(NULL, sizeof(pid_t), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct sched_param first = {.sched_priority = 2};
	int ready[2];
	char byte;

	(void)argc, (void)argv;
	/* Dead children are gone at once, and their numbers free. */
	signal(SIGCHLD, SIG_IGN);
	if (victim == MAP_FAILED || pipe(ready) < 0)
		return 1;
	if (fork() > 0)
		return read(ready[0], &byte, 1) == 1 ? 0 : 1;
	if (fork() == 0) {
		const pid_t child = fork();
		if (child == 0)
			sched_setscheduler(0, SCHED_FIFO, &first);
		else
			*victim = child;
		sleep_for_ever();
	}
	for (int i = 0; i < CROWD; i++)
		if (fork() == 0)
			sleep_for_ever();
	while (*victim == 0)
		usleep(1000);
	/* Its parent, which has the time until its own end, must not wait for the CPU. */
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
	if (write(ready[1], "", 1) < 0)
		return 1;
	for (;; usleep(10)) {
		const pid_t heir = fork_as(*victim);
		if (heir == 0)
			be_heir();
		/* It may be killed before it has run; we have not been yet. */
		if (heir > 0 && write(STDOUT_FILENO, "heir\n", 5) < 0)
			return 1;
	}
}
