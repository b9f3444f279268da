// Replay of operator calls that arrive through torch's dispatcher, as from code that torch.compile generated.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <map>

#include "gradients.h"

namespace replaying {

// Recordings of an operator's calls by kind, made by the Python function behind the operator; null before the first.
class Table {
public:
    std::shared_ptr<const Kinds<Recording>> get() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return kinds_;
    }
    void put(std::shared_ptr<const Kinds<Recording>> kinds) {
        const std::lock_guard<std::mutex> lock(mutex_);
        kinds_ = std::move(kinds);
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Kinds<Recording>> kinds_;
};

// Kernel that runs before the autograd formula of a torch.library operator. The formula is Python code, registered
// under the alias of all autograd keys, and would otherwise also run for calls that want no gradient.
class Shortened : public c10::OperatorKernel {
public:
    explicit Shortened(const Table& table) : table_(table) {}

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
        const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
        const auto wants = [](auto& one) { return one.isTensor() && one.toTensor().requires_grad(); };
        if (at::GradMode::is_enabled() && std::any_of(arguments.begin(), arguments.end(), wants)) {
            op.callBoxedForDispatchKey(c10::DispatchKey::Autograd, *stack);
            return;
        }
        const at::AutoDispatchBelowAutograd below;
        if (!replay(op, arguments, stack)) op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }

private:
    // Replays the call if its kind was recorded. Returns false if Python has to compute it.
    bool replay(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments, torch::jit::Stack* stack) {
        const auto table = table_.get();
        if (table == nullptr || !is_plain() || Recordings::at_once > 0) return false;
        Tensors tensors;
        thread_local std::string bytes;
        Kind kind(bytes);
        for (const auto& one : arguments) {
            if (one.isTensor() && one.toTensor().defined()) {
                kind.put(&THPVariableClass);
                tensors.push_back(one.toTensor());
            } else if (!kind.put_setting(one.isTensor() ? c10::IValue() : one)) {
                return false;
            }
        }
        Known found;
        if (!kind.put_all(tensors) || !table->find(bytes, found) || found == nullptr) return false;
        const auto [launch, code] = found->run(tensors);
        if (launch != nullptr) {
            const py::gil_scoped_acquire gil;
            refuse(*launch, code);
        }
        torch::jit::drop(*stack, arguments.size());
        for (size_t i = 0; i < op.schema().returns().size(); ++i) {
            // An empty tensor stands for a missing result, since a schema's results cannot be None.
            const int64_t number = found->results[i];
            stack->emplace_back(number == NONE ? at::empty({0}, tensors[0].options()) : tensors[number]);
        }
        return true;
    }

    const Table& table_;
};

// Makes calls of the named operator that want no gradient skip its autograd formula, and replays the calls whose kinds
// are in `kinds`. With nullptr the calls only skip the formula.
inline void shortened(const char* name, std::shared_ptr<const Kinds<Recording>> kinds) {
    // Leaked on purpose: tables and registrations have to outlive every call in the process.
    static auto& tables = *new std::map<std::string, Table>();
    static auto& kept = *new std::vector<c10::RegistrationHandleRAII>();
    Table& table = tables[name];
    table.put(std::move(kinds));
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto op = dispatcher.findSchemaOrThrow(name, "");
    for (const auto key : {c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutogradCPU}) {
        if (op.hasKernelForDispatchKey(key)) continue;
        auto kernel = c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Shortened>(table));
        kept.push_back(
            dispatcher.registerImpl(op.operator_name(), key, std::move(kernel), std::nullopt, nullptr, "replaying")
        );
    }
}

}  // namespace replaying
