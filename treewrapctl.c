/*
 * treewrapctl: lists the runs that have a name, shows them, signals and stops them, over
 * their control sockets.
 *
 * Promises: 0 only if what was asked for was done; nothing that a run says is believed
 * before it is looked at, nor printed before it is made harmless. It sends no signal
 * itself, and knows no process but by what a run says.
 */
#include "ask.h"
#include "bad_option.h"
#include "clock.h"
#include "draw.h"
#include "reply.h"
#include "runtime.h"
#include "text.h"
#include "version.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXIT_USAGE 2

#define LIST_SECONDS   1
#define ANSWER_SECONDS 10
#define SIGNAL_WORD    32

static const char usage[] =
	"usage: treewrapctl [OPTION]... COMMAND [ARG]...\n"
	"Ask or stop what was started by treewrap --id ID.\n"
	"\n"
	"  list                       all runs\n"
	"  status ID                  how it stands\n"
	"  tree ID                    its processes\n"
	"  signal ID SIGNAL           send SIGNAL to its processes\n"
	"  stop ID                    stop it; returns when nothing of it is left\n"
	"  wait ID                    wait for its end\n"
	"\n"
	"      --to main|group|tree   who gets SIGNAL (tree)\n"
	"      --json                 the run's answers as they are, one a line\n"
	"  -h, --help    --version\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 bad usage.\n";

enum long_only { OPT_JSON = 256, OPT_TO, OPT_VERSION };

/* '-': words and options in any order, whatever POSIXLY_CORRECT says. */
static const char short_options[] = "-:h";

