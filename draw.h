/* A run's processes, drawn as a tree. For treewrapctl. */
#ifndef DRAW_H
#define DRAW_H

#include "reply.h"
#include "text.h"

/*
 * Draws what READER's reply to "tree" holds of the run NAME; if PAGE is NULL it only
 * looks whether that can be done. False, and nothing is
 * printed, if something is missing (see struct reader) or memory is (then nothing is
 * missing there).
 */
bool draw_tree(struct page *page, const char *name, struct reader *reader);

#endif
