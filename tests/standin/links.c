/* How cards hang together. */
#include "core.h"

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
