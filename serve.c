/*
 * Promises: a signal that is asked for goes to proven members of the tree alone; "stop"
 * is answered when nothing is left of it, or what is left is known; whatever is asked,
 * the answer takes no longer than a walk over the tree.
 */
#include "serve.h"
#include "clock.h"
#include "tree.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of a reply: what follows the command's words, or the last process. */
#define ROOM_AT_END 256

/* WORD is at fault; NULL: none is. */
static void refuse(struct client *client, const char *what, const char *word)
{
	struct json reply = control_begin(client);
	char text[160];

	snprintf(text, sizeof(text), word != NULL ? "%s: '%.80s'" : "%s", what, word);
	json_add(&reply, "{\"ok\":false,\"error\":");
	json_string(&reply, text);
	json_add(&reply, "}");
	control_reply(client, &reply);
}

static const char *phase_name(enum phase phase)
{
	static const char *const names[] = {
		[RUNNING] = "running", [DRAINING] = "draining", [STOPPING] = "stopping",
		[KILLING] = "killing", [GONE] = "gone",
	};
	return names[phase];
}

static unsigned count_living(struct reaper *r)
{
	struct tree_report report;
	unsigned count = 0;

	tree_walk(r->tree);
	for (unsigned i = 0; i < r->tree->count; i++)
		count += tree_describe(r->tree, i, &report);
	return count;
}

/* The command's number as our caller knows it, or null. */
static void add_pid(struct json *reply, const struct reaper *r)
{
	if (r->command_runs)
		json_add(reply, ",\"pid\":%d",
			 (int)tree_number_for_reply(r->tree, r->command.pid));
	else
		json_add(reply, ",\"pid\":null");
}

static void answer_status(struct reaper *r, struct client *client)
{
	struct json reply = control_begin(client);

	json_add(&reply, "{\"ok\":true,\"id\":\"%s\",\"shim\":%d", r->control->name,
		 (int)r->front);
	add_pid(&reply, r);
	json_add(&reply, ",\"phase\":\"%s\",\"contain\":\"%s\"", phase_name(r->phase),
		 contain_name(r->contain));
	json_seconds(&reply, "age", clock_now_ns() - r->status->start_ns);
	if (r->opt->timeout_ns > 0)
		json_seconds(&reply, "timeout", r->opt->timeout_ns);
	else
		json_add(&reply, ",\"timeout\":null");
	json_add(&reply, ",\"processes\":%u,\"command\":", count_living(r));
	if (!json_command(&reply, r->opt->name, r->opt->command + 1,
			  reply.size - ROOM_AT_END))
		json_add(&reply, ",\"truncated\":true");
	json_add(&reply, "}");
	control_reply(client, &reply);
}

static void add_process(struct json *reply, const struct reaper *r,
			const struct tree_report *report,
			const struct tree_details *details)
{
	json_add(reply, "{\"pid\":%d,\"parent\":%d,\"escaped\":%s,\"state\":\"%c\"",
		 (int)tree_number_for_reply(r->tree, report->pid),
		 (int)tree_number_for_reply(r->tree, details->parent),
		 details->session == r->session ? "false" : "true", report->state);
	json_seconds(reply, "age", details->age_ns);
	json_seconds(reply, "cpu", details->cpu_ns);
	json_add(reply, ",\"command\":");
	json_string(reply, report->command);
	json_add(reply, "}");
}

static void answer_tree(struct reaper *r, struct client *client)
{
	struct json reply = control_begin(client);
	const size_t limit = reply.size - ROOM_AT_END;
	struct tree_details details;
	struct tree_report report;
	unsigned count = 0;
	bool whole = true;

	json_add(&reply, "{\"ok\":true,\"id\":\"%s\",\"reaper\":%d", r->control->name,
		 (int)tree_number_for_reply(r->tree, getpid()));
	add_pid(&reply, r);
	json_seconds(&reply, "age", clock_now_ns() - r->status->start_ns);
	json_add(&reply, ",\"processes\":[");
	tree_walk(r->tree);
	for (unsigned i = 0; i < r->tree->count; i++) {
		if (!tree_describe(r->tree, i, &report))
			continue;
		count++;
		if (!whole || !tree_detail(r->tree, &report, &details))
			continue;
		const size_t length = reply.length;
		if (reply.text[length - 1] == '}')
			json_add(&reply, ",");
		add_process(&reply, r, &report, &details);
		if (reply.full || reply.length > limit) {
			reply.full = whole = false;
			reply.length = length;
		}
	}
	json_add(&reply, "],\"count\":%u%s}", count, whole ? "" : ",\"truncated\":true");
	control_reply(client, &reply);
}

