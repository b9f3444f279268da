// c10::ArrayRef, shared by the headers for g++ and for nvcc (nvcc/include), both of which provide TORCH_CHECK.
// <iterator> is not included, because it includes streams, which take nvcc long to read. g++'s <vector> has
// reverse_iterator.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace c10 {

template <class T>
class ArrayRef {
  const T* begin_ = nullptr;
  size_t length_ = 0;

 public:
  using value_type = T;
  using const_iterator = const T*;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : begin_(&one), length_(1) {}
  constexpr ArrayRef(const T* data, size_t length) : begin_(data), length_(length) {}
  constexpr ArrayRef(const T* begin, const T* end) : begin_(begin), length_(end - begin) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& items) : begin_(items.data()), length_(items.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& items) : begin_(items.data()), length_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&items)[N]) : begin_(items), length_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& items)
      : begin_(items.begin() == items.end() ? nullptr : items.begin()), length_(items.size()) {}

  constexpr const T* begin() const { return begin_; }
  constexpr const T* end() const { return begin_ + length_; }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }
  constexpr const T* data() const { return begin_; }
  constexpr size_t size() const { return length_; }
  constexpr bool empty() const { return length_ == 0; }
  constexpr const T& operator[](size_t i) const { return begin_[i]; }
  const T& at(size_t i) const {
    TORCH_CHECK(i < length_, "ArrayRef: invalid index Index = ", i, "; Length = ", length_);
    return begin_[i];
  }
  const T& front() const { return at(0); }
  const T& back() const { return at(length_ - 1); }
  ArrayRef slice(size_t from, size_t count) const { return {begin_ + from, count}; }
  ArrayRef slice(size_t from) const { return {begin_ + from, length_ - from}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef other) const {
    if (length_ != other.length_) return false;
    for (size_t i = 0; i < length_; ++i)
      if (!(begin_[i] == other.begin_[i])) return false;
    return true;
  }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
  friend bool operator==(ArrayRef a, const std::vector<T>& b) { return a.equals(ArrayRef(b)); }
  friend bool operator!=(ArrayRef a, const std::vector<T>& b) { return !a.equals(ArrayRef(b)); }
};
using IntArrayRef = ArrayRef<int64_t>;

}  // namespace c10
