// A cloth that is not alike everywhere: the factor on rolling friction is exp of a smooth field, cubic B-splines at
// nodes from rail to rail. Beyond the outermost nodes the coefficients repeat, so the weights always add up to 1.
#include <math.h>

#include "laws/law.h"

// Cubic B-spline weights of the nodes k - 1 .. k + 2 around u, in units of their spacing from the first one.
static int weights(double u, int nodes, double w[4]) {
  u = fmin(fmax(u, 0), nodes - 1);
  int k = (int)u;
  if (k > nodes - 2) k = nodes - 2;
  const double t = u - k, s = 1 - t;
  w[0] = s * s * s / 6;
  w[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
  w[2] = (3 * s * s * s - 6 * s * s + 4) / 6;
  w[3] = t * t * t / 6;
  return k;
}

static int clamped(int k, int nodes) { return k < 0 ? 0 : k < nodes ? k : nodes - 1; }

double cue_cloth_factor(const cue_laws* laws, double x, double y) {
  if (laws->uneven == 0) return 1;
  double wx[4], wy[4], sum = 0;
  const int i = weights(x * laws->nodes_per_x + .5 * (CUE_FIELD_X - 1), CUE_FIELD_X, wx);
  const int j = weights(y * laws->nodes_per_y + .5 * (CUE_FIELD_Y - 1), CUE_FIELD_Y, wy);
  for (int a = 0; a < 4; a++) {
    const double* row = laws->cloth_field + CUE_FIELD_Y * clamped(i + a - 1, CUE_FIELD_X);
    double along = 0;
    for (int b = 0; b < 4; b++) along += wy[b] * row[clamped(j + b - 1, CUE_FIELD_Y)];
    sum += wx[a] * along;
  }
  return exp(sum);
}

int cue_is_steep(const cue_laws* laws, double x, double y) {
  return hypot(laws->tilt_x, laws->tilt_y) > laws->rolling_friction * cue_cloth_factor(laws, x, y);
}
