// Findings, one for each kind, place and kernel with a count, and their JSON for the judge.
#include "json_formats.h"
#include "state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <optional>
#include <vector>

namespace kw {

namespace {

struct Finding {
    Kind kind;
    std::string message;
    std::string kernel;
    Place place;
    std::optional<uint3> block;
    std::optional<uint3> thread;
    long count;
    Severity severity;
};

constexpr size_t kMaxFindings = 64;

std::mutex findings_mutex;
std::vector<Finding> findings;

std::string current_kernel() {
    const Launch* launch = current_launch();
    return launch == nullptr ? "" : launch->request->name;
}

std::string triple(const std::optional<uint3>& v) {
    return v ? format("[%u, %u, %u]", v->x, v->y, v->z) : "null";
}

// Returns an address in a loaded library as JSON with the library's path and the offset in its file, for addr2line.
std::string code_place(uintptr_t code) {
    Dl_info info{};
    if (code == 0 || dladdr(reinterpret_cast<void*>(code), &info) == 0 || info.dli_fname == nullptr) return "null";
    const uintptr_t offset = code - reinterpret_cast<uintptr_t>(info.dli_fbase);
    return "{\"library\": " + quoted(info.dli_fname) + format(", \"offset\": %zu}", static_cast<size_t>(offset));
}

// Returns true if the finding has this kind, place and kernel. The two places of a race may be exchanged.
bool same_place(const Finding& finding, Kind kind, const Place& place, const char* kernel) {
    const Place& known = finding.place;
    const bool mirrored = place.other != 0 && known.code == place.other && known.other == place.code;
    return known.line == place.line && (known.code == place.code || mirrored) && finding.kind == kind &&
           finding.kernel == kernel;
}

std::string as_json(const Finding& f) {
    return filled(kFindingObject, {quoted(f.kind->name), quoted(f.message), f.kernel.empty() ? "null" : quoted(f.kernel),
                                   f.place.line > 0 ? std::to_string(f.place.line) : "null", triple(f.block),
                                   triple(f.thread), std::to_string(f.count),
                                   f.severity == Severity::kError ? "\"error\"" : "\"warning\"",
                                   code_place(f.place.code), code_place(f.place.other)});
}

}  // namespace

std::string filled(const char* pattern, std::initializer_list<std::string> values) {
    std::string text;
    for (const std::string& value : values) {
        const char* gap = std::strstr(pattern, "%s");
        if (gap == nullptr) std::abort();
        text.append(pattern, gap).append(value);
        pattern = gap + 2;
    }
    return text + pattern;
}

// Returns the text as a JSON string.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const unsigned char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c < 0x20 || c == 0x7f) {
            out += format("\\u%04x", c);
        } else {
            out += static_cast<char>(c);
        }
    }
    return out + "\"";
}

// Counts an occurrence of a finding. Returns false if the finding is known already, or if there are too many findings.
bool is_new_finding(Kind kind, const Place& place) {
    const std::lock_guard<std::mutex> lock(findings_mutex);
    const Launch* launch = current_launch();
    const char* kernel = launch == nullptr ? "" : launch->request->name;
    if (sampling() && !kind->in_sample) return false;
    for (Finding& finding : findings) {
        if (same_place(finding, kind, place, kernel)) {
            finding.count++;
            return false;
        }
    }
    return findings.size() < kMaxFindings;
}

void add_finding(Kind kind, Severity severity, const Place& place, const Worker* where, std::string message) {
    const std::lock_guard<std::mutex> lock(findings_mutex);
    const std::string kernel = current_kernel();
    for (Finding& finding : findings) {  // another OS thread may have added the finding meanwhile
        if (same_place(finding, kind, place, kernel.c_str())) {
            finding.count++;
            return;
        }
    }
    Finding finding{kind, std::move(message), kernel, place, std::nullopt, std::nullopt, 1, severity};
    if (where != nullptr) {
        finding.block = kw_block_index;
        finding.thread = where->threads[where->current].index;
    }
    findings.push_back(std::move(finding));
}

std::string format(const char* pattern, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

size_t copy_text(const std::string& text, char* buffer, size_t capacity) {
    if (buffer != nullptr && capacity > 0) {
        const size_t length = std::min(text.size(), capacity - 1);
        std::memcpy(buffer, text.data(), length);
        buffer[length] = '\0';
    }
    return text.size();
}

}  // namespace kw

using namespace kw;

extern "C" size_t kw_findings(char* buffer, size_t capacity) {
    const std::lock_guard<std::mutex> lock(findings_mutex);
    std::string text = "[";
    for (const Finding& finding : findings) text += (text.size() > 1 ? ", " : "") + as_json(finding);
    return copy_text(text + "]", buffer, capacity);
}

extern "C" void kw_clear_findings(void) {
    if (!permitted("kw_clear_findings")) return;
    const std::lock_guard<std::mutex> lock(findings_mutex);
    findings.clear();
}
