// Tensor maps: created on the host by cuTensorMapEncodeTiled and -Im2col, used by cp.async.bulk.tensor.
//
// A tiled copy takes a box of elements. An im2col copy takes a column of pixels with some channels each. It moves the
// base of a convolution's filter through the bounding box, the first spatial dimension fastest, then image after image.
// From each base it takes the pixel at given offsets.
//
// The 128 bytes of a map hold a `Map`. Its layout differs from a GPU's, which programs must not inspect.
#include "bulk.h"
#include "cluster.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <utility>

namespace kw {

namespace {

constexpr uint32_t kMagic = 0x6b77746d;
constexpr int kMostDims = 5;
constexpr int kReducedTypes = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 + 1;  // length of asynchronous.py's table

struct Map {
    uint32_t magic;
    uint8_t type, rank, swizzle, fill;
    char* first;
    uint32_t size[kMostDims];
    uint64_t stride[kMostDims];  // bytes per step in each dimension; the first is the element size
    uint16_t box[kMostDims];  // elements taken per dimension; im2col: channels and pixels
    uint16_t element;         // bytes per element
    uint8_t step[kMostDims];  // distance between transferred elements, per dimension
    uint8_t im2col;
    int16_t lower[kMostDims], upper[kMostDims];  // bounding box: distance from the first and from the last element
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

// Returns the mask of the bits of a byte address that the swizzle changes: those above 16 bytes, below 128.
uint32_t swizzle_mask(int swizzle) {
    return swizzle == CU_TENSOR_MAP_SWIZZLE_128B ? 0x70u : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 0x30u
         : swizzle == CU_TENSOR_MAP_SWIZZLE_32B  ? 0x10u
                                                 : 0u;
}

struct Asked {
    int rank;
    const int32_t* at;
    const uint16_t* offsets;  // im2col offsets of the spatial dimensions
    bool im2col;
};

template <class Words>
const Map* refused(uintptr_t code, Words words) {
    report(&finding::kTensorMap, Severity::kError, at_code(code), current_worker, words);
    return nullptr;
}

// Returns the map at the address; null, after a finding, if there is none or it does not suit the copy.
const Map* map_at(const void* address, const Asked& asked, uintptr_t code) {
    static_assert(alignof(Map) <= 64, "as that of a CUtensorMap");
    const Map* map = static_cast<const Map*>(address);
    if (reinterpret_cast<uintptr_t>(address) % 64 != 0 || map->magic != kMagic) {
        return refused(code, [] {
            return std::string("The tensor map of this copy is none that cuTensorMapEncodeTiled has made, nor -Im2col (or does "
                               "not begin at a multiple of 64 bytes): undefined.");
        });
    }
    if (map->rank == asked.rank && map->im2col == (asked.im2col ? 1 : 0)) return map;
    const auto way = [](bool im2col) { return im2col ? "by im2col" : "tiled"; };
    return refused(code, [&] {
        return format("A copy in %d dimensions, %s, by a tensor map that was made for %d, %s: undefined.", asked.rank,
                      way(asked.im2col), static_cast<int>(map->rank), way(map->im2col != 0));
    });
}

bool is_spatial(const Map& map, int d) { return d > 0 && d < map.rank - 1; }

// Elements that one copy by tensor map transfers.
class Box {
  public:
    Box(const Map& map, const Asked& asked, const Worker& keeper, char* shared)
        : map_(map), asked_(asked), base_(keeper.shared), first_(static_cast<size_t>(shared - keeper.shared)) {}

    size_t bytes() const { return row_bytes() * count(); }

    // Calls each(place in shared memory, place in global memory or null outside the tensor, bytes).
    template <class Each>
    void rows(Each each) const {
        int64_t at[kMostDims];
        std::copy_n(asked_.at, map_.rank, at);
        size_t linear = 0;
        for (size_t left = count(); left > 0; left--) {
            one_row(at, linear, each);
            linear += row_bytes();
            advance(at);
        }
    }

  private:
    size_t row_bytes() const { return size_t{map_.box[0]} * map_.element; }

    size_t count() const {
        size_t all = 1;
        for (int d = 1; d < map_.rank; d++) all *= map_.box[d];
        return all;
    }

