/* The numbers that a card shows: load, memory, power, heat, clocks, bus. */
#include "core.h"
#include "holders.h"

/* A plain number of a card; NO_READING says that this card does not have it. */
#define READING(function, type, field)                                       \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *value)           \
    {                                                                        \
        ENTER(device, WHOLE_CARD);                                           \
        REQUIRE(value);                                                      \
        return number(at.card->field, value);                                \
    }

static nvmlReturn_t number(uint32_t reading, unsigned *value)
{
    if (reading == NO_READING) return NVML_ERROR_NOT_SUPPORTED;
    *value = reading;
    return NVML_SUCCESS;
}

READING(nvmlDeviceGetPowerUsage, unsigned, power_mw)
READING(nvmlDeviceGetEnforcedPowerLimit, unsigned, power_limit_mw)
READING(nvmlDeviceGetPerformanceState, unsigned, performance_state)

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(rates);
    if (is_split(&at)) return NVML_ERROR_NOT_SUPPORTED;
    TRY(number(at.card->utilization, &rates->gpu));
    return number(at.card->memory_utilization, &rates->memory);
}

struct memory {
    uint64_t total, reserved, used, free;
};

static nvmlReturn_t memory_of(const struct target *at, struct memory *memory)
{
    if (at->instance >= 0) {
        struct instance instance;
        TRY(read_instance(at, &instance));
        memory->total = instance.memory_total;
        memory->reserved = instance.memory_reserved;
        memory->used = instance.memory_used;
    } else {
        memory->total = at->card->memory_total;
        memory->reserved = at->card->memory_reserved;
        memory->used = at->card->memory_used + held_by_all(at->world, at->index);
    }
    uint64_t taken = memory->reserved + memory->used;
    memory->free = taken < memory->total ? memory->total - taken : 0;
    return NVML_SUCCESS;
}

/* The old call counts what the driver keeps for itself as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(info);
    struct memory memory;
    TRY(memory_of(&at, &memory));
    *info = (nvmlMemory_t){memory.total, memory.free, memory.total - memory.free};
    return NVML_SUCCESS;
}

/* A wrong version is answered so by the real call, unlike by its younger siblings. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(info);
    if (info->version != STRUCT_VERSION(nvmlMemory_v2_t, 2)) return NVML_ERROR_FUNCTION_NOT_FOUND;
    struct memory memory;
    TRY(memory_of(&at, &memory));
    info->total = memory.total;
    info->reserved = memory.reserved;
    info->free = memory.free;
    info->used = memory.used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *value)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(value);
    if (sensor != 0) return NVML_ERROR_INVALID_ARGUMENT;
    return number(at.card->temperature_c, value);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                        unsigned long long *energy)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(energy);
    *energy = at.card->energy_mj;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(mhz);
    if (type >= 4) return NVML_ERROR_NOT_SUPPORTED;
    return number(at.card->clock_mhz[type], mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                              unsigned long long *value)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(value);
    *value = at.card->throttle_reasons;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter,
                                                unsigned *kbps)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(kbps);
    if (counter > 1) return NVML_ERROR_INVALID_ARGUMENT;
    return number(counter == 0 ? at.card->pcie_tx_kbps : at.card->pcie_rx_kbps, kbps);
}
