/* Exact where all operands are; a double where one is a double. */
#include "quantity.h"

#include <math.h>
#include <string.h>

static bool is_exact(struct quantity q)
{
	return q.den != 0;
}

struct quantity quantity_of(int64_t n)
{
	return (struct quantity){ .num = n, .den = 1 };
}

struct quantity quantity_of_real(double v)
{
	return (struct quantity){ .real = v };
}

static int64_t gcd(int64_t a, int64_t b)
{
	while (b != 0) {
		int64_t t = a % b;
		a = b;
		b = t;
	}
	return a < 0 ? -a : a;
}

bool quantity_of_quotient(int64_t num, int64_t den, struct quantity *out)
{
	if (den == 0 || num == INT64_MIN || den == INT64_MIN)
		return false;
	int64_t g = gcd(num, den);
	g = den < 0 ? -g : g;
	*out = (struct quantity){ .num = num / g, .den = den / g };
	return true;
}

double quantity_real(struct quantity q)
{
	return is_exact(q) ? (double)q.num / (double)q.den : q.real;
}

/* A double that is an integer and not too large becomes one. */
static bool whole(double v, struct quantity *out)
{
	if (!(v == trunc(v) && fabs(v) < 0x1p53))
		return false;
	*out = quantity_of((int64_t)v);
	return true;
}

bool quantity_integer(struct quantity q, int64_t *out)
{
	struct quantity n = q;
	if (!is_exact(q) && !whole(q.real, &n))
		return false;
	*out = n.num;
	return n.den == 1;
}

static bool in_range(double v, struct quantity *out)
{
	*out = quantity_of_real(v);
	return isfinite(v);
}

/* --- arithmetic --- */

static bool add(struct quantity a, struct quantity b, struct quantity *out)
{
	int64_t x, y, n, d;
	if (!is_exact(a) || !is_exact(b))
		return in_range(quantity_real(a) + quantity_real(b), out);
	return mul_size(a.num, b.den, &x) && mul_size(b.num, a.den, &y) && add_size(x, y, &n) &&
	       mul_size(a.den, b.den, &d) && quantity_of_quotient(n, d, out);
}

static bool multiply(struct quantity a, struct quantity b, struct quantity *out)
{
	int64_t n, d;
	if (!is_exact(a) || !is_exact(b))
		return in_range(quantity_real(a) * quantity_real(b), out);
	return mul_size(a.num, b.num, &n) && mul_size(a.den, b.den, &d) && quantity_of_quotient(n, d, out);
}

static bool divide(struct quantity a, struct quantity b, struct quantity *out)
{
	struct quantity inverse;
	if (!is_exact(a) || !is_exact(b))
		return in_range(quantity_real(a) / quantity_real(b), out);
	return quantity_of_quotient(b.den, b.num, &inverse) && multiply(a, inverse, out);
}

static bool true_divide(struct quantity a, struct quantity b, struct quantity *out)
{
	return in_range(quantity_real(a) / quantity_real(b), out);
}

static bool floored(struct quantity a, struct quantity *out)
{
	if (!is_exact(a))
		return whole(floor(a.real), out);
	int64_t q = a.num / a.den;
	*out = quantity_of(a.num % a.den < 0 ? q - 1 : q);
	return true;
}

static bool negative(struct quantity a, struct quantity *out)
{
	return multiply(a, quantity_of(-1), out);
}

static bool ceiled(struct quantity a, struct quantity *out)
{
	struct quantity n;
	return negative(a, &n) && floored(n, &n) && negative(n, out);
}

static bool truncated(struct quantity a, struct quantity *out)
{
	return quantity_real(a) < 0 ? ceiled(a, out) : floored(a, out);
}

static bool floor_divide(struct quantity a, struct quantity b, struct quantity *out)
{
	struct quantity q;
	return divide(a, b, &q) && floored(q, out);
}

static bool ceil_divide(struct quantity a, struct quantity b, struct quantity *out)
{
	struct quantity q;
	return divide(a, b, &q) && ceiled(q, out);
}

/* a - floor(a / b) b: of the sign of b, as in Python */
static bool modulo(struct quantity a, struct quantity b, struct quantity *out)
{
	struct quantity q, p;
	return floor_divide(a, b, &q) && multiply(q, b, &p) && negative(p, &p) && add(a, p, out);
}

static bool power(struct quantity a, struct quantity b, struct quantity *out)
{
	int64_t n = b.num < 0 ? -b.num : b.num;
	struct quantity base = a;
	if (!is_exact(a) || !is_exact(b) || b.den != 1)
		return in_range(pow(quantity_real(a), quantity_real(b)), out);
	if (n > 64 || (b.num < 0 && !quantity_of_quotient(a.den, a.num, &base)))
		return false;
	*out = quantity_of(1);
	for (; n > 0; n--)
		if (!multiply(*out, base, out))
			return false;
	return true;
}

