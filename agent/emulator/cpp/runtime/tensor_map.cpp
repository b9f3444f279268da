// Tensor maps: made by cuTensorMapEncodeTiled on the host, used by cp.async.bulk.tensor.
//
// The 128 bytes of a map hold what this file needs; a GPU's look otherwise, and no program may look into them.
#include "bulk.h"
#include "cluster.h"

#include <algorithm>
#include <cstring>
#include <cuda.h>

namespace kw {

namespace {

constexpr uint32_t kMagic = 0x6b77746d;
constexpr int kMostDims = 5;
constexpr int kReducedTypes = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 + 1;  // as ptx/asynchronous.py lists them

struct Map {
    uint32_t magic;
    uint8_t type, rank, swizzle, fill;
    char* first;
    uint32_t size[kMostDims];
    uint64_t stride[kMostDims];  // in bytes; the first is that of an element
    uint16_t box[kMostDims];
    uint16_t element;
};
static_assert(sizeof(Map) <= sizeof(CUtensorMap), "it has to fit");

size_t element_bytes(CUtensorMapDataType type) {
    switch (type) {
        case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
        case CU_TENSOR_MAP_DATA_TYPE_UINT16:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
        case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
        case CU_TENSOR_MAP_DATA_TYPE_UINT32:
        case CU_TENSOR_MAP_DATA_TYPE_INT32:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
        case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
        case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return 4;
        case CU_TENSOR_MAP_DATA_TYPE_UINT64:
        case CU_TENSOR_MAP_DATA_TYPE_INT64:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
        default: return 0;
    }
}

// By how much of the shared address its 16-byte units are exchanged.
uint32_t swizzle_mask(int swizzle) {
    return swizzle == CU_TENSOR_MAP_SWIZZLE_128B ? 0x70u : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 0x30u
         : swizzle == CU_TENSOR_MAP_SWIZZLE_32B  ? 0x10u
                                                 : 0u;
}

const Map* map_at(const void* address, uintptr_t code) {
    static_assert(alignof(Map) <= 64, "as that of a CUtensorMap");
    const Map* map = static_cast<const Map*>(address);
    if (reinterpret_cast<uintptr_t>(address) % 64 == 0 && map->magic == kMagic) return map;
    report(&finding::kTensorMap, Severity::kError, at_code(code), current_worker, [] {
        return std::string("The tensor map of this copy is none that cuTensorMapEncodeTiled has made (or does not begin at "
                           "a multiple of 64 bytes): undefined.");
    });
    return nullptr;
}

class Box {
  public:
    Box(const Map& map, const int32_t* at, const Worker& keeper, char* shared)
        : map_(map), at_(at), base_(keeper.shared), first_(static_cast<size_t>(shared - keeper.shared)) {}

    size_t bytes() const {
        size_t all = map_.element;
        for (int d = 0; d < map_.rank; d++) all *= map_.box[d];
        return all;
    }

    // Calls with the place in shared memory, in global memory (null: outside the tensor), and how many bytes.
    template <class Each>
    void rows(Each each) const {
        uint32_t index[kMostDims] = {};
        const size_t row = size_t{map_.box[0]} * map_.element;
        size_t linear = 0;
        for (;;) {
            one_row(index, linear, each);
            linear += row;
            int d = 1;
            for (; d < map_.rank && ++index[d] == map_.box[d]; d++) index[d] = 0;
            if (d >= map_.rank) return;
        }
    }

  private:
    template <class Each>
    void one_row(const uint32_t* index, size_t linear, Each each) const {
        char* from = map_.first;
        bool inside = true;
        for (int d = 1; d < map_.rank; d++) {
            const int64_t at = int64_t{at_[d]} + index[d];
            inside = inside && at >= 0 && at < int64_t{map_.size[d]};
            from += at * static_cast<int64_t>(map_.stride[d]);
        }
        const int64_t begin = at_[0], size = map_.size[0];
        const int64_t low = inside ? std::min(std::max<int64_t>(begin, 0), size) : begin;
        const int64_t high = inside ? std::max(std::min(begin + map_.box[0], size), low) : begin;
        const auto element = static_cast<int64_t>(map_.element);
        units(linear, (low - begin) * element, nullptr, each);
        units(linear + static_cast<size_t>((low - begin) * element), (high - low) * element, from + low * element, each);
        units(linear + static_cast<size_t>((high - begin) * element), (begin + map_.box[0] - high) * element, nullptr, each);
    }