static const struct option long_options[] = {
	{"json", no_argument, NULL, OPT_JSON},
	{"to", required_argument, NULL, OPT_TO},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

struct call {
	bool json;
	const char *to; /* or NULL */
	const char *id, *signal;
	const struct command *command;
	struct runtime runtime;
};

/* A request and what is made of a good reply to it; true if all was done. */
struct command {
	const char *name;
	const char *const *words; /* that it needs, for people; ends in NULL */
	bool for_ever;		  /* how long it waits */
	bool (*show)(const struct call *call, struct reader *reader);
};

/* Says what makes no sense in the call, in one line that names the word at fault. */
static _Noreturn void __attribute__((format(printf, 1, 2)))
misuse(const char *format, ...)
{
	char message[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	complain("%s", message);
	exit(EXIT_USAGE);
}

/* Exits with STATUS, or with 1 if standard output has not taken everything. */
static _Noreturn void leave(int status)
{
	/* fflush(3) knows only of the last failure. */
	const bool failed = ferror(stdout) != 0;

	if (fflush(stdout) == EOF || failed) {
		complain("cannot write to standard output: %s", strerror(errno));
		status = EXIT_FAILURE;
	}
	exit(status);
}

static void complain_of(const struct call *call, const char *id, const char *what)
{
	complain("%s %s: %s", call->command->name, id, what);
}

static void show_command(struct page *page, const json_t *words, bool truncated)
{
	for (size_t i = 0; i < json_array_size(words); i++) {
		const char *word = json_string_value(json_array_get(words, i));
		if (i > 0)
			page_text(page, " ");
		page_text(page, word != NULL ? word : "?");
	}
	if (truncated)
		page_text(page, " ...");
}

/* What there is about a run that runs. */
struct state {
	json_int_t pid, processes;
	const char *phase, *contain;
	double age, timeout;
	bool limited, truncated;
	const json_t *command;
};

static struct state read_state(struct reader *reader)
{
	struct state state = {
		.pid = read_count_or_null(reader, "pid"),
		.processes = read_count(reader, "processes"),
		.phase = read_text(reader, "phase"),
		.contain = read_text(reader, "contain"),
		.age = read_seconds(reader, "age"),
		.limited = !json_is_null(json_object_get(reader->object, "timeout")),
		.truncated = json_is_true(json_object_get(reader->object, "truncated")),
		.command = read_list(reader, "command"),
	};

	if (state.limited)
		state.timeout = read_seconds(reader, "timeout");
	return state;
}

static void show_key(struct page *page, const char *key)
{
	page_style(page, STYLE_BOLD);
	page_format(page, "%-11s", key);
	page_style(page, STYLE_NONE);
}

static void show_state(struct page *page, const char *id, const struct state *state)
{
	const double left = state->timeout - state->age;

	show_key(page, "id");
	page_text(page, id);
	page_end_line(page);
	show_key(page, "pid");
	if (state->pid != 0)
		page_format(page, "%lld", (long long)state->pid);
	else
		page_text(page, "ended");
	page_end_line(page);
	show_key(page, "phase");
	page_text(page, state->phase);
	page_end_line(page);
	show_key(page, "age");
	page_format(page, "%.3f s", state->age);
	page_end_line(page);
	show_key(page, "timeout");
	if (state->limited)
		page_format(page, "%.3f s left of %.3f s", left > 0 ? left : 0,
			    state->timeout);
	else
		page_text(page, "none");
	page_end_line(page);
	show_key(page, "processes");
	page_format(page, "%lld", (long long)state->processes);
	page_end_line(page);
	show_key(page, "contain");
	page_text(page, state->contain);
	page_end_line(page);
	show_key(page, "command");
	show_command(page, state->command, state->truncated);
	page_end_line(page);
}

static bool status_show(const struct call *call, struct reader *reader)
{
	const struct state state = read_state(reader);
	struct page page;

	if (reader->missing != NULL)
		return false;
	page_open(&page);
	/* Whole, on as many lines of the terminal as it takes. */
	page.width = SIZE_MAX;
	if (!call->json)
		show_state(&page, call->id, &state);
	return true;
}

static bool tree_show(const struct call *call, struct reader *reader)
{
	struct page page;

	page_open(&page);
	if (draw_tree(call->json ? NULL : &page, call->id, reader))
		return true;
	if (reader->missing == NULL)
		complain_of(call, call->id, "out of memory");
	return false;
}

static bool signal_show(const struct call *call, struct reader *reader)
{
	const char *name = read_text(reader, "signal");
	const json_int_t reached = read_count(reader, "reached");
	struct page page;

	if (reader->missing != NULL || call->json)
		return reader->missing == NULL;
	page_open(&page);
	page_text(&page, name);
	page_format(&page, " to %lld process%s", (long long)reached,
		    reached == 1 ? "" : "es");
	page_end_line(&page);
	return true;
}

static void complain_of_survivors(const struct call *call, struct reader *reader,
				  const json_t *survivors)
{
	for (size_t i = 0; i < json_array_size(survivors); i++) {
		struct reader one = {.object = json_array_get(survivors, i)};
		const json_int_t pid = read_count(&one, "pid");
		const char *command = read_text(&one, "command");
		const char *state = read_text(&one, "state");
		const char *reason = read_text(&one, "reason");
		if (one.missing != NULL)
			reader->missing = one.missing;
		else
			complain("%s: process %lld (%s), state %s, has survived: %s",
				 call->id, (long long)pid, command, state, reason);
	}
}

static bool end_show(const struct call *call, struct reader *reader)
{
	const char *cause = read_text(reader, "cause");
	const double at = read_seconds(reader, "at");
	const json_int_t killed = read_count(reader, "killed");
	const json_t *survivors = read_list(reader, "survivors");
	struct page page;

	if (reader->missing != NULL)
		return false;
	if (json_array_size(survivors) > 0) {
		complain_of_survivors(call, reader, survivors);
		return false;
	}
	if (call->json)
		return true;
	page_open(&page);
	page_format(&page, "%s: ended (", call->id);
	page_text(&page, cause);
	page_format(&page, ") after %.3f s", at);
	if (killed > 0)
		page_format(&page, ", %lld killed by SIGKILL", (long long)killed);
	page_end_line(&page);
	return true;
}

/* Control characters, which JSON allows some of, as escapes or spaces: the same reply,
 * and harmless. */
static void print_json(const struct ask *ask)
{
	const unsigned char *c = (const unsigned char *)ask->reply;

	for (size_t i = 0; i < ask->length; i++) {
		if (c[i] == 0xc2 && c[i + 1] < 0xa0)
			printf("\\u%04x", c[++i]);
		else if (c[i] == 0x7f)
			printf("\\u007f");
		else
			putchar(c[i] < 0x20 ? ' ' : c[i]);
	}
	putchar('\n');
}

/*
 * The reply as an object; NULL, and the reason in the SIZE bytes of WHY, if it is none or
 * says no. With --json it is printed in either case.
 */
static json_t *take_reply(const struct call *call, const struct ask *ask, char *why,
			  size_t size)
{
	json_t *reply = json_loadb(ask->reply, ask->length, 0, NULL);
	struct reader reader = {.object = reply};
	const bool ok = read_bool(&reader, "ok");
	const char *error = ok ? "" : read_text(&reader, "error");

	if (!json_is_object(reply))
		snprintf(why, size, "its reply is not a JSON object");
	else if (reader.missing != NULL)
		snprintf(why, size, "its reply lacks a good \"%s\"", reader.missing);
	else if (!ok)
		snprintf(why, size, "refused: %s", error);
	if (call->json && json_is_object(reply))
		print_json(ask);
	if (ok && reader.missing == NULL)
		return reply;
	json_decref(reply);
	return NULL;
}

/* Why there is no reply. */
static void explain(const struct ask *ask, int seconds, char *why, size_t size)
{
	if (ask->state == ASK_SILENT)
		snprintf(why, size, "no answer within %d s", seconds);
	else if (ask->state == ASK_HUNG_UP)
		snprintf(why, size,
			 ask->length > 0 ? "it hung up in the middle of its reply"
					 : "it hung up without a reply: its treewrap "
					   "has ended or was killed");
	else
		snprintf(why, size, "%s", ask->why);
}

static bool show_reply(const struct call *call, const struct ask *ask)
{
	char why[2048];
	json_t *reply = take_reply(call, ask, why, sizeof(why));
	struct reader reader = {.object = reply};

	if (reply == NULL) {
		complain_of(call, call->id, why);
		return false;
	}
	const bool done = call->command->show(call, &reader);
	if (reader.missing != NULL) {
		snprintf(why, sizeof(why), "its reply lacks a good \"%s\"",
			 reader.missing);
		complain_of(call, call->id, why);
	}
	json_decref(reply);
	return done;
}

/*
 * The one of a run's two processes that we were connected to has been killed: the other
 * ends the run, and can be asked to tell of the end.
 */
static void ask_who_took_over(const struct call *call, struct ask *ask)
{
	struct ask again = {.state = ASK_CONNECT};

	snprintf(again.name, sizeof(again.name), "%s", call->id);
	ask_all(&call->runtime, &again, 1, "wait\n", NEVER);
	if (again.state != ASK_DONE) {
		ask_free(&again);
		return;
	}
	ask_free(ask);
	*ask = again;
}

static bool ask_one(const struct call *call)
{
	struct ask ask = {.state = ASK_CONNECT};
	char line[128], why[256];
	const int64_t deadline_ns = call->command->for_ever
					    ? NEVER
					    : clock_now_ns() + ANSWER_SECONDS * NS_PER_S;
	bool done = false;

	snprintf(ask.name, sizeof(ask.name), "%s", call->id);
	if (call->signal != NULL)
		snprintf(line, sizeof(line), "signal %s %s\n", call->signal,
			 call->to != NULL ? call->to : "tree");
	else
		snprintf(line, sizeof(line), "%s\n", call->command->name);
	ask_all(&call->runtime, &ask, 1, line, deadline_ns);
	if (ask.state == ASK_HUNG_UP && call->command->for_ever)
		ask_who_took_over(call, &ask);
	if (ask.state == ASK_DONE) {
		done = show_reply(call, &ask);
	} else if (ask.state == ASK_NO_RUN) {
		complain("no run has the id '%s'", call->id);
	} else {
		explain(&ask, ANSWER_SECONDS, why, sizeof(why));
		complain_of(call, call->id, why);
	}
	ask_free(&ask);
	return done;
}

struct names {
	struct ask *list;
	size_t count, size;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct ask *)a)->name, ((const struct ask *)b)->name);
}

