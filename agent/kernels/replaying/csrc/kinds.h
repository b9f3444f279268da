// Kind of a call: everything that decides its work, as a byte string. Calls of one kind differ only in addresses.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Dtype.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace replaying {

using Tensors = c10::SmallVector<at::Tensor, 16>;

// Returns true if nothing intercepts a call: no trace, mode or functional transform.
inline bool is_plain() {
    const uint64_t included = c10::impl::tls_local_dispatch_key_set().included_.raw_repr();
    return (included & ~c10::default_included_set.raw_repr()) == 0 &&
           at::impl::PythonTorchFunctionTLS::stack_len() == 0;
}

class Kind {
public:
    // Starts the byte string with the thread's state: grad mode, inference mode and autocast.
    explicit Kind(std::string& bytes) : bytes_(bytes) {
        bytes_.clear();
        const auto local = c10::impl::tls_local_dispatch_key_set();
        put(local.included_.raw_repr());
        put(local.excluded_.raw_repr());
        put(at::GradMode::is_enabled());
    }

    template <typename T>
    void put(T value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }

    // Adds geometry, dtype, device and alignment of `tensors`, and which of them share memory. Returns false if a
    // tensor is not a plain one, so that the call cannot be replayed.
    bool put_all(const Tensors& tensors) {
        for (size_t i = 0; i < tensors.size(); ++i) {
            put(tensors[i].defined());
            if (!tensors[i].defined()) continue;
            if (!put_one(tensors[i])) return false;
            for (size_t before = 0; before < i; ++before) {
                if (tensors[before].defined() && tensors[before].is_alias_of(tensors[i])) {
                    put(before);
                    put(address(tensors[i]) - address(tensors[before]));
                }
            }
        }
        return true;
    }

    // Adds a value that is no tensor. Returns false if its type is not plain: equal values may still mean different
    // things.
    bool put_setting(PyObject* value) {
        PyTypeObject* type = Py_TYPE(value);
        put(type);
        if (value == Py_None) return true;
        if (type == &PyBool_Type || THPDtype_Check(value)) return put(value), true;
        if (type == &PyFloat_Type) return put(PyFloat_AS_DOUBLE(value)), true;
        if (type == &PyLong_Type) {
            int overflow = 0;
            put(PyLong_AsLongLongAndOverflow(value, &overflow));
            return overflow == 0;
        }
        if (type == &PyUnicode_Type) return put_text(value);
        if (!PyTuple_Check(value) && type != &PyList_Type) return false;  // a torch.Size counts as a tuple
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
        put(count);
        for (Py_ssize_t i = 0; i < count; ++i) {
            if (!put_setting(PySequence_Fast_GET_ITEM(value, i))) return false;
        }
        return true;
    }

    // Adds a value from the dispatcher exactly as the Python function behind the operator would, so that both find the
    // same kind.
    bool put_setting(const c10::IValue& value) {
        if (value.isNone()) return put(Py_TYPE(Py_None)), true;
        if (value.isBool()) return put_flag(value.toBool()), true;
        if (value.isDouble()) return put(&PyFloat_Type), put(value.toDouble()), true;
        if (value.isInt()) return put_number(value.toInt()), true;
        if (value.isString()) {
            const std::string& text = value.toStringRef();
            put(&PyUnicode_Type);
            put(Py_ssize_t(text.size()));
            bytes_ += text;
            return true;
        }
        if (!value.isBoolList() && !value.isIntList()) return false;
        put(&PyList_Type);
        if (value.isBoolList()) {
            const auto flags = value.toBoolList();
            put(Py_ssize_t(flags.size()));
            for (const bool flag : flags) put_flag(flag);
        } else {
            const auto numbers = value.toIntList();
            put(Py_ssize_t(numbers.size()));
            for (const int64_t number : numbers) put_number(number);
        }
        return true;
    }

    static uintptr_t address(const at::Tensor& tensor) {
        return reinterpret_cast<uintptr_t>(tensor.data_ptr());
    }

private:
    static constexpr uintptr_t ALIGNMENT = 16;

    void put_flag(bool value) {
        put(&PyBool_Type);
        put(value ? Py_True : Py_False);
    }

    void put_number(int64_t value) {
        put(&PyLong_Type);
        put((long long)value);
    }

    bool put_text(PyObject* value) {
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(value, &size);
        if (text == nullptr) return PyErr_Clear(), false;
        put(size);
        bytes_.append(text, size_t(size));
        return true;
    }

    bool put_one(const at::Tensor& tensor) {
        const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
        if (impl->layout() != c10::kStrided || impl->is_python_dispatch() || impl->is_nested() ||
            impl->has_symbolic_sizes_strides() || !impl->has_storage() || tensor._fw_grad(0).defined()) {
            return false;
        }
        put(impl->key_set().raw_repr());
        put(tensor.scalar_type());
        put(impl->device());
        put(tensor.requires_grad());
        const auto sizes = impl->sizes(), strides = impl->strides();
        put(sizes.size());
        bytes_.append(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(int64_t));
        bytes_.append(reinterpret_cast<const char*>(strides.data()), strides.size() * sizeof(int64_t));
        put(uint8_t(address(tensor) % ALIGNMENT));
        return true;
    }

    std::string& bytes_;
};

// Recordings of one function by kind. Thread-safe.
template <typename Recording>
class Kinds {
public:
    using Known = std::shared_ptr<const Recording>;

    // Returns true if the kind is known. `found` is then its recording, or null if the kind remains in Python.
    bool find(const std::string& kind, Known& found) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto place = known_.find(kind);
        if (place == known_.end()) return false;
        found = place->second;
        return true;
    }

    void remember(const std::string& kind, Known known) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (known_.size() >= MOST) known_.clear();
        known_[kind] = std::move(known);
    }

    size_t size() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return known_.size();
    }

private:
    static constexpr size_t MOST = 4096;  // bounds memory if the sizes of calls never stop changing

    mutable std::mutex mutex_;
    std::unordered_map<std::string, Known> known_;
};

}  // namespace replaying
