/*
 * Promises: returns at the time that was given or soon after, and when something has come
 * of what the run depends on, even where poll(2) fails for ever.
 */
#include "wait.h"
#include "clock.h"
#include "descriptor.h"

#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* Where neither can wait: not in circles. */
#define PAUSE_MS 10

#define EVENTS_MAX 64

int wait_open(void)
{
	return descriptor_above_2(epoll_create1(EPOLL_CLOEXEC));
}

void wait_also(int epoll, int fd, short events, unsigned place)
{
	struct epoll_event event = {.events = (uint32_t)events, .data.u32 = place};

	/* EPERM for a file, which nothing ever comes of. */
	if (epoll >= 0 && fd >= 0)
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void wait_no_more(int epoll, int fd)
{
	if (epoll >= 0)
		epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void wait_by_epoll(int epoll, struct pollfd fds[], unsigned count, int64_t left_ns)
{
	struct epoll_event events[EVENTS_MAX];
	const int64_t left_ms = left_ns / NS_PER_MS + (left_ns % NS_PER_MS > 0);
	const int got = epoll < 0 ? -1
				  : epoll_wait(epoll, events, EVENTS_MAX,
					       left_ms > 1000 ? 1000 : (int)left_ms);

	for (int i = 0; i < got; i++)
		if (events[i].data.u32 < count)
			fds[events[i].data.u32].revents = (short)events[i].events;
	if (got < 0)
		poll(NULL, 0, PAUSE_MS);
}

void wait_for(int epoll, struct pollfd fds[], unsigned count, int64_t left_ns)
{
	const struct timespec left = {left_ns / NS_PER_S, left_ns % NS_PER_S};

	/* No signal can interrupt it, all are blocked. */
	if (ppoll(fds, count, &left, NULL) >= 0)
		return;
	for (unsigned i = 0; i < count; i++)
		fds[i].revents = 0;
	wait_by_epoll(epoll, fds, count, left_ns);
}