/* FILE's run, if it is one's socket. False if memory is out. */
static bool add_name(struct names *names, const struct dirent *file)
{
	const size_t length = strlen(file->d_name), end = strlen(RUNTIME_SUFFIX);
	char name[sizeof(file->d_name)];

	if ((file->d_type != DT_SOCK && file->d_type != DT_UNKNOWN) || length <= end ||
	    strcmp(file->d_name + length - end, RUNTIME_SUFFIX) != 0)
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)(length - end), file->d_name);
	if (!runtime_is_name(name))
		return true;
	if (names->count == names->size) {
		const size_t size = 2 * names->size + 16;
		struct ask *list = realloc(names->list, size * sizeof(*list));
		if (list == NULL)
			return false;
		names->list = list;
		names->size = size;
	}
	struct ask *ask = &names->list[names->count++];
	*ask = (struct ask){.state = ASK_CONNECT};
	snprintf(ask->name, sizeof(ask->name), "%.*s", RUNTIME_NAME_MAX, name);
	return true;
}

/* The names of all sockets, sorted. False if they cannot be read. */
static bool read_names(const struct runtime *runtime, struct names *names)
{
	const int fd = fcntl(runtime->directory, F_DUPFD_CLOEXEC, 3);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *file;
	bool good = directory != NULL;

	errno = good ? 0 : errno;
	/* Ends with the directory. */
	while (good && (file = readdir(directory)) != NULL)
		good = add_name(names, file);
	good = good && errno == 0;
	if (!good)
		complain("list: %s: %s", runtime->path, strerror(errno));
	if (directory != NULL)
		closedir(directory);
	else if (fd >= 0)
		close(fd);
	if (names->count > 0)
		qsort(names->list, names->count, sizeof(*names->list), by_name);
	return good;
}

