"""Names that host code may use, and names that it may not, by what they do.

The list holds what launching a kernel and allocating its outputs need. A name outside it is refused; a name of
`REFUSED` only gets a more exact reason.
"""

import re
from collections.abc import Mapping

LANGUAGE = frozenset(
    """
    this nullptr true false NULL size_t ssize_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t
    uint64_t intptr_t uintptr_t intmax_t uintmax_t uint ushort uchar ulong int_fast32_t uint_fast32_t va_list
    static_cast reinterpret_cast const_cast dynamic_cast sizeof alignof decltype noexcept typeid final override
    static_assert assert offsetof defined unlikely likely max_align_t __VA_OPT__ __restrict__ __restrict __inline__
    __forceinline__ __noinline__ __host__ __device__ __global__ __shared__ __constant__ __managed__
    __grid_constant__ __launch_bounds__ __cluster_dims__ __maxnreg__ __FILE__ __LINE__ __func__ __FUNCTION__
    __PRETTY_FUNCTION__ __int128 __int128_t __uint128_t __align__ __extension__ __volatile__ restrict
    unsigned signed long short int char bool float double char8_t char16_t char32_t wchar_t typename template operator auto consteval constinit co_await alignas
    """.split()
)
C_LIBRARY = frozenset(
    """
    abs labs llabs fabs fabsf fmin fminf fmax fmaxf floor floorf ceil ceilf round roundf lround lroundf llround
    llroundf rint rintf lrint lrintf llrint llrintf nearbyint nearbyintf trunc truncf fmod fmodf remainder
    remainderf exp expf exp2 exp2f exp10 exp10f expm1 expm1f log logf log2 log2f log10 log10f log1p log1pf sqrt sqrtf
    rsqrt rsqrtf cbrt cbrtf pow powf hypot hypotf sin sinf cos cosf tan tanf asin asinf acos acosf atan atanf atan2
    atan2f sinh sinhf cosh coshf tanh tanhf asinh asinhf acosh acoshf atanh atanhf erf erff erfc erfcf erfinv erfinvf
    erfcinv erfcinvf erfcx erfcxf normcdf normcdff normcdfinv normcdfinvf lgamma lgammaf tgamma tgammaf fma fmaf ldexp ldexpf
    frexp frexpf modf modff scalbn scalbnf scalbln logb logbf ilogb ilogbf copysign copysignf nextafter nextafterf
    isnan isinf isfinite signbit nan nanf sincos sincosf sincospi sincospif sinpi sinpif cospi cospif rcbrtf fdimf fdim
    fdividef rhypotf norm3df norm4df j0f j1f y0f y1f max min umax umin saturate __saturatef
    memcpy memmove memset memcmp memchr strlen strcmp strncmp strchr strstr strcpy strncpy strcat
    malloc calloc realloc free aligned_alloc exit abort qsort bsearch
    printf fprintf snprintf sprintf puts putchar vsnprintf fputs fputc putc fflush fwrite time clock clock_gettime gettimeofday timespec timeval tm CLOCK_MONOTONIC CLOCK_REALTIME stdout stderr FILE
    va_start va_end va_arg perror
    INFINITY NAN HUGE_VAL HUGE_VALF FLT_MAX FLT_MIN FLT_EPSILON FLT_RADIX FLT_MANT_DIG DBL_MAX DBL_MIN DBL_EPSILON
    LDBL_MAX CHAR_BIT SCHAR_MIN SCHAR_MAX UCHAR_MAX CHAR_MIN CHAR_MAX SHRT_MIN SHRT_MAX USHRT_MAX INT_MIN INT_MAX
    UINT_MAX LONG_MIN LONG_MAX ULONG_MAX LLONG_MIN LLONG_MAX ULLONG_MAX INT8_MIN INT8_MAX UINT8_MAX INT16_MIN INT16_MAX
    UINT16_MAX INT32_MIN INT32_MAX UINT32_MAX INT64_MIN INT64_MAX UINT64_MAX SIZE_MAX INT64_C UINT64_C
    EXIT_FAILURE EXIT_SUCCESS PRId64 PRIu64 PRIx64
    M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2 M_E M_LOG2E M_LOG10E M_LN2 M_LN10
    CUDART_INF_F CUDART_NAN_F CUDART_INF CUDART_NAN CUDART_PI_F CUDART_PI CUDART_MAX_NORMAL_F CUDART_MIN_DENORM_F
    CUDART_INF_FP16 CUDART_INF_BF16 CUDART_ZERO_FP16 CUDART_ONE_FP16 CUDART_ZERO_BF16 CUDART_ONE_BF16
    TORCH_EXTENSION_NAME TORCH_VERSION_MAJOR TORCH_VERSION_MINOR CUDA_VERSION CUDART_VERSION __CUDACC__ __CUDA_ARCH__
    __cplusplus __NVCC__ NDEBUG __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__
    """.split()
)
CUDA = frozenset(
    """
    dim3 threadIdx blockIdx blockDim gridDim warpSize half half2 nv_bfloat16 nv_bfloat162 bfloat16 bf16 clock clock64
    atomicAdd atomicSub atomicMax atomicMin atomicExch atomicCAS atomicAnd atomicOr atomicXor atomicInc atomicDec
    atomicAdd_block atomicAdd_system atomicMax_block atomicMin_block atomicCAS_block atomicExch_block tex1Dfetch
    CUtensorMap CUresult CUdevice CUstream CUcontext CUevent CUdeviceptr CUdriverProcAddressQueryResult
    CUtensorMapDataType CUtensorMapInterleave CUtensorMapSwizzle CUtensorMapL2promotion CUtensorMapFloatOOBfill
    CUtensorMapIm2ColWideMode cuuint32_t cuuint64_t
    cuGetErrorString cuGetErrorName cuTensorMapEncodeTiled cuTensorMapEncodeIm2col cuTensorMapReplaceAddress
    PFN_cuTensorMapEncodeTiled PFN_cuTensorMapEncodeIm2col PFN_cuTensorMapEncodeTiled_v12000
    PFN_cuTensorMapEncodeIm2col_v12000 PFN_cuTensorMapReplaceAddress CUDAAPI CUDART_CB
    """.split()
)
CUDA_WORDS = re.compile(
    r"""CU_(?:TENSOR_MAP|GET_PROC|DEVICE_ATTRIBUTE|STREAM|EVENT|LAUNCH)_?\w* | CUDA_(?:SUCCESS|ERROR_\w+|R_\w+|[CR]_\w+)
    | (?:u?char|u?short|u?int|u?long|u?longlong|float|double)[1-4](?:_16a|_32a)?
    | make_(?:u?char|u?short|u?int|u?long|u?longlong|float|double|half|bfloat16|bfloat16)[1-4](?:_16a|_32a)?
    | __(?:half|nv|float|double|int|uint|ll|ull|hip|bfloat|f|d|h|u|fp8|low|high|lows|highs|halves)\w*2\w+
    | __(?:half|half2|half_raw|half2_raw|nv_bfloat16\w*|nv_bfloat162|nv_fp8\w*|nv_fp4\w*|nv_fp6\w*)
    | __(?:f|d|h|u|s)(?:add|sub|mul|div|fma|max|min|rcp|sqrt|rsqrt|abs|neg|exp|log|sin|cos|tan|eq|ne|lt|le|gt|ge|isnan|isinf)\w*
    | __(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|sincosf|tanhf|fdividef|saturatef|frcp_rn|frsqrt_rn)
    | __(?:ldg|ldca|ldcg|ldcs|ldcv|ldlu|stcg|stcs|stwb|stwt|shfl\w*|ballot\w*|any\w*|all\w*|match\w*|activemask|sync\w*)
    | __(?:threadfence\w*|nanosleep|trap|brkpt|popc\w*|clz\w*|ffs\w*|brev\w*|byte_perm|dp[24]a|vadd\w*|vsub\w*|vmax\w*|vmin\w*)
    | __(?:reduce_\w+_sync|cvta_\w+|isShared|isGlobal|pipeline_\w+|funnelshift_\w+|mul24|umul24|mulhi|umulhi|sad|usad|fns)
    | __builtin_(?:expect|clz|clzl|clzll|ctz|ctzl|ctzll|popcount|popcountl|popcountll|unreachable|assume|bswap\d+|nanf?|inff?)
    | (?:make_)?cu(?:Float|Double)?Complex | cu(?:C(?:add|sub|mul|div|real|imag|abs|fma)|Conj|Cabs|Creal|Cimag|Conj)f?
    | __NV_\w+ | __CUDA\w* | cudaTextureType\w+ | NV_(?:IF|IF_ELSE)_TARGET | NV_(?:IS|PROVIDES|ANY|ALL)\w*""",
    re.VERBOSE,
)
RUNTIME = re.compile(r"cuda[A-Z]\w*")
"""Names of CUDA's runtime, all allowed but those of `REFUSED`."""
DRIVER_ENTRIES = re.compile(r'"cu(?:TensorMap\w+|GetErrorString|GetErrorName)"')
"""Functions of the driver that `cudaGetDriverEntryPoint` may look up."""