    void advance(int64_t* at) const {
        for (int d = 1; d < map_.rank; d++) {
            at[d] += map_.step[d];
            if (map_.im2col == 0) {
                if (at[d] < asked_.at[d] + int64_t{map_.box[d]} * map_.step[d]) return;
                at[d] = asked_.at[d];
            } else {
                if (!is_spatial(map_, d) || at[d] < int64_t{map_.size[d]} + map_.upper[d]) return;
                at[d] = map_.lower[d];
            }
        }
    }

    template <class Each>
    void one_row(const int64_t* base, size_t linear, Each each) const {
        char* from = map_.first;
        bool inside = true;
        for (int d = 1; d < map_.rank; d++) {
            const int64_t at = base[d] + (asked_.offsets != nullptr && is_spatial(map_, d) ? asked_.offsets[d - 1] : 0);
            inside = inside && at >= 0 && at < int64_t{map_.size[d]};
            from += at * static_cast<int64_t>(map_.stride[d]);
        }
        const int64_t begin = base[0], size = map_.size[0];
        const int64_t low = inside ? std::min(std::max<int64_t>(begin, 0), size) : begin;
        const int64_t high = inside ? std::max(std::min(begin + map_.box[0], size), low) : begin;
        const auto element = static_cast<int64_t>(map_.element);
        units(linear, (low - begin) * element, nullptr, each);
        units(linear + static_cast<size_t>((low - begin) * element), (high - low) * element, from + low * element, each);
        units(linear + static_cast<size_t>((high - begin) * element), (begin + map_.box[0] - high) * element, nullptr, each);
    }

