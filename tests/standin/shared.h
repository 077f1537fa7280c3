/* What both libraries share: the mapped world, who holds a card, counted calls and faults. */
#ifndef STANDIN_SHARED_H
#define STANDIN_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "world.h"

#define EXPORT __attribute__((visibility("default")))

/* mapping.c: the world that FALLOW_STANDIN_WORLD names, once map_world() has found it. */
extern struct world *world;
bool map_world(void);
void lock_world(void); /* while a card's strings and lists are read */
void unlock_world(void);
uint64_t clock_us(void);

/* faults.c: a call is counted, and the error that a test put in its way returned. Card -1: it is about no card. */
void count_call(const char *function);
int meet_faults(const char *function, int card);

/* holders.c */
enum cuda_state { CUDA_RUNNING, CUDA_LOCKED, CUDA_CHECKPOINTED };
/* The birth of a process in clock ticks since boot; 0 if there is none, or it is a zombie. */
uint64_t birth_of(uint32_t pid);
/* Whether that process lives and has a context on that card that is not in the host's memory. */
bool holds(const struct cuda_process *process, int card);
/* What all such processes hold of a card. */
uint64_t held_by_all(int card);
/* What is left of a card's memory. */
uint64_t free_of(int card);

#endif
