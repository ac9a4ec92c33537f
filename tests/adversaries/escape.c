/*
 * escape MARK KIND... [= exit CODE]
 *
 * Puts one process of each KIND out of the reach of a simple kill, prints "ready" once
 * all are in place, and sleeps (or exits with CODE). MARK, in every command line, is how
 * the test finds them. Nothing lives longer than LIFETIME seconds, whatever happens.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIFETIME 150

static const char *self, *mark;
static int ready;

static void in_place(void)
{
	if (write(ready, "x", 1) != 1)
		_exit(1);
}

static void rest(void)
{
	alarm(LIFETIME);
	for (;;)
		pause();
}

static void announce_and_rest(void)
{
	in_place();
	rest();
}

static void *forks(void *argument)
{
	if (fork() == 0)
		announce_and_rest();
	if (argument != NULL)
		pause();
	return NULL;
}

static void *rests(void *argument)
{
	usleep(50000);
	announce_and_rest();
	return argument;
}

static int in_clone(void *argument)
{
	(void)argument;
	announce_and_rest();
	return 0;
}

static void traced(void)
{
	const pid_t tracee = fork();

	if (tracee == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		rest();
	}
	waitpid(tracee, NULL, 0);
	announce_and_rest();
}

/* Holds a process of another session by the tracer's other door. */
static void seizes(void)
{
	const pid_t tracee = fork();

	if (tracee == 0) {
		setsid();
		rest();
	}
	if (ptrace(PTRACE_SEIZE, tracee, 0, 0) < 0 ||
	    ptrace(PTRACE_INTERRUPT, tracee, 0, 0) < 0)
		exit(1);
	waitpid(tracee, NULL, 0);
	announce_and_rest();
}

/* Holds one that has been killed already, in the stop before its end. */
static void holds_dying(void)
{
	const pid_t tracee = fork();
	int status;

	if (tracee == 0)
		rest();
	if (ptrace(PTRACE_SEIZE, tracee, 0, PTRACE_O_TRACEEXIT) < 0)
		exit(1);
	kill(tracee, SIGKILL);
	waitpid(tracee, &status, 0);
	if (status >> 8 != (SIGTRAP | PTRACE_EVENT_EXIT << 8))
		exit(1);
	announce_and_rest();
}

/*
 * The first process of a PID namespace, with a child in a session of its own. Its memory
 * is a copy made at any moment of the other threads, whose locks fork() would wait for.
 */
static int in_namespace(void *argument)
{
	if (_Fork() == 0) {
		setsid();
		rest();
	}
	return in_clone(argument);
}

/* Adopts the orphans below it. */
static void adopts(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			if (fork() == 0) {
				setsid();
				rest();
			}
			_exit(0);
		}
	for (int i = 0; i < 3; i++)
		wait(NULL);
	announce_and_rest();
}

static void again_as(char *const argv[], char *const envp[])
{
	execve(argv[0], argv, envp);
	_exit(1);
}

/* The grandchild of a child that is gone. */
static void orphaned(void (*what)(void))
{
	if (fork() == 0) {
		setsid();
		if (fork() == 0)
			what();
		_exit(0);
	}
}

static void escape(const char *kind)
{
	static char stack[65536];
	char number[16];
	pthread_t thread;

	snprintf(number, sizeof(number), "%d", ready);
	if (strcmp(kind, "double") == 0) {
		orphaned(announce_and_rest);
		return;
	}
	if (strcmp(kind, "thread") == 0 || strcmp(kind, "thread-gone") == 0) {
		pthread_create(&thread, NULL, forks, kind[6] == '\0' ? stack : NULL);
		return;
	}
	/* (Memory is not shared: one stack does for all.) */
	if (strcmp(kind, "clone-parent") == 0) {
		if (clone(in_clone, stack + sizeof(stack), CLONE_PARENT | SIGCHLD, NULL) <
		    0)
			exit(1);
		return;
	}
	if (strcmp(kind, "no-signal") == 0) { /* only __WCLONE and __WALL wait for it */
		if (clone(in_clone, stack + sizeof(stack), 0, NULL) < 0)
			exit(1);
		return;
	}
	if (strcmp(kind, "namespace") == 0) {
		if (clone(in_namespace, stack + sizeof(stack), CLONE_NEWPID | SIGCHLD,
			  NULL) < 0)
			exit(1);
		return;
	}
	if (fork() > 0)
		return;
	if (strcmp(kind, "nohup") == 0) {
		signal(SIGHUP, SIG_IGN);
	} else if (strcmp(kind, "setsid") == 0) {
		setsid();
	} else if (strcmp(kind, "group") == 0) {
		setpgid(0, 0);
	} else if (strcmp(kind, "name") == 0) {
		prctl(PR_SET_NAME, "a) S 1 1 (b c) Z");
		if (fork() == 0)
			announce_and_rest();
		rest();
	} else if (strcmp(kind, "ignore") == 0) {
		for (int signo = 1; signo <= 64; signo++)
			signal(signo, SIG_IGN);
		setsid();
	} else if (strcmp(kind, "stopped") == 0) {
		setsid();
		in_place();
		raise(SIGSTOP);
		rest();
	} else if (strcmp(kind, "traced") == 0) {
		traced();
	} else if (strcmp(kind, "seized") == 0) {
		seizes();
	} else if (strcmp(kind, "exit-stop") == 0) {
		holds_dying();
	} else if (strcmp(kind, "subreaper") == 0) {
		adopts();
	} else if (strcmp(kind, "env") == 0) {
		again_as(
			(char *[]){(char *)self, (char *)mark, "=", "rest", number, NULL},
			(char *[]){NULL});
	} else if (strcmp(kind, "nested") == 0) {
		again_as((char *[]){getenv("TREEWRAP"), (char *)self, (char *)mark, "=",
				    "rest", number, NULL},
			 environ);
	} else if (strcmp(kind, "leaderless") == 0) {
		pthread_create(&thread, NULL, rests, NULL);
		pthread_exit(NULL);
	} else if (strcmp(kind, "vfork") == 0) {
		if (vfork() == 0)
			announce_and_rest();
		_exit(0);
	} else if (strcmp(kind, "deep") == 0) {
		for (int depth = 0; depth < 50; depth++)
			if (fork() > 0)
				rest();
	} else if (strcmp(kind, "background") != 0) {
		_exit(1);
	}
	announce_and_rest();
}

int main(int argc, char **argv)
{
	int ends[2], expected = 0;
	char byte;

	self = argv[0];
	mark = argc > 1 ? argv[1] : "";
	if (argc == 5 && strcmp(argv[3], "rest") == 0) {
		ready = atoi(argv[4]);
		announce_and_rest();
	}
	if (argc < 2 || pipe(ends) < 0)
		return 1;
	ready = ends[1];
	for (int i = 2; i < argc && strcmp(argv[i], "=") != 0; i++, expected++)
		escape(argv[i]);
	alarm(LIFETIME);
	while (expected-- > 0)
		if (read(ends[0], &byte, 1) != 1)
			return 1;
	printf("ready\n");
	fflush(stdout);
	if (argc > 4 && strcmp(argv[argc - 2], "exit") == 0)
		_exit(atoi(argv[argc - 1]));
	rest();
}