    // Whole where nothing is exchanged, else by units of 16 bytes.
    template <class Each>
    void units(size_t linear, int64_t bytes, char* global, Each each) const {
        const uint32_t mask = swizzle_mask(map_.swizzle);
        while (bytes > 0) {
            const size_t at = first_ + linear;
            const size_t part = mask == 0 ? static_cast<size_t>(bytes) : std::min<size_t>(static_cast<size_t>(bytes), 16 - at % 16);
            each(base_ + (at ^ (at >> 3 & mask)), global, part);
            linear += part;
            bytes -= static_cast<int64_t>(part);
            if (global != nullptr) global += part;
        }
    }

    const Map& map_;
    const int32_t* at_;
    char* base_;
    size_t first_;
};

void check_place(Worker& worker, const Map& map, size_t offset, uintptr_t code) {
    const size_t unit = 128;
    if (watching == nullptr || offset % unit == 0) return;
    report(&finding::kMisalignedAccess, Severity::kError, at_code(code), &worker, [&] {
        return format("A copy by a tensor map%s uses shared memory at an address that is not a multiple of %zu bytes (%zu "
                      "too many).",
                      map.swizzle != 0 ? ", with a swizzle," : "", unit, offset % unit);
    });
}

// An H200 stops with an illegal instruction at either.
void check_begin(Worker& worker, const Map& map, const int32_t* at, bool stores, uintptr_t code) {
    if (watching == nullptr) return;
    const int64_t before = int64_t{at[0]} * map.element % 16;
    if (before != 0) {
        report(&finding::kMisalignedAccess, Severity::kError, at_code(code), &worker, [&] {
            return format("A copy by a tensor map begins at element %d of the first dimension, %d bytes each: not a multiple of "
                          "16 bytes.", at[0], static_cast<int>(map.element));
        });
    }
    const int32_t* const negative = std::find_if(at, at + map.rank, [](int32_t one) { return one < 0; });
    if (!stores || negative == at + map.rank) return;
    report(&finding::kTensorMap, Severity::kError, at_code(code), &worker, [&] {
        return format("A store by a tensor map begins at %d of dimension %d, before the tensor: only a load may. What lies "
                      "behind the end is left out.", *negative, static_cast<int>(negative - at));
    });
}

// That of the map's type.
kw_reduction reduction_of(Worker& worker, const Map& map, const kw_reduction* by_type, uintptr_t code) {
    if (map.type < kReducedTypes && by_type[map.type] != nullptr) return by_type[map.type];
    report(&finding::kTensorMap, Severity::kError, at_code(code), &worker, [&] {
        return format("A reduction by a tensor map, which numbers of the map's type (CUtensorMapDataType %d) do not have.",
                      static_cast<int>(map.type));
    });
    return nullptr;
}

void load(Worker& worker, const Map& map, const int32_t* at, char* to, void* barrier, uintptr_t code) {
    Worker& keeper = owner_of(worker, to);
    MBarrier* told = told_of(worker, keeper, barrier, code);
    if (told == nullptr) return;
    const Box box(map, at, keeper, to);
    auto bulk = std::make_unique<Bulk>();
    bulk->way = Way::kToShared;
    bulk->bytes = box.bytes();
    bulk->shared_first = static_cast<size_t>(to - keeper.shared);
    bulk->barrier = told;
    bulk->code = code;
    bulk->filler = map.fill != 0 ? 0xff : 0;
    bulk->layout = static_cast<uint8_t>(map.swizzle + 1);
    check_place(worker, map, bulk->shared_first, code);
    check_begin(worker, map, at, false, code);
    box.rows([&](char* shared, char* global, size_t bytes) { bulk->pieces.push_back({shared, global, bytes}); });
    ask(keeper, std::move(bulk));
}

}  // namespace

}  // namespace kw

using namespace kw;

