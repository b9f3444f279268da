// Lock on the runtime's switches. A candidate's host code runs in the same process and can call whatever the runtime
// exports. Once locked, a switch needs the key, which is drawn when the process starts. A call without the key changes
// nothing and leaves a finding.
//
// The lock is no security boundary: native code can read the key or change memory. The checks on which a verdict rests
// are made where the candidate's host code does not run (agent/harness/integrity).
#include "watch.h"

namespace kw {

namespace {

uint64_t the_key;  // key of the lock; 0: not locked
KW_TLS int open_here;

}  // namespace

void report_tampering(const char* name) {
    report(&finding::kEmulatorTampered, Severity::kError, at_line(0), nullptr, [&] {
        return format("The candidate's host code used %s, which is the judge's: it belongs to no CUDA program.", name);
    });
}

bool permitted(const char* name) {
    if (the_key == 0 || open_here != 0) return true;
    report_tampering(name);
    return false;
}

}  // namespace kw

using namespace kw;

extern "C" void kw_lock(uint64_t key) {
    if (the_key == 0) {
        the_key = key;
        return;
    }
    if (key == the_key) open_here = 0;
    else report_tampering("kw_lock");
}

extern "C" void kw_unlock(uint64_t key) {
    if (the_key == 0) return;
    if (key == the_key) open_here = 1;
    else report_tampering("kw_unlock");
}
