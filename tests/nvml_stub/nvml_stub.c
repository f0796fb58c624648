/* A library with NVML's ABI whose GPUs live in a mapped control file (see control.py).
 *
 * The file is named by NVML_STUB_CONTROL; what it says may change at any moment while a program runs. A null device
 * handle aborts the program, as the real library would crash it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    VERSION_MISMATCH = 25,
};

enum {
#define F(name) F_##name,
#include "functions.def"
#undef F
    FUNCTIONS
};

#define DEVICES 64
#define PROCESSES 64
#define SAMPLES 128
#define FAULTS 256
#define EVENTS 64
#define ANY 0xffffffffu

typedef struct {
    uint64_t memory;
    uint32_t pid, kind; /* 0 compute, 1 graphics, 2 MPS */
    uint32_t gpu_instance, compute_instance;
} Process;

typedef struct {
    uint64_t timestamp; /* microseconds; 0: now */
    uint32_t pid, sm, memory, encoder, decoder, unused;
} Sample;

typedef struct {
    uint64_t memory_total, memory_used, memory_reserved, throttle, ecc_errors;
    int32_t parent; /* -1: a physical GPU, else the device number of the GPU this MIG instance is cut from */
    uint32_t lost;  /* the error every call on it returns; 0: none */
    uint32_t mig_mode, gpu_instance, compute_instance;
    uint32_t utilization, memory_utilization, encoder, decoder, temperature, power, power_limit, fan;
    uint32_t clocks[4], max_clocks[4];
    uint32_t persistence, pci_bus, process_count, sample_count;
    char name[96], uuid[96];
    Process processes[PROCESSES];
    Sample samples[SAMPLES];
} Device;

typedef struct {
    uint32_t active, function, device, error, delay_us, hang;
} Fault;

typedef struct {
    uint64_t data;
    uint32_t device, type;
} Event;

typedef struct {
    uint32_t size; /* of this structure, to notice a layout that differs from control.py */
    uint32_t init_error, device_count, process_stride;
    uint32_t fault_count, event_count;
    uint32_t initialized, unused;
    char driver[80];
    uint64_t calls[FUNCTIONS];
    Fault faults[FAULTS];
    Event events[EVENTS];
    Device devices[DEVICES];
} Control;

typedef struct {
    uint32_t seen;
    uint64_t types[DEVICES];
} EventSet;

static Control *control;
static char handles[DEVICES + 1]; /* a handle is an address in here */
static unsigned initialized;

