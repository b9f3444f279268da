// Replayed calls as nodes of autograd's graph, and the parts of a call that remain in Python.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "recording.h"

namespace replaying {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using NodePointer = decltype(Edge::function);
using Known = Kinds<Recording>::Known;

// Raises LaunchError for a launch that CUDA refused with `code`. The caller holds the GIL.
[[noreturn]] inline void refuse(const Launch& launch, int code) {
    const py::object binding = py::reinterpret_steal<py::object>(PyImport_ImportModule("agent.kernels.binding"));
    if (binding) {
        const auto address = static_cast<long long>(launch.function);
        Py_XDECREF(PyObject_CallMethod(binding.ptr(), "refuse", "Li", address, code));
    }
    python_error error;
    error.persist();
    throw error;
}

template <typename T>
NodePointer made_node() {
    if constexpr (std::is_same_v<NodePointer, std::shared_ptr<Node>>) {
        return NodePointer(new T(), [](auto* node) { deleteNode(node); });
    } else {
        return NodePointer(c10::make_intrusive<T>());
    }
}

// Scope of a recording: calls within it are run and not replayed, so that the recorder observes them.
struct Recordings {
    static inline thread_local int at_once = 0;
    Recordings() { ++at_once; }
    ~Recordings() { --at_once; }
};

inline py::object as_tuple(const at::Tensor* first, size_t count) {
    py::object made = py::reinterpret_steal<py::object>(PyTuple_New(Py_ssize_t(count)));
    for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(made.ptr(), i, THPVariable_Wrap(first[i]));
    return made;
}

// Autograd node of a replayed call. It replays the backward call for each kind of gradients that was recorded.
struct Backward : public Node {
    Known forward;
    std::vector<SavedVariable> saved;

    std::string name() const override { return forward->gradient->name; }

    void release_variables() override {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (auto& one : saved) one.reset_data();
    }

    variable_list apply(variable_list&& grads) override {
        if (std::none_of(grads.begin(), grads.end(), [](const auto& grad) { return grad.defined(); })) {
            return variable_list(num_outputs());
        }
        Tensors tensors(grads.begin(), grads.end());
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            for (const auto& one : saved) tensors.push_back(one.unpack(getptr()));
        }
        thread_local std::string bytes;
        Kind kind(bytes);
        for (size_t i = 0; i < num_outputs(); ++i) kind.put(task_should_compute_output(i));
        // With grad mode on, Python refuses the gradient of a gradient.
        if (at::GradMode::is_enabled() || !is_plain() || !kind.put_all(tensors)) {
            return by_formula(tensors, grads.size(), nullptr);
        }
        Known known;
        if (!forward->gradient->backward.find(bytes, known)) return by_formula(tensors, grads.size(), &bytes);
        if (known == nullptr) return by_formula(tensors, grads.size(), nullptr);
        const auto [launch, code] = known->run(tensors);
        if (launch != nullptr) {
            const py::gil_scoped_acquire gil;
            refuse(*launch, code);
        }
        variable_list made(num_outputs());
        for (size_t i = 0; i < made.size(); ++i) {
            if (known->results[i] != NONE) made[i] = tensors[known->results[i]];
        }
        return made;
    }

private:
    // Runs Python's formula. If `unknown` is a kind and not null, the call is recorded for it.
    variable_list by_formula(const Tensors& tensors, size_t grads, const std::string* unknown) {
        const std::string kind = unknown == nullptr ? "" : *unknown;
        const Recordings inner;
        const py::gil_scoped_acquire gil;
        py::object needed = py::reinterpret_steal<py::object>(PyTuple_New(num_outputs()));
        for (size_t i = 0; i < num_outputs(); ++i) {
            PyTuple_SET_ITEM(needed.ptr(), i, PyBool_FromLong(task_should_compute_output(i)));
        }
        py::object answer = py::reinterpret_steal<py::object>(PyObject_CallFunctionObjArgs(
            forward->gradient->formula.get(), as_tuple(tensors.data(), grads).ptr(),
            as_tuple(tensors.data() + grads, tensors.size() - grads).ptr(), needed.ptr(),
            unknown == nullptr ? Py_False : Py_True, nullptr
        ));
        if (!answer) {
            python_error error;
            error.persist();
            throw error;
        }
        const Recipe pair(answer.ptr());
        if (PyTuple_Check(pair[1])) forward->gradient->backward.remember(kind, Recipe(pair[1]).recording());
        if (pair[1] == Py_None && unknown != nullptr) forward->gradient->backward.remember(kind, nullptr);
        const Recipe given = pair.part(0);
        variable_list made(num_outputs());
        for (size_t i = 0; i < made.size(); ++i) {
            if (given[i] != Py_None) made[i] = THPVariable_Unpack(given[i]);
        }
        return made;
    }
};

// Adds the results of a forward call to autograd's graph.
inline void differentiate(const Known& forward, Tensors& tensors) {
    const Gradient& gradient = *forward->gradient;
    const NodePointer pointer = made_node<Backward>();
    auto& node = static_cast<Backward&>(*pointer);
    node.forward = forward;
    for (const int64_t i : gradient.differentiated) {
        const bool has_edge = i != NONE && tensors[i].requires_grad();
        node.add_next_edge(has_edge ? torch::autograd::impl::gradient_edge(tensors[i]) : Edge());
    }
    for (const int64_t i : gradient.values) torch::autograd::set_history(tensors[i], pointer);
    node.saved.reserve(gradient.saved.size());
    for (const int64_t i : gradient.saved) {
        if (i == NONE) {
            node.saved.emplace_back();
            continue;
        }
        const auto& values = gradient.values;
        node.saved.emplace_back(tensors[i], std::find(values.begin(), values.end(), i) != values.end());
    }
}

}  // namespace replaying
