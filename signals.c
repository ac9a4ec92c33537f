/*
 * Promises: every signal that can be blocked is blocked and read in one place;
 * nothing is done in a handler, for there are none. Dispositions are not read
 * or changed, SIGCHLD's excepted: an ignored signal passes through exec by
 * itself, and a blocked one is queued for us even while it is ignored.
 */
#include "signals.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RTMIN 34
#define RTMAX 64

static const struct {
	const char *name;
	int signo;
} names[] = {
	{"HUP", SIGHUP},
	{"INT", SIGINT},
	{"QUIT", SIGQUIT},
	{"ILL", SIGILL},
	{"TRAP", SIGTRAP},
	{"ABRT", SIGABRT},
	{"BUS", SIGBUS},
	{"FPE", SIGFPE},
	{"KILL", SIGKILL},
	{"USR1", SIGUSR1},
	{"SEGV", SIGSEGV},
	{"USR2", SIGUSR2},
	{"PIPE", SIGPIPE},
	{"ALRM", SIGALRM},
	{"TERM", SIGTERM},
	{"STKFLT", SIGSTKFLT},
	{"CHLD", SIGCHLD},
	{"CONT", SIGCONT},
	{"STOP", SIGSTOP},
	{"TSTP", SIGTSTP},
	{"TTIN", SIGTTIN},
	{"TTOU", SIGTTOU},
	{"URG", SIGURG},
	{"XCPU", SIGXCPU},
	{"XFSZ", SIGXFSZ},
	{"VTALRM", SIGVTALRM},
	{"PROF", SIGPROF},
	{"WINCH", SIGWINCH},
	{"IO", SIGIO},
	{"PWR", SIGPWR},
	{"SYS", SIGSYS},
	/* Other names for the same; signal_name() gives the ones above. */
	{"IOT", SIGABRT},
	{"CLD", SIGCHLD},
	{"POLL", SIGIO},
};

/* A decimal number of one or two digits and nothing else, or -1. */
static int small_number(const char *word)
{
	int value = 0;

	if (word[0] == '\0' || strlen(word) > 2)
		return -1;
	for (const char *c = word; *c != '\0'; c++) {
		if (!isdigit((unsigned char)*c))
			return -1;
		value = value * 10 + (*c - '0');
	}
	return value;
}

static int real_time(const char *word)
{
	int offset = 0;

	if (strncasecmp(word, "RTMIN", 5) == 0) {
		if (word[5] != '\0' &&
		    (word[5] != '+' || (offset = small_number(word + 6)) < 0))
			return 0;
		return RTMIN + offset <= RTMAX ? RTMIN + offset : 0;
	}
	if (word[5] != '\0' && (word[5] != '-' || (offset = small_number(word + 6)) < 0))
		return 0;
	return RTMAX - offset >= RTMIN ? RTMAX - offset : 0;
}

int signal_by_name(const char *word)
{
	if (isdigit((unsigned char)word[0])) {
		int signo = small_number(word);
		return signo >= 1 && signo <= SIGNAL_MAX ? signo : 0;
	}
	if (strncasecmp(word, "SIG", 3) == 0)
		word += 3;
	if (strncasecmp(word, "RTMIN", 5) == 0 || strncasecmp(word, "RTMAX", 5) == 0)
		return real_time(word);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(word, names[i].name) == 0)
			return names[i].signo;
	return 0;
}

void signal_name(int signo, char name[SIGNAL_NAME_SIZE])
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].signo == signo) {
			snprintf(name, SIGNAL_NAME_SIZE, "SIG%s", names[i].name);
			return;
		}
	}
	if (signo == RTMIN)
		snprintf(name, SIGNAL_NAME_SIZE, "SIGRTMIN");
	else if (signo > RTMIN && signo <= RTMAX)
		snprintf(name, SIGNAL_NAME_SIZE, "SIGRTMIN+%d", signo - RTMIN);
	else
		snprintf(name, SIGNAL_NAME_SIZE, "SIG%d", signo);
}

/* Fails only for a bad pointer, size or HOW, and those are right here. */
static void set_mask(uint64_t mask, uint64_t *old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, old, sizeof(mask));
}

void signals_take(struct inherited *found)
{
	const struct sigaction by_default = {.sa_handler = SIG_DFL};
	struct sigaction before = {.sa_handler = SIG_DFL};

	set_mask(~UINT64_C(0), &found->mask);
	/* Fails only for a signal that does not exist or cannot be caught. */
	sigaction(SIGCHLD, &by_default, &before);
	found->chld_ignored = before.sa_handler == SIG_IGN;
}

