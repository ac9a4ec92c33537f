/*
 * Promises: messages arrive whole, in order, or not at all; neither side ever
 * waits for the other here.
 */
#include "link.h"
#include "descriptor.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

int link_open(int ends[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		ends[i] = descriptor_above_2(ends[i]);
		if (ends[i] < 0)
			return -1;
	}
	return 0;
}

/* How much of MESSAGE its type fills. */
static size_t length(const struct link_message *message)
{
	const size_t head = offsetof(struct link_message, text);

	switch (message->type) {
	case LINK_SIGNAL:
		return head + sizeof(message->signal);
	case LINK_SAY:
		return head + strlen(message->text) + 1;
	case LINK_ENDED:
		return head + sizeof(message->outcome);
	case LINK_CONTINUE:
	case LINK_STOPPED:
	case LINK_CONTINUED:
		break;
	}
	return head + sizeof(message->stop);
}

bool link_send(int end, const struct link_message *message)
{
	const size_t size = length(message);

	return send(end, message, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

bool link_receive(int end, struct link_message *message)
{
	/* The other side is our own fork: what arrives is what link_send() sent. */
	return recv(end, message, sizeof(*message), MSG_DONTWAIT) > 0;
}
