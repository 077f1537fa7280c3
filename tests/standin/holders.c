/* Who holds a card through the stand-in libcuda. Whoever was killed holds nothing any more. */
#define _GNU_SOURCE
#include "shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BIRTH_FIELD = 22, STATE_FIELD = 3 };

uint64_t birth_of(uint32_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = '\0';
    char *at = strrchr(text, ')'); /* the name may hold anything */
    if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') return 0;
    at += 2;
    for (int field = STATE_FIELD; field < BIRTH_FIELD && at != NULL; field++) {
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

bool holds(const struct cuda_process *process, int card)
{
    uint32_t pid = process->pid;
    if (pid == 0 || process->contexts[card] == 0 || process->state == CUDA_CHECKPOINTED)
        return false;
    uint64_t birth = process->birth;
    return birth != 0 && birth_of(pid) == birth;
}

uint64_t held_by_all(int card)
{
    uint64_t sum = 0;
    for (int i = 0; i < MAX_CUDA; i++)
        if (holds(&world->cuda[i], card)) sum += world->cuda[i].memory[card];
    return sum;
}

uint64_t free_of(int card)
{
    const struct card *about = &world->card[card];
    uint64_t taken = about->memory_reserved + about->memory_used + held_by_all(card);
    return taken < about->memory_total ? about->memory_total - taken : 0;
}
