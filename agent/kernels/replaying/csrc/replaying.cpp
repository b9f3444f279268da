// Replays recorded calls of the shipped kernels, forward and backward, without running Python code (ADR 27).
#include "dispatched.h"
#include "gradients.h"

namespace replaying {
namespace {

extern PyTypeObject type;

// Python function whose calls are replayed if their kind was recorded.
struct Replayed {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject* function;
    PyObject* record;  // calls the function, and returns its result with a recipe, None or False
    std::shared_ptr<Kinds<Recording>> kinds;
};

// Describes the call's kind and collects its tensors. Returns false if Python has to compute the call without recording
// it.
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
    // `record` takes the function, followed by its arguments.
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
    new (&self->kinds) std::shared_ptr<Kinds<Recording>>(std::make_shared<Kinds<Recording>>());
    return reinterpret_cast<PyObject*>(self);
}

void destroy(PyObject* object) {
    auto* self = reinterpret_cast<Replayed*>(object);
    Py_XDECREF(self->function);
    Py_XDECREF(self->record);
    self->kinds.~shared_ptr();
    Py_TYPE(object)->tp_free(object);
}

PyObject* known(PyObject* object, PyObject*) {
    return PyLong_FromSize_t(reinterpret_cast<Replayed*>(object)->kinds->size());
}

PyObject* shorten(PyObject*, PyObject* arguments) {
    HANDLE_TH_ERRORS
    const char* name = nullptr;
    PyObject* function = nullptr;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &function)) return nullptr;
    if (function != Py_None && Py_TYPE(function) != &type) throw std::invalid_argument("not a function that is replayed");
    shortened(name, function == Py_None ? nullptr : reinterpret_cast<Replayed*>(function)->kinds);
    Py_RETURN_NONE;
    END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {
    {"shorten", shorten, METH_VARARGS,
     "Has calls of an operator, by its name, that want no gradient go past its formula, and past this function where "
     "it would replay them; None: past the formula alone."}, {}
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
