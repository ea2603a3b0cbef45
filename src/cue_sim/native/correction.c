// A correction learned from shots: what the laws leave unexplained, as sums of Gaussian bumps around places where
// shots were seen. Away from all of them every bump is zero, and the laws stand alone.
//
// Each job has weights of its own, in the order: rolling; cushion, along the normal, then along the nose; ball,
// likewise. Where a ball rolls, the coefficient is multiplied by exp(sum of the bumps in x, y, direction and speed). At an impact
// impulses are multiplied by 1 + sum of the bumps in approach and slip; never so far that a blow gives energy.
#include <math.h>

#include "cue_kernel.h"

#define MOST_ROLLING 1.0  // of the exponent: a factor of e
#define MOST_IMPULSE 0.3

enum { ROLLING_DIMS = 5, IMPACT_DIMS = 2 };

static double bumps(const cue_basis* basis, const double* weights, const double* at) {
  double sum = 0;
  for (int k = 0; k < basis->count; k++) {
    const double* centre = basis->centre + (size_t)basis->dims * k;
    double square = 0;
    for (int i = 0; i < basis->dims; i++) {
      const double off = (at[i] - centre[i]) * basis->per_width[i];
      square += off * off;
    }
    if (square < 40) sum += weights[k] * exp(-.5 * square);
  }
  return sum;
}

static double limited(double value, double most) { return fmax(fmin(value, most), -most); }

static double rolling(const cue_correction* correction, const cue_ball* ball) {
  const cue_learned* learned = correction->features;
  const double speed = hypot(ball->vx, ball->vy);
  if (!learned->rolling.count || speed == 0) return 1;
  const double at[ROLLING_DIMS] = {ball->x, ball->y, ball->vx / speed, ball->vy / speed, speed};
  return exp(limited(bumps(&learned->rolling, correction->weights, at), MOST_ROLLING));
}

static void cushion(const cue_correction* correction, const cue_cushion_impact* in, cue_cushion_impulse* out) {
  const cue_learned* learned = correction->features;
  const int count = learned->cushion.count;
  if (!count) return;
  const double* weights = correction->weights + learned->rolling.count;
  const double at[IMPACT_DIMS] = {in->approach, fabs(in->slip[0])};
  const double most = fmin(MOST_IMPULSE, 2 / (1 + in->restitution) - 1);  // restitution stays below 1
  out->nose[0] *= 1 + fmax(fmin(bumps(&learned->cushion, weights, at), most), -MOST_IMPULSE);
  const double along = 1 + limited(bumps(&learned->cushion, weights + count, at), MOST_IMPULSE);
  out->nose[1] *= along;
  out->nose[2] *= along;
}

static void ball(const cue_correction* correction, const cue_ball_impact* in, cue_ball_impulse* out) {
  const cue_learned* learned = correction->features;
  const int count = learned->ball.count;
  if (!count) return;
  const double* weights = correction->weights + learned->rolling.count + 2 * learned->cushion.count;
  const double at[IMPACT_DIMS] = {in->approach, hypot(in->slip[0], in->slip[1])};
  const double most = fmin(MOST_IMPULSE, 2 / (1 + in->restitution) - 1);
  out->contact[0] *= 1 + fmax(fmin(bumps(&learned->ball, weights, at), most), -MOST_IMPULSE);
  const double along = 1 + limited(bumps(&learned->ball, weights + count, at), MOST_IMPULSE);
  out->contact[1] *= along;
  out->contact[2] *= along;
}

void cue_begin_correction(const cue_learned* learned, const double* weights, cue_correction* out) {
  double most = 0;
  for (int k = 0; k < learned->rolling.count; k++) most += fmax(weights[k], 0);
  *out = (cue_correction){.rolling = rolling,
                          .rolling_most = exp(fmin(most, MOST_ROLLING)),
                          .cushion = cushion,
                          .ball = ball,
                          .weights = weights,
                          .features = learned};
}
