/*
 * refuse ERRNO NAME[,NAME]... COMMAND [ARG]...
 *
 * Runs COMMAND where the kernel answers ERRNO to the system calls named, as old kernels
 * (ENOSYS) and the filters of container engines (EPERM) do; its children inherit that.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIDFD_GET_INFO 0xc040ff0b

static const struct {
	const char *name;
	unsigned number;
} calls[] = {
	{"pidfd_open", SYS_pidfd_open},
	{"pidfd_send_signal", SYS_pidfd_send_signal},
	{"close_range", SYS_close_range},
	{"clone3", SYS_clone3},
	{"timerfd_create", SYS_timerfd_create},
	{"signalfd4", SYS_signalfd4},
	{"pidfd_info", SYS_ioctl},
};

int main(int argc, char **argv)
{
	struct sock_filter code[64];
	struct sock_fprog program = {.filter = code};
	unsigned n = 0;

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
		if (i == sizeof(calls) / sizeof(calls[0]))
			return 1;
		const int by_request = calls[i].number == SYS_ioctl;
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 calls[i].number, 0,
							 by_request ? 4 : 1);
		if (by_request) {
			code[n++] = (struct sock_filter)BPF_STMT(
				BPF_LD | BPF_W | BPF_ABS,
				offsetof(struct seccomp_data, args[1]));
			code[n++] = (struct sock_filter)BPF_JUMP(
				BPF_JMP | BPF_JEQ | BPF_K, PIDFD_GET_INFO, 0, 1);
			code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
			code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
								 SECCOMP_RET_ALLOW);
		} else {
			code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
		}
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return 1;
	execvp(argv[3], argv + 3);
	return 1;
}
