/* GPU performance monitoring: two samples, and the metrics of the time between them. */
#include "nvml.h"

#include <math.h>
#include <stdlib.h>

struct nvmlGpmSample_st {
    uint64_t taken_us; /* 0: nothing read into it yet */
    struct metrics metrics;
};

enum { GPM_VERSION = 1 };

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(support);
    if (support->version != GPM_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = at.card->metrics.supported != 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    TRY(enter_system(__func__));
    REQUIRE(sample);
    *sample = calloc(1, sizeof **sample);
    return *sample != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

static nvmlReturn_t fill(nvmlGpmSample_t sample, const struct metrics *metrics)
{
    REQUIRE(sample);
    if (!metrics->supported) return NVML_ERROR_NOT_SUPPORTED;
    sample->metrics = *metrics;
    sample->taken_us = clock_us();
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    ENTER(device, WHOLE_CARD);
    return fill(sample, &at.card->metrics);
}

/* Which instance is told by the number, not by the handle: that one is the card's. */
EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpu_instance, nvmlGpmSample_t sample)
{
    ENTER(device, WHOLE_CARD);
    for (int i = 0; i < MAX_INSTANCES; i++) {
        const struct instance *instance = &at.card->instance[i];
        if (instance->present && instance->gpu_instance == gpu_instance) return fill(sample, &instance->metrics);
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

/* The world holds rates, so the second sample alone says what the time between was like. */
EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    TRY(enter_system(__func__));
    REQUIRE(get);
    nvmlGpmSample_t first = get->sample1, second = get->sample2;
    REQUIRE(first);
    REQUIRE(second);
    if (get->version != GPM_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (first->taken_us == 0 || second->taken_us == 0) return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &get->metrics[i];
        bool known = metric->metricId < MAX_METRICS && second->metrics.known[metric->metricId];
        metric->nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        bool counted = known && second->taken_us >= first->taken_us;
        metric->value = counted ? second->metrics.value[metric->metricId] : NAN;
    }
    return NVML_SUCCESS;
}
