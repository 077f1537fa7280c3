/* The layout of a world file: what the stand-in library maps and the tests write.
 *
 * Mirrored field by field in layout.py; `size` in the head guards against the two
 * drifting apart. Plain numbers are single aligned words that may change at any
 * moment; strings, lists, metrics and instances of a card change under its `sequence`.
 */
#ifndef STANDIN_WORLD_H
#define STANDIN_WORLD_H

#include <stdatomic.h>
#include <stdint.h>

#define WORLD_MAGIC 0x31444c524f574c46ULL
#define WORLD_VERSION 4u

enum {
    MAX_CARDS = 64,
    MAX_INSTANCES = 8,
    MAX_PROCESSES = 64,
    MAX_SAMPLES = 128,
    MAX_FAULTS = 512,
    MAX_COUNTERS = 512,
    MAX_STUCK = 1024,
    MAX_METRICS = 256,
    MAX_CUDA = 64,
    NAME_SIZE = 96,
    FUNCTION_SIZE = 72
};

/* A 32 bit reading with this value is answered as "not supported". */
#define NO_READING UINT32_MAX
#define NO_MEMORY_FIGURE UINT64_MAX
#define NO_INSTANCE UINT32_MAX

typedef _Atomic uint32_t word;
typedef _Atomic uint64_t wide;

struct process {
    uint32_t pid;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t reserved;
    uint64_t memory;
};

struct process_list {
    uint32_t count;
    uint32_t reserved;
    struct process item[MAX_PROCESSES];
};

struct process_sample {
    uint64_t time_us;
    uint32_t pid;
    uint32_t sm;
    uint32_t memory;
    uint32_t encoder;
    uint32_t decoder;
    uint32_t reserved;
};

struct sample {
    uint64_t time_us;
    uint32_t value;
    uint32_t reserved;
};

struct metrics {
    uint32_t supported;
    uint32_t reserved;
    uint8_t known[MAX_METRICS];
    double value[MAX_METRICS];
};

struct instance {
    uint32_t present;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t reserved;
    uint64_t memory_total;
    uint64_t memory_reserved;
    uint64_t memory_used;
    char uuid[NAME_SIZE];
    char name[NAME_SIZE];
    struct process_list compute;
    struct metrics metrics;
};

struct card {
    word sequence;
    word minor;
    word utilization;
    word memory_utilization;
    word power_mw;
    word power_limit_mw;
    word temperature_c;
    word clock_mhz[4];
    word performance_state;
    word pcie_tx_kbps;
    word pcie_rx_kbps;
    word mig_capable;
    word mig_mode;
    word mig_slots;
    word capability_major;
    word capability_minor;
    wide memory_total;
    wide memory_reserved;
    wide memory_used;
    wide throttle_reasons;
    wide energy_mj;
    char uuid[NAME_SIZE];
    char name[NAME_SIZE];
    struct process_list compute;
    struct process_list graphics;
    struct process_list mps;
    uint32_t process_sample_count;
    uint32_t explicit_samples;
    uint32_t sample_count;
    uint32_t reserved;
    struct process_sample process_sample[MAX_PROCESSES];
    struct sample sample[MAX_SAMPLES];
    struct metrics metrics;
    struct instance instance[MAX_INSTANCES];
};

/* An entry counts while `token` is not 0; it is written last and cleared first. */
struct fault {
    wide token;
    wide delay_us;
    int32_t card;
    int32_t instance;
    uint32_t error;
    uint32_t never;
    uint32_t busy; /* it spends its delay computing, as the calls of a real driver do */
    uint32_t unused;
    char function[FUNCTION_SIZE];
};

/* A process that has called cuInit in the stand-in libcuda: what it holds of each card. It
 * counts while `pid` with that birth lives; `state` is that of the checkpoint calls. */
struct cuda_process {
    word pid;
    word state;
    wide birth;
    word contexts[MAX_CARDS];
    wide memory[MAX_CARDS];
};

/* `state`: 0 free, 1 being named, 2 in use. */
struct counter {
    word state;
    uint32_t reserved;
    wide calls;
    char function[FUNCTION_SIZE];
};

struct world {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    word cards;
    word init_error;
    word cuda_version;
    word fault_limit; /* no fault entry in use at or beyond this place */
    wide next_token;
    char driver_version[80];
    word link_level[MAX_CARDS][MAX_CARDS];
    word link_status[MAX_CARDS][MAX_CARDS];
    struct fault fault[MAX_FAULTS];
    struct counter counter[MAX_COUNTERS];
    wide stuck[MAX_STUCK]; /* process id in the high half, thread id in the low */
    struct card card[MAX_CARDS];
    struct cuda_process cuda[MAX_CUDA];
    wide bad_words[MAX_CARDS]; /* how many words of that card's memory go bad at its next kernel */
};

#endif
