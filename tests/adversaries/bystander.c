/*
 * bystander
 *
 * Nobody's business: processes that fork and exit as fast as they can, so that every
 * process number is soon theirs, and that may never get a signal. Each process waits for
 * its children and says if one was killed or stopped; each handles every signal that can
 * be handled and says if it got one. Ends when standard input does, and prints "forks N";
 * before that a line "hit ..." for each signal.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WIDTH	 8
#define LIFETIME 600

static void say(const char *what, int pid, int signo, int sender)
{
	char line[96];
	const int length =
		snprintf(line, sizeof(line), "hit %s: process %d, signal %d, by %d\n",
			 what, pid, signo, sender);

	/* A line is shorter than PIPE_BUF: it comes whole. */
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(3);
}

static void got(int signo, siginfo_t *info, void *context)
{
	(void)context;
	/* The kernel's own SIGCHLD tells of our children, and is no hit. */
	if (info->si_code <= 0 || signo != SIGCHLD)
		say("handled", getpid(), signo, info->si_pid);
}

static void handle_everything(void)
{
	struct sigaction action = {.sa_sigaction = got,
				   .sa_flags = SA_SIGINFO | SA_RESTART};

	for (int signo = 1; signo <= SIGRTMAX; signo++)
		sigaction(signo, &action, NULL); /* fails for the few that cannot be */
}

/* Fetches one child; says so if it did not end by exit(0). False: there was none. */
static int fetch(int options)
{
	siginfo_t info = {.si_pid = 0};

	if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | options) < 0 ||
	    info.si_pid == 0)
		return 0;
	if (info.si_code != CLD_EXITED)
		say("seen", info.si_pid, info.si_status, info.si_code);
	if (info.si_code == CLD_STOPPED)
		kill(info.si_pid, SIGCONT);
	return info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
	       info.si_code == CLD_DUMPED;
}

/* A process with a child or two, in a session of its own or not. */
static void live(unsigned number)
{
	int children = (int)(number % 3);

	if (number % 2 == 0)
		setsid();
	for (int i = children; i > 0; i--) {
		const pid_t child = fork();
		if (child == 0)
			_exit(0);
		if (child < 0)
			children--;
	}
	while (children > 0)
		children -= fetch(0);
	_exit(0);
}

int main(void)
{
	const time_t end = time(NULL) + LIFETIME;
	unsigned forks = 0;
	int living = 0;

	handle_everything();
	/* If we are killed ourselves, our parent sees it. */
	printf("ready\n");
	fflush(stdout);
	while (time(NULL) < end) {
		struct pollfd input = {.fd = STDIN_FILENO, .events = 0};
		if (forks % 64 == 0 && poll(&input, 1, 0) == 1)
			break;
		const pid_t child = living < WIDTH ? fork() : -1;
		if (child == 0)
			live(forks);
		forks += child > 0;
		living += child > 0;
		/* Where no number is free, or all are out: wait for one. */
		if (child < 0 && living > 0)
			living -= fetch(0);
		while (living > 0 && fetch(WNOHANG))
			living--;
	}
	while (living > 0)
		living -= fetch(0);
	printf("forks %u\n", forks);
	return 0;
}
