// Who wrote which word: blocks of 64 threads over a row of floats.

__global__ void strided(float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = i;
}

__global__ void shared_word(float* out) { out[0] = threadIdx.x; }

__global__ void counted(int* out) { atomicAdd(out, 1); }

__global__ void vectors(float4* out) { out[threadIdx.x] = make_float4(1, 2, 3, 4); }

extern "C" int run_strided(float* out, int n) {
    strided<<<2, 64>>>(out, n);
    return 0;
}
extern "C" int run_shared_word(float* out) {
    shared_word<<<1, 2>>>(out);
    return 0;
}
extern "C" int run_counted(int* out) {
    counted<<<1, 2>>>(out);
    return 0;
}
extern "C" int run_vectors(float4* out) {
    vectors<<<1, 2>>>(out);
    return 0;
}
