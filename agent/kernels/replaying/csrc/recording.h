// Recording of a kind of calls: its allocations, its launches, and the addresses in their fields.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Exceptions.h>

#include "kinds.h"

namespace replaying {

// Number that stands for no tensor. Tensors of a recording are known by number: the call's own come first, then those
// that it allocates.
constexpr int64_t NONE = -1;

struct Allocation {
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype;
};

struct Address {
    int64_t field, tensor, offset;
};

struct Launch {
    int64_t function;
    std::vector<int64_t> fields;
    std::vector<Address> addresses;
    std::vector<int64_t> streams;  // fields that are the current stream's handle
};

// Owning reference to a Python object that any thread may release.
class Held {
public:
    explicit Held(PyObject* object) : object_(object) { Py_INCREF(object); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
        if (!Py_IsInitialized()) return;
        const py::gil_scoped_acquire gil;
        Py_DECREF(object_);
    }
    PyObject* get() const { return object_; }

private:
    PyObject* object_;
};

struct Recording;

// Connection between a forward call and its backward call.
struct Gradient {
    std::string name;
    Held formula;                        // `Formula` of recording.py, which also records
    std::vector<int64_t> saved;          // numbers of the tensors to save, or NONE
    std::vector<int64_t> differentiated; // inputs that may want a gradient, or NONE
    std::vector<int64_t> values;         // results that have a gradient
    mutable Kinds<Recording> backward;
};

struct Recording {
    std::vector<Allocation> allocations;
    std::vector<Launch> launches;
    std::vector<int64_t> results;  // numbers of the results' tensors, or NONE
    bool is_single = true;         // true for a single tensor, false for a tuple
    std::unique_ptr<Gradient> gradient;

    // Allocates, and launches on the current stream. Returns the launch that CUDA refused and its error code, or
    // nullptr.
    std::pair<const Launch*, int> run(Tensors& tensors) const {
        const c10::Device device = device_of(tensors);
        for (const auto& one : allocations) {
            tensors.push_back(at::empty_strided(one.sizes, one.strides, at::TensorOptions(device).dtype(one.dtype)));
        }
        c10::SmallVector<int64_t, 32> fields;
        for (const auto& launch : launches) {
            fields.assign(launch.fields.begin(), launch.fields.end());
            for (const auto& one : launch.addresses) {
                fields[one.field] = int64_t(Kind::address(tensors[one.tensor])) + one.offset;
            }
            for (const int64_t field : launch.streams) fields[field] = stream(device);
            const int code = reinterpret_cast<int (*)(const void*)>(launch.function)(fields.data());
            if (code != 0) return {&launch, code};
        }
        return {nullptr, 0};
    }

private:
    static c10::Device device_of(const Tensors& tensors) {
        for (const auto& one : tensors) {
            if (one.defined()) return one.device();
        }
        return c10::kCPU;
    }

    static int64_t stream(c10::Device device) {
        if (!device.is_cuda()) return 0;
        const c10::impl::VirtualGuardImpl guard(device.type());
        return reinterpret_cast<int64_t>(guard.getStream(device).native_handle());
    }
};

// Reader of the nested tuples of numbers that recording.py makes.
class Recipe {
public:
    explicit Recipe(PyObject* tuple) : tuple_(tuple) {
        if (!PyTuple_Check(tuple)) throw std::invalid_argument("a recipe is made of tuples");
    }
    Py_ssize_t size() const { return PyTuple_GET_SIZE(tuple_); }
    PyObject* operator[](Py_ssize_t i) const {
        if (i >= size()) throw std::invalid_argument("a recipe is too short");
        return PyTuple_GET_ITEM(tuple_, i);
    }
    Recipe part(Py_ssize_t i) const { return Recipe((*this)[i]); }
    int64_t number(Py_ssize_t i) const {
        const int64_t value = PyLong_AsLongLong((*this)[i]);
        if (value == -1 && PyErr_Occurred()) throw python_error();
        return value;
    }
    std::vector<int64_t> numbers(Py_ssize_t i) const {
        const Recipe inner = part(i);
        std::vector<int64_t> values;
        for (Py_ssize_t n = 0; n < inner.size(); ++n) values.push_back(inner.number(n));
        return values;
    }

    std::shared_ptr<const Recording> recording() const {
        auto made = std::make_shared<Recording>();
        const Recipe allocations = part(0), launches = part(1);
        for (Py_ssize_t i = 0; i < allocations.size(); ++i) {
            const Recipe one = allocations.part(i);
            const auto dtype = reinterpret_cast<THPDtype*>(one[2])->scalar_type;
            made->allocations.push_back({one.numbers(0), one.numbers(1), dtype});
        }
        for (Py_ssize_t i = 0; i < launches.size(); ++i) {
            const Recipe one = launches.part(i), addresses = one.part(2);
            Launch launch{one.number(0), one.numbers(1), {}, one.numbers(3)};
            for (Py_ssize_t n = 0; n < addresses.size(); ++n) {
                const Recipe place = addresses.part(n);
                launch.addresses.push_back({place.number(0), place.number(1), place.number(2)});
            }
            made->launches.push_back(std::move(launch));
        }
        made->results = numbers(2);
        made->is_single = number(3) != 0;
        if ((*this)[4] != Py_None) {
            const Recipe given = part(4);
            made->gradient.reset(new Gradient{
                PyUnicode_AsUTF8(given[0]), Held(given[1]), given.numbers(2), given.numbers(3), given.numbers(4), {}
            });
        }
        return made;
    }

private:
    PyObject* tuple_;
};

}  // namespace replaying
