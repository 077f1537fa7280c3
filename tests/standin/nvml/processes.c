/* Who is on a card: the process lists. */
#include "nvml.h"

enum kind { COMPUTE, GRAPHICS, MPS };
enum { NO_INSTANCE = -1 };

static const struct process_list *list_of(const struct target *at, enum kind kind)
{
    static const struct process_list nobody;
    if (at->instance != NULL) return kind == COMPUTE ? &at->instance->compute : &nobody;
    return kind == COMPUTE ? &at->card->compute : kind == GRAPHICS ? &at->card->graphics : &at->card->mps;
}

static void put(nvmlProcessInfo_v2_t *into, unsigned place, unsigned room, unsigned pid, uint64_t memory)
{
    if (place < room) into[place] = (nvmlProcessInfo_v2_t){pid, memory, (unsigned)NO_INSTANCE, (unsigned)NO_INSTANCE};
}

/* Those that a test has put there, and those who came through the stand-in libcuda, while they live. */
static nvmlReturn_t list(const struct target *at, enum kind kind, unsigned *count, nvmlProcessInfo_v2_t *into)
{
    REQUIRE(count);
    unsigned room = *count, found = 0;
    if (room > 0) REQUIRE(into);
    const struct process_list *from = list_of(at, kind);
    for (uint32_t i = 0; i < from->count && i < MAX_PROCESSES; i++)
        put(into, found++, room, from->item[i].pid, from->item[i].memory);
    for (int i = 0; i < MAX_CUDA && kind == COMPUTE && at->instance == NULL; i++) {
        const struct cuda_process *process = &world->cuda[i];
        if (holds(process, at->index)) put(into, found++, room, process->pid, process->memory[at->index]);
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESS_CALL(function, kind)                                                                 \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *into)   \
    {                                                                                                \
        ENTER(device, CARD_OR_INSTANCE);                                                             \
        return list(&at, kind, count, into);                                                         \
    }

PROCESS_CALL(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
PROCESS_CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
PROCESS_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)