_CHECKS = """
    TORCH_CHECK TORCH_INTERNAL_ASSERT TORCH_CHECK_EQ TORCH_CHECK_NE TORCH_CHECK_GT TORCH_CHECK_GE TORCH_CHECK_LT
    TORCH_CHECK_LE TORCH_CHECK_INDEX TORCH_CHECK_VALUE TORCH_CHECK_TYPE TORCH_CHECK_NOT_IMPLEMENTED TORCH_CHECK_NOTNULL
    TORCH_CHECK_ARG CHECK_EQ CHECK_GT
    TORCH_INTERNAL_ASSERT_DEBUG_ONLY TORCH_WARN TORCH_WARN_ONCE AT_ASSERT AT_ASSERTM AT_ERROR AT_CHECK C10_CUDA_CHECK
    C10_CUDA_KERNEL_LAUNCH_CHECK AT_CUDA_CHECK C10_CUDA_CHECK_WARN CUDA_KERNEL_ASSERT C10_CUDA_ERROR_HANDLED
    C10_LIKELY C10_UNLIKELY C10_HOST_DEVICE C10_DEVICE C10_HOST C10_ALWAYS_INLINE C10_UNUSED C10_RESTRICT
    C10_LAUNCH_BOUNDS_1 C10_LAUNCH_BOUNDS_2 C10_WARP_SIZE TORCH_FN TORCH_SELECTIVE_NAME AT_CUDA_DRIVER_CHECK
    PYBIND11_MODULE TORCH_LIBRARY TORCH_LIBRARY_FRAGMENT TORCH_LIBRARY_IMPL STD_TORCH_CHECK
    AT_PRIVATE_CASE_TYPE AT_EXPAND AT_WRAP
"""
TORCH_MACROS = frozenset(_CHECKS.split())
DISPATCHES = re.compile(r"AT_DISPATCH_\w+|THO_DISPATCH_\w+")