__attribute__((constructor)) static void load(void) {
    const char *path = getenv("NVML_STUB_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return;
    control = map;
    if (control->size != sizeof(Control)) {
        fprintf(stderr, "nvml stub: the control file has another layout\n");
        abort();
    }
}

static unsigned enter(unsigned function, unsigned device) {
    if (!control)
        return DRIVER_NOT_LOADED;
    __atomic_add_fetch(&control->calls[function], 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < control->fault_count && i < FAULTS; i++) {
        volatile Fault *fault = &control->faults[i];
        if (!fault->active || (fault->function != ANY && fault->function != function) ||
            (fault->device != ANY && fault->device != device))
            continue;
        if (fault->delay_us)
            usleep(fault->delay_us);
        while (fault->active && fault->hang)
            usleep(2000);
        if (fault->active && fault->error)
            return fault->error;
    }
    return SUCCESS;
}

static unsigned number(const void *handle) {
    if (!handle) {
        fprintf(stderr, "nvml stub: null device handle\n");
        abort();
    }
    return (unsigned)((const char *)handle - handles) - 1;
}

static unsigned enter_device(unsigned function, const void *handle, Device **device) {
    unsigned n = number(handle);
    unsigned error = enter(function, n);
    if (error)
        return error;
    if (!initialized)
        return UNINITIALIZED;
    if (n >= control->device_count)
        return INVALID_ARGUMENT;
    *device = &control->devices[n];
    return (*device)->lost;
}

static unsigned enter_system(unsigned function) {
    unsigned error = enter(function, ANY);
    return error ? error : initialized ? SUCCESS : UNINITIALIZED;
}

#define DEVICE(name) \
    Device *d; \
    unsigned error = enter_device(F_##name, handle, &d); \
    if (error) \
        return error
#define SYSTEM(name) \
    unsigned error = enter_system(F_##name); \
    if (error) \
        return error
#define U32(name, value) \
    unsigned name(void *handle, unsigned *out) { \
        DEVICE(name); \
        *out = (value); \
        return SUCCESS; \
    }
#define UNSUPPORTED_ON_MIG(name, value) \
    unsigned name(void *handle, unsigned *out) { \
        DEVICE(name); \
        if (d->parent >= 0) \
            return NOT_SUPPORTED; \
        *out = (value); \
        return SUCCESS; \
    }

/* --- library and system --- */

static unsigned init(unsigned function) {
    unsigned error = enter(function, ANY);
    if (error)
        return error;
    if (control->init_error)
        return control->init_error;
    initialized++;
    control->initialized++;
    return SUCCESS;
}

unsigned nvmlInit(void) { return init(F_nvmlInit); }
unsigned nvmlInit_v2(void) { return init(F_nvmlInit_v2); }
unsigned nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return init(F_nvmlInitWithFlags);
}

unsigned nvmlShutdown(void) {
    SYSTEM(nvmlShutdown);
    initialized--;
    return SUCCESS;
}

const char *nvmlErrorString(unsigned error) {
    static char text[32];
    snprintf(text, sizeof text, "stub error %u", error);
    return text;
}

static unsigned text(char *out, unsigned size, const char *value) {
    if (strlen(value) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

unsigned nvmlSystemGetDriverVersion(char *out, unsigned size) {
    SYSTEM(nvmlSystemGetDriverVersion);
    return text(out, size, control->driver);
}
unsigned nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    SYSTEM(nvmlSystemGetNVMLVersion);
    return text(out, size, control->driver);
}
unsigned nvmlSystemGetCudaDriverVersion(int *out) {
    SYSTEM(nvmlSystemGetCudaDriverVersion);
    *out = 12080;
    return SUCCESS;
}
unsigned nvmlSystemGetCudaDriverVersion_v2(int *out) {
    SYSTEM(nvmlSystemGetCudaDriverVersion_v2);
    *out = 12080;
    return SUCCESS;
}

/* --- finding devices --- */

static unsigned physical(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < control->device_count; i++)
        count += control->devices[i].parent < 0;
    return count;
}

unsigned nvmlDeviceGetCount(unsigned *out) {
    SYSTEM(nvmlDeviceGetCount);
    *out = physical();
    return SUCCESS;
}
unsigned nvmlDeviceGetCount_v2(unsigned *out) {
    SYSTEM(nvmlDeviceGetCount_v2);
    *out = physical();
    return SUCCESS;
}

/* physical GPUs come before all MIG instances, so that their index is their device number */
static unsigned by_index(unsigned function, unsigned index, void **out) {
    *out = NULL;
    if (index >= physical())
        return INVALID_ARGUMENT;
    Device *d;
    unsigned error = enter_device(function, &handles[index + 1], &d);
    if (!error)
        *out = &handles[index + 1];
    return error;
}

unsigned nvmlDeviceGetHandleByIndex(unsigned index, void **out) {
    return by_index(F_nvmlDeviceGetHandleByIndex, index, out);
}
unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    return by_index(F_nvmlDeviceGetHandleByIndex_v2, index, out);
}

unsigned nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    SYSTEM(nvmlDeviceGetHandleByUUID);
    *out = NULL;
    for (unsigned i = 0; i < control->device_count; i++) {
        if (strcmp(control->devices[i].uuid, uuid))
            continue;
        if (control->devices[i].lost)
            return control->devices[i].lost;
        *out = &handles[i + 1];
        return SUCCESS;
    }
    return NOT_FOUND;
}

static unsigned by_bus(unsigned function, const char *bus, void **out) {
    unsigned domain = 0, number_of_bus = 0;
    unsigned error = enter_system(function);
    if (error)
        return error;
    sscanf(bus, "%x:%x", &domain, &number_of_bus);
    for (unsigned i = 0; i < physical(); i++)
        if (control->devices[i].pci_bus == number_of_bus) {
            *out = &handles[i + 1];
            return control->devices[i].lost;
        }
    return NOT_FOUND;
}

unsigned nvmlDeviceGetHandleByPciBusId(const char *bus, void **out) {
    return by_bus(F_nvmlDeviceGetHandleByPciBusId, bus, out);
}
unsigned nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out) {
    return by_bus(F_nvmlDeviceGetHandleByPciBusId_v2, bus, out);
}

/* --- what a device is --- */

unsigned nvmlDeviceGetName(void *handle, char *out, unsigned size) {
    DEVICE(nvmlDeviceGetName);
    return text(out, size, d->name);
}
unsigned nvmlDeviceGetUUID(void *handle, char *out, unsigned size) {
    DEVICE(nvmlDeviceGetUUID);
    return text(out, size, d->uuid);
}
unsigned nvmlDeviceGetSerial(void *handle, char *out, unsigned size) {
    DEVICE(nvmlDeviceGetSerial);
    return text(out, size, "1320000000000");
}
U32(nvmlDeviceGetIndex, number(handle))
UNSUPPORTED_ON_MIG(nvmlDeviceGetMinorNumber, number(handle))

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} Pci;

