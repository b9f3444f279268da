// Replays recorded calls of the shipped kernels, forward and backward, without Python on their way (ADR 27).
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "recording.h"

namespace replaying {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using NodePointer = decltype(Edge::function);
using Known = Kinds<Recording>::Known;

// Raises LaunchError. Has the GIL.
[[noreturn]] void refuse(const Launch& launch, int code) {
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

// While a call is recorded, those within it are seen as they are.
struct Recordings {
    static inline thread_local int at_once = 0;
    Recordings() { ++at_once; }
    ~Recordings() { --at_once; }
};

py::object as_tuple(const at::Tensor* first, size_t count) {
    py::object made = py::reinterpret_steal<py::object>(PyTuple_New(Py_ssize_t(count)));
    for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(made.ptr(), i, THPVariable_Wrap(first[i]));
    return made;
}

// The node of a replayed call. It replays the backward call of each kind of gradients that it has seen.
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
        // A gradient of a gradient is refused, in Python.
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
    // By Python's formula, which is recorded where `unknown` is the kind.
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

// Makes the results of a forward call part of autograd's graph.
void differentiate(const Known& forward, Tensors& tensors) {
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

// A Python function whose calls are replayed where their kind was recorded.
struct Replayed {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject* function;
    PyObject* record;  // calls the function, and answers its result and a recipe, None, or False
    Kinds<Recording>* kinds;
};

// False: Python has to compute this call, and not to record it.
bool described(Kind& kind, Tensors& tensors, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    if (!is_plain() || Recordings::at_once > 0) return false;
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < count + named; ++i) {
        if (i >= count && !kind.put_setting(PyTuple_GET_ITEM(names, i - count))) return false;
        if (THPVariable_CheckExact(arguments[i])) {
            kind.put(&THPVariableClass);
            tensors.push_back(THPVariable_Unpack(arguments[i]));
        } else if (!kind.put_setting(arguments[i])) {
            return false;
        }
    }
    return kind.put_all(tensors);
}

PyObject* recorded(Replayed& self, const std::string& kind, PyObject* const* arguments, size_t flags, PyObject* names) {
    const Recordings inner;
    // The function's arguments follow the function itself.
    const size_t all = PyVectorcall_NARGS(flags) + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
    std::vector<PyObject*> given{self.function};
    given.insert(given.end(), arguments, arguments + all);
    const py::object answer = py::reinterpret_steal<py::object>(
        PyObject_Vectorcall(self.record, given.data(), size_t(PyVectorcall_NARGS(flags)) + 1, names)
    );
    if (!answer) return nullptr;
    const Recipe pair(answer.ptr());
    if (PyTuple_Check(pair[1])) self.kinds->remember(kind, Recipe(pair[1]).recording());
    if (pair[1] == Py_None) self.kinds->remember(kind, nullptr);
    return Py_NewRef(pair[0]);
}

PyObject* call(PyObject* object, PyObject* const* arguments, size_t flags, PyObject* names) {
    HANDLE_TH_ERRORS
    auto& self = *reinterpret_cast<Replayed*>(object);
    Tensors tensors;
    thread_local std::string bytes;
    Kind kind(bytes);
    if (!described(kind, tensors, arguments, PyVectorcall_NARGS(flags), names)) {
        return PyObject_Vectorcall(self.function, arguments, flags, names);
    }
    Known known;
    if (!self.kinds->find(bytes, known)) return recorded(self, std::string(bytes), arguments, flags, names);
    if (known == nullptr) return PyObject_Vectorcall(self.function, arguments, flags, names);
    std::pair<const Launch*, int> failed;
    {
        const py::gil_scoped_release no_gil;
        failed = known->run(tensors);
    }
    if (failed.first != nullptr) refuse(*failed.first, failed.second);
    if (known->gradient != nullptr) differentiate(known, tensors);
    if (known->is_single) return THPVariable_Wrap(std::move(tensors[known->results[0]]));
    const auto count = Py_ssize_t(known->results.size());
    py::object made = py::reinterpret_steal<py::object>(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
        const int64_t at = known->results[i];
        PyTuple_SET_ITEM(made.ptr(), i, at == NONE ? Py_NewRef(Py_None) : THPVariable_Wrap(tensors[at]));
    }
    return made.release().ptr();
    END_HANDLE_TH_ERRORS
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject*) {
    PyObject *function = nullptr, *record = nullptr;
    if (!PyArg_ParseTuple(arguments, "OO", &function, &record)) return nullptr;
    auto* self = reinterpret_cast<Replayed*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->call = call;
    self->function = Py_NewRef(function);
    self->record = Py_NewRef(record);
    self->kinds = new Kinds<Recording>();
    return reinterpret_cast<PyObject*>(self);
}

void destroy(PyObject* object) {
    auto* self = reinterpret_cast<Replayed*>(object);
    Py_XDECREF(self->function);
    Py_XDECREF(self->record);
    delete self->kinds;
    Py_TYPE(object)->tp_free(object);
}

PyObject* known(PyObject* object, PyObject*) {
    return PyLong_FromSize_t(reinterpret_cast<Replayed*>(object)->kinds->size());
}

// A call of an operator of torch.library. Its formula for a gradient, under the alias of all of autograd's keys, is
// Python's, and would see to the calls that want none as well.
void past_formula(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    const bool is_wanted = at::GradMode::is_enabled() && std::any_of(arguments.begin(), arguments.end(), [](auto& one) {
        return one.isTensor() && one.toTensor().requires_grad();
    });
    if (is_wanted) {
        op.callBoxedForDispatchKey(c10::DispatchKey::Autograd, *stack);
        return;
    }
    const at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

PyObject* shorten(PyObject*, PyObject* name) {
    HANDLE_TH_ERRORS
    static auto& kept = *new std::vector<c10::RegistrationHandleRAII>();  // until the process ends
    const char* text = PyUnicode_AsUTF8(name);
    if (text == nullptr) return nullptr;
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto op = dispatcher.findSchemaOrThrow(text, "");
    for (const auto key : {c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutogradCPU}) {
        if (op.hasKernelForDispatchKey(key)) continue;
        const auto kernel = c10::KernelFunction::makeFromBoxedFunction<&past_formula>();
        kept.push_back(dispatcher.registerImpl(op.operator_name(), key, kernel, std::nullopt, nullptr, "replaying"));
    }
    Py_RETURN_NONE;
    END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {
    {"shorten", shorten, METH_O, "Has calls of an operator, by its name, that want no gradient go past its formula."}, {}
};
PyMethodDef replayed_methods[] = {
    {"known", known, METH_NOARGS, "How many kinds are remembered, those that remain Python's included."}, {}
};
PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "replaying", nullptr, -1, methods};

}  // namespace
}  // namespace replaying

PyMODINIT_FUNC PyInit_replaying() {
    using namespace replaying;
    type.tp_name = "replaying.Replayed";
    type.tp_basicsize = sizeof(Replayed);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(Replayed, call);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = create;
    type.tp_dealloc = destroy;
    type.tp_methods = replayed_methods;
    if (PyType_Ready(&type) < 0) return nullptr;
    PyObject* made = PyModule_Create(&module);
    if (made == nullptr || PyModule_AddObjectRef(made, "Replayed", reinterpret_cast<PyObject*>(&type)) < 0) return nullptr;
    return made;
}