FACTORIES = frozenset(
    """
    empty empty_like empty_strided empty_permuted zeros zeros_like ones ones_like full full_like arange eye
    scalar_tensor tensor from_blob cat stack clone contiguous permute transpose reshape view narrow select slice
    unsqueeze squeeze flatten expand_as movedim t _empty_affine_quantized unbind split chunk unfold as_strided
    broadcast_tensors expand hstack vstack concat pad constant_pad_nd alias detach empty_cpu empty_cuda
    broadcast_to swapaxes view_as_real view_as_complex real imag
    """.split()
)
"""Functions of torch that create tensors or give them another layout, and compute nothing."""
_TORCH_TYPES = """
    Tensor TensorOptions Device DeviceType DeviceIndex ScalarType Scalar Dtype Layout MemoryFormat IntArrayRef ArrayRef
    TensorList OptionalTensorRef TensorAccessor PackedTensorAccessor32 PackedTensorAccessor64 PackedTensorAccessor
    GenericPackedTensorAccessor RestrictPtrTraits DefaultPtrTraits Half BFloat16 Float8_e4m3fn Float8_e5m2 complex
    Float8_e4m3fnuz Float8_e5m2fnuz ComplexHalf
    optional nullopt nullopt_t SmallVector ITensorListRef List Dict IValue string_view Error intrusive_ptr Generator
    NoGradGuard NoTF32Guard AutoGradMode InferenceMode AutoDispatchBelowAutograd AutoDispatchBelowADInplaceOrView
    GradMode Library CppFunction dispatch DispatchKey kCUDA kCPU kStrided kFloat kFloat16 kFloat32 kFloat64 kDouble kHalf
    kBFloat16 kInt kInt8 kInt16 kInt32 kInt64 kLong kShort kChar kByte kUInt8 kUInt16 kUInt32 kUInt64 kBool
    kFloat8_e4m3fn kFloat8_e5m2 kComplexFloat kComplexDouble kComplexHalf kQInt8 kQUInt8
    dtype device layout requires_grad memory_format toString typeMetaToScalarType elementSize isFloatingType
    isIntegralType isComplexType isReducedFloatingType CppTypeToScalarType ScalarTypeToCPPType opmath_type OpMathType acc_type
    acc_type_device ceil_div div_round_up result_type promote_types promoteTypes canCast infer_size infer_size_dimvector
    maybe_wrap_dim str irange MaybeOwned borrow_type multiply_integers numelFromSizes
    get_default_dtype data_ptr_alignment zero_sized_tensor_accessor alignment_of
    class_ init schema_ Slice None Ellipsis TensorIndex MakeFunction jit_type
    Symbol SymInt SymIntArrayRef DimVector DimnameList PyObjectType
    isUnsignedType isSignedType toAccumulateType toUnderlying impl native numeric_limits
    AutogradContext Function Variable variable_list tensor_list SavedVariable kLongStrided
    StreamGuard DeviceGuard OptionalDeviceGuard Stream Event make_intrusive arg wrap_pybind_function
    CUDAGuard CUDAStreamGuard OptionalCUDAGuard OptionalCUDAStreamGuard CUDAMultiStreamGuard CUDAStream CUDAEvent
    getCurrentCUDAStream getDefaultCUDAStream getStreamFromPool getStreamFromExternal getCurrentDeviceProperties
    getDeviceProperties current_device device_count warp_size is_available getCurrentCUDADeviceProperties
    canDeviceAccessPeer ATenCeilDiv get_device_properties synchronize device_synchronize stream_synchronize
    getCurrentDeviceId device_of
    globalWarpSize C10_CUDA_CHECK_IMPLEMENTATION check_cuda
    PhiloxCudaState philox unpack
"""
TORCH = frozenset(_TORCH_TYPES.split())
TORCH_SCOPES = frozenset(
    """
    torch at c10 torch::cuda at::cuda c10::cuda torch::autograd torch::indexing torch::headeronly
    torch::headeronly::detail at::native at::detail c10::guts
    """.split()
)
"""Namespaces of torch whose names `TORCH` holds."""
OPERATOR_SCOPES = frozenset(
    """
    torch at c10 at::native torch::nn::functional torch::special torch::linalg torch::fft at::cuda torch::cuda
    torch::sparse at::cpu at::compositeexplicitautograd at::compositeimplicitautograd at::meta at::redispatch
    at::_ops torch::autograd torch::nn at::symint
    """.split()
)
"""Namespaces whose functions in lower case are operators, or return modules that compute."""

