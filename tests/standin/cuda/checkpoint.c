/* Suspending other processes of this world: running, locked, checkpointed, and back. */
#define _GNU_SOURCE
#include "cuda.h"

static result find(const char *function, int pid, struct cuda_process **process)
{
    CALL(enter(function));
    for (int i = 0; i < MAX_CUDA; i++) {
        struct cuda_process *there = &world->cuda[i];
        if (pid <= 0 || there->pid != (uint32_t)pid || birth_of(there->pid) != there->birth) continue;
        *process = there;
        return OK;
    }
    return pid > 0 && birth_of((uint32_t)pid) != 0 ? NOT_INITIALIZED : OPERATING_SYSTEM;
}

static result move(struct cuda_process *process, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&process->state, &from, to) ? OK : ILLEGAL_STATE;
}

EXPORT result cuCheckpointProcessGetState(int pid, int *state)
{
    struct cuda_process *process;
    CALL(find(__func__, pid, &process));
    NEED(state);
    *state = (int)process->state;
    return OK;
}

EXPORT result cuCheckpointProcessLock(int pid, const void *arguments)
{
    (void)arguments;
    struct cuda_process *process;
    CALL(find(__func__, pid, &process));
    return move(process, CUDA_RUNNING, CUDA_LOCKED);
}

EXPORT result cuCheckpointProcessCheckpoint(int pid, const void *arguments)
{
    (void)arguments;
    struct cuda_process *process;
    CALL(find(__func__, pid, &process));
    return move(process, CUDA_LOCKED, CUDA_CHECKPOINTED);
}

EXPORT result cuCheckpointProcessRestore(int pid, const void *arguments)
{
    (void)arguments;
    struct cuda_process *process;
    CALL(find(__func__, pid, &process));
    if (process->state != CUDA_CHECKPOINTED) return ILLEGAL_STATE;
    for (int i = 0; i < (int)world->cards; i++) {
        if (process->memory[i] > free_of(i)) return OUT_OF_MEMORY;
    }
    return move(process, CUDA_CHECKPOINTED, CUDA_LOCKED);
}

EXPORT result cuCheckpointProcessUnlock(int pid, const void *arguments)
{
    (void)arguments;
    struct cuda_process *process;
    CALL(find(__func__, pid, &process));
    return move(process, CUDA_LOCKED, CUDA_RUNNING);
}
