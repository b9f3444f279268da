// An extreme and the first index that holds it; NaN wins over every number.
struct Place {
    float value;
    int at;
};
__device__ inline Place first_of(Place a, Place b, bool is_b_further) {
    const bool a_is_none = a.value != a.value, b_is_none = b.value != b.value;
    const bool is_alike = a.value == b.value || (a_is_none && b_is_none);
    return (is_alike ? b.at < a.at : b_is_none || (!a_is_none && is_b_further)) ? b : a;
}
struct Argmax {
    template <typename T> __device__ static Place none() { return {-INFINITY, 0x7fffffff}; }
    __device__ static Place of(Place a, Place b) { return first_of(a, b, b.value > a.value); }
};
struct Argmin {
    template <typename T> __device__ static Place none() { return {INFINITY, 0x7fffffff}; }
    __device__ static Place of(Place a, Place b) { return first_of(a, b, b.value < a.value); }
};
__device__ inline Place of_other(Place mine, int apart) {
    return {of_other(mine.value, apart), of_other(mine.at, apart)};
}