/* All at once, as far as descriptors go. */
static void ask_for_status(const struct runtime *runtime, const struct names *names)
{
	struct rlimit limit = {64, 64};
	size_t most = 16;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur > 64)
		most = limit.rlim_cur < 65536 ? limit.rlim_cur - 32 : 65536;
	for (size_t i = 0; i < names->count; i += most) {
		const size_t left = names->count - i;
		ask_all(runtime, names->list + i, left < most ? left : most, "status\n",
			clock_now_ns() + LIST_SECONDS * NS_PER_S);
	}
}

/* One line of the list. */
struct row {
	const char *id;
	json_t *reply; /* or NULL: it says nothing */
	struct state state;
};

/* True if a run that has hung up is there no longer. */
static bool has_ended(const struct runtime *runtime, const char *name)
{
	const int fd = runtime_connect(runtime, name);

	if (fd >= 0)
		close(fd);
	return fd < 0 && (errno == ENOENT || errno == ECONNREFUSED);
}

/* False if there is no such run. */
static bool make_row(const struct call *call, const struct ask *ask, struct row *row)
{
	char why[2048] = "";

	*row = (struct row){.id = ask->name};
	if (ask->state == ASK_NO_RUN ||
	    (ask->state == ASK_HUNG_UP && has_ended(&call->runtime, ask->name)))
		return false;
	if (ask->state == ASK_DONE)
		row->reply = take_reply(call, ask, why, sizeof(why));
	else
		explain(ask, LIST_SECONDS, why, sizeof(why));
	if (row->reply != NULL) {
		struct reader reader = {.object = row->reply};
		row->state = read_state(&reader);
		if (reader.missing == NULL)
			return true;
		snprintf(why, sizeof(why), "its reply lacks a good \"%s\"",
			 reader.missing);
		json_decref(row->reply);
		row->reply = NULL;
	}
	complain_of(call, ask->name, why);
	return true;
}