PYBIND = frozenset(
    """
    module_ arg arg_v init class_ object tuple list dict str int_ float_ bool_ none return_value_policy call_guard
    gil_scoped_release keep_alive overload_cast const_ doc self args kwargs handle bytes array array_t buffer
    value_error type_error index_error runtime_error key_error cast make_tuple isinstance vectorize cpp_function
    dynamic_attr is_method name pos_only kw_only prepend enum_ function sequence iterable error_already_set
    """.split()
)
STD = frozenset(
    """
    abs max min clamp minmax max_element min_element minmax_element swap exchange move forward as_const declval addressof launder
    get tie ignore make_pair make_tuple make_unique make_shared pair tuple tuple_size tuple_element tuple_cat apply
    array vector string string_view to_string stoi stol stoll stof stod deque list forward_list map set multimap multiset
    unordered_map unordered_set queue stack priority_queue span bitset optional nullopt nullopt_t variant visit monostate
    get_if holds_alternative any any_cast make_optional in_place in_place_t
    unique_ptr shared_ptr weak_ptr default_delete enable_shared_from_this function reference_wrapper ref cref bind
    initializer_list begin end cbegin cend rbegin rend data size empty ssize distance advance next prev back_inserter inserter
    accumulate reduce inner_product transform_reduce partial_sum exclusive_scan inclusive_scan iota gcd lcm midpoint lerp
    sort stable_sort partial_sort nth_element find find_if find_if_not count count_if all_of any_of none_of copy copy_n
    copy_if fill fill_n generate generate_n transform for_each for_each_n reverse rotate unique remove_if replace merge
    lower_bound upper_bound binary_search equal_range equal lexicographical_compare mismatch search swap_ranges is_sorted
    includes set_union set_intersection set_difference next_permutation prev_permutation iter_swap
    plus minus multiplies divides modulus negate equal_to not_equal_to greater less greater_equal less_equal logical_and
    logical_or logical_not bit_and bit_or bit_xor hash identity
    numeric_limits float_round_style byte to_integer bit_cast bit_ceil bit_floor bit_width has_single_bit popcount countl_zero
    countr_zero rotl rotr endian
    size_t ssize_t ptrdiff_t nullptr_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t max_align_t
    complex real imag conj polar norm arg
    fabs fmin fmax floor ceil round lround llround rint lrint nearbyint trunc fmod remainder exp exp2 expm1 log log2 log10
    log1p sqrt cbrt pow hypot sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc lgamma tgamma fma
    fmaf ldexp frexp modf scalbn logb ilogb copysign nextafter isnan isinf isfinite isnormal signbit nan sqrtf expf logf powf
    fabsf fminf fmaxf floorf ceilf roundf
    memcpy memmove memset memcmp strlen strcmp strncmp strcpy malloc calloc free exit abort printf snprintf fprintf puts
    exception runtime_error invalid_argument logic_error out_of_range domain_error length_error overflow_error bad_alloc
    cout cerr endl flush ostringstream istringstream stringstream ostream setw setprecision fixed hex dec setfill boolalpha
    mutex shared_mutex recursive_mutex lock_guard unique_lock shared_lock scoped_lock once_flag call_once atomic atomic_int
    atomic_bool atomic_flag atomic_ref memory_order memory_order_relaxed memory_order_acquire memory_order_release
    memory_order_seq_cst memory_order_acq_rel atomic_thread_fence
    tuple_size_v type_identity type_identity_t in_range cmp_less cmp_greater source_location format
    random_access_iterator_tag forward_iterator_tag iterator_traits reverse_iterator make_reverse_iterator
    mt19937 mt19937_64 uniform_real_distribution uniform_int_distribution normal_distribution
    align aligned_storage aligned_storage_t same_as integral floating_point convertible_to invocable
    chrono steady_clock milli micro nano ratio numbers ranges pi pi_v e_v ln2_v sqrt2_v
    """.split()
)
STD_TRAITS = re.compile(
    r"(?:is|has|remove|add|make|enable|conditional|common|decay|integral|bool|true|false|void|underlying|result|invoke|"
    r"index|integer|rank|extent|conjunction|disjunction|negation|alignment)_\w+|decay|conditional|extent|rank|conjunction|disjunction|negation"
)
"""Traits of types and sequences of indices, which do nothing at run time."""
STD_TRAITS_REFUSED = frozenset(("remove_all", "has_facet"))
FREE_SCOPES = frozenset(
    ("cuda", "cub", "thrust", "cooperative_groups", "cg", "nvcuda", "wmma", "__nv_internal")
)
"""Namespaces of CUDA's own header libraries."""
OUTSIDE = frozenset(
    "std torch at c10 pybind11 py cuda cub thrust cooperative_groups nvcuda caffe2 nvrtc cute cutlass".split()
)
"""Namespaces that are not the candidate's, even where it opens them again."""