    // Calls `each` once for the whole row without a swizzle, and otherwise for each unit of 16 bytes.
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
    const Asked& asked_;
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

// Reports a base outside the bounding box, or an offset with more than 16, 8 or 5 bits (PTX ISA, im2col mode).
void check_base(const Map& map, const Asked& asked, uintptr_t code) {
    const int most = map.rank == 3 ? UINT16_MAX : map.rank == 4 ? 255 : 31;
    for (int d = 1; is_spatial(map, d); d++) {
        const int64_t low = map.lower[d], high = int64_t{map.size[d]} - 1 + map.upper[d];
        if (asked.at[d] < low || asked.at[d] > high) {
            refused(code, [&] {
                return format("A copy by im2col begins at %d of dimension %d; the bounding box of its tensor map goes from %lld to "
                              "%lld: undefined.", asked.at[d], d, static_cast<long long>(low), static_cast<long long>(high));
            });
        }
        if (asked.offsets != nullptr && asked.offsets[d - 1] > most) {
            refused(code, [&] {
                return format("A copy by im2col is %d elements off in dimension %d; in %d dimensions it can be 0 to %d.",
                              static_cast<int>(asked.offsets[d - 1]), d, static_cast<int>(map.rank), most);
            });
        }
    }
}

// Reports a copy that begins at a misaligned element of the first dimension, and a store that begins before the tensor.
// An H200 stops with an illegal instruction in both cases.
void check_begin(Worker& worker, const Map& map, const Asked& asked, bool stores, uintptr_t code) {
    if (watching == nullptr) return;
    const int32_t* const at = asked.at;
    const int64_t before = int64_t{at[0]} * map.element % 16;
    if (before != 0) {
        report(&finding::kMisalignedAccess, Severity::kError, at_code(code), &worker, [&] {
            return format("A copy by a tensor map begins at element %d of the first dimension, %d bytes each: not a multiple of "
                          "16 bytes.", at[0], static_cast<int>(map.element));
        });
    }
    if (map.im2col != 0) check_base(map, asked, code);
    const int32_t* const negative = std::find_if(at, at + map.rank, [](int32_t one) { return one < 0; });
    if (!stores || negative == at + map.rank) return;
    report(&finding::kTensorMap, Severity::kError, at_code(code), &worker, [&] {
        return format("A store by a tensor map begins at %d of dimension %d, before the tensor: only a load may. What lies "
                      "behind the end is left out.", *negative, static_cast<int>(negative - at));
    });
}

// Returns the reduction for the map's element type; null, after a finding, if the type has no such reduction.
kw_reduction reduction_of(Worker& worker, const Map& map, const kw_reduction* by_type, uintptr_t code) {
    if (map.type < kReducedTypes && by_type[map.type] != nullptr) return by_type[map.type];
    report(&finding::kTensorMap, Severity::kError, at_code(code), &worker, [&] {
        return format("A reduction by a tensor map, which numbers of the map's type (CUtensorMapDataType %d) do not have.",
                      static_cast<int>(map.type));
    });
    return nullptr;
}

void load(Worker& worker, const Map& map, const Asked& asked, char* to, void* barrier, uintptr_t code) {
    Worker& keeper = owner_of(worker, to);
    MBarrier* told = told_of(worker, keeper, barrier, code);
    if (told == nullptr) return;
    const Box box(map, asked, keeper, to);
    auto bulk = std::make_unique<Bulk>();
    bulk->way = Way::kToShared;
    bulk->bytes = box.bytes();
    bulk->shared_first = static_cast<size_t>(to - keeper.shared);
    bulk->barrier = told;
    bulk->code = code;
    bulk->filler = map.fill != 0 ? 0xff : 0;
    bulk->layout = static_cast<uint8_t>(map.swizzle + 1);
    check_place(worker, map, bulk->shared_first, code);
    check_begin(worker, map, asked, false, code);
    box.rows([&](char* shared, char* global, size_t bytes) { bulk->pieces.push_back({shared, global, bytes}); });
    ask(keeper, std::move(bulk));
}

// Arguments that cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col have in common.
struct Tensor {
    CUtensorMapDataType type;
    cuuint32_t rank;
    void* first;
    const cuuint64_t *sizes, *strides;
    const cuuint32_t* element_strides;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapFloatOOBfill fill;
};

CUresult begin(const Tensor& t, Map& map) {
    const size_t element = element_bytes(t.type);
    if (t.first == nullptr || t.rank < 1 || t.rank > kMostDims) return CUDA_ERROR_INVALID_VALUE;
    if (reinterpret_cast<uintptr_t>(t.first) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    if (element == 0 || t.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || t.swizzle > CU_TENSOR_MAP_SWIZZLE_128B) {
        std::fprintf(stderr, "emulator: interleaved layouts, packed types and swizzles of sm_100 are not modelled in tensor maps\n");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    map.magic = kMagic;
    map.type = static_cast<uint8_t>(t.type);
    map.rank = static_cast<uint8_t>(t.rank);
    map.swizzle = static_cast<uint8_t>(t.swizzle);
    map.fill = static_cast<uint8_t>(t.fill);
    map.first = static_cast<char*>(t.first);
    map.element = static_cast<uint16_t>(element);
    for (cuuint32_t d = 0; d < t.rank; d++) {
        map.stride[d] = d == 0 ? element : t.strides[d - 1];
        if (t.sizes[d] == 0 || t.sizes[d] > uint64_t{1} << 32) return CUDA_ERROR_INVALID_VALUE;
        if (d > 0 && (map.stride[d] % 16 != 0 || map.stride[d] >= uint64_t{1} << 40)) return CUDA_ERROR_INVALID_VALUE;
        if (t.element_strides[d] < 1 || t.element_strides[d] > 8) return CUDA_ERROR_INVALID_VALUE;
        map.step[d] = d == 0 ? 1 : static_cast<uint8_t>(t.element_strides[d]);  // CUDA ignores the first stride
        map.size[d] = static_cast<uint32_t>(std::min<uint64_t>(t.sizes[d], UINT32_MAX));
    }
    return CUDA_SUCCESS;
}

CUresult finish(const Map& map, CUtensorMap* made) {
    const bool swizzles = map.swizzle != CU_TENSOR_MAP_SWIZZLE_NONE;
    if (made == nullptr || (swizzles && size_t{map.box[0]} * map.element > size_t{16} << map.swizzle)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::memset(made, 0, sizeof *made);
    std::memcpy(made, &map, sizeof map);
    return CUDA_SUCCESS;
}

}  // namespace

}  // namespace kw

using namespace kw;

extern "C" {

void kw_tensor_load(void* to, const void* tensor_map, kw_tensor_place place, void* barrier, uint32_t ranks) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    const Asked asked{place.rank, place.at, place.offsets, place.im2col != 0};
    const Map* map = map_at(tensor_map, asked, KW_CODE);
    if (map == nullptr) return;
    if (ranks == 0) return load(worker, *map, asked, static_cast<char*>(to), barrier, KW_CODE);
    const auto offset = [&](const void* p) { return static_cast<uint32_t>(static_cast<const char*>(p) - worker.shared); };
    for (; ranks != 0; ranks &= ranks - 1) {
        const auto peer = static_cast<uint32_t>(__builtin_ctz(ranks));
        load(worker, *map, asked, kw_cluster_shared(kw_map_shared(offset(to), peer)),
             kw_cluster_shared(kw_map_shared(offset(barrier), peer)), KW_CODE);
    }
}

void kw_tensor_store(const void* tensor_map, kw_tensor_place place, void* from, const kw_reduction* by_type) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    const Asked asked{place.rank, place.at, nullptr, place.im2col != 0};
    const Map* map = map_at(tensor_map, asked, KW_CODE);
    if (map == nullptr) return;
    const Box box(*map, asked, worker, static_cast<char*>(from));
    auto bulk = std::make_unique<Bulk>();
    bulk->way = Way::kToGlobal;
    bulk->bytes = box.bytes();
    bulk->shared_first = static_cast<size_t>(static_cast<char*>(from) - worker.shared);
    bulk->code = KW_CODE;
    check_place(worker, *map, bulk->shared_first, KW_CODE);
    check_begin(worker, *map, asked, true, KW_CODE);
    if (by_type != nullptr) {
        bulk->reduce = reduction_of(worker, *map, by_type, KW_CODE);
        if (bulk->reduce == nullptr) return;
    }
    box.rows([&](char* shared, char* global, size_t bytes) {
        if (global != nullptr) bulk->pieces.push_back({global, shared, bytes});
    });
    ask(worker, std::move(bulk));
}

// Both functions refuse the arguments that CUDA's documentation excludes.
CUresult cuTensorMapEncodeTiled(CUtensorMap* made, CUtensorMapDataType type, cuuint32_t rank, void* first,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    Map map{};
    const CUresult begun = begin({type, rank, first, sizes, strides, element_strides, interleave, swizzle, fill}, map);
    if (begun != CUDA_SUCCESS) return begun;
    for (cuuint32_t d = 0; d < rank; d++) {
        if (box[d] == 0 || box[d] > 256) return CUDA_ERROR_INVALID_VALUE;
        map.box[d] = static_cast<uint16_t>((box[d] + map.step[d] - 1) / map.step[d]);
    }
    if (box[0] * map.element % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    return finish(map, made);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* made, CUtensorMapDataType type, cuuint32_t rank, void* first,
                                 const cuuint64_t* sizes, const cuuint64_t* strides, const int* lower, const int* upper,
                                 cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill fill) {
    Map map{};
    if (rank < 3) return CUDA_ERROR_INVALID_VALUE;
    const CUresult begun = begin({type, rank, first, sizes, strides, element_strides, interleave, swizzle, fill}, map);
    if (begun != CUDA_SUCCESS) return begun;
    if (channels == 0 || channels > 256 || pixels == 0 || pixels > 1024) return CUDA_ERROR_INVALID_VALUE;
    const int most = rank == 3 ? 32767 : rank == 4 ? 127 : 15;
    for (int d = 1; is_spatial(map, d); d++) {
        for (const int corner : {lower[d - 1], upper[d - 1]}) {
            if (corner < -most - 1 || corner > most) return CUDA_ERROR_INVALID_VALUE;
        }
        if (lower[d - 1] >= int64_t{map.size[d]} + upper[d - 1]) return CUDA_ERROR_INVALID_VALUE;
        map.lower[d] = static_cast<int16_t>(lower[d - 1]);
        map.upper[d] = static_cast<int16_t>(upper[d - 1]);
    }
    std::fill_n(map.box, kMostDims, uint16_t{1});
    map.im2col = 1;
    map.box[0] = static_cast<uint16_t>(channels);
    map.box[1] = static_cast<uint16_t>(pixels);
    return finish(map, made);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* made, void* first) {
    Map map;
    if (made == nullptr || first == nullptr || reinterpret_cast<uintptr_t>(first) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&map, made, sizeof map);
    if (map.magic != kMagic) return CUDA_ERROR_INVALID_VALUE;
    map.first = static_cast<char*>(first);
    std::memcpy(made, &map, sizeof map);
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
    static const std::pair<const char*, void*> kKnown[] = {
        {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(cuTensorMapEncodeTiled)},
        {"cuTensorMapEncodeIm2col", reinterpret_cast<void*>(cuTensorMapEncodeIm2col)},
        {"cuTensorMapReplaceAddress", reinterpret_cast<void*>(cuTensorMapReplaceAddress)},
    };
    *function = nullptr;
    for (const auto& [its_name, address] : kKnown) {
        if (std::strcmp(name, its_name) == 0) *function = address;
    }
    if (found != nullptr) *found = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
    return cudaGetDriverEntryPointByVersion(name, function, 12000, flags, found);
}

}  // extern "C"