void signals_give_back(const struct inherited *found)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	if (found->chld_ignored)
		sigaction(SIGCHLD, &ignore, NULL);
	set_mask(found->mask, NULL);
}

int signals_open(void)
{
	const uint64_t all = ~UINT64_C(0);
	const int fd = (int)syscall(SYS_signalfd4, -1, &all, sizeof(all),
				    SFD_CLOEXEC | SFD_NONBLOCK);

	if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM)
		return SIGNALS_UNPOLLED;
	return fd;
}

/* One pending signal without waiting, from FD or, where there is none, by asking. */
static bool read_one(int fd, struct arrived *arrived)
{
	const uint64_t all = ~UINT64_C(0);
	const struct timespec now = {0, 0};
	struct signalfd_siginfo info;
	siginfo_t asked;

	if (fd != SIGNALS_UNPOLLED) {
		if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
			return false;
		*arrived = (struct arrived){
			.signo = (int)info.ssi_signo,
			.code = info.ssi_code,
			.sender = (pid_t)info.ssi_pid,
			.uid = info.ssi_uid,
			.value = info.ssi_ptr,
		};
		return true;
	}
	if (syscall(SYS_rt_sigtimedwait, &all, &asked, &now, sizeof(all)) <= 0)
		return false;
	*arrived = (struct arrived){
		.signo = asked.si_signo,
		.code = asked.si_code,
		.sender = asked.si_pid,
		.uid = asked.si_uid,
		.value = (uintptr_t)asked.si_value.sival_ptr,
	};
	return true;
}

bool signals_read(int fd, struct arrived *arrived)
{
	/* Ends: every turn takes one of the signals that are pending. */
	while (read_one(fd, arrived))
		if (arrived->code != SI_USER || arrived->sender != getpid())
			return true;
	return false;
}

uint64_t signals_pending(void)
{
	uint64_t pending = 0;

	/* Cannot fail: the pointer and the size are right. */
	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	return pending;
}

bool signals_was_pending(uint64_t *pending, const struct arrived *arrived)
{
	const uint64_t bit = UINT64_C(1) << (arrived->signo - 1);
	const bool was = (*pending & bit) != 0;

	*pending &= ~bit;
	return was;
}

bool signals_value(const struct arrived *arrived, int signo, siginfo_t *info)
{
	if (arrived->code >= 0 || arrived->code == SI_TKILL)
		return false;
	memset(info, 0, sizeof(*info));
	info->si_signo = signo;
	info->si_code = SI_QUEUE;
	info->si_pid = arrived->sender;
	info->si_uid = arrived->uid;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): no pointer of ours, only the bits */
	info->si_value.sival_ptr = (void *)(uintptr_t)arrived->value;
	return true;
}

bool signals_stops(int signo)
{
	return signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
}

void signals_stop_begin(int signo)
{
	/* Pending, for it is blocked. Ourselves: our number cannot be another's. */
	kill(getpid(), signo);
}

bool signals_stop_end(int signo, bool really)
{
	const struct sigaction by_default = {.sa_handler = SIG_DFL};
	struct sigaction before;

	if (!really) {
		/* Takes back what is pending; itself it is ours and will be dropped. */
		kill(getpid(), SIGCONT);
		return true;
	}
	/* Fails only for SIGSTOP and the like. */
	if (sigaction(signo, &by_default, &before) < 0)
		return true;
	set_mask(~(UINT64_C(1) << (signo - 1)), NULL);
	set_mask(~UINT64_C(0), NULL);
	sigaction(signo, &before, NULL);
	/* An older SIGCONT has been taken back by the stop signal. */
	return (signals_pending() >> (SIGCONT - 1) & 1) != 0;
}

void signals_die_of(int signo)
{
	const struct sigaction by_default = {.sa_handler = SIG_DFL};
	const struct rlimit no_core = {0, 0};

	/* If these failed we would leave a core file, no more. A core pattern that is a
	 * pipe does not ask for the limit. */
	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(signo, &by_default, NULL);
	/* Ourselves: our own number cannot be anybody else's. */
	kill(getpid(), signo);
	set_mask(~(UINT64_C(1) << (signo - 1)), NULL);
}