static void fill_pci(const Device *d, Pci *out) {
    memset(out, 0, sizeof *out);
    out->bus = d->pci_bus;
    out->id = 0x233010de;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", d->pci_bus & 0xff);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", d->pci_bus & 0xff);
}

#define PCI(name) \
    unsigned name(void *handle, Pci *out) { \
        DEVICE(name); \
        fill_pci(d, out); \
        return SUCCESS; \
    }
PCI(nvmlDeviceGetPciInfo)
PCI(nvmlDeviceGetPciInfo_v2)
PCI(nvmlDeviceGetPciInfo_v3)

/* --- readings --- */

unsigned nvmlDeviceGetUtilizationRates(void *handle, unsigned *out) {
    DEVICE(nvmlDeviceGetUtilizationRates);
    if (d->parent >= 0 || d->mig_mode)
        return NOT_SUPPORTED;
    out[0] = d->utilization;
    out[1] = d->memory_utilization;
    return SUCCESS;
}

unsigned nvmlDeviceGetMemoryInfo(void *handle, uint64_t *out) {
    DEVICE(nvmlDeviceGetMemoryInfo);
    out[0] = d->memory_total;
    out[2] = d->memory_used + d->memory_reserved;
    out[1] = out[0] - out[2];
    return SUCCESS;
}

typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} Memory2;

unsigned nvmlDeviceGetMemoryInfo_v2(void *handle, Memory2 *out) {
    DEVICE(nvmlDeviceGetMemoryInfo_v2);
    if (out->version != (sizeof *out | 2u << 24))
        return VERSION_MISMATCH;
    out->total = d->memory_total;
    out->reserved = d->memory_reserved;
    out->used = d->memory_used;
    out->free = d->memory_total - d->memory_used - d->memory_reserved;
    return SUCCESS;
}

unsigned nvmlDeviceGetBAR1MemoryInfo(void *handle, uint64_t *out) {
    DEVICE(nvmlDeviceGetBAR1MemoryInfo);
    out[0] = 1ull << 37;
    out[1] = (1ull << 37) - (1ull << 25);
    out[2] = 1ull << 25;
    return SUCCESS;
}

unsigned nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *out) {
    DEVICE(nvmlDeviceGetTemperature);
    if (sensor || d->parent >= 0)
        return NOT_SUPPORTED;
    *out = d->temperature;
    return SUCCESS;
}

typedef struct {
    unsigned version, sensor;
    int temperature;
} Temperature1;

unsigned nvmlDeviceGetTemperatureV(void *handle, Temperature1 *out) {
    DEVICE(nvmlDeviceGetTemperatureV);
    if (out->version != (sizeof *out | 1u << 24))
        return VERSION_MISMATCH;
    if (d->parent >= 0)
        return NOT_SUPPORTED;
    out->temperature = (int)d->temperature;
    return SUCCESS;
}

unsigned nvmlDeviceGetTemperatureThreshold(void *handle, unsigned which, unsigned *out) {
    (void)which;
    DEVICE(nvmlDeviceGetTemperatureThreshold);
    *out = 92;
    return SUCCESS;
}

UNSUPPORTED_ON_MIG(nvmlDeviceGetFanSpeed, d->fan)
UNSUPPORTED_ON_MIG(nvmlDeviceGetNumFans, 1)
unsigned nvmlDeviceGetFanSpeed_v2(void *handle, unsigned fan, unsigned *out) {
    (void)fan;
    DEVICE(nvmlDeviceGetFanSpeed_v2);
    *out = d->fan;
    return SUCCESS;
}
UNSUPPORTED_ON_MIG(nvmlDeviceGetPowerUsage, d->power)
UNSUPPORTED_ON_MIG(nvmlDeviceGetPowerManagementLimit, d->power_limit)
UNSUPPORTED_ON_MIG(nvmlDeviceGetEnforcedPowerLimit, d->power_limit)

unsigned nvmlDeviceGetClockInfo(void *handle, unsigned which, unsigned *out) {
    DEVICE(nvmlDeviceGetClockInfo);
    if (which > 3 || d->parent >= 0)
        return NOT_SUPPORTED;
    *out = d->clocks[which];
    return SUCCESS;
}
unsigned nvmlDeviceGetMaxClockInfo(void *handle, unsigned which, unsigned *out) {
    DEVICE(nvmlDeviceGetMaxClockInfo);
    if (which > 3 || d->parent >= 0)
        return NOT_SUPPORTED;
    *out = d->max_clocks[which];
    return SUCCESS;
}

