#!/bin/sh
# coverage.sh LCOV: the share of lines that were reached, by file and in all, and the lines
# that were not. 1 if fewer than 95 of 100 were.
set -eu

awk -F'[:,]' '
/^SF:/ { n = split($2, part, "/"); file = part[n] }
/^DA:/ { lines[file]++; all++ }
/^DA:/ && $3 == 0 { missed[file]++; missed_all++; where[file] = where[file] " " $2 }
END {
	for (file in lines)
		printf "%-12s %4d lines %6.2f%%  not reached:%s\n", file, lines[file],
			100 * (lines[file] - missed[file]) / lines[file],
			file in where ? where[file] : " none" | "sort"
	close("sort")
	share = 100 * (all - missed_all) / all
	printf "%-12s %4d lines %6.2f%%\n", "in all", all, share
	exit share < 95
}' "$1"