/* SIGNO to those of SCOPE. Returns how many it reached. */
static unsigned send_to(struct reaper *r, int signo, enum scope scope)
{
	if (scope == TO_MAIN)
		/* Ours: it has not been reaped. */
		return kill(r->command.pid, signo) == 0 ? 1 : 0;
	tree_walk(r->tree);
	return tree_signal(r->tree, 0, signo, NULL, false,
			   scope == TO_GROUP ? getpgid(r->command.pid) : ANY_GROUP);
}

static void answer_signal(struct reaper *r, struct client *client, const char *signal,
			  const char *scope)
{
	static const char *const scopes[] = {
		[TO_MAIN] = "main", [TO_GROUP] = "group", [TO_TREE] = "tree"};
	const int signo = signal != NULL ? signal_by_name(signal) : 0;
	int to = TO_TREE;

	if (signo == 0) {
		refuse(client, "not a signal", signal);
		return;
	}
	/* Ends: the last of them is that which is meant without a word. */
	for (to = TO_MAIN; scope != NULL && to <= TO_TREE; to++)
		if (strcmp(scope, scopes[to]) == 0)
			break;
	if (scope == NULL)
		to = TO_TREE;
	if (to > TO_TREE) {
		refuse(client, "not one of main, group and tree", scope);
		return;
	}
	if (to != TO_TREE && !r->command_runs) {
		refuse(client, "the command has ended", NULL);
		return;
	}
	reaper_use_callers_rights(r, true);
	const unsigned reached = send_to(r, signo, (enum scope)to);
	reaper_use_callers_rights(r, false);
	status_signal(r->status, signo, tree_number_for_reply(r->tree, client->pid),
		      (enum scope)to);
	struct json reply = control_begin(client);
	json_add(&reply, "{\"ok\":true");
	json_signal(&reply, "signal", signo);
	json_add(&reply, ",\"to\":\"%s\",\"reached\":%u}", scopes[to], reached);
	control_reply(client, &reply);
}

/* Cuts the words of LINE, at most COUNT, into WORDS. False if there are more. */
static bool split(char *line, char *words[], int count)
{
	char *save = NULL;

	for (int i = 0; i < count; i++)
		words[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
	return strtok_r(NULL, " ", &save) == NULL;
}

void serve(struct reaper *r, struct client *client, char *line)
{
	char *words[3];
	const bool all = split(line, words, 3);
	const char *verb = words[0] != NULL ? words[0] : "";

	if (all && strcmp(verb, "signal") == 0) {
		answer_signal(r, client, words[1], words[2]);
	} else if (!all || words[1] != NULL) {
		refuse(client, "too many words in the request", verb);
	} else if (strcmp(verb, "status") == 0) {
		answer_status(r, client);
	} else if (strcmp(verb, "tree") == 0) {
		answer_tree(r, client);
	} else if (strcmp(verb, "stop") == 0) {
		control_wait(r->control, client, true);
		reaper_stop(r, CAUSE_CONTROL);
	} else if (strcmp(verb, "wait") == 0) {
		if (!control_wait(r->control, client, false))
			refuse(client, "too many wait already", NULL);
	} else {
		refuse(client, "unknown request", verb);
	}
}

bool serve_waits(char *line)
{
	char *words[1];

	return split(line, words, 1) && words[0] != NULL &&
	       (strcmp(words[0], "stop") == 0 || strcmp(words[0], "wait") == 0);
}

void serve_end(struct json *reply, const void *run)
{
	const struct reaper *r = run;

	json_add(reply, "{\"ok\":true,\"id\":\"%s\",", r->control->name);
	status_tell_end(reply, r->status, &r->ending);
	json_add(reply, "}");
}
