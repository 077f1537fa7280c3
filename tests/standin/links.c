/* How cards hang together, and which processors are near them. */
#include "core.h"

#include <string.h>

enum { P2P_READ, P2P_WRITE, P2P_NVLINK, P2P_ATOMICS, P2P_PCI, P2P_KINDS };
enum { P2P_NOT_SUPPORTED = 5 };

/* A call on two cards meets the faults of both. */
static nvmlReturn_t enter_pair(const char *function, nvmlDevice_t one, nvmlDevice_t other,
                               struct target *first, struct target *second)
{
    TRY(enter_device(function, one, WHOLE_CARD, first));
    if (!handle_target(other, second)) return NVML_ERROR_INVALID_ARGUMENT;
    if (second->instance >= 0) return NVML_ERROR_NOT_SUPPORTED;
    return meet_faults(second->world, function, second->index, -1);
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                        unsigned *level)
{
    struct target first, second;
    TRY(enter_pair(__func__, one, other, &first, &second));
    REQUIRE(level);
    if (first.index == second.index) return NVML_ERROR_NOT_SUPPORTED;
    *level = first.world->link_level[first.index][second.index];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, unsigned kind,
                                           unsigned *status)
{
    struct target first, second;
    TRY(enter_pair(__func__, one, other, &first, &second));
    REQUIRE(status);
    if (kind >= P2P_KINDS) return NVML_ERROR_INVALID_ARGUMENT;
    bool counts = kind != P2P_PCI && first.index != second.index;
    *status = counts ? first.world->link_status[first.index][second.index] : P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned level,
                                                     unsigned *count, nvmlDevice_t *devices)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(count);
    unsigned found = 0;
    for (int i = 0; i < (int)at.world->cards; i++) {
        if (i == at.index || at.world->link_level[at.index][i] > level) continue;
        if (devices != NULL && found < *count) devices[found] = handle_of(i, -1);
        found++;
    }
    bool fits = devices == NULL || found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words,
                                             unsigned long *mask)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(mask);
    if (words == 0) return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < words; i++)
        mask[i] = i < MAX_CPU_WORDS ? (unsigned long)at.card->cpu_affinity[i] : 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words,
                                                unsigned long *mask, unsigned scope)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(mask);
    if (words == 0 || scope > 1) return NVML_ERROR_INVALID_ARGUMENT;
    memset(mask, 0, words * sizeof *mask);
    uint32_t node = at.card->numa_node;
    if (node / 64 < words) mask[node / 64] = 1UL << (node % 64);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int *same)
{
    struct target first, second;
    TRY(enter_pair(__func__, one, other, &first, &second));
    REQUIRE(same);
    *same = first.index == second.index;
    return NVML_SUCCESS;
}
