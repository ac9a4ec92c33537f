/* What is in a run's reply. For treewrapctl. */
#ifndef REPLY_H
#define REPLY_H

#include <jansson.h>
#include <stdbool.h>

#define SECONDS_MAX 1e12

/* Reads an object; the first key that is missing or no good is kept. */
struct reader {
	const json_t *object;
	const char *missing; /* or NULL */
};

/* "" if there is none. */
const char *read_text(struct reader *reader, const char *key);

/* A whole number, 0 or more; 0 if there is none. */
json_int_t read_count(struct reader *reader, const char *key);

/* As read_count(); null is 0 and good. */
json_int_t read_count_or_null(struct reader *reader, const char *key);

/* From 0 to SECONDS_MAX; 0 if there are none. */
double read_seconds(struct reader *reader, const char *key);

bool read_bool(struct reader *reader, const char *key);

/* An array; NULL if there is none. */
const json_t *read_list(struct reader *reader, const char *key);

#endif