PLAIN_METHODS = frozenset(
    """
    size sizes stride strides dim ndimension numel nbytes itemsize element_size storage_offset data_ptr mutable_data_ptr
    const_data_ptr data accessor packed_accessor packed_accessor32 packed_accessor64 generic_packed_accessor scalar_type
    dtype device device_type options layout get_device is_cuda is_cpu is_contiguous is_non_overlapping_and_dense
    is_contiguous_or_false is_complex is_floating_point is_signed is_alias_of is_same defined is_sparse is_quantized
    is_meta is_leaf requires_grad suggest_memory_format has_storage use_count sym_size sym_sizes sym_numel item
    is_conj is_neg is_view is_inference _version const_data_ptr layout unsafeGetTensorImpl toString opt_names names
    has_names itemsize key_set is_mps grad_fn output_nr is_pinned is_set_to is_nonzero equal allclose
    """.split()
)
"""Methods of tensors that return no tensor."""
_LAYOUT_METHODS = """
    contiguous view view_as reshape reshape_as permute transpose t mT T flatten unflatten squeeze unsqueeze expand expand_as
    narrow select slice index unbind split chunk as_strided unfold movedim swapaxes diagonal detach alias clone to cuda cpu
    type type_as toType to_dense copy_ zero_ fill_ resize_ resize_as_ set_ squeeze_ unsqueeze_ transpose_ t_ detach_
    requires_grad_ set_requires_grad grad mutable_grad new_empty new_zeros new_ones new_full new_empty_strided new_tensor
    repeat pin_memory record_stream repeat_interleave split_with_sizes tensor_split flip roll index_select view_dtype
    real imag conj is_shared swapdims ravel broadcast_to pad variable_data tensor_data bfloat16 half float double
    expand_symint bool int long
"""
_OBJECT_METHODS = """
    begin end cbegin cend rbegin rend size empty clear push_back emplace_back pop_back pop push top front back at data resize
    reserve capacity insert emplace try_emplace erase find count contains first second assign fill swap substr c_str
    length append str compare value has_value value_or get reset release lock unlock try_lock load store exchange
    fetch_add fetch_sub compare_exchange_strong compare_exchange_weak test_and_set setf precision what rfind starts_with
    ends_with insert_or_assign splice merge vec slice equals sum_of value_type type iterator const_iterator rbegin
    shrink_to_fit extract index emplace_front push_front pop_front count_if max_size key_comp real imag
    lowest max min infinity epsilon quiet_NaN signaling_NaN denorm_min digits digits10 max_digits10 is_signed is_integer
    stream id device_index device_type unwrap is_cuda index current_stream original_stream current_device original_device set_index
    set_device reset_stream reset_device query synchronize priority record block recordOnce elapsed_time isCreated event
    multiProcessorCount sharedMemPerBlock sharedMemPerBlockOptin sharedMemPerMultiprocessor warpSize major minor name
    maxThreadsPerBlock maxThreadsPerMultiProcessor regsPerBlock regsPerMultiprocessor l2CacheSize totalGlobalMem
    maxGridSize maxThreadsDim maxBlocksPerMultiProcessor totalConstMem clockRate persistingL2CacheMaxSize
    accessPolicyMaxWindowSize cooperativeLaunch memoryClockRate memoryBusWidth managedMemory concurrentKernels
    integrated canMapHostMemory unifiedAddressing reservedSharedMemPerBlock concurrentManagedAccess pageableMemoryAccess
    x y z w gridDim blockDim dynamicSmemBytes attrs numAttrs val clusterDim cooperative accessPolicyWindow base_ptr
    num_bytes hitRatio hitProp missProp programmaticStreamSerializationAllowed maxDynamicSharedSizeBytes numRegs
    localSizeBytes sharedSizeBytes constSizeBytes binaryVersion ptxVersion preferredShmemCarveout programmaticEvent
    devicePointer hostPointer location allocType handleTypes type props flags priorityLevel synchronizationPolicy
    dtype device layout requires_grad memory_format pinned_memory device_opt dtype_opt device_index_opt is_pinned
    requires_grad_opt dst src extent width height depth pitch ptr xsize ysize dstPtr srcPtr kind dstArray srcArray
    func kernelParams extra sharedMemBytes value_ptr elementSize pos memset
    def def_static def_readwrite def_readonly def_property def_property_readonly def_submodule doc value impl fallthrough
    none cast noconvert export_values
    save_for_backward get_saved_variables saved_data mark_non_differentiable mark_dirty set_materialize_grads
    needs_input_grad apply toInt toDouble toBool toTensor toOptional toList toScalarType toString vec isNone
    has_value cast sizes numel isIntegral isFloatingPoint isBoolean isComplex to toFloat toLong
    make_fragment bool_value dims is_cpu str has_index
    storage duration time_since_epoch now time_point tv_sec tv_nsec tv_usec
    increment incrementSeed philox_engine_inputs
"""
METHODS = PLAIN_METHODS | frozenset(f"{_LAYOUT_METHODS} {_OBJECT_METHODS}".split())
"""Names behind `.` and `->` that compute nothing."""