extern "C" {

void kw_tensor_load(void* to, const void* tensor_map, int rank, const int32_t* at, void* barrier, uint32_t ranks) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    const Map* map = map_at(tensor_map, KW_CODE);
    if (map == nullptr || rank != map->rank) return;
    if (ranks == 0) return load(worker, *map, at, static_cast<char*>(to), barrier, KW_CODE);
    const auto place = [&](const void* p) { return static_cast<uint32_t>(static_cast<const char*>(p) - worker.shared); };
    for (; ranks != 0; ranks &= ranks - 1) {
        const auto peer = static_cast<uint32_t>(__builtin_ctz(ranks));
        load(worker, *map, at, kw_cluster_shared(kw_map_shared(place(to), peer)),
             kw_cluster_shared(kw_map_shared(place(barrier), peer)), KW_CODE);
    }
}

void kw_tensor_store(const void* tensor_map, int rank, const int32_t* at, void* from, const kw_reduction* by_type) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    const Map* map = map_at(tensor_map, KW_CODE);
    if (map == nullptr || rank != map->rank) return;
    const Box box(*map, at, worker, static_cast<char*>(from));
    auto bulk = std::make_unique<Bulk>();
    bulk->way = Way::kToGlobal;
    bulk->bytes = box.bytes();
    bulk->shared_first = static_cast<size_t>(static_cast<char*>(from) - worker.shared);
    bulk->code = KW_CODE;
    check_place(worker, *map, bulk->shared_first, KW_CODE);
    check_begin(worker, *map, at, true, KW_CODE);
    if (by_type != nullptr) {
        bulk->reduce = reduction_of(worker, *map, by_type, KW_CODE);
        if (bulk->reduce == nullptr) return;
    }
    box.rows([&](char* shared, char* global, size_t bytes) {
        if (global != nullptr) bulk->pieces.push_back({global, shared, bytes});
    });
    ask(worker, std::move(bulk));
}

// What it refuses is what CUDA's documentation says it refuses.
CUresult cuTensorMapEncodeTiled(CUtensorMap* made, CUtensorMapDataType type, cuuint32_t rank, void* first,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    const size_t element = element_bytes(type);
    if (made == nullptr || first == nullptr || rank < 1 || rank > kMostDims) return CUDA_ERROR_INVALID_VALUE;
    if (element == 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || swizzle > CU_TENSOR_MAP_SWIZZLE_128B) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    Map map{};
    map.magic = kMagic;
    map.type = static_cast<uint8_t>(type);
    map.rank = static_cast<uint8_t>(rank);
    map.swizzle = static_cast<uint8_t>(swizzle);
    map.fill = static_cast<uint8_t>(fill);
    map.first = static_cast<char*>(first);
    map.element = static_cast<uint16_t>(element);
    for (cuuint32_t d = 0; d < rank; d++) {
        map.stride[d] = d == 0 ? element : strides[d - 1];
        if (sizes[d] == 0 || sizes[d] > uint64_t{1} << 32 || box[d] == 0 || box[d] > 256) return CUDA_ERROR_INVALID_VALUE;
        if (d > 0 && (map.stride[d] % 16 != 0 || map.stride[d] >= uint64_t{1} << 40)) return CUDA_ERROR_INVALID_VALUE;
        if (element_strides[d] < 1 || element_strides[d] > 8) return CUDA_ERROR_INVALID_VALUE;
        if (element_strides[d] != 1) return CUDA_ERROR_NOT_SUPPORTED;
        map.size[d] = static_cast<uint32_t>(std::min<uint64_t>(sizes[d], UINT32_MAX));
        map.box[d] = static_cast<uint16_t>(box[d]);
    }
    const size_t inner = box[0] * element;
    const size_t most = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? inner : size_t{16} << swizzle;
    if (reinterpret_cast<uintptr_t>(first) % 16 != 0 || inner % 16 != 0 || inner > most) return CUDA_ERROR_INVALID_VALUE;
    std::memset(made, 0, sizeof *made);
    std::memcpy(made, &map, sizeof map);
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
    const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
    *function = known ? reinterpret_cast<void*>(cuTensorMapEncodeTiled) : nullptr;
    if (found != nullptr) *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
    return cudaGetDriverEntryPointByVersion(name, function, 12000, flags, found);
}

}  // extern "C"
