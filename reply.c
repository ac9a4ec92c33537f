/*
 * Promises: a value that is handed out is of the right type and in its range, whatever
 * the reply holds.
 */
#include "reply.h"

#include <stddef.h>

/* KEY's value if it is GOOD, else NULL. */
static const json_t *check(struct reader *reader, const char *key, const json_t *value,
			   bool good)
{
	if (good)
		return value;
	if (reader->missing == NULL)
		reader->missing = key;
	return NULL;
}

const char *read_text(struct reader *reader, const char *key)
{
	const json_t *value = json_object_get(reader->object, key);

	value = check(reader, key, value, json_is_string(value));
	return value != NULL ? json_string_value(value) : "";
}

json_int_t read_count(struct reader *reader, const char *key)
{
	const json_t *value = json_object_get(reader->object, key);

	value = check(reader, key, value,
		      json_is_integer(value) && json_integer_value(value) >= 0);
	return value != NULL ? json_integer_value(value) : 0;
}

json_int_t read_count_or_null(struct reader *reader, const char *key)
{
	return json_is_null(json_object_get(reader->object, key))
		       ? 0
		       : read_count(reader, key);
}

double read_seconds(struct reader *reader, const char *key)
{
	const json_t *value = json_object_get(reader->object, key);
	const double seconds = json_number_value(value);

	value = check(reader, key, value,
		      json_is_number(value) && seconds >= 0 && seconds <= SECONDS_MAX);
	return value != NULL ? seconds : 0;
}

bool read_bool(struct reader *reader, const char *key)
{
	const json_t *value = json_object_get(reader->object, key);

	value = check(reader, key, value, json_is_boolean(value));
	return json_is_true(value);
}

const json_t *read_list(struct reader *reader, const char *key)
{
	const json_t *value = json_object_get(reader->object, key);

	return check(reader, key, value, json_is_array(value));
}
