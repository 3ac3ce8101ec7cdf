//===- Prototypes.h - Ours, held to those of a vendor's header ------------===//
//
// The runtime opens CUDA's libraries by name, with prototypes and numbers of
// its own (runtime/cuda/*Api.h). Each file of this folder compiles only where
// these are what the vendor's header has; it is built where that is installed.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_CUDA_PROTOTYPES_PROTOTYPES_H
#define CLEAVE_TEST_RUNTIME_CUDA_PROTOTYPES_PROTOTYPES_H

#include <cstddef>
#include <type_traits>

namespace cleave::prototypes {

/// A type as both sides pass it: enumerations are int, structures are opaque
/// unless a specialization says which of ours they are, and the two unsigned
/// integers of 64 bits are one.
template <typename T>
struct Passed {
  using Type = std::conditional_t<
      std::is_enum_v<T>, int,
      std::conditional_t<
          std::is_class_v<T>, void,
          std::conditional_t<std::is_same_v<T, unsigned long long>,
                             unsigned long, T>>>;
};
template <typename T>
struct Passed<const T> {
  using Type = const typename Passed<T>::Type;
};
template <typename T>
struct Passed<T *> {
  using Type = typename Passed<T>::Type *;
};
template <typename Result, typename... Args>
struct Passed<Result(Args...)> {
  using Type = typename Passed<Result>::Type(typename Passed<Args>::Type...);
};

template <typename Ours, typename Theirs>
constexpr bool isSame =
    std::is_same_v<typename Passed<Ours>::Type, typename Passed<Theirs>::Type>;

} // namespace cleave::prototypes

/// The entry point `name` of our table `api` is the library's `symbol`.
#define CLEAVE_EXPECT_PROTOTYPE(api, name, symbol)                             \
  static_assert(                                                               \
      cleave::prototypes::isSame<decltype(cleave::runtime::cuda::api::name),   \
                                 std::add_pointer_t<decltype(::symbol)>>)
#define CLEAVE_EXPECT_NUMBER(ours, theirs)                                     \
  static_assert(static_cast<long>(cleave::runtime::cuda::ours) ==              \
                static_cast<long>(::theirs))
#define CLEAVE_EXPECT_SIZE(ours, theirs)                                       \
  static_assert(sizeof(cleave::runtime::cuda::ours) == sizeof(::theirs) &&     \
                alignof(cleave::runtime::cuda::ours) == alignof(::theirs))
#define CLEAVE_EXPECT_MEMBER(ours, member, theirs, theirMember)                \
  static_assert(offsetof(cleave::runtime::cuda::ours, member) ==               \
                    offsetof(::theirs, theirMember) &&                         \
                sizeof(cleave::runtime::cuda::ours::member) ==                 \
                    sizeof(::theirs::theirMember))

#endif // CLEAVE_TEST_RUNTIME_CUDA_PROTOTYPES_PROTOTYPES_H
