/* Launch build/softmax.cubin through the driver API, and write what it recorded to softmax.records.
 *
 *     python export.py
 *     cc -I build -I "$CUDA/include" launch.c -o launch -lcuda
 *     ./launch build/softmax.cubin softmax.records
 *     python -c 'import profscope; print(profscope.decode("softmax.records", "build/softmax.json").summary())'
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "softmax.h"

enum { ROWS = 512, COLS = 1024, CTAS = 128 };

static void check(CUresult result, const char *what) {
    const char *says = "unknown error";
    if (result == CUDA_SUCCESS) return;
    cuGetErrorString(result, &says);
    fprintf(stderr, "%s: %s\n", what, says);
    exit(1);
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr in, out, memory, global_scratch = 0, profile_scratch;

    if (argc != 3) {
        fprintf(stderr, "usage: %s CUBIN RECORDS\n", argv[0]);
        return 2;
    }
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuModuleLoad(&module, argv[1]), argv[1]);
    check(cuModuleGetFunction(&kernel, module, SOFTMAX_ENTRY), SOFTMAX_ENTRY);
    check(cuMemAlloc(&in, ROWS * COLS * sizeof(float)), "cuMemAlloc");
    check(cuMemAlloc(&out, ROWS * COLS * sizeof(float)), "cuMemAlloc");
    check(cuMemsetD32(in, 0, ROWS * COLS), "cuMemsetD32");

    /* The buffer of the records: zeroed, at an aligned address, whose low bits say what to record. */
    uint64_t bytes = softmax_profile_bytes(CTAS, 0, SOFTMAX_RING_LOG2);
    check(cuMemAlloc(&memory, bytes + SOFTMAX_PROFILE_ALIGNMENT), "cuMemAlloc");
    check(cuMemsetD8(memory, 0, bytes + SOFTMAX_PROFILE_ALIGNMENT), "cuMemsetD8");
    CUdeviceptr records = (memory + SOFTMAX_PROFILE_ALIGNMENT - 1) / SOFTMAX_PROFILE_ALIGNMENT * SOFTMAX_PROFILE_ALIGNMENT;
    profile_scratch = softmax_profile_pointer(records, 0, SOFTMAX_RING_LOG2);

    int32_t rows = ROWS, cols = COLS;
    void *parameters[SOFTMAX_PARAMETERS] = {&out, &in, &rows, &cols, &global_scratch, &profile_scratch};
    check(cuLaunchKernel(kernel, CTAS, 1, 1, SOFTMAX_THREADS, 1, 1, SOFTMAX_SHARED_BYTES, NULL, parameters, NULL),
          "cuLaunchKernel");
    check(cuCtxSynchronize(), "cuCtxSynchronize");

    void *host = malloc(bytes);
    FILE *file = fopen(argv[2], "wb");
    if (host == NULL || file == NULL) {
        fprintf(stderr, "%s: cannot be written\n", argv[2]);
        return 1;
    }
    check(cuMemcpyDtoH(host, records, bytes), "cuMemcpyDtoH");
    if (fwrite(host, 1, bytes, file) != bytes || fclose(file) != 0) {
        fprintf(stderr, "%s: cannot be written\n", argv[2]);
        return 1;
    }
    return 0;
}
