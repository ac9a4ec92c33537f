/*
 * chain: who of a subject's processes is whose child, and what /proc says of them. They
 * are ours, and live: none of their numbers can be somebody else's.
 */
#include "chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "subject.h"

static pid_t only_child(pid_t pid)
{
	char path[64], line[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	file = fopen(path, "re");
	if (file == NULL)
		die("open", path);
	if (fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	fclose(file);
	return (pid_t)strtol(line, NULL, 10);
}

struct chain chain_from(pid_t first)
{
	struct chain chain = {.pid = {first}, .count = 0};
	const int room = sizeof(chain.pid) / sizeof(*chain.pid);
	pid_t child;

	while (chain.count + 1 < room && (child = only_child(chain.pid[chain.count])) > 0)
		chain.pid[++chain.count] = child;
	return chain;
}

static double sum_of(pid_t pid, const char *name, const char *const *words)
{
	char path[64], line[256], *colon;
	double sum = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	file = fopen(path, "re");
	if (file == NULL)
		die("open", path);
	while (fgets(line, sizeof(line), file) != NULL)
		for (const char *const *word = words; *word != NULL; word++)
			if (strncmp(line, *word, strlen(*word)) == 0 &&
			    (colon = strchr(line, ':')) != NULL)
				sum += strtod(colon + 1, NULL);
	fclose(file);
	return sum;
}

double chain_sum(const struct chain *chain, const char *name, const char *const *words)
{
	double sum = 0;

	for (int i = 0; i < chain->count; i++)
		sum += sum_of(chain->pid[i], name, words);
	return sum;
}
