// Kernel launches: the checks by which a GPU would refuse one, and the OS threads that run the blocks.
#include "launch_words.h"
#include "cluster.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kw {

namespace {

constexpr unsigned long kFewBlocks = 32;
constexpr unsigned long kRoomOfLargerDevices = 2;
constexpr unsigned long kSmallLaunch = 8192;  // threads of a launch below which a second OS thread does not pay off

int worker_count = 2;
std::mutex launch_mutex;  // held during a launch, so that launches of several threads run one after the other
Launch* running;
std::unique_ptr<Worker> workers[kMaxWorkers];
std::atomic<long> launches;
std::vector<std::string> launched_names;
std::vector<std::string> waiting_for_all;  // names of kernels whose blocks wait for all other blocks

unsigned long volume(dim3 d) { return static_cast<unsigned long>(d.x) * d.y * d.z; }

struct Refusal {
    cudaError_t error;
    std::string why;
};

unsigned long resident_limit(const kw_launch_request& r) {
    const unsigned long threads = kThreadsPerMultiprocessor / volume(r.block);
    return kMultiprocessors * std::min<unsigned long>(kBlocksPerMultiprocessor, threads);
}

// Returns the error and reason with which a GPU would refuse the launch; an empty reason if the launch is legal.
Refusal refusal(const kw_launch_request& r, size_t shared_limit) {
    const dim3 g = r.grid, b = r.block;
    if (volume(g) == 0 || volume(b) == 0) {
        return {cudaErrorInvalidConfiguration, format(kEmptyLaunch, g.x, g.y, g.z, b.x, b.y, b.z)};
    }
    // The product of three sizes can overflow, so each size is checked first.
    if (b.x > kMaxBlockX || b.y > kMaxBlockY || b.z > kMaxBlockZ || volume(b) > kMaxThreads) {
        return {cudaErrorInvalidConfiguration,
                format(kLargeBlock, b.x, b.y, b.z, volume(b), kMaxThreads, kMaxBlockX, kMaxBlockZ)};
    }
    if (g.x > kMaxGridX || g.y > kMaxGridY || g.z > kMaxGridZ) {
        return {cudaErrorInvalidConfiguration,
                format(kLargeGrid, g.x, g.y, g.z, kMaxGridX, kMaxGridY, kMaxGridZ)};
    }
    if (r.dynamic_bytes > kOptInSharedLimit) {
        return {cudaErrorInvalidValue, format(kSharedBeyondDevice, r.dynamic_bytes, kOptInSharedLimit)};
    }
    if (r.dynamic_bytes > shared_limit) {
        const char* words = shared_limit > kDefaultSharedLimit ? kSharedBeyondAsked : kSharedBeyondDefault;
        return {cudaErrorInvalidValue, format(words, r.dynamic_bytes, shared_limit)};
    }
    const dim3 c = cluster_dims(r);
    if (volume(c) > kMostInCluster || g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0) {
        return {cudaErrorInvalidConfiguration,
                format(kBadCluster, c.x, c.y, c.z, g.x, g.y, g.z, kMostInCluster)};
    }
    if (volume(c) > kPortableCluster && !may_have_large_clusters(r.name, r.by_pointer != 0)) {
        return {cudaErrorInvalidConfiguration, format(kLargeCluster, volume(c), kPortableCluster)};
    }
    const unsigned long resident = resident_limit(r);
    if (r.cooperative != 0 && volume(g) > resident) {
        return {cudaErrorCooperativeLaunchTooLarge,
                format(kTooManyAtOnce, volume(g), volume(b), resident)};
    }
    return {cudaSuccess, ""};
}

// Notes a kernel whose blocks were all resident at once, because they wait for one another at a spinning barrier.
// Blocks that wait only for earlier blocks never need so many. Small launches do not count, because their blocks may
// start in another order (draw.cpp).
void note_barrier_of_all(const Launch& launch) {
    if (launch.blocks <= kFewBlocks || static_cast<unsigned long>(launch.most_resident) < launch.blocks) return;
    const std::string name = launch.request->name;
    if (std::find(waiting_for_all.begin(), waiting_for_all.end(), name) == waiting_for_all.end()) {
        waiting_for_all.push_back(name);
    }
}

// At real sizes, reports a kernel whose blocks waited for all others at smaller sizes, if its blocks would not fit at
// once on a device with room for twice as many.
void require_room_for_all(const kw_launch_request& r) {
    const unsigned long most = kRoomOfLargerDevices * resident_limit(r);
    if (!sampling() || volume(r.grid) <= most) return;
    if (std::find(waiting_for_all.begin(), waiting_for_all.end(), r.name) == waiting_for_all.end()) return;
    report(&finding::kIllegalLaunch, Severity::kError, r.line, nullptr, [&] {
        return format("Blocks of kernel %s wait for all others, and its %lu blocks of %lu threads are not there at once: "
                      "a GPU like this one holds %lu, and those that wait keep the others out for ever. Launch no more "
                      "than fit, or use a second launch.",
                      r.name, volume(r.grid), volume(r.block), resident_limit(r));
    });
}

bool same(const uint3& a, const dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

void index_threads(Worker& worker, dim3 block) {
    worker.count = static_cast<int>(volume(block));
    worker.warp_count = (worker.count + kWarpSize - 1) / kWarpSize;
    if (same(worker.indexed_block, block)) return;
    worker.indexed_block = {block.x, block.y, block.z};
    for (int t = 0; t < worker.count; t++) {
        const unsigned i = static_cast<unsigned>(t);
        worker.threads[t].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    }
}

// Makes sure that the OS thread has a block to begin. Returns false when the grid has no block left.
bool take_blocks(Worker& host) {
    if (host.first_block < host.end_block) return true;
    Launch& launch = *host.launch;
    const unsigned size = launch.sampled ? 1 : cluster_size(*launch.request);
    const unsigned long chunk = size > 1 ? size : launch.blocks > 64 ? 8 : 1;
    const unsigned long first = launch.next_block.fetch_add(chunk);
    if (first >= launch.blocks) return false;
    host.first_block = first;
    host.end_block = std::min(first + chunk, launch.blocks);
    return true;
}

// Runs blocks of the launch as worker `id`. Worker 0 runs on the caller's OS thread, each other worker on its own.
void work(Launch& launch, int id) {
    if (workers[id] == nullptr) workers[id] = std::make_unique<Worker>();
    Worker& worker = *workers[id];
    worker.host = &worker;
    worker.guards = true;
    worker.first_block = worker.end_block = 0;
    join_launch(worker, launch, id);
    const kw_launch_request& r = *launch.request;
    kw_spinning = 0;
    kw_block_dim = {r.block.x, r.block.y, r.block.z};
    kw_grid_dim = {r.grid.x, r.grid.y, r.grid.z};
    use_alternate_stack(true);
    current_worker = &worker;
    if (launch.checked) begin_watch(worker);
    if (sigsetjmp(worker.recovery, 1) == 0 || goes_on_after_fault(worker)) {
        if (cluster_size(r) > 1 && !launch.sampled && take_blocks(worker)) start_peers(worker);
        run_blocks(worker);
        launch.resident_blocks--;
        finish_residents(worker);
        current_worker = nullptr;
    } else {
        Worker& failed = *current_worker;
        current_worker = nullptr;
        launch.stop = true;
        note_shared_use(worker);
        report_fault(failed);
    }
    end_watch();
    release_residents(worker);
    worker.clusters.clear();
    use_alternate_stack(false);
    launch.active_workers--;
}

void run(Launch& launch) {
    const FaultHandlers handlers;
    const unsigned long threads = launch.blocks * volume(launch.request->block);
    const unsigned long useful = threads > kSmallLaunch && !launch.sampled ? launch.blocks : 1;
    const int count = static_cast<int>(std::min<unsigned long>(static_cast<unsigned long>(worker_count), useful));
    launch.active_workers = launch.resident_blocks = count;
    std::vector<std::thread> helpers;
    for (int id = 1; id < count; id++) {
        try {
            helpers.emplace_back(work, std::ref(launch), id);
        } catch (const std::system_error&) {  // the sandbox may limit the number of OS threads
            launch.active_workers--;
            launch.resident_blocks--;
        }
    }
    work(launch, 0);
    for (std::thread& helper : helpers) helper.join();
}

void note_launch(const char* name) {
    launches++;
    if (std::find(launched_names.begin(), launched_names.end(), name) == launched_names.end()) {
        launched_names.emplace_back(name);
    }
}

}  // namespace

const Launch* current_launch() { return running; }

std::string launch_text(const kw_launch_request& request) { return format("The launch of kernel %s", request.name); }

void join_launch(Worker& worker, Launch& launch, int id) {
    worker.id = id;
    worker.launch = &launch;
    worker.spin = Spin{};
    worker.cluster = nullptr;
    worker.chance = chance_of(id);
    index_threads(worker, launch.request->block);
}

void run_blocks(Worker& worker) {
    const Launch& launch = *worker.launch;
    const dim3 grid = launch.request->grid;
    const unsigned size = launch.sampled ? 1 : cluster_size(*launch.request);
    while (!launch.stop && take_blocks(*worker.host)) {
        const unsigned long next = worker.host->first_block++;
        unsigned long k = launch.sampled ? launch.sample[next] : next;
        if (size > 1) {
            const unsigned long cluster = block_in_turn(next / size, launch.blocks / size);
            kw_block_index = block_in_cluster(*launch.request, cluster, static_cast<unsigned>(next % size));
            join_cluster(worker, cluster, static_cast<unsigned>(next % size));
        } else {
            if (!launch.sampled) k = block_in_turn(next, launch.blocks);
            kw_block_index = {static_cast<unsigned>(k % grid.x), static_cast<unsigned>(k / grid.x % grid.y),
                              static_cast<unsigned>(k / (static_cast<unsigned long>(grid.x) * grid.y))};
        }
        if (watching != nullptr) watching->block = k % kBlockNames + 1;
        run_block(worker);
        kw_spin_over();
    }
}

void abandon(Worker& worker, Fault fault, std::string text, int line) {
    worker.fault.kind = fault;
    worker.fault.text = std::move(text);
    worker.fault.line = line;
    siglongjmp(worker.host->recovery, 1);
}

}  // namespace kw

