/*
 * Waiting for descriptors whatever somebody does to our limits. poll(2) refuses more
 * entries than RLIMIT_NOFILE, which any process of the same user may set to 0 for us
 * (prlimit(2)); epoll(7) does not ask.
 */
#ifndef WAIT_H
#define WAIT_H

#include <poll.h>
#include <stdint.h>

/* An epoll descriptor, close-on-exec and above 2, for wait_also(); or -1. */
int wait_open(void);

/*
 * FD is in FDS at PLACE whenever wait_for() is called with these EVENTS, until it is
 * closed. If this fails, so will waiting for it where poll(2) does.
 */
void wait_also(int epoll, int fd, short events, unsigned place);

/* Before FD is closed, which others may have open too. */
void wait_no_more(int epoll, int fd);

/*
 * As poll(2) of COUNT FDS for LEFT_NS. Where poll(2) refuses, only what wait_also() was
 * told of is waited for, in milliseconds. Never fails: then nothing has come.
 */
void wait_for(int epoll, struct pollfd fds[], unsigned count, int64_t left_ns);

#endif
