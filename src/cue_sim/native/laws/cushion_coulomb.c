// Coulomb impact of a rigid sphere at the tilted nose: restitution along the normal, friction across it, at most what
// ends the slip (2/7 of the mass times the slip). The slate carries the vertical part afterwards and does not rub.
#include <math.h>

#include "law.h"

static void impact(const cue_laws* laws, const double* own, const cue_cushion_impact* in, cue_cushion_impulse* out) {
  (void)laws, (void)own;
  const double inverse_mass = 1 / in->mass, speed = hypot(in->slip[0], in->slip[1]);
  const double normal = (1 + in->restitution) * in->approach / inverse_mass;
  double along = in->slip[0] / (3.5 * inverse_mass), up = in->slip[1] / (3.5 * inverse_mass);
  if (hypot(along, up) > in->friction * normal) {
    along = speed > 0 ? in->friction * normal * in->slip[0] / speed : 0;
    up = speed > 0 ? in->friction * normal * in->slip[1] / speed : 0;
  }
  out->nose[0] = -normal;
  out->nose[1] = -along;
  out->nose[2] = -up;
}

CUE_CUSHION_LAW(coulomb, impact,
                .source = "rigid sphere with Coulomb friction, e.g. Han, J. Mech. Sci. Tech. 19 (2005), eqs. 14-22",
                .description = "restitution along the tilted normal, friction at the nose, slate without friction")