_KINDS = {
    "hidden-library-call": """
        dlopen dlmopen dlsym dlvsym dladdr dladdr1 dlinfo dl_iterate_phdr __libc_dlsym __libc_dlopen_mode _dl_sym
    """,
    "process-control": """
        system popen pclose fork vfork clone clone3 execl execle execlp execv execve execvp execvpe fexecve posix_spawn posix_spawnp
        pthread_create pthread_join ptrace _exit _Exit quick_exit kill tgkill raise signal sigaction sigprocmask sigaltstack
        sigqueue setitimer alarm ualarm wait waitpid wait4 prctl unshare setns chroot syscall sched_setaffinity nice
        setpriority setrlimit prlimit usleep sleep nanosleep clock_nanosleep thread jthread async future promise packaged_task this_thread thrd_create
        socket connect bind_socket listen accept send sendto sendmsg recv recvfrom recvmsg getaddrinfo gethostbyname
        atexit at_quick_exit on_exit setjmp longjmp sigsetjmp siglongjmp eventfd timer_create launch intraop_launch parallel_for
        cudaLaunchHostFunc cudaStreamAddCallback cudaGraphAddHostNode __fork __libc_fork __libc_system daemon latch barrier
        counting_semaphore binary_semaphore condition_variable gil_scoped_acquire
    """,
    "file-access": """
        open open64 openat creat fopen fopen64 freopen fdopen fread fgets fgetc fscanf fseek ftell getline read write pread
        pwrite readv writev lseek close fclose mmap mmap64 munmap mremap memfd_create shm_open shm_unlink mkfifo mknod
        unlink unlinkat remove rename renameat link symlink readlink realpath stat lstat fstat access faccessat opendir readdir
        scandir mkdir rmdir chdir getcwd chmod chown truncate ftruncate fcntl ioctl dup dup2 dup3 pipe pipe2 select poll
        epoll_create tmpfile tmpnam mkstemp mkdtemp nftw glob process_vm_readv process_vm_writev splice sendfile fsync flock
        sync tee filesystem fs ifstream ofstream fstream filebuf basic_ifstream basic_ofstream basic_fstream stdin cin scanf getchar
        __open __read __write save load pickle_load pickle_save syslog
    """,
    "environment-write": "setenv putenv unsetenv clearenv",
    "introspection": """
        getenv secure_getenv environ __environ _environ program_invocation_name program_invocation_short_name
        __progname getauxval getpid getppid gettid getuid geteuid uname gethostname sysconf getrusage sysinfo backtrace backtrace_symbols __builtin_return_address __builtin_frame_address getcontext
        unwind stacktrace source_frames StackTrace get_backtrace utils getloadavg sched_getcpu get_nprocs
        memory_allocated CUDACachingAllocator HIPCachingAllocator unsafeGetStorageImpl unsafeGetTensorImpl
        unsafeStorage getIntrusivePtr key_set refcount tls_local_dispatch_key_set PythonTorchFunctionTLS
        cudaMemGetInfo cudaProfilerStart cudaProfilerStop cudaGetExportTable cudaGetFuncBySymbol cudaGetKernel
        rdtsc __rdtsc _rdtsc __builtin_ia32_rdtsc
    """,
    "patches-module": """
        mprotect pkey_mprotect setattr delattr setitem attr module_local_patch malloc_hook __malloc_hook __free_hook
        CppFunctionRegistration Dispatcher RegisterOperators KernelFunction OperatorHandle fallback
        set_type addGlobalCallback addThreadLocalCallback
    """,
    "dynamic-code": """
        exec eval eval_file import import_ module_import reload jit globals locals nvrtcCreateProgram nvrtcCompileProgram
        cudaLibraryLoadData cudaLibraryLoadFromFile cudaLibraryGetKernel cudaLibraryGetUnifiedFunction
        cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary
        cuLibraryLoadData cuLibraryLoadFromFile cuLinkCreate builtins
    """,
    "global-setting": """
        globalContext set_num_threads set_num_interop_threads init_num_threads manual_seed setManualSeed manual_seed_all set_enabled
        set_default_dtype setDefaultDtype setCurrentCUDAStream setCurrentCUDABlasHandle set_warnAlways set_device_type
        setAllowTF32CuBLAS setAllowTF32CuDNN setDeterministicAlgorithms setBenchmarkCuDNN setFloat32MatmulPrecision
        cudaDeviceSetLimit cudaDeviceReset cudaSetDeviceFlags cudaDeviceSetCacheConfig cudaDeviceSetSharedMemConfig
        cudaDeviceEnablePeerAccess cudaDeviceDisablePeerAccess cudaSetValidDevices cudaInitDevice cudaDeviceSetMemPool
        cudaCtxResetPersistingL2Cache cudaMemPoolSetAttribute cudaMemPoolTrimTo cudaThreadExchangeStreamCaptureMode
        cudaIpcOpenMemHandle cudaIpcGetMemHandle cudaIpcOpenEventHandle cudaIpcGetEventHandle cudaImportExternalMemory
        cudaImportExternalSemaphore fesetround fesetenv feenableexcept _mm_setcsr setlocale set_flush_denormal getCUDAHooks
        setEmptyCache emptyCache setMemoryFraction enable_grad_globally set_new_handler set_terminate
        setAllocator SetAllocator setUserEnabled rsetlimit srand srand48
    """,
}
REFUSED: Mapping[str, str] = {name: kind for kind, names in _KINDS.items() for name in names.split()}
"""Kinds of names that do what a candidate may not."""
PYTHON = re.compile(r"_?Py[A-Z]\w*|PY[A-Z]\w*|_Py_\w+|Py_\w+|THP\w*")
LIBRARIES = re.compile(
    r"(?:cublas|cublasLt|cublasXt|cudnn|cufft|cusolver\w*|cusparse\w*|curand|cutensor|nccl|nvrtc|nvJitLink|nppi?|cudss|cufile|"
    r"cupti|nvml|nvtx)[A-Z]\w*|(?:CUBLAS|CUDNN|CUFFT|CUSOLVER|CUSPARSE|CURAND|NCCL|NVRTC|CUPTI)_\w+|getCurrentCUDA(?:Blas|BlasLt|Sparse|Solver\w*)Handle"
)
PRODUCT_LIBRARIES = re.compile(r"(?i:cublas|cudnn)\w*|getCurrentCUDABlas\w*Handle")
"""Libraries that compute matrix products and convolutions."""
SAFE_MEMBERS = frozenset(("open", "close", "read", "write", "system", "fork", "load", "wait", "get", "exec"))

