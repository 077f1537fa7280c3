/* Processes of the stand-in libcuda, as both libraries see them. */
#ifndef STANDIN_HOLDERS_H
#define STANDIN_HOLDERS_H

#include <stdbool.h>

#include "world.h"

enum cuda_state { CUDA_RUNNING, CUDA_LOCKED, CUDA_CHECKPOINTED, CUDA_FAILED };

/* The birth of a process in clock ticks since boot; 0 if there is none, or it is a zombie. */
uint64_t birth_of(uint32_t pid);
/* Whether that process lives and has a context on that card that is not in the host's memory. */
bool holds(const struct cuda_process *process, int card);
/* What all such processes hold of a card. */
uint64_t held_by_all(const struct world *world, int card);

#endif
