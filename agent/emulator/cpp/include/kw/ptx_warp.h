// Thread numbers, and shuffles with the PTX ISA's operands. Part of kw/ptx.h.
#pragma once

KW_PTX uint32_t thread_number() {
    return kw_thread_index.x + kw_block_dim.x * (kw_thread_index.y + kw_block_dim.y * kw_thread_index.z);
}
KW_PTX uint32_t block_volume() { return kw_block_dim.x * kw_block_dim.y * kw_block_dim.z; }

struct Shuffled {
    uint32_t value;
    bool inside;  // true if the source lane lies within the segment; otherwise the lane keeps its own value
};

// shfl.sync. Operand c has the segment's last lane in bits 0-4 and the mask of the segment number in bits 8-12. The
// runtime handles clamp values at a segment's end; for any other clamp value the source lane is computed here.
KW_PTX Shuffled shuffle(int kind, uint32_t mask, uint32_t value, uint32_t b, uint32_t c, int line) {
    const int lane = kw_lane;
    const int distance = static_cast<int>(b & 31), clamp = static_cast<int>(c & 31), segment = static_cast<int>(c >> 8 & 31);
    const int last = (lane & segment) | (clamp & ~segment);
    const int first = lane & segment;
    int source = lane;
    bool inside = true;
    switch (kind) {
        case KW_SHUFFLE_UP: source = lane - distance; inside = source >= last; break;
        case KW_SHUFFLE_DOWN: source = lane + distance; inside = source <= last; break;
        case KW_SHUFFLE_XOR: source = lane ^ distance; inside = source <= last; break;
        default: source = first | (distance & ~segment); inside = source <= last; break;
    }
    if (!inside) source = lane;
    const bool whole = clamp == (kind == KW_SHUFFLE_UP ? 0 : 31);
    const uint64_t found = whole ? kw_warp_op(kind, mask, value, distance, 32 - segment, line)
                                 : kw_warp_op(KW_SHUFFLE_INDEX, mask, value, source, 32, line);
    return {static_cast<uint32_t>(found), inside};
}