static bool float_power(struct quantity a, struct quantity b, struct quantity *out)
{
	return in_range(pow(quantity_real(a), quantity_real(b)), out);
}

static bool root(struct quantity a, struct quantity *out)
{
	return in_range(sqrt(quantity_real(a)), out);
}

static bool to_double(struct quantity a, struct quantity *out)
{
	return in_range(quantity_real(a), out);
}

static bool same(struct quantity a, struct quantity *out)
{
	*out = a;
	return true;
}

/* --- comparing --- */

static int compare(struct quantity a, struct quantity b)
{
	if (!is_exact(a) || !is_exact(b)) {
		double x = quantity_real(a), y = quantity_real(b);
		return x < y ? -1 : x > y;
	}
	__extension__ __int128 x = (__int128)a.num * b.den, y = (__int128)b.num * a.den;
	return x < y ? -1 : x > y;
}

static bool maximum(struct quantity a, struct quantity b, struct quantity *out)
{
	*out = compare(a, b) < 0 ? b : a;
	return true;
}

static bool minimum(struct quantity a, struct quantity b, struct quantity *out)
{
	*out = compare(a, b) > 0 ? b : a;
	return true;
}

static bool is_true(struct quantity a)
{
	return quantity_real(a) != 0;
}

#define TRUTH(name, expression)                                                             \
	static bool name(struct quantity a, struct quantity b, struct quantity *out)        \
	{                                                                                   \
		*out = quantity_of(expression);                                             \
		return true;                                                                \
	}
TRUTH(equal, compare(a, b) == 0)
TRUTH(unequal, compare(a, b) != 0)
TRUTH(less, compare(a, b) < 0)
TRUTH(at_most, compare(a, b) <= 0)
TRUTH(greater, compare(a, b) > 0)
TRUTH(at_least, compare(a, b) >= 0)
TRUTH(both, is_true(a) && is_true(b))
TRUTH(either, is_true(a) || is_true(b))
#undef TRUTH

static bool negated(struct quantity a, struct quantity *out)
{
	*out = quantity_of(!is_true(a));
	return true;
}

/* --- names --- */

struct quantity_function {
	const char *name;
	bool (*one)(struct quantity a, struct quantity *out);
	bool (*two)(struct quantity a, struct quantity b, struct quantity *out);
};

static const struct quantity_function functions[] = {
	{ "Add", same, add },
	{ "Mul", same, multiply },
	{ "Max", same, maximum },
	{ "Min", same, minimum },
	{ "Pow", NULL, power },
	{ "PowByNatural", NULL, power },
	{ "FloatPow", NULL, float_power },
	{ "FloorDiv", NULL, floor_divide },
	{ "CleanDiv", NULL, floor_divide },
	{ "CeilDiv", NULL, ceil_divide },
	{ "IntTrueDiv", NULL, true_divide },
	{ "FloatTrueDiv", NULL, true_divide },
	{ "Mod", NULL, modulo },
	{ "PythonMod", NULL, modulo },
	{ "floor", floored, NULL },
	{ "FloorToInt", floored, NULL },
	{ "ceiling", ceiled, NULL },
	{ "CeilToInt", ceiled, NULL },
	{ "TruncToInt", truncated, NULL },
	{ "TruncToFloat", truncated, NULL },
	{ "OpaqueUnaryFn_sqrt", root, NULL },
	{ "ToFloat", to_double, NULL },
	{ "Identity", same, NULL },
	{ "Equality", NULL, equal },
	{ "Unequality", NULL, unequal },
	{ "StrictLessThan", NULL, less },
	{ "LessThan", NULL, at_most },
	{ "StrictGreaterThan", NULL, greater },
	{ "GreaterThan", NULL, at_least },
	{ "And", same, both },
	{ "Or", same, either },
	{ "Not", negated, NULL },
};

const struct quantity_function *quantity_function(const char *name, size_t size)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (strlen(functions[i].name) == size && memcmp(functions[i].name, name, size) == 0)
			return &functions[i];
	return NULL;
}

bool quantity_apply(const struct quantity_function *f, const struct quantity *arg, int count, struct quantity *out)
{
	struct quantity sum = arg[0];
	if (count == 1)
		return f->one != NULL && f->one(arg[0], out);
	if (f->two == NULL)
		return false;
	for (int i = 1; i < count; i++)
		if (!f->two(sum, arg[i], &sum))
			return false;
	*out = sum;
	return true;
}
