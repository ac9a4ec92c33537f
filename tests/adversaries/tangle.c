/*
 * tangle MARK SEED LIFE CODE
 *
 * A random tree of a dozen processes or so, the same for the same SEED: in the
 * background, in sessions and groups of their own, orphans, children of threads, of vfork
 * and of clone without an exit signal, some that ignore signals, stop, exit soon, or go
 * on as chains. The first one exits with CODE after LIFE milliseconds; with a negative
 * LIFE it rests until it is ended. Nothing lives longer than LIFETIME seconds (unless it
 * was stopped).
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME   60
#define STACK_SIZE 65536

struct node {
	uint32_t seed;
	int depth;
};

static time_t end;

/* Each process has numbers of its own, so that the tree does not depend on who runs
 * first. */
static uint32_t draw(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed >> 8;
}

static void rest(void)
{
	while (time(NULL) < end)
		usleep(500000);
	_exit(0);
}

static void take_time_to_exit(int signo)
{
	usleep(3000);
	_exit(signo);
}

static void choose_signals(uint32_t choice)
{
	switch (choice % 6) {
	case 0:
		signal(SIGTERM, SIG_IGN);
		break;
	case 1:
		for (int signo = 1; signo <= 64; signo++)
			if (signo != SIGCHLD)
				signal(signo, SIG_IGN);
		break;
	case 2:
		signal(SIGTERM, take_time_to_exit);
		break;
	}
}

static void chain(uint32_t pause_us)
{
	while (time(NULL) < end) {
		if (fork() > 0)
			_exit(0);
		if (pause_us % 3 == 0)
			setsid();
		usleep(pause_us);
	}
	_exit(0);
}

static void *rest_in_thread(void *unused)
{
	rest();
	return unused;
}

static void grow(struct node *node, int children);

/* What a process does that is not the first. */
static int live(void *argument)
{
	struct node node = *(struct node *)argument;
	pthread_t thread;

	switch (draw(&node.seed) % 4) {
	case 0:
		setsid();
		break;
	case 1:
		setpgid(0, 0);
		break;
	}
	choose_signals(draw(&node.seed));
	grow(&node, node.depth >= 3 ? 0 : (int)(draw(&node.seed) % (4 - node.depth)));
	switch (draw(&node.seed) % 10) {
	case 0:
		raise(SIGSTOP);
		break;
	case 1:
	case 2:
		usleep(draw(&node.seed) % 40000);
		_exit((int)(draw(&node.seed) % 8));
	case 3:
		chain(draw(&node.seed) % 1000);
		break;
	case 4:
		if (pthread_create(&thread, NULL, rest_in_thread, NULL) == 0)
			pthread_exit(NULL);
		break;
	}
	rest();
	return 0;
}

static void *fork_in_thread(void *argument)
{
	if (fork() == 0)
		live(argument);
	return NULL;
}

static void bear(struct node *node, uint32_t manner)
{
	char *stack;
	pthread_t thread;
	pid_t child;

	switch (manner % 8) {
	case 0:
	case 1: /* an orphan */
		child = fork();
		if (child == 0) {
			if (fork() == 0)
				live(node);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		return;
	case 2:
		if (pthread_create(&thread, NULL, fork_in_thread, node) == 0)
			pthread_join(thread, NULL);
		return;
	case 3: /* is waited for with __WCLONE only; or becomes our sibling */
		stack = malloc(STACK_SIZE);
		if (stack != NULL)
			clone(live, stack + STACK_SIZE, manner & 64 ? CLONE_PARENT : 0,
			      node);
		return;
	case 4: /* a parent that cannot run until its child is gone */
		if (fork() > 0)
			return;
		if (vfork() == 0)
			rest();
		_exit(0);
	}
	if (fork() == 0)
		live(node);
}

static void grow(struct node *node, int children)
{
	for (int i = 0; i < children; i++) {
		struct node child = {node->seed + 0x9e3779b9u * (uint32_t)(i + 1),
				     node->depth + 1};
		draw(&child.seed);
		bear(&child, draw(&child.seed));
	}
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 1;
	struct node node = {(uint32_t)strtoul(argv[2], NULL, 10) | 1, 0};
	const int life = atoi(argv[3]);

	end = time(NULL) + LIFETIME;
	draw(&node.seed);
	choose_signals(draw(&node.seed));
	grow(&node, 1 + (int)(draw(&node.seed) % 5));
	if (life < 0)
		rest();
	usleep((useconds_t)life * 1000);
	return atoi(argv[4]);
}