using namespace kw;

extern "C" void kw_init(int count) {
    if (permitted("kw_init")) worker_count = std::clamp(count, 1, kMaxWorkers);
}

extern "C" int kw_launch(const kw_launch_request* request) {
    if (request->size != sizeof(kw_launch_request)) {
        std::fprintf(stderr,
                     "kw_launch: a request of %zu bytes, where this runtime takes %zu: the caller was made for another "
                     "version of kw/runtime.h; build it again, or bring the mirror of that struct up to date\n",
                     request->size, sizeof(kw_launch_request));
        return 1;
    }
    if (current_worker != nullptr) return 0;  // a launch from device code, which constructs.unsupported reports
    const std::lock_guard<std::mutex> lock(launch_mutex);
    if (sticky_error() != cudaSuccess) return 0;
    kw_launch_request asked = *request;
    add_declared_cluster(asked);
    request = &asked;
    Launch launch{};
    launch.request = request;
    launch.checked = checks_wanted();
    require_switches();
    launch.blocks = volume(request->grid);
    launch.shared = shared_limits_of(request->name, request->by_pointer != 0);
    running = &launch;
    check_stream(*request);
    const Refusal refused = refusal(*request, launch.shared.dynamic);
    if (refused.error != cudaSuccess) {
        set_error(refused.error, launch_text(*request), at_line(request->line));
        report(&finding::kIllegalLaunch, Severity::kError, request->line, nullptr, [&] {
            return format("Kernel %s is launched with %s. A GPU does not run it at all (%s).", request->name,
                          refused.why.c_str(), cudaGetErrorString(refused.error));
        });
    } else {
        note_launch(request->name);
        note_kernel(*request);
        require_room_for_all(*request);
        if (host_only()) {
            running = nullptr;
            return 0;
        }
        const Recorded event(*request);
        begin_shared_layout(request->dynamic_bytes);
        if (launch.checked) begin_checked_launch();
        if (sampling()) {
            launch.sampled = true;
            launch.sample = sampled_blocks(*request);
            launch.blocks = launch.sample.size();
        }
        launch.interleaved = interleaves() && !launch.sampled;
        before_stores = (launch.interleaved ? kLetsOthersGo : 0) | (launch.checked && notes_writers() ? kNotesWriters : 0);
        begin_noted_launch();
        note_running(request);
        run(launch);
        note_running(nullptr);
        if (!launch.sampled) note_barrier_of_all(launch);
        if (launch.sampled) end_sampled_launch();
    }
    running = nullptr;
    return 0;
}

extern "C" long kw_launch_count(void) { return launches; }

extern "C" size_t kw_launch_names(char* buffer, size_t capacity) {
    const std::lock_guard<std::mutex> lock(launch_mutex);
    std::string text;
    for (const std::string& name : launched_names) text += (text.empty() ? "" : "\n") + name;
    return copy_text(text, buffer, capacity);
}
