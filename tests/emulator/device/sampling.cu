// Kernels for launches at real sizes: right ones, and ones whose 32-bit indices or grids do not reach.

__global__ void by_value(const float* x, float* y, int64_t n) {
    y[int(x[0] * 1000) - 1] = 1;
}
__global__ void int_index(const float* x, float* y, int64_t n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];  // here: int_index
}
__global__ void wide_index(const float* x, float* y, int64_t n) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
__global__ void row_product(const float* x, float* y, int rows, int columns) {
    const int row = blockIdx.x;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        y[row] += x[row * columns + c];  // here: row_product
    }
}
__global__ void wide_row(const float* x, float* y, int rows, int columns) {
    const float* start = x + int64_t(blockIdx.x) * columns;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) y[blockIdx.x] += start[c];
}
__global__ void grid_stride(const float* x, float* y, int64_t n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = x[i];  // here: grid_stride
    }
}
__global__ void wide_stride(const float* x, float* y, int64_t n) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) y[i] = x[i];
}
__global__ void int_bytes(const char* x, float* y, int64_t n) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const int offset = i * 4;
    if (i < n) y[threadIdx.x] = *reinterpret_cast<const float*>(x + offset);  // here: int_bytes
}
__global__ void beyond(const float* x, float* y, int64_t n) {
    if (blockIdx.x == gridDim.x - 1) y[n + threadIdx.x] = x[0];  // here: beyond
}
__global__ void ends_quietly(const int* x, float* y, int64_t n) {
    if (threadIdx.x == 0) {
        while (*static_cast<const volatile int*>(x) == 0) {}
    }
    y[threadIdx.x] = 1 / x[1];
}

#define ELEMENTWISE(name, T)                                                          \
    extern "C" int run_##name(const T* x, float* y, long n) {                          \
        name<<<(n + 255) / 256, 256>>>(x, y, n);                                      \
        return cudaDeviceSynchronize();                                               \
    }
ELEMENTWISE(int_index, float)
ELEMENTWISE(wide_index, float)
ELEMENTWISE(int_bytes, char)
ELEMENTWISE(by_value, float)
ELEMENTWISE(beyond, float)
ELEMENTWISE(ends_quietly, int)

#define BY_ROWS(name)                                                                 \
    extern "C" int run_##name(const float* x, float* y, int rows, int columns) {       \
        name<<<rows, 256>>>(x, y, rows, columns);                                     \
        return cudaDeviceSynchronize();                                               \
    }
BY_ROWS(row_product)
BY_ROWS(wide_row)

#define STRIDED(name)                                                                 \
    extern "C" int run_##name(const float* x, float* y, long n) {                      \
        name<<<1056, 256>>>(x, y, n);                                                 \
        return cudaDeviceSynchronize();                                               \
    }
STRIDED(grid_stride)
STRIDED(wide_stride)

extern "C" int run_tall_grid(const float* x, float* y, long n) {
    wide_index<<<dim3(1, 70000), 256>>>(x, y, n);  // here: tall_grid
    return cudaDeviceSynchronize();
}
