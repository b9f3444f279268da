// Exported functions of an extension; included once, at the end of its main unit.
#pragma once
#include "kw/host_bind.h"

namespace kw {
inline thread_local Reply reply;

inline std::string listing() {
  std::string text;
  for (const auto& f : functions()) text += f.name + "\x1f" + f.signature() + "\x1f" + f.doc + "\x1e";
  return text;
}

// Orders the arguments: positional ones, then keywords, then defaults. Returns false if a parameter gets none.
inline bool arrange(const Function& f, const kw_value* given, int64_t count, const char* const* keywords,
                    int64_t keyword_count, std::vector<kw_value>& out) {
  const int64_t positional = count - keyword_count;
  if (positional > static_cast<int64_t>(f.types.size())) return false;
  out.assign(given, given + positional);
  int64_t used = 0;
  for (size_t i = out.size(); i < f.types.size(); ++i) {
    const kw_value* found = f.parameters[i].has_default ? &f.parameters[i].fallback : nullptr;
    for (int64_t k = 0; k < keyword_count; ++k) {
      if (f.parameters[i].name != keywords[k]) continue;
      found = &given[positional + k];
      ++used;
    }
    if (found == nullptr) return false;
    out.push_back(*found);
  }
  return used == keyword_count;
}

inline kw_status guarded(kw_value* result, const std::function<kw_status()>& body) {
  std::string said;
  kw_status status = KW_RUNTIME_ERROR;
  try {
    return body();
  } catch (const c10::ValueError& e) {
    status = KW_VALUE_ERROR, said = e.what();
  } catch (const c10::TypeError& e) {
    status = KW_TYPE_ERROR, said = e.what();
  } catch (const c10::IndexError& e) {
    status = KW_INDEX_ERROR, said = e.what();
  } catch (const c10::NotImplementedError& e) {
    status = KW_NOT_IMPLEMENTED, said = e.what();
  } catch (const std::invalid_argument& e) {
    status = KW_VALUE_ERROR, said = e.what();
  } catch (const std::domain_error& e) {
    status = KW_VALUE_ERROR, said = e.what();
  } catch (const std::out_of_range& e) {
    status = KW_INDEX_ERROR, said = e.what();
  } catch (const std::exception& e) {
    said = e.what();
  } catch (...) {
    said = "Caught an unknown exception!";
  }
  *result = reply.words(std::move(said));
  return status;
}
}  // namespace kw

extern "C" {

// Binds the host and runs the module's body. `result` lists the functions, one record each:
// name US signature US doc RS.
KW_EXPORT int32_t kw_open(const kw_host* given, kw_value* result) {
  kw::host = given;
  return kw::guarded(result, [&] {
    if (given->version != KW_ABI_VERSION) throw c10::Error("extension and loader speak different versions");
    pybind11::module_ m;
    kw_module_init(m);
    *result = kw::reply.words(kw::listing());
    return KW_OK;
  });
}

// Called before Python exits. Tensors in global variables must not call Python when they are destroyed later.
KW_EXPORT void kw_close() { kw::host = nullptr; }

// Calls function `index`. The result, and every tensor in it, is valid until the next call.
KW_EXPORT int32_t kw_invoke(int64_t index, const kw_value* arguments, int64_t count, const char* const* keywords,
                            int64_t keyword_count, kw_value* result) {
  const kw::Function& f = kw::functions()[static_cast<size_t>(index)];
  kw::reply.clear();
  return kw::guarded(result, [&] {
    std::vector<kw_value> arranged;
    if (!kw::arrange(f, arguments, count, keywords, keyword_count, arranged)) return KW_MISMATCH;
    return f.call(arranged.data(), kw::reply, *result);
  });
}

// Releases the memory and tensors of the last result.
KW_EXPORT void kw_forget() { kw::reply.clear(); }
}
