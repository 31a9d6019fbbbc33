/* Elements of constants as text: numbers where that keeps their bits, base64 otherwise. */
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whole numbers that are read at a glance. */
static bool whole_text(double v, char out[32])
{
	if (!(fabs(v) < 1e7) || v != rint(v))
		return false;
	snprintf(out, 32, "%.0f", v);
	return true;
}

void float_text(double v, char out[32])
{
	if (whole_text(v, out))
		return;
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(out, 32, "%.*g", digits, v);
		if (strtod(out, NULL) == v)
			return;
	}
	snprintf(out, 32, "%g", v); /* nan */
}

/* --- f16 and bf16: bits of the exponent and of the mantissa --- */

struct half_format { int exponent, mantissa; };

static struct half_format half_format(enum dtype t)
{
	return t == DT_F16 ? (struct half_format){ 5, 10 } : (struct half_format){ 8, 7 };
}

static double half_decode(struct half_format f, uint16_t bits)
{
	int top = (1 << f.exponent) - 1, bias = top >> 1;
	int exponent = bits >> f.mantissa & top, mantissa = bits & ((1 << f.mantissa) - 1);
	double v;
	if (exponent == top)
		v = mantissa ? NAN : INFINITY;
	else if (exponent == 0)
		v = ldexp(mantissa, 1 - bias - f.mantissa);
	else
		v = ldexp(mantissa | 1 << f.mantissa, exponent - bias - f.mantissa);
	return bits >> 15 ? -v : v;
}

static uint16_t half_encode(struct half_format f, double v)
{
	int top = (1 << f.exponent) - 1, bias = top >> 1, e;
	int sign = signbit(v) ? 0x8000 : 0, inf = top << f.mantissa;
	if (isnan(v))
		return (uint16_t)(sign | inf | 1 << (f.mantissa - 1));
	frexp(v, &e);
	e = v == 0 || e < 2 - bias ? 1 - bias : e - 1;
	if (isinf(v) || e > bias)
		return (uint16_t)(sign | inf);
	/* A mantissa that rounds up to a power of two carries into the exponent. */
	int scaled = (int)rint(ldexp(fabs(v), f.mantissa - e));
	return (uint16_t)(sign | (((e + bias - 1) << f.mantissa) + scaled));
}

/* --- elements --- */

static bool integer_range(enum dtype t, int64_t *least, int64_t *most)
{
	int bits = 8 * dtype_size(t);
	if (dtype_class(t) != DC_INT)
		return false;
	bool is_unsigned = t == DT_U8 || t == DT_U32;
	*most = is_unsigned ? (int64_t)(UINT64_MAX >> (64 - bits)) : INT64_MAX >> (64 - bits);
	*least = is_unsigned ? 0 : -*most - 1;
	return true;
}

/* Integers: the low bytes of a little-endian i64. */
static int64_t integer_load(enum dtype t, const unsigned char *at)
{
	int64_t least, most, v = 0;
	integer_range(t, &least, &most);
	memcpy(&v, at, (size_t)dtype_size(t));
	int unused = 64 - 8 * dtype_size(t);
	return least < 0 ? (int64_t)((uint64_t)v << unused) >> unused : v;
}

static bool float_load(enum dtype t, const unsigned char *at, double *out)
{
	uint16_t half;
	float single;
	switch (t) {
	case DT_F64:
		memcpy(out, at, sizeof(*out));
		return true;
	case DT_F32:
		memcpy(&single, at, sizeof(single));
		*out = single;
		return true;
	case DT_F16:
	case DT_BF16:
		memcpy(&half, at, sizeof(half));
		*out = half_decode(half_format(t), half);
		return true;
	default:
		return false; /* fp8: base64 */
	}
}

static void float_store(enum dtype t, double v, const char *text, void *out)
{
	float single = strtof(text, NULL);
	uint16_t half;
	if (t == DT_F64) {
		memcpy(out, &v, sizeof(v));
	} else if (t == DT_F32) {
		memcpy(out, &single, sizeof(single));
	} else {
		half = half_encode(half_format(t), v);
		memcpy(out, &half, sizeof(half));
	}
}

static bool parse_integer(enum dtype t, const char *text, void *out)
{
	int64_t least, most;
	char *end;
	integer_range(t, &least, &most);
	errno = 0;
	int64_t v = strtoll(text, &end, 10);
	if (*end != '\0' || errno != 0 || v < least || v > most)
		return false;
	memcpy(out, &v, (size_t)dtype_size(t));
	return true;
}

bool element_parse(enum dtype t, const char *text, void *out)
{
	char *end;
	double v;
	switch (dtype_class(t)) {
	case DC_BOOLEAN:
		*(unsigned char *)out = text[0] == 't';
		return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
	case DC_INT:
		return parse_integer(t, text, out);
	case DC_FLOAT:
		v = strtod(text, &end);
		float_store(t, v, text, out);
		return end != text && *end == '\0';
	default:
		return false;
	}
}

/* The fewest digits that come back as these bytes. */
static bool float_element_text(enum dtype t, const unsigned char *at, char out[32])
{
	double v;
	unsigned char back[8];
	if (!float_load(t, at, &v))
		return false;
	if (whole_text(v, out))
		return true;
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(out, 32, "%.*g", digits, v);
		if (element_parse(t, out, back) && memcmp(at, back, (size_t)dtype_size(t)) == 0)
			return true;
	}
	return false; /* a NaN with a payload */
}

bool element_text(const struct tensor *t, int64_t i, char out[32])
{
	enum dtype dtype = (enum dtype)t->dtype;
	const unsigned char *at = (const unsigned char *)t->data + i * dtype_size(dtype);
	switch (dtype_class(dtype)) {
	case DC_BOOLEAN:
		snprintf(out, 32, "%s", *at ? "true" : "false");
		return *at <= 1;
	case DC_INT:
		snprintf(out, 32, "%lld", (long long)integer_load(dtype, at));
		return true;
	default:
		return float_element_text(dtype, at, out);
	}
}

/* --- base64, with padding --- */

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_print(const void *bytes, size_t size, FILE *out)
{
	const unsigned char *p = bytes;
	for (; size > 0; p += 3) {
		size_t n = size < 3 ? size : 3;
		uint32_t v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);
		char group[4] = { base64_digits[v >> 18], base64_digits[v >> 12 & 63],
				  n > 1 ? base64_digits[v >> 6 & 63] : '=', n > 2 ? base64_digits[v & 63] : '=' };
		fwrite(group, 1, 4, out);
		size -= n;
	}
}

static int base64_digit(char c)
{
	const char *at = c == '\0' ? NULL : strchr(base64_digits, c);
	return at == NULL ? -1 : (int)(at - base64_digits);
}

bool base64_parse(const char *text, size_t length, void *out, size_t size)
{
	unsigned char *p = out;
	if (length % 4 != 0 || length / 4 != size / 3 + (size % 3 != 0))
		return false;
	for (; size > 0; text += 4) {
		size_t n = size < 3 ? size : 3;
		uint32_t v = 0;
		for (size_t i = 0; i < 4; i++) {
			int digit = i <= n ? base64_digit(text[i]) : text[i] == '=' ? 0 : -1;
			if (digit < 0)
				return false;
			v = v << 6 | (uint32_t)digit;
		}
		for (size_t i = 0; i < n; i++)
			*p++ = (unsigned char)(v >> (16 - 8 * i));
		size -= n;
	}
	return true;
}