OPERATORS = frozenset(
    """
    abs absolute acos acosh add add_ addbmm addcdiv addcmul addmm addmv addr adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_max_pool2d affine_grid_generator all alpha_dropout amax amin aminmax angle any argmax argmin argsort asin asinh atan
    atan2 atanh avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bernoulli bilinear binary_cross_entropy bincount bitwise_and
    bitwise_not bitwise_or bitwise_xor bmm bucketize cdist ceil celu cholesky clamp clamp_ clamp_max clamp_min clip conv1d
    conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution copysign cos cosh cosine_similarity
    count_nonzero cross cross_entropy_loss cross_entropy cummax cummin cumprod cumsum det diff dist div div_ divide dot dropout einsum elu
    embedding embedding_bag eq erf erfc erfinv exp exp_ exp2 expm1 fft floor floor_divide fmax fmin fmod frac frobenius_norm gather ge
    gelu geqrf ger glu greater group_norm gru gt hardshrink hardsigmoid hardswish hardtanh histc huber_loss hypot index_add
    index_put index_copy inner instance_norm inverse isfinite isinf isnan kl_div kron kthvalue l1_loss layer_norm le leaky_relu lerp less
    lgamma linear log log10 log1p log2 log_sigmoid log_softmax logaddexp logcumsumexp logical_and logical_not logical_or
    logit logsumexp lstm lt masked_fill masked_scatter masked_select matmul matrix_exp max max_pool1d max_pool2d max_pool3d
    maximum mean median min minimum mish mm mode mse_loss mul mul_ multiply multinomial mv nanmean nansum native_batch_norm
    native_group_norm native_layer_norm ne neg negative nll_loss nonzero norm normal normalize one_hot outer pairwise_distance pow pow_ prelu
    prod quantile rand randn randint reciprocal relu relu_ relu6 remainder rms_norm round rsqrt rsub scaled_dot_product_attention scatter
    scatter_add scatter_reduce searchsorted selu sigmoid sigmoid_ sign silu sin sinh smooth_l1_loss softmax _softmax softplus softshrink softsign
    sort sqrt sqrt_ square std std_mean sub sub_ subtract sum take tan tanh tanh_ tensordot threshold topk trace tril triu trunc
    unique upsample_bilinear2d upsample_nearest2d var var_mean vdot where xlogy
    """.split()
)
"""Operators of torch that compute, by the names that candidates use for functions of their own too."""
LIBC = frozenset(
    name
    for kind in (
        "hidden-library-call",
        "process-control",
        "file-access",
        "environment-write",
        "introspection",
    )
    for name in _KINDS[kind].split()
) - frozenset(
    """
    launch intraop_launch parallel_for thread async future promise latch barrier condition_variable filesystem fs chrono utils
    load save storage untyped_storage key_set refcount unwind stacktrace source_frames bind_socket fstream ifstream ofstream
    memory_allocated StackTrace this_thread jthread get_backtrace
    """.split()
)
"""Functions of the C library among the refused names."""
