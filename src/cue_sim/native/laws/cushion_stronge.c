// W. J. Stronge, Impact Mechanics (Cambridge, 2000), ch. 5: compliant contact. Normal and tangential springs act side
// by side, Coulomb friction limits the tangential one, and restitution is energetic: the contact gives back e^2 of the
// normal work. A sphere's normal and tangential motion do not mix (inertia factors 1 and 7/2) and its slip keeps its
// line, so the impact is plane. A slow tangential motion is turned round as a rubber ball does; a fast one slips
// throughout, as a rigid sphere would. As with the rigid sphere, the slate carries the vertical part afterwards.
#include <math.h>

#include "law.h"

#define STEPS 100

// The tangential impulse against the slip, both over m times the approach. Units: mass 1, approach 1, and the normal
// spring's frequency 1: it is compressed for pi/2 and let go for e pi/2.
static double tangential(double slip, double mu, double e, double compliance) {
  const double quarter = 2 * atan(1), stiffness = 1 / compliance, rate = sqrt(3.5 * stiffness);
  double v = slip, force = 0, impulse = 0;
  for (int phase = 0; phase < 2; phase++) {
    const double length = phase ? e * quarter : quarter, dt = length / STEPS;
    const double c = cos(rate * dt), s = sin(rate * dt);
    for (int i = 1; i <= STEPS; i++) {
      const double t = i * dt;
      const double limit = mu * (phase ? cos(t / e) : sin(t));
      // stuck, the spring and the surface swing freely
      const double stuck = force * c + stiffness / rate * v * s;
      if (fabs(stuck) <= limit) {
        impulse += (v - (v * c - rate / stiffness * force * s)) / 3.5;
        v = v * c - rate / stiffness * force * s;
        force = stuck;
      } else {
        const double next = copysign(fmax(limit, 0), stuck), push = .5 * (force + next) * dt;
        impulse += push;
        v -= 3.5 * push;
        force = next;
      }
    }
  }
  return impulse;
}

static void impact(const cue_laws* laws, const double* own, const cue_cushion_impact* in, cue_cushion_impulse* out) {
  (void)laws;
  const double slip = hypot(in->slip[0], in->slip[1]), e = in->restitution, unit = in->mass * in->approach;
  double friction = slip > 0 ? unit * tangential(slip / in->approach, in->friction, e, own[0]) : 0;
  friction = fmin(friction, in->friction * (1 + e) * unit);  // rounding of the steps
  out->nose[0] = -(1 + e) * unit;
  out->nose[1] = slip > 0 ? -friction * in->slip[0] / slip : 0;
  out->nose[2] = slip > 0 ? -friction * in->slip[1] / slip : 0;
}

static const cue_law_parameter parameters[] = {
    {"compliance_ratio", "1", 1.21, .5, 5,
     "tangential over normal compliance of the contact; (2 - nu) / (2 - 2 nu) for elastic bodies of Poisson number nu"},
    {0},
};

CUE_CUSHION_LAW(stronge, impact, .source = "Stronge, Impact Mechanics (2000), ch. 5",
                .description = "normal and tangential springs with Coulomb friction and energetic restitution",
                .parameters = parameters, .dissipative = 1)