unsigned nvmlDeviceGetEncoderUtilization(void *handle, unsigned *out, unsigned *period) {
    DEVICE(nvmlDeviceGetEncoderUtilization);
    *out = d->encoder;
    *period = 166000;
    return SUCCESS;
}
unsigned nvmlDeviceGetDecoderUtilization(void *handle, unsigned *out, unsigned *period) {
    DEVICE(nvmlDeviceGetDecoderUtilization);
    *out = d->decoder;
    *period = 166000;
    return SUCCESS;
}

U32(nvmlDeviceGetPersistenceMode, d->persistence)
U32(nvmlDeviceGetComputeMode, 0)
U32(nvmlDeviceGetPerformanceState, 0)
U32(nvmlDeviceGetDisplayActive, 0)
U32(nvmlDeviceGetDisplayMode, 0)
U32(nvmlDeviceGetCurrPcieLinkGeneration, 5)
U32(nvmlDeviceGetCurrPcieLinkWidth, 16)
U32(nvmlDeviceGetMaxPcieLinkGeneration, 5)
U32(nvmlDeviceGetMaxPcieLinkWidth, 16)

unsigned nvmlDeviceGetDriverModel(void *handle, unsigned *current, unsigned *pending) {
    (void)current, (void)pending;
    DEVICE(nvmlDeviceGetDriverModel);
    return NOT_SUPPORTED;
}
unsigned nvmlDeviceGetDriverModel_v2(void *handle, unsigned *current, unsigned *pending) {
    (void)current, (void)pending;
    DEVICE(nvmlDeviceGetDriverModel_v2);
    return NOT_SUPPORTED;
}

unsigned nvmlDeviceGetTotalEccErrors(void *handle, unsigned kind, unsigned counter, uint64_t *out) {
    (void)kind, (void)counter;
    DEVICE(nvmlDeviceGetTotalEccErrors);
    *out = d->ecc_errors;
    return SUCCESS;
}

unsigned nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    DEVICE(nvmlDeviceGetCudaComputeCapability);
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

unsigned nvmlDeviceGetPcieThroughput(void *handle, unsigned which, unsigned *out) {
    (void)which;
    DEVICE(nvmlDeviceGetPcieThroughput);
    *out = 1000;
    return SUCCESS;
}

unsigned nvmlDeviceGetCurrentClocksEventReasons(void *handle, uint64_t *out) {
    DEVICE(nvmlDeviceGetCurrentClocksEventReasons);
    *out = d->throttle;
    return SUCCESS;
}
unsigned nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, uint64_t *out) {
    DEVICE(nvmlDeviceGetCurrentClocksThrottleReasons);
    *out = d->throttle;
    return SUCCESS;
}

/* --- processes --- */

typedef struct {
    unsigned pid;
    uint64_t memory;
    unsigned gpu_instance, compute_instance;
} ProcessInfo;

static unsigned list_processes(unsigned function, void *handle, unsigned kind, unsigned stride, unsigned *count,
                               char *out) {
    Device *d;
    unsigned error = enter_device(function, handle, &d);
    if (error)
        return error;
    unsigned found = 0, room = *count;
    for (unsigned i = 0; i < d->process_count && i < PROCESSES; i++) {
        const Process *p = &d->processes[i];
        if (p->kind != kind)
            continue;
        if (found < room && out) {
            ProcessInfo info = {p->pid, p->memory, p->gpu_instance, p->compute_instance};
            memset(out + found * stride, 0xff, stride);
            memcpy(out + found * stride, &info, sizeof info);
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define LIST(name, kind, stride) \
    unsigned name(void *handle, unsigned *count, char *out) { \
        return list_processes(F_##name, handle, kind, stride, count, out); \
    }
#define STRIDE (control && control->process_stride ? control->process_stride : sizeof(ProcessInfo))
LIST(nvmlDeviceGetComputeRunningProcesses_v2, 0, sizeof(ProcessInfo))
LIST(nvmlDeviceGetComputeRunningProcesses_v3, 0, STRIDE)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, 1, sizeof(ProcessInfo))
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 1, STRIDE)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, 2, sizeof(ProcessInfo))
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, 2, STRIDE)

typedef struct {
    unsigned pid;
    uint64_t timestamp;
    unsigned sm, memory, encoder, decoder;
} SampleInfo;

