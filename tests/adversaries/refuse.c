/*
 * refuse ERRNO NAME[,NAME]... COMMAND [ARG]...
 *
 * Runs COMMAND where the kernel answers ERRNO to the system calls named, as old kernels
 * (ENOSYS), the filters of container engines (EPERM) and machines that have run out of
 * something do; its children inherit that. ERRNO 0: nothing is done, and success claimed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIDFD_GET_INFO 0xc040ff0b
#define CALLS_MAX      8

static const struct {
	const char *name;
	unsigned number;
	/* Only where this argument, counted from 1, is VALUE; 0: always. */
	unsigned argument, value;
} calls[] = {
	{"pidfd_open", SYS_pidfd_open, 0, 0},
	{"pidfd_send_signal", SYS_pidfd_send_signal, 0, 0},
	{"close_range", SYS_close_range, 0, 0},
	{"clone3", SYS_clone3, 0, 0},
	{"timerfd_create", SYS_timerfd_create, 0, 0},
	{"signalfd4", SYS_signalfd4, 0, 0},
	{"pidfd_info", SYS_ioctl, 2, PIDFD_GET_INFO},
	{"pipe2", SYS_pipe2, 0, 0},
	{"socketpair", SYS_socketpair, 0, 0},
	{"dup3", SYS_dup3, 0, 0},
	{"prlimit64", SYS_prlimit64, 0, 0},
	{"clone", SYS_clone, 0, 0},
	/* The birth of the command, and of nothing else. */
	{"clone_vm", SYS_clone, 1, CLONE_VM | SIGCHLD},
	{"subreaper", SYS_prctl, 1, PR_SET_CHILD_SUBREAPER},
	{"sched_setscheduler", SYS_sched_setscheduler, 0, 0},
	{"waitid_all", SYS_waitid, 1, P_ALL},
	{"landlock", 444, 0, 0}, /* landlock_create_ruleset */
};

/* The code that answers ANSWER to call I. Returns its length. */
static unsigned refuse(struct sock_filter *code, unsigned i, unsigned answer)
{
	const unsigned length = calls[i].argument != 0 ? 5 : 2;
	struct sock_filter *c = code;

	*c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0,
					    (unsigned char)(length - 1));
	if (calls[i].argument != 0) {
		*c++ = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS,
			(unsigned)offsetof(struct seccomp_data, args) +
				8 * (calls[i].argument - 1));
		*c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						    calls[i].value, 1, 0);
		*c++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	*c++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
	return (unsigned)(c - code);
}

int main(int argc, char **argv)
{
	struct sock_filter code[2 + 5 * CALLS_MAX];
	struct sock_fprog program = {.filter = code};
	unsigned n = 0, words = 0;

	if (argc < 4)
		return 1;
	const unsigned answer = SECCOMP_RET_ERRNO | (unsigned)atoi(argv[1]);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (char *word = strtok(argv[2], ","); word != NULL; word = strtok(NULL, ",")) {
		unsigned i = 0;
		while (i < sizeof(calls) / sizeof(calls[0]) &&
		       strcmp(calls[i].name, word) != 0)
			i++;
		if (i == sizeof(calls) / sizeof(calls[0]) || words++ == CALLS_MAX)
			return 1;
		n += refuse(code + n, i, answer);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return 1;
	execvp(argv[3], argv + 3);
	return 1;
}
