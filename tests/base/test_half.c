/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounding to f16 and bf16. A value of the format does not change. Any other float is rounded to
 * the nearer of its two neighbours in the format, or to the even one if it is in the middle. The
 * expected values are made from the formats' definitions by ldexp().
 */
#include "base/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct format {
    const char *name;
    uint16_t (*round)(float value);
    float (*widen)(uint16_t half);
    int mantissa_bits;
    int exponent_bits;
};

static uint16_t round_f16(float value)
{
    return mr_half_f16(value);
}

static uint16_t round_bf16(float value)
{
    return mr_half_bf16(value);
}

static float widen_f16(uint16_t half)
{
    return mr_half_from_f16(half);
}

static float widen_bf16(uint16_t half)
{
    return mr_half_from_bf16(half);
}

static const struct format formats[] = {{"f16", round_f16, widen_f16, 10, 5},
                                        {"bf16", round_bf16, widen_bf16, 7, 8}};

/*
 * The value of positive bits. For the bits of infinity it is the value that they would have if
 * that exponent were an ordinary one.
 */
static double value_of(const struct format *f, uint32_t bits)
{
    int exponent = (int)(bits >> f->mantissa_bits);
    double mantissa = bits & ((1u << f->mantissa_bits) - 1);
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    if (exponent == 0)
        return ldexp(mantissa, 1 - bias - f->mantissa_bits);
    return ldexp(mantissa + (1 << f->mantissa_bits), exponent - bias - f->mantissa_bits);
}

static uint32_t infinity_of(const struct format *f)
{
    return ((1u << f->exponent_bits) - 1) << f->mantissa_bits;
}

static void expect(const struct format *f, float value, uint32_t bits)
{
    if (f->round(value) != bits)
        fail_msg("%s of %a: %04x instead of %04x", f->name, (double)value, f->round(value), bits);
    if (f->round(-value) != (bits | 0x8000u))
        fail_msg("%s of %a: %04x instead of %04x", f->name, (double)-value, f->round(-value),
                 bits | 0x8000u);
}

static void every_value_is_rounded_to_itself(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t bits = 0; bits < infinity_of(&formats[i]); bits++)
            expect(&formats[i], (float)value_of(&formats[i], bits), bits);
        expect(&formats[i], INFINITY, infinity_of(&formats[i]));
    }
}

static void the_middle_is_rounded_to_even_and_other_floats_to_the_nearer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t bits = 0; bits < infinity_of(&formats[i]); bits++) {
            float middle =
                (float)((value_of(&formats[i], bits) + value_of(&formats[i], bits + 1)) / 2);
            expect(&formats[i], middle, bits % 2 ? bits + 1 : bits);
            expect(&formats[i], nextafterf(middle, 0.0f), bits);
            expect(&formats[i], nextafterf(middle, INFINITY), bits + 1);
        }
    }
}

static void what_is_tiny_becomes_zero_and_what_is_huge_infinity(void **state)
{
    (void)state;
    expect(&formats[0], ldexpf(1, -149), 0);
    expect(&formats[0], ldexpf(1, -60), 0);
    expect(&formats[0], 65536.0f, 0x7c00);
    expect(&formats[0], 3.4028234663852886e38f, 0x7c00);
    expect(&formats[1], ldexpf(1, -149), 0);
    expect(&formats[1], 3.4028234663852886e38f, 0x7f80);
}

static void a_nan_stays_one_with_its_sign(void **state)
{
    (void)state;
    const uint32_t nans[] = {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x7f80ffffu, 0x7f810000u};
    for (unsigned i = 0; i < sizeof nans / sizeof *nans; i++) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t bits = nans[i] | sign << 31;
            float nan;
            memcpy(&nan, &bits, sizeof nan);
            for (unsigned k = 0; k < 2; k++) {
                uint32_t got = formats[k].round(nan);
                if ((got & 0x7fffu) <= infinity_of(&formats[k]) || got >> 15 != sign)
                    fail_msg("%s of NaN %08x is %04x", formats[k].name, bits, got);
            }
        }
    }
}

static void widening_is_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *f = &formats[i];
        uint32_t infinity = ((1u << f->exponent_bits) - 1) << f->mantissa_bits;
        for (uint32_t bits = 0; bits < infinity; bits++) {
            assert_true((double)f->widen((uint16_t)bits) == value_of(f, bits));
            assert_true((double)f->widen((uint16_t)(bits | 0x8000u)) == -value_of(f, bits));
            assert_int_equal(f->round(f->widen((uint16_t)(bits | 0x8000u))), bits | 0x8000u);
        }
        assert_true(isinf(f->widen((uint16_t)infinity)) && f->widen((uint16_t)infinity) > 0);
        assert_true(isinf(f->widen((uint16_t)(infinity | 0x8000u))) &&
                    f->widen((uint16_t)(infinity | 0x8000u)) < 0);
        for (uint32_t bits = infinity + 1; bits < 0x8000u; bits++)
            assert_true(isnan(f->widen((uint16_t)bits)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_rounded_to_itself),
        cmocka_unit_test(the_middle_is_rounded_to_even_and_other_floats_to_the_nearer),
        cmocka_unit_test(what_is_tiny_becomes_zero_and_what_is_huge_infinity),
        cmocka_unit_test(widening_is_exact),
        cmocka_unit_test(a_nan_stays_one_with_its_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
