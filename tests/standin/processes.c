/* Who is on a card: the process lists. */
#include "core.h"
#include "holders.h"

#include <stdlib.h>
#include <string.h>

enum kind { COMPUTE, GRAPHICS, MPS };

enum { MOST = MAX_PROCESSES * (MAX_INSTANCES + 1) + MAX_CUDA };

struct found {
    unsigned count;
    struct process item[MOST];
};

static void append(struct found *found, const struct process_list *list, uint32_t gpu_instance,
                   uint32_t compute_instance, bool assign)
{
    uint32_t count = list->count < MAX_PROCESSES ? list->count : MAX_PROCESSES;
    for (uint32_t i = 0; i < count; i++) {
        struct process *entry = &found->item[found->count++];
        *entry = list->item[i];
        if (!assign) continue;
        entry->gpu_instance = gpu_instance;
        entry->compute_instance = compute_instance;
    }
}

/* Those who came through the stand-in libcuda, while they live. */
static void append_cuda(const struct target *at, struct found *found)
{
    for (int i = 0; i < MAX_CUDA; i++) {
        const struct cuda_process *process = &at->world->cuda[i];
        if (!holds(process, at->index)) continue;
        found->item[found->count++] = (struct process){
            process->pid, NO_INSTANCE, NO_INSTANCE, 0, process->memory[at->index]};
    }
}

static nvmlReturn_t append_instance(const struct target *at, int slot, struct found *found)
{
    struct target place = *at;
    place.instance = slot;
    struct instance instance;
    TRY(read_instance(&place, &instance));
    append(found, &instance.compute, instance.gpu_instance, instance.compute_instance, true);
    return NVML_SUCCESS;
}

/* An instance shows its own processes; a split card those of all its instances too. */
static nvmlReturn_t find(const struct target *at, enum kind kind, struct found *found)
{
    found->count = 0;
    if (at->instance >= 0) {
        if (kind == COMPUTE) return append_instance(at, at->instance, found);
        struct instance gone_or_not;
        return read_instance(at, &gone_or_not);
    }
    const struct process_list *from = kind == COMPUTE    ? &at->card->compute
                                      : kind == GRAPHICS ? &at->card->graphics
                                                         : &at->card->mps;
    struct process_list list;
    TRY(read_copy(at->card, &list, from, sizeof list));
    append(found, &list, 0, 0, false);
    if (kind == COMPUTE) append_cuda(at, found);
    if (kind != COMPUTE || !is_split(at)) return NVML_SUCCESS;
    for (int slot = 0; slot < MAX_INSTANCES; slot++) {
        nvmlReturn_t got = append_instance(at, slot, found);
        if (got != NVML_SUCCESS && got != NVML_ERROR_INVALID_ARGUMENT) return got; /* a hole */
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t list(const char *function, nvmlDevice_t device, enum kind kind,
                         unsigned *count, nvmlProcessInfo_v2_t *into)
{
    struct target at;
    TRY(enter_device(function, device, CARD_OR_INSTANCE, &at));
    REQUIRE(count);
    struct found *found = malloc(sizeof *found);
    if (found == NULL) return NVML_ERROR_MEMORY;
    nvmlReturn_t answer = find(&at, kind, found);
    if (answer == NVML_SUCCESS && found->count > *count) answer = NVML_ERROR_INSUFFICIENT_SIZE;
    if (answer == NVML_SUCCESS && found->count > 0 && into == NULL)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS || answer == NVML_ERROR_INSUFFICIENT_SIZE) *count = found->count;
    for (unsigned i = 0; answer == NVML_SUCCESS && i < found->count; i++) {
        const struct process *from = &found->item[i];
        into[i] = (nvmlProcessInfo_v2_t){from->pid, from->memory, from->gpu_instance,
                                         from->compute_instance};
    }
    free(found);
    return answer;
}

#define PROCESS_CALL(function, kind)                                         \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *count,       \
                                 nvmlProcessInfo_v2_t *into)                 \
    {                                                                        \
        return list(__func__, device, kind, count, into);                    \
    }

PROCESS_CALL(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE)
PROCESS_CALL(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
PROCESS_CALL(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS)
PROCESS_CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
PROCESS_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS)
PROCESS_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)
