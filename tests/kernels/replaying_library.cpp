// Kernels on the host, behind the structs of the real ones: what is replayed gives values that can be checked.
// Compiled once for each KERNEL. A launch whose first element is no number is refused.
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

int64_t launches = 0;

struct Array {  // of float32 (0) or bfloat16 (2)
    int64_t address, dtype;
    float at(int64_t i) const {
        if (dtype == 0) return reinterpret_cast<const float*>(address)[i];
        const uint32_t bits = uint32_t(reinterpret_cast<const uint16_t*>(address)[i]) << 16;
        float value;
        std::memcpy(&value, &bits, 4);
        return value;
    }
    void put(int64_t i, float value) const {
        if (dtype == 0) {
            reinterpret_cast<float*>(address)[i] = value;
            return;
        }
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        bits += 0x7fff + (bits >> 16 & 1);  // to the nearest, ties to even
        reinterpret_cast<uint16_t*>(address)[i] = uint16_t(bits >> 16);
    }
    explicit operator bool() const { return address != 0; }
};

int begin(const Array& x) {
    if (std::isnan(x.at(0))) return 1;
    ++launches;
    return 0;
}

float scale(const Array& weight, int64_t i) { return weight ? weight.at(i) : 1.0f; }

void norm(const Array& x, const Array& weight, const Array& y, const Array& rstd, int64_t rows, int64_t length, double eps) {
    for (int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (int64_t i = 0; i < length; ++i) squares += double(x.at(r * length + i)) * x.at(r * length + i);
        const double factor = 1 / std::sqrt(squares / double(length) + eps);
        for (int64_t i = 0; i < length; ++i) {
            y.put(r * length + i, float(x.at(r * length + i) * factor * scale(weight, i)));
        }
        if (rstd) rstd.put(r, float(factor));
    }
}

void norm_backward(
    const Array& grad, const Array& of_sum, const Array& x, const Array& weight, const Array& rstd, const Array& dx,
    const Array& dweight, int64_t workspace, int64_t rows, int64_t length
) {
    double* sums = reinterpret_cast<double*>(workspace);  // made for each call: it has to be cleared
    for (int64_t i = 0; dweight && i < length; ++i) sums[i] = 0;
    for (int64_t r = 0; r < rows; ++r) {
        const double factor = rstd.at(r);
        double mean = 0;
        for (int64_t i = 0; i < length; ++i) {
            const int64_t n = r * length + i;
            const double normal = x.at(n) * factor;
            mean += normal * grad.at(n) * scale(weight, i) / double(length);
            if (dweight) sums[i] += normal * grad.at(n);
        }
        for (int64_t i = 0; dx && i < length; ++i) {
            const int64_t n = r * length + i;
            const double given = grad.at(n) * scale(weight, i) - x.at(n) * factor * mean;
            dx.put(n, float(given * factor + (of_sum ? of_sum.at(n) : 0.0f)));
        }
    }
    for (int64_t i = 0; dweight && i < length; ++i) dweight.put(i, float(sums[i]));
}

double real(int64_t field) {
    double value;
    std::memcpy(&value, &field, 8);
    return value;
}

}  // namespace

extern "C" {
const char* error_text(int) { return "the first element is no number"; }
int64_t count(const void*) { return launches; }
int64_t backward_workspace(const void*) { return 8 * 64; }

#ifdef rms_norm
int forward(const int64_t* a) {
    const Array x{a[0], a[8]};
    if (begin(x)) return 1;
    norm(x, {a[1], a[9]}, {a[3], a[8]}, {a[5], 0}, a[6], a[7], real(a[10]));
    return 0;
}
int backward(const int64_t* a) {
    const Array grad{a[0], a[11]};
    if (begin(grad)) return 1;
    norm_backward(
        grad, {0, 0}, {a[1], a[11]}, {a[2], a[12]}, {a[4], 0}, {a[5], a[11]}, {a[6], a[12]}, a[8], a[9], a[10]
    );
    return 0;
}
#endif

#ifdef add_rms_norm
int forward(const int64_t* a) {
    const Array x{a[0], a[10]}, residual{a[1], a[10]}, added{a[5], a[10]};
    if (begin(x)) return 1;
    for (int64_t i = 0; i < a[8] * a[9]; ++i) added.put(i, x.at(i) + residual.at(i));
    norm(added, {a[2], a[11]}, {a[4], a[10]}, {a[7], 0}, a[8], a[9], real(a[12]));
    return 0;
}
int backward(const int64_t* a) {
    const Array grad{a[0], a[12]};
    if (begin(grad)) return 1;
    norm_backward(
        grad, {a[1], a[12]}, {a[2], a[12]}, {a[3], a[13]}, {a[5], 0}, {a[6], a[12]}, {a[7], a[13]}, a[9], a[10], a[11]
    );
    return 0;
}
#endif

#ifdef softmax
int forward(const int64_t* a) {
    const Array x{a[0], a[5]}, y{a[1], a[5]};
    if (begin(x)) return 1;
    for (int64_t o = 0; o < a[2]; ++o) {
        for (int64_t k = 0; k < a[4]; ++k) {
            const int64_t start = o * a[3] * a[4] + k;
            double sum = 0;
            for (int64_t i = 0; i < a[3]; ++i) sum += std::exp(double(x.at(start + i * a[4])));
            for (int64_t i = 0; i < a[3]; ++i) {
                y.put(start + i * a[4], float(std::exp(double(x.at(start + i * a[4]))) / sum));
            }
        }
    }
    return 0;
}
int backward(const int64_t* a) {
    const Array grad{a[0], a[6]}, y{a[1], a[6]}, dx{a[2], a[6]};
    if (begin(grad)) return 1;
    for (int64_t o = 0; o < a[3]; ++o) {
        for (int64_t k = 0; k < a[5]; ++k) {
            const int64_t start = o * a[4] * a[5] + k;
            double sum = 0;
            for (int64_t i = 0; i < a[4]; ++i) sum += double(grad.at(start + i * a[5])) * y.at(start + i * a[5]);
            for (int64_t i = 0; i < a[4]; ++i) {
                const int64_t n = start + i * a[5];
                dx.put(n, float((grad.at(n) - sum) * y.at(n)));
            }
        }
    }
    return 0;
}
#endif

#ifdef gate_product  // by silu
int forward(const int64_t* a) {
    const Array gate{a[0], a[8]}, value{a[1], a[8]}, y{a[2], a[8]};
    if (begin(gate)) return 1;
    for (int64_t r = 0; r < a[3]; ++r) {
        for (int64_t i = 0; i < a[4]; ++i) {
            const double g = gate.at(r * a[5] + i);
            y.put(r * a[4] + i, float(g / (1 + std::exp(-g)) * value.at(r * a[6] + i)));
        }
    }
    return 0;
}
int backward(const int64_t* a) {
    const Array grad{a[0], a[11]}, gate{a[1], a[11]}, value{a[2], a[11]}, dgate{a[3], a[11]}, dvalue{a[4], a[11]};
    if (begin(grad)) return 1;
    for (int64_t r = 0; r < a[5]; ++r) {
        for (int64_t i = 0; i < a[6]; ++i) {
            const double g = gate.at(r * a[7] + i), given = grad.at(r * a[6] + i), share = 1 / (1 + std::exp(-g));
            if (dgate) dgate.put(r * a[9] + i, float(given * value.at(r * a[8] + i) * share * (1 + g * (1 - share))));
            if (dvalue) dvalue.put(r * a[9] + i, float(given * g * share));
        }
    }
    return 0;
}
#endif
}
