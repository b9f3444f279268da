// The language through nvcc: calls, tables, structs, local arrays, constants, printf, assert.
#include <cassert>
#include <cstdio>

__constant__ float weights[3] = {0.25f, 0.5f, 0.25f};
__constant__ int order[] = {3, 1, 2, 0};

struct Shape {
    int rows, columns;
    float scale;
    bool flip;
};

__global__ void smooth(const float* x, float* y, Shape shape) {
    int column = threadIdx.x, row = blockIdx.x;
    if (column >= shape.columns) return;
    float sum = 0;
    for (int d = -1; d <= 1; d++) {
        int c = min(max(column + d, 0), shape.columns - 1);
        sum += weights[d + 1] * x[row * shape.columns + c];
    }
    y[row * shape.columns + (shape.flip ? shape.columns - 1 - column : column)] = sum * shape.scale;
}

__device__ int collatz(int n, int steps) { return n == 1 ? steps : collatz(n % 2 ? 3 * n + 1 : n / 2, steps + 1); }
__global__ void recursion(int* out) { out[threadIdx.x] = collatz(threadIdx.x + 1, 0); }

__device__ __noinline__ int deep(int n, int salt) {
    volatile int kept[32];
    kept[n % 32] = salt;
    return n == 0 ? 0 : deep(n - 1, salt + 1) + kept[n % 32] - salt + 1;
}
__global__ void deepest(int* out, int n) { *out = deep(n, 0); }

__device__ float twice(float v) { return v * 2; }
__device__ float square(float v) { return v * v; }
__device__ float minus(float v) { return -v; }
typedef float (*Operation)(float);
__device__ Operation operations[] = {twice, square, minus};
__global__ void by_pointer(const float* x, float* y, const int* which) {
    y[threadIdx.x] = operations[which[threadIdx.x]](x[threadIdx.x]);
}

__global__ void sort_columns(const float* x, float* y, int rows, int columns) {
    float values[24];
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    for (int i = 0; i < rows; i++) values[i] = x[i * columns + column];
    for (int i = 1; i < rows; i++) {
        float v = values[i];
        int j = i - 1;
        for (; j >= 0 && values[j] > v; j--) values[j + 1] = values[j];
        values[j + 1] = v;
    }
    for (int i = 0; i < rows; i++) y[i * columns + column] = values[i];
}

__global__ void state_machine(const int* codes, int* out, int n) {
    int state = threadIdx.x;
    for (int i = 0; i < n; i++) {
        switch (codes[i]) {
            case 0: state += 1; break;
            case 1: state *= 3; break;
            case 2: state ^= 0x55; break;
            case 3: state -= order[state & 3]; break;
            case 4: state = state > 50 ? state / 2 : state; break;
            case 5: state = ~state & 0xff; break;
            case 6: continue;
            default: state %= 97;
        }
    }
    out[threadIdx.x] = state;
}

__global__ void talk(int n) {
    assert(n > 0);
    if (threadIdx.x == 1) printf("thread %d of %u: %5.2f %s %lld%% %c\n", threadIdx.x, blockDim.x, n * 1.5, "words", 1ll << 40, 'x');
}

__global__ void insist(int n) {
    if (threadIdx.x == 2) assert(n == 7 && "n must be seven");
}

struct Base {
    __device__ virtual int value(int i) const { return i; }
};
struct Derived : Base {
    int offset;
    __device__ Derived(int o) : offset(o) {}
    __device__ int value(int i) const override { return i + offset; }
};
__global__ void virtual_call(int* out) {
    Derived derived(100);
    Base base;
    const Base* chosen = threadIdx.x % 2 ? static_cast<const Base*>(&derived) : &base;
    out[threadIdx.x] = chosen->value(threadIdx.x);
}
