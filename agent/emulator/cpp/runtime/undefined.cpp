// Handlers of the compiler's checks of array bounds and alignment (-fsanitize=bounds,alignment), with the names and
// data layouts of its interface.
#include "watch.h"

#include <cctype>

namespace kw {

namespace {

struct SourceLocation {
    const char* file;
    uint32_t line;
    uint32_t column;
};

struct TypeDescriptor {
    uint16_t kind;
    uint16_t info;
    char name[1];  // name in quotes, such as 'float [256]'
};

struct OutOfBounds {
    SourceLocation location;
    const TypeDescriptor* array;
    const TypeDescriptor* index;
};

struct TypeMismatch {
    SourceLocation location;
    const TypeDescriptor* type;
    unsigned char log_alignment;
    unsigned char use;
};

enum Use : unsigned char { kLoad, kStore, kReference, kMember, kCall, kConstruction };

// Returns true if the mismatch is an access of memory. Device code loads and stores __half2 and __nv_bfloat162 as one
// word, so a copy or an assignment of such a pair is an access too.
bool is_access(const TypeMismatch& mismatch) {
    if (mismatch.use <= kStore) return true;
    const std::string name = mismatch.type->name;
    const bool is_pair = name.find("__half2") != std::string::npos || name.find("__nv_bfloat162") != std::string::npos;
    return is_pair && (mismatch.use == kReference || mismatch.use == kCall || mismatch.use == kConstruction);
}

// Returns the product of the bounds in an array type's name.
size_t elements_of(const char* name) {
    size_t product = 1;
    for (const char* c = name; *c != '\0'; c++) {
        if (*c == '[' && std::isdigit(static_cast<unsigned char>(c[1])) != 0) product *= std::strtoul(c + 1, nullptr, 10);
    }
    return product;
}

}  // namespace

// Reports the pending out-of-bounds index after its access; only a warning if the access stays within a larger
// variable.
void settle_index(Watch& watch, size_t variable_bytes, size_t bytes) {
    PendingIndex& index = watch.index;
    if (index.code == 0) return;
    const bool inside = variable_bytes > index.elements * bytes && index.thread == watch.worker->current;
    const int now = watch.worker->current;
    watch.worker->current = index.thread;
    report(&finding::kArrayIndexOutOfBounds, inside ? Severity::kWarning : Severity::kError, at_code(index.code),
           watch.worker, [&] {
               return index.text + (inside ? " It lands in another row of the same variable, which works on a GPU."
                                           : " It reads or overwrites something else.");
           });
    watch.worker->current = now;
    index.code = 0;
}

}  // namespace kw

using namespace kw;

extern "C" {

void __ubsan_handle_out_of_bounds(const OutOfBounds* data, uintptr_t index) {
    if (watching == nullptr) return;
    settle_index(*watching, 0, 0);
    PendingIndex& pending = watching->index;
    pending.code = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    pending.thread = watching->worker->current;
    pending.elements = elements_of(data->array->name);
    pending.text = format("Index %ld is out of range for an array of type %s.", static_cast<long>(index),
                          data->array->name);
}

void __ubsan_handle_type_mismatch_v1(const TypeMismatch* data, uintptr_t address) {
    if (watching == nullptr || !is_access(*data)) return;
    const size_t alignment = size_t{1} << data->log_alignment;
    if (address < 4096 || address % alignment == 0) return;
    const uintptr_t code = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    report(&finding::kMisalignedAccess, Severity::kError, at_code(code), watching->worker, [&] {
        return format("%s a %s at an address that is not a multiple of %zu bytes (%zu too many). A GPU stops the "
                      "kernel: misaligned address.",
                      data->use == kLoad || data->use == kReference ? "Loads" : "Stores", data->type->name, alignment,
                      static_cast<size_t>(address % alignment));
    });
    watching->reported = address;
}

}  // extern "C"
