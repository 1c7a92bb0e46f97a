/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums, minima and maxima of the six dtypes. 16-bit floats are added in f32 and rounded once, at
 * the end. Buffers may begin at any address. Integers wrap around, as in the other engines, so they
 * are added as unsigned numbers.
 *
 * gloo calls these functions with out equal to a. The pragma below allows vector code even so.
 */
#include "dist/gloo/gloo_reduce.hh"

#include "base/half.h"

#include <millrace/group.h>

#include <cstring>
#include <type_traits>

/* Each iteration reads element i, then writes element i, and touches no other element. */
#if defined(__clang__)
#define MR_VECTORS _Pragma("clang loop vectorize(assume_safety)")
#else
#define MR_VECTORS _Pragma("GCC ivdep")
#endif

namespace
{

/* How an element is stored, and the type that it is computed in. */
template <typename T> struct plain {
    using stored = T;
    static T load_value(T value) { return value; }
    static T store_value(T value) { return value; }
};

struct bf16 {
    using stored = uint16_t;
    static float load_value(uint16_t bits) { return mr_half_from_bf16(bits); }
    static uint16_t store_value(float value) { return mr_half_bf16(value); }
};

struct f16 {
    using stored = uint16_t;
    static float load_value(uint16_t bits) { return mr_half_from_f16(bits); }
    static uint16_t store_value(float value) { return mr_half_f16(value); }
};

struct sum {
    template <typename V> static V apply_op(V a, V b)
    {
        if constexpr (std::is_integral_v<V>)
            return (V)((std::make_unsigned_t<V>)a + (std::make_unsigned_t<V>)b);
        else
            return a + b;
    }
};

struct min {
    template <typename V> static V apply_op(V a, V b) { return b < a ? b : a; }
};

struct max {
    template <typename V> static V apply_op(V a, V b) { return a < b ? b : a; }
};

/* Element i, at any alignment. */
template <typename E> auto get_element(const uint8_t *at, size_t i)
{
    typename E::stored value;
    memcpy(&value, at + i * sizeof value, sizeof value);
    return E::load_value(value);
}

template <typename E, typename V> void put_element(uint8_t *at, size_t i, V value)
{
    const typename E::stored stored = E::store_value(value);
    memcpy(at + i * sizeof stored, &stored, sizeof stored);
}

template <typename E, typename Op>
void reduce_two(void *out, const void *a, const void *b, size_t count)
{
    auto *to = static_cast<uint8_t *>(out);
    auto *left = static_cast<const uint8_t *>(a);
    auto *right = static_cast<const uint8_t *>(b);
    MR_VECTORS
    for (size_t i = 0; i < count; i++)
        put_element<E>(to, i, Op::apply_op(get_element<E>(left, i), get_element<E>(right, i)));
}

template <typename E, typename Op>
void reduce_all(void *out, const uint8_t *const *in, uint32_t n, size_t count, bool divides)
{
    auto *to = static_cast<uint8_t *>(out);
    for (size_t i = 0; i < count; i++) {
        auto value = get_element<E>(in[0], i);
        for (uint32_t rank = 1; rank < n; rank++)
            value = Op::apply_op(value, get_element<E>(in[rank], i));
        put_element<E>(to, i, divides ? (decltype(value))(value / (decltype(value))n) : value);
    }
}

/* Both functions of a dtype and an operation. */
struct pair {
    mr_gloo_reduce_function two;
    mr_gloo_reduce_all_function all;
};

template <typename E> pair choose_functions(uint32_t op)
{
    switch (op) {
    case MR_SUM:
    case MR_MEAN: return {reduce_two<E, sum>, reduce_all<E, sum>};
    case MR_MIN: return {reduce_two<E, min>, reduce_all<E, min>};
    case MR_MAX: return {reduce_two<E, max>, reduce_all<E, max>};
    default: return {nullptr, nullptr};
    }
}

pair find_functions(uint32_t dtype, uint32_t op)
{
    switch (dtype) {
    case MR_F16: return choose_functions<f16>(op);
    case MR_BF16: return choose_functions<bf16>(op);
    case MR_F32: return choose_functions<plain<float>>(op);
    case MR_F64: return choose_functions<plain<double>>(op);
    case MR_I32: return choose_functions<plain<int32_t>>(op);
    case MR_I64: return choose_functions<plain<int64_t>>(op);
    default: return {nullptr, nullptr};
    }
}

template <typename E, typename V> void divide_elements(void *data, size_t count, V n)
{
    auto *at = static_cast<uint8_t *>(data);
    for (size_t i = 0; i < count; i++)
        put_element<E>(at, i, get_element<E>(at, i) / n);
}

template <typename E> void widen_halves(const void *halves, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = get_element<E>(static_cast<const uint8_t *>(halves), i);
}

template <typename E> void narrow_floats(const float *in, float n, void *halves, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_element<E>(static_cast<uint8_t *>(halves), i, in[i] / n);
}

} // namespace

mr_gloo_reduce_function mr_gloo_reduce_find(uint32_t dtype, uint32_t op)
{
    return find_functions(dtype, op).two;
}

mr_gloo_reduce_all_function mr_gloo_reduce_find_all(uint32_t dtype, uint32_t op)
{
    return find_functions(dtype, op).all;
}

void mr_gloo_reduce_widen(uint32_t dtype, const void *halves, float *out, size_t count)
{
    dtype == MR_F16 ? widen_halves<f16>(halves, out, count)
                    : widen_halves<bf16>(halves, out, count);
}

void mr_gloo_reduce_narrow(uint32_t dtype, const float *in, float n, void *halves, size_t count)
{
    dtype == MR_F16 ? narrow_floats<f16>(in, n, halves, count)
                    : narrow_floats<bf16>(in, n, halves, count);
}

bool mr_gloo_reduce_divide(uint32_t dtype, void *data, size_t count, uint32_t world_size)
{
    switch (dtype) {
    case MR_F32: divide_elements<plain<float>>(data, count, (float)world_size); return true;
    case MR_F64: divide_elements<plain<double>>(data, count, (double)world_size); return true;
    default: return false;
    }
}

size_t mr_gloo_reduce_size(uint32_t dtype)
{
    switch (dtype) {
    case MR_F16:
    case MR_BF16: return 2;
    case MR_F32:
    case MR_I32: return 4;
    case MR_F64:
    case MR_I64: return 8;
    default: return 0;
    }
}
