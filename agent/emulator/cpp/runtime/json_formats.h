// JSON formats of the lines of a record and the objects of kw_findings. Each %s is replaced by a JSON value.
// agent/contracts generates the sets of keys for Python from these texts.
#pragma once

namespace kw {

// A place in memory is a number (device memory), [path, offset] (in a library) or null. The data of a fill is two hex
// digits.
constexpr char kAllocateEvent[] = R"({"do": "allocate", "to": %s, "bytes": %s})";
constexpr char kWriteEvent[] = R"({"do": "write", "to": %s, "bytes": %s, "data": %s})";
constexpr char kMoveEvent[] = R"({"do": "move", "to": %s, "from": %s, "bytes": %s})";
constexpr char kFillEvent[] = R"({"do": "fill", "to": %s, "bytes": %s, "data": %s})";
constexpr char kLaunchEvent[] =
    R"({"do": "launch", "entry": %s, "name": %s, "grid": %s, "block": %s, "shared": %s, "line": %s, )"
    R"("cooperative": %s, "cluster": %s, "arguments": %s, "words": %s})";
constexpr char kLostEvent[] = R"({"do": "lost"})";  // a launch whose entry lies in no library

constexpr char kFindingObject[] =
    R"({"kind": %s, "message": %s, "kernel": %s, "line": %s, "block": %s, "thread": %s, "count": %s, )"
    R"("severity": %s, "place": %s, "other": %s})";

}  // namespace kw
