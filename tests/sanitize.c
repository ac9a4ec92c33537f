/*
 * Linked into the program by `make sanitize` alone: how AddressSanitizer has to behave in
 * a process that closes its descriptors, blocks every signal and starts others on stacks
 * of its own. Compiled in and not set by a variable, for tests clear the environment.
 */
const char *__asan_default_options(void);
void __wrap___asan_handle_no_return(void);

const char *__asan_default_options(void)
{
	/* Standard error may be closed or watched: what is found goes to files. */
	return "log_path=" LOG_PATH ":"
	       /* Handlers would change what the command inherits; with all signals
		* blocked they would not run either. */
	       "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:"
	       "handle_abort=0:use_sigaltstack=0:"
	       /* A frame of the command's process before its exec must lie on its own
		* stack: what else it could be given is the reaper's at the same time. */
	       "detect_stack_use_after_return=0:"
	       /* Leaks are looked for by a child that traces its parent, which treewrap
		* would take for one of the tree; and treewrap allocates nothing. */
	       "detect_leaks=0";
}

/*
 * Called before what does not return, to make the frames that are left behind fit for use
 * again. Nothing here jumps back: each such call ends its process, and the stack with it.
 * Nor could it be done, for ASan knows of one stack in each process and the command's
 * shares memory with the reaper.
 */
void __wrap___asan_handle_no_return(void)
{
}
