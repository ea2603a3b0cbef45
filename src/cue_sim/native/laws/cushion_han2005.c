// Inhwan Han, Dynamics in carom and three cushion billiards, J. Mech. Sci. Tech. 19 (2005) 976-984: the impulse of a
// rigid sphere at the tilted nose (eqs. 14-22) with the restitution and friction that he measured: restitution against
// the level speed V into the cushion, 0.39 + 0.257 V - 0.044 V^2 (eq. 26), friction against the angle of incidence psi,
// 0.471 - 0.241 psi (eq. 27). Here they give the shapes; the table's own coefficients are their values at 1 m/s and at
// 45 degrees. Beyond its highest point (2.9 m/s, the end of his data) the restitution stays.
#include <math.h>

#include "law.h"

enum { E0, E1, E2, MU0, MU1 };

static double shape(const double* own, double speed) {
  if (own[E2] < 0) speed = fmin(speed, fmax(-own[E1] / (2 * own[E2]), 0));
  return own[E0] + own[E1] * speed + own[E2] * speed * speed;
}

static void impact(const cue_laws* laws, const double* own, const cue_cushion_impact* in, cue_cushion_impulse* out) {
  (void)laws;
  const double quarter = atan(1), psi = atan2(fabs(in->velocity[0]), in->velocity[1]);
  const double e = fmin(1, fmax(0, in->restitution * shape(own, in->incidence) / shape(own, 1)));
  const double mu = in->friction * fmax(0, own[MU0] - own[MU1] * psi) / (own[MU0] - own[MU1] * quarter);
  const double enough = (1 + e) * in->mass * in->approach;  // his P_zE
  const double slip = hypot(in->slip[0], in->slip[1]), ends_slip = 2. / 7 * in->mass * slip;  // his P_zS times mu
  const double friction = fmin(ends_slip, mu * enough);
  out->nose[0] = -enough;
  out->nose[1] = slip > 0 ? -friction * in->slip[0] / slip : 0;
  out->nose[2] = slip > 0 ? -friction * in->slip[1] / slip : 0;
}

static const cue_law_parameter parameters[] = {
    {"restitution_constant", "1", .39, .2, 1, "of the measured restitution, at rest"},
    {"restitution_linear", "s/m", .257, 0, .5, "of the measured restitution, growth with speed"},
    {"restitution_quadratic", "s^2/m^2", -.044, -.1, 0, "of the measured restitution, bend"},
    {"friction_constant", "1", .471, .25, 1, "of the measured friction, head on"},
    {"friction_linear", "1/rad", .241, 0, .3, "fall of the measured friction with the angle of incidence"},
    {0},
};

CUE_CUSHION_LAW(han2005, impact, .source = "Han, J. Mech. Sci. Tech. 19 (2005) 976-984, eqs. 14-22, 26, 27",
                .description = "rigid sphere; restitution that changes with speed, friction with the angle",
                .parameters = parameters, .dissipative = 1)
