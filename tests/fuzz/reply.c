/*
 * Replies to "tree": whatever they hold, what is drawn is harmless, and every process is
 * drawn once. The first byte says what the input is. 0: the reply as it is; else: two
 * bytes for each process, its number and its parent's.
 *
 * with: draw.c reply.c text.c -ljansson
 */
#include "draw.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return setlocale(LC_CTYPE, "C.UTF-8") == NULL;
}

/* A reply with the processes that DATA names. */
static json_t *make_reply(const uint8_t *data, size_t size)
{
	json_t *list = json_array();

	for (size_t i = 0; i + 1 < size; i += 2)
		json_array_append_new(list,
				      json_pack("{si si ss sf sf sb ss}", "pid", data[i],
						"parent", data[i + 1], "state", "S",
						"age", 1.0, "cpu", 1.0, "escaped", 0,
						"command", "\302\233a\033\342\200\256"));
	return json_pack("{si si sf so}", "count", 0, "pid", 1, "age", 1.0, "processes",
			 list);
}

static void check_text(const char *text, size_t length, size_t processes)
{
	size_t lines = 0;

	for (size_t i = 0; i < length; i++) {
		lines += text[i] == '\n';
		if (text[i] == '\x7f' ||
		    (text[i] >= 0 && text[i] < ' ' && text[i] != '\n') ||
		    (text[i] == '\xc2' && (uint8_t)text[i + 1] < 0xa0))
			abort();
	}
	/* A title, the columns' names, and two notes at most. */
	if (lines < processes + 1 || lines > processes + 4)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *const before = stdout;
	struct reader reader = {0};
	struct page page = {.width = SIZE_MAX, .utf8 = true};
	char *text = NULL;
	size_t length = 0;

	if (size == 0)
		return 0;
	json_t *reply = data[0] == 0
				? json_loadb((const char *)data + 1, size - 1, 0, NULL)
				: make_reply(data + 1, size - 1);
	reader.object = reply;
	stdout = open_memstream(&text, &length);
	if (data[0] % 4 == 3)
		page.width = data[0];
	const bool drawn = draw_tree(&page, "x", &reader);
	fclose(stdout);
	stdout = before;
	if (drawn != (reader.missing == NULL) || (!drawn && length > 0))
		abort();
	if (drawn)
		check_text(text, length,
			   json_array_size(json_object_get(reply, "processes")));
	json_decref(reply);
	free(text);
	return 0;
}
