#pragma once

#include <cstdint>

namespace docofl {

// log2 of a positive integer from additions, multiplications and one division in a fixed order:
// the same double on every machine, exact for powers of two, within 4 ulp elsewhere. The C
// library's log2 may differ in the last bit between systems and so change a level count.
double exact_log2(std::uint64_t value);

// 2^x, the same on every machine, for x from -most to most; those beyond count as these.
double exact_exp2(double x, double most = 8);

}  // namespace docofl
