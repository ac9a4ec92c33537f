/*
 * stall DIRECTORY
 *
 * Mounts on DIRECTORY a file system of FUSE that answers nothing once it has been looked
 * into: whoever opens a file there sleeps uninterruptibly. Prints "ready" when it is
 * there, "stalled" when somebody sleeps. Ends, and lets them go, when standard input
 * does.
 */
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char request[256 * 1024];

static void answer(int fuse, uint64_t unique, void *body, size_t size)
{
	struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + size),
				       .unique = unique};
	struct iovec pieces[] = {{&head, sizeof(head)}, {body, size}};

	if (writev(fuse, pieces, 2) < 0)
		perror("stall");
}

static void serve(int fuse)
{
	const struct fuse_in_header *head = (const void *)request;
	const struct fuse_init_in *theirs = (const void *)(head + 1);
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION,
				     .max_write = 4096};
	struct fuse_attr_out root = {
		.attr_valid = 60, .attr = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2}};

	if (read(fuse, request, sizeof(request)) <= 0)
		return;
	switch (head->opcode) {
	case FUSE_INIT:
		init.minor = theirs->minor < init.minor ? theirs->minor : init.minor;
		init.max_readahead = theirs->max_readahead;
		answer(fuse, head->unique, &init, sizeof(init));
		printf("ready\n");
		break;
	case FUSE_GETATTR:
		answer(fuse, head->unique, &root, sizeof(root));
		break;
	case FUSE_LOOKUP:
		printf("stalled\n");
		break;
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char options[128];
	const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (argc != 2 || fuse < 0)
		return 1;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", fuse);
	if (mount("stall", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		return 1;
	for (;;) {
		struct pollfd fds[] = {{.fd = fuse, .events = POLLIN},
				       {.fd = STDIN_FILENO, .events = 0}};
		if (poll(fds, 2, -1) < 0 || fds[1].revents != 0 ||
		    (fds[0].revents & POLLERR) != 0)
			break;
		serve(fuse);
	}
	umount2(argv[1], MNT_DETACH);
	return 0;
}
