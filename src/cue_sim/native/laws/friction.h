// Coulomb friction in one step of an impact that is integrated over its impulse.
#ifndef CUE_FRICTION_H_
#define CUE_FRICTION_H_

#include <math.h>

// Sets the friction f of a step: what ends the slip, or else the limit against the slip midway through the step.
// slip: at the start; then: at the end without this friction; k: growth of slip with each component of it.
static inline void cue_rub(const double slip[2], const double then[2], const double k[2], double limit, double f[2]) {
  f[0] = -then[0] / k[0];
  f[1] = -then[1] / k[1];
  if (hypot(f[0], f[1]) <= limit) return;
  // f = -b / (k + lambda) is against b + k f, twice the slip midway; |f| falls with lambda: find where it is the limit
  double b[2] = {slip[0] + then[0], slip[1] + then[1]}, lambda = 0;
  if (hypot(b[0] / k[0], b[1] / k[1]) < limit) {  // the slip turns within the step: against the slip at its end
    b[0] = then[0];
    b[1] = then[1];
  }
  for (int i = 0; i < 8; i++) {
    f[0] = -b[0] / (k[0] + lambda);
    f[1] = -b[1] / (k[1] + lambda);
    const double size = hypot(f[0], f[1]);
    if (limit <= 0 || size <= limit * (1 + 1e-9)) break;
    lambda += (size / limit - 1) * size * size / (f[0] * f[0] / (k[0] + lambda) + f[1] * f[1] / (k[1] + lambda));
  }
  const double size = hypot(f[0], f[1]), part = size > 0 ? limit / size : 0;
  f[0] *= part;
  f[1] *= part;
}

#endif  // CUE_FRICTION_H_