#define CELLS	  4
#define CELL_SIZE (RUNTIME_NAME_SIZE + 1)

static void fill_cells(const struct row *row, char cell[CELLS][CELL_SIZE])
{
	char age[DURATION_SIZE];

	snprintf(cell[0], CELL_SIZE, "%s", row->id);
	for (int i = 1; i < CELLS; i++)
		snprintf(cell[i], CELL_SIZE, "?");
	if (row->reply == NULL)
		return;
	snprintf(cell[1], CELL_SIZE, "-");
	if (row->state.pid != 0)
		snprintf(cell[1], CELL_SIZE, "%lld", (long long)row->state.pid);
	duration_text(row->state.age, age);
	snprintf(cell[2], CELL_SIZE, "%s", age);
	snprintf(cell[3], CELL_SIZE, "%lld", (long long)row->state.processes);
}

static void print_rows(const struct row rows[], size_t count)
{
	static const char *const titles[CELLS] = {"ID", "PID", "AGE", "PROCESSES"};
	int width[CELLS];
	char cell[CELLS][CELL_SIZE];
	struct page page;

	if (count == 0)
		return;
	for (int i = 0; i < CELLS; i++)
		width[i] = (int)strlen(titles[i]);
	for (size_t i = 0; i < count; i++) {
		fill_cells(&rows[i], cell);
		for (int j = 0; j < CELLS; j++)
			if (width[j] < (int)strlen(cell[j]))
				width[j] = (int)strlen(cell[j]);
	}
	page_open(&page);
	page_style(&page, STYLE_BOLD);
	page_format(&page, "%-*s  %*s  %*s  %*s  COMMAND", width[0], titles[0], width[1],
		    titles[1], width[2], titles[2], width[3], titles[3]);
	page_style(&page, STYLE_NONE);
	page_end_line(&page);
	for (size_t i = 0; i < count; i++) {
		fill_cells(&rows[i], cell);
		page_format(&page, "%-*s  %*s  %*s  %*s  ", width[0], cell[0], width[1],
			    cell[1], width[2], cell[2], width[3], cell[3]);
		if (rows[i].reply != NULL)
			show_command(&page, rows[i].state.command,
				     rows[i].state.truncated);
		else
			page_text(&page, "?");
		page_end_line(&page);
	}
}

static bool list_runs(const struct call *call)
{
	struct names names = {0};
	struct row *rows = NULL;
	size_t count = 0;
	bool done = read_names(&call->runtime, &names);

	if (done) {
		ask_for_status(&call->runtime, &names);
		rows = calloc(names.count + 1, sizeof(*rows));
		if (rows == NULL)
			complain("list: out of memory");
		done = rows != NULL;
	}
	for (size_t i = 0; done && i < names.count; i++)
		if (make_row(call, &names.list[i], &rows[count]))
			count++;
	if (done && !call->json)
		print_rows(rows, count);
	for (size_t i = 0; i < count; i++)
		json_decref(rows[i].reply);
	for (size_t i = 0; i < names.count; i++)
		ask_free(&names.list[i]);
	free(rows);
	free(names.list);
	return done;
}

/* Names the word that getopt_long(3) stumbled over. */
_Noreturn static void bad_option(int complaint, char **argv)
{
	char text[1024];

	bad_option_text(complaint, argv, short_options, text, sizeof(text));
	misuse("%s", text);
}

