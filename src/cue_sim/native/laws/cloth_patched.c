// A cloth that is worn or damp in one place, or uneven all over, for hidden worlds: rolling friction has a factor that
// depends on where the ball is. No term of a fit has these shapes: a soft-edged disc, and waves.
#include <math.h>
#include <string.h>

#include "../cue_kernel.h"

enum { PATCH_X, PATCH_Y, PATCH_RADIUS, PATCH_EDGE, PATCH_MORE, WAVE, WAVE_LENGTH, WAVE_PHASE };

static double factor(const double* own, double x, double y) {
  const double away = hypot(x - own[PATCH_X], y - own[PATCH_Y]) - own[PATCH_RADIUS];
  const double patch = own[PATCH_MORE] / (1 + exp(fmin(away / own[PATCH_EDGE], 700)));
  const double turn = 6.283185307179586 / own[WAVE_LENGTH];
  const double wave = own[WAVE] * sin(turn * x + own[WAVE_PHASE]) * cos(turn * y - own[WAVE_PHASE]);
  return fmax((1 + patch) * (1 + wave), .05);
}

static const cue_law* coulomb(void) {
  for (int i = 0; cue_law_at(CUE_SLOT_CLOTH, i); i++) {
    if (!strcmp(cue_law_at(CUE_SLOT_CLOTH, i)->name, "coulomb")) return cue_law_at(CUE_SLOT_CLOTH, i);
  }
  return NULL;
}

// Advances one ball by h. The factor is held for the length of a call, as paths of such laws are extrapolated.
static void roll(const cue_laws* laws, const double* own, double radius, double h, cue_ball* ball) {
  cue_laws here = *laws;
  here.rolling_friction *= factor(own, ball->x, ball->y);
  coulomb()->cloth(&here, own, radius, h, ball);
}

// Of the roughest place: the ball may get there.
static double bound(const cue_laws* laws, const double* own, double radius, const cue_ball* ball) {
  cue_laws worst = *laws;
  worst.rolling_friction *= (1 + fmax(own[PATCH_MORE], 0)) * (1 + fabs(own[WAVE]));
  return coulomb()->bound(&worst, own, radius, ball);
}

static int exact(const cue_laws* laws, const double* own) {
  (void)laws;
  (void)own;
  return 0;
}

static const cue_law_parameter parameters[] = {
    {"patch_x", "m", 0.0, -2.0, 2.0, "centre of the disc"},
    {"patch_y", "m", 0.0, -2.0, 2.0, "centre of the disc"},
    {"patch_radius", "m", 0.15, 0.0, 2.0, "where half of the change is reached"},
    {"patch_edge", "m", 0.02, 1e-3, 1.0, "over which the change fades (logistic)"},
    {"patch_more", "1", 0.0, -0.9, 5.0, "relative change of rolling friction inside"},
    {"wave", "1", 0.0, -0.9, 0.9, "amplitude of the relative change all over"},
    {"wave_length", "m", 0.9, 0.05, 10.0, "along either axis"},
    {"wave_phase", "rad", 0.0, -10.0, 10.0, "of the waves"},
    {0},
};

CUE_CLOTH_LAW(patched, roll, .parameters = parameters, .bound = bound, .exact = exact,
              .source = "made up, for worlds that no term of a fit copies",
              .description = "coulomb with rolling friction that depends on the place: a soft-edged disc, and waves")