unsigned nvmlDeviceGetProcessUtilization(void *handle, SampleInfo *out, unsigned *count, uint64_t since) {
    (void)since; /* like the drivers of nvtop's issue 110, old samples come again */
    DEVICE(nvmlDeviceGetProcessUtilization);
    if (d->parent >= 0 || d->mig_mode)
        return NOT_SUPPORTED;
    unsigned n = d->sample_count < SAMPLES ? d->sample_count : SAMPLES;
    if (!n)
        return NOT_FOUND;
    if (!out || *count < n) {
        *count = n;
        return INSUFFICIENT_SIZE;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (unsigned i = 0; i < n; i++) {
        const Sample *s = &d->samples[i];
        uint64_t stamp = s->timestamp ? s->timestamp : now.tv_sec * 1000000ull + now.tv_nsec / 1000;
        out[i] = (SampleInfo){s->pid, stamp, s->sm, s->memory, s->encoder, s->decoder};
    }
    *count = n;
    return SUCCESS;
}

/* --- MIG --- */

unsigned nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    DEVICE(nvmlDeviceGetMigMode);
    if (d->parent >= 0)
        return INVALID_ARGUMENT;
    *current = *pending = d->mig_mode;
    return SUCCESS;
}
U32(nvmlDeviceGetMaxMigDeviceCount, d->mig_mode ? 7 : 0)
U32(nvmlDeviceIsMigDeviceHandle, d->parent >= 0)

unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **out) {
    DEVICE(nvmlDeviceGetMigDeviceHandleByIndex);
    *out = NULL;
    for (unsigned i = 0, seen = 0; i < control->device_count; i++)
        if (control->devices[i].parent == (int)number(handle) && seen++ == index) {
            *out = &handles[i + 1];
            return SUCCESS;
        }
    return NOT_FOUND;
}

unsigned nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *handle, void **out) {
    DEVICE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle);
    if (d->parent < 0)
        return INVALID_ARGUMENT;
    *out = &handles[d->parent + 1];
    return SUCCESS;
}

unsigned nvmlDeviceGetGpuInstanceId(void *handle, unsigned *out) {
    DEVICE(nvmlDeviceGetGpuInstanceId);
    *out = d->gpu_instance;
    return d->parent < 0 ? INVALID_ARGUMENT : SUCCESS;
}
unsigned nvmlDeviceGetComputeInstanceId(void *handle, unsigned *out) {
    DEVICE(nvmlDeviceGetComputeInstanceId);
    *out = d->compute_instance;
    return d->parent < 0 ? INVALID_ARGUMENT : SUCCESS;
}

/* --- events --- */

typedef struct {
    void *device;
    uint64_t type, data;
    unsigned gpu_instance, compute_instance;
} EventData;

unsigned nvmlDeviceGetSupportedEventTypes(void *handle, uint64_t *out) {
    DEVICE(nvmlDeviceGetSupportedEventTypes);
    *out = 0x1f;
    return SUCCESS;
}

unsigned nvmlEventSetCreate(EventSet **out) {
    SYSTEM(nvmlEventSetCreate);
    *out = calloc(1, sizeof **out);
    (*out)->seen = control->event_count;
    return SUCCESS;
}

unsigned nvmlDeviceRegisterEvents(void *handle, uint64_t types, EventSet *set) {
    DEVICE(nvmlDeviceRegisterEvents);
    set->types[number(handle)] |= types;
    return SUCCESS;
}

static unsigned next_event(unsigned function, EventSet *set, EventData *out, unsigned timeout_ms) {
    unsigned error = enter_system(function);
    if (error)
        return error;
    for (unsigned waited = 0;; waited++) {
        while (set->seen != control->event_count) {
            const Event *e = &control->events[set->seen++ % EVENTS];
            if (!(set->types[e->device] & e->type))
                continue;
            *out = (EventData){&handles[e->device + 1], e->type, e->data, ANY, ANY};
            return SUCCESS;
        }
        if (waited >= timeout_ms)
            return TIMEOUT;
        usleep(1000);
    }
}

unsigned nvmlEventSetWait(EventSet *set, EventData *out, unsigned timeout_ms) {
    return next_event(F_nvmlEventSetWait, set, out, timeout_ms);
}
unsigned nvmlEventSetWait_v2(EventSet *set, EventData *out, unsigned timeout_ms) {
    return next_event(F_nvmlEventSetWait_v2, set, out, timeout_ms);
}
unsigned nvmlEventSetFree(EventSet *set) {
    SYSTEM(nvmlEventSetFree);
    free(set);
    return SUCCESS;
}