static const char *const words_none[] = {NULL};
static const char *const words_id[] = {"ID", NULL};
static const char *const words_signal[] = {"ID", "SIGNAL", NULL};

static const struct command commands[] = {
	{"list", words_none, false, NULL},
	{"status", words_id, false, status_show},
	{"tree", words_id, false, tree_show},
	{"signal", words_signal, false, signal_show},
	{"stop", words_id, true, end_show},
	{"wait", words_id, true, end_show},
};

static const struct command *command_of(const char *word)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(word, commands[i].name) == 0)
			return &commands[i];
	misuse("'%s' is not a command (see treewrapctl --help)", word);
}

static void take_word(struct call *call, const char *word)
{
	if (call->command == NULL)
		call->command = command_of(word);
	else if (call->id == NULL && call->command->words[0] != NULL)
		call->id = word;
	else if (call->signal == NULL && call->id != NULL &&
		 call->command->words[1] != NULL)
		call->signal = word;
	else
		misuse("%s: '%s' is one word too many", call->command->name, word);
}

static void take_option(struct call *call, int option, char **argv)
{
	switch (option) {
	case 1:
		take_word(call, optarg);
		break;
	case OPT_JSON:
		call->json = true;
		break;
	case OPT_TO:
		call->to = optarg;
		break;
	case 'h':
		fputs(usage, stdout);
		leave(EXIT_SUCCESS);
	case OPT_VERSION:
		puts("treewrapctl " VERSION);
		leave(EXIT_SUCCESS);
	default:
		bad_option(option, argv);
	}
}

/* A word that can be one of a request: the run knows which are signals. */
static bool is_signal_word(const char *word)
{
	const size_t length = strlen(word);

	for (size_t i = 0; i < length; i++)
		if (word[i] <= ' ' || word[i] > '~')
			return false;
	return length > 0 && length <= SIGNAL_WORD;
}

static void check(const struct call *call)
{
	const char *name = call->command->name;
	const char *const *words = call->command->words;

	if (words[0] != NULL && call->id == NULL)
		misuse("%s: no %s given", name, words[0]);
	if (call->id != NULL && !runtime_is_name(call->id))
		misuse("%s: '%s' is not an id", name, call->id);
	if (words[0] != NULL && words[1] != NULL && call->signal == NULL)
		misuse("%s: no %s given", name, words[1]);
	if (call->signal != NULL && !is_signal_word(call->signal))
		misuse("%s: '%s' is not a signal", name, call->signal);
	if (call->to == NULL)
		return;
	if (words[0] == NULL || words[1] == NULL)
		misuse("--to: '%s' is for signal, not for %s", call->to, name);
	if (strcmp(call->to, "main") != 0 && strcmp(call->to, "group") != 0 &&
	    strcmp(call->to, "tree") != 0)
		misuse("--to: '%s' is none of main, group, tree", call->to);
}

static void parse(struct call *call, int argc, char **argv)
{
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) !=
	       -1)
		take_option(call, option, argv);
	/* Those behind "--". */
	while (optind < argc)
		take_word(call, argv[optind++]);
	if (call->command == NULL)
		misuse("no command given (see treewrapctl --help)");
	check(call);
}

int main(int argc, char **argv)
{
	struct call call = {0};
	char why[RUNTIME_PATH_SIZE + 128];

	setlocale(LC_CTYPE, "");
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	parse(&call, argc, argv);
	const bool list = call.command->show == NULL;
	if (runtime_open(&call.runtime, false, why, sizeof(why)))
		leave((list ? list_runs(&call) : ask_one(&call)) ? EXIT_SUCCESS
								 : EXIT_FAILURE);
	if (errno == ENOENT && list)
		leave(EXIT_SUCCESS);
	if (errno == ENOENT)
		complain("no run has the id '%s'", call.id);
	else
		complain("%s", why);
	leave(EXIT_FAILURE);
}
