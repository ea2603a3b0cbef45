// Two balls meet: restitution along the line of centres, Coulomb friction across it, at most what ends the slip.
// Level friction moves and turns the balls (7/2 of the inverse mass); upright friction only turns them (5/2), since the
// cloth holds their height.
#include <math.h>

#include "law.h"

static void impact(const cue_laws* laws, const double* own, const cue_ball_impact* in, cue_ball_impulse* out) {
  (void)own;
  const double speed = hypot(in->slip[0], in->slip[1]), mu = cue_ball_friction(laws, speed);
  const double normal = (1 + in->restitution) * in->approach / in->inverse_mass;
  double along = in->slip[0] / (3.5 * in->inverse_mass), up = in->slip[1] / (2.5 * in->inverse_mass);
  if (hypot(along, up) > mu * normal) {
    along = speed > 0 ? mu * normal * in->slip[0] / speed : 0;
    up = speed > 0 ? mu * normal * in->slip[1] / speed : 0;
  }
  out->contact[0] = normal;
  out->contact[1] = -along;
  out->contact[2] = -up;
}

CUE_BALL_LAW(coulomb, impact, .source = "Alciatore, billiards.colostate.edu, TP A.5 and A.14",
             .description = "restitution and Coulomb friction between the balls, which may fall with slip")
