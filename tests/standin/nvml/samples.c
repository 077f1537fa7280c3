/* What happened lately: the sample buffers of a card and of its processes. */
#include "nvml.h"

/* The driver keeps some 14 s of five samples a second, and asks for a little more room. */
enum { STEADY_SAMPLES = 70, PERIOD_US = 200000, ROOM = 72, GPU_UTILIZATION = 1 };

/* Samples fall on a grid, so that asking twice within a period brings nothing new. */
static struct sample steady(unsigned place, uint32_t value)
{
    uint64_t newest = clock_us() / PERIOD_US * PERIOD_US;
    return (struct sample){newest - (uint64_t)(STEADY_SAMPLES - 1 - place) * PERIOD_US, value, 0};
}

EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, unsigned type, unsigned long long last_seen,
                                         unsigned *value_type, unsigned *count, nvmlSample_t *samples)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(value_type);
    REQUIRE(count);
    if (type != GPU_UTILIZATION) return NVML_ERROR_INVALID_ARGUMENT;
    if (is_split(&at)) return NVML_ERROR_NOT_SUPPORTED;
    bool recorded = at.card->explicit_samples != 0;
    unsigned kept = recorded ? at.card->sample_count : STEADY_SAMPLES, written = 0;
    *value_type = VALUE_TYPE_UNSIGNED_INT;
    if (samples == NULL) {
        *count = kept > ROOM ? kept : ROOM;
        return NVML_SUCCESS;
    }
    for (unsigned i = 0; i < kept && i < MAX_SAMPLES && written < *count; i++) {
        struct sample sample = recorded ? at.card->sample[i] : steady(i, at.card->utilization);
        if (sample.time_us <= last_seen) continue;
        samples[written].timeStamp = sample.time_us;
        samples[written].sampleValue.ullVal = 0;
        samples[written++].sampleValue.uiVal = sample.value;
    }
    if (written == 0) return NVML_ERROR_NOT_FOUND; /* the count stays as it was */
    *count = written;
    return NVML_SUCCESS;
}

/* The room asked for is that of the driver's buffer, however few processes there are. */
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *into,
                                                    unsigned *count, unsigned long long last_seen)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(count);
    if (is_split(&at)) return NVML_ERROR_NOT_SUPPORTED;
    if (into == NULL || *count < ROOM) {
        *count = ROOM;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    unsigned written = 0;
    for (uint32_t i = 0; i < at.card->process_sample_count && i < MAX_PROCESSES; i++) {
        const struct process_sample *from = &at.card->process_sample[i];
        if (from->time_us <= last_seen) continue;
        into[written++] = (nvmlProcessUtilizationSample_t){from->pid,    from->time_us, from->sm,
                                                           from->memory, from->encoder, from->decoder};
    }
    if (written == 0) return NVML_ERROR_NOT_FOUND;
    *count = written;
    return NVML_SUCCESS;
}
