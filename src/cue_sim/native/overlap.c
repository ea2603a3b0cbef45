// Balls that overlap, or stand inside a cushion, at the start: set apart by the smallest moves, so that nothing kicks.
#include <math.h>

#include "cue_kernel.h"

#define GAP 1e-9
#define SWEEPS 200

// Two balls share their move equally.
static int part(const cue_layout* layout, double* position, const int32_t* in_play) {
  const int n = layout->balls;
  int moved = 0;
  for (int i = 0; i < n; i++) {
    if (!in_play[i]) continue;
    for (int j = i + 1; j < n; j++) {
      if (!in_play[j]) continue;
      double *p = position + 2 * i, *q = position + 2 * j;
      const double reach = 2 * sqrt(layout->radius[i] * layout->radius[j]), dx = q[0] - p[0], dy = q[1] - p[1];
      if (fabs(dx) >= reach || fabs(dy) >= reach) continue;
      const double distance = hypot(dx, dy);
      if (distance >= reach - GAP) continue;
      const double push = .5 * (reach + .1 * GAP - distance);
      const double ux = distance > 1e-12 ? dx / distance : 1, uy = distance > 1e-12 ? dy / distance : 0;
      p[0] -= push * ux;
      p[1] -= push * uy;
      q[0] += push * ux;
      q[1] += push * uy;
      moved = 1;
    }
  }
  return moved;
}

// A cushion does not give way.
static int leave_cushions(const cue_layout* layout, double* position, const int32_t* in_play) {
  const int n = layout->balls;
  int moved = 0;
  for (int i = 0; i < n; i++) {
    if (!in_play[i]) continue;
    double* p = position + 2 * i;
    // behind a nose line and not in a mouth: the way back is across the line, not along the capsule's own side
    for (int k = 0; k < layout->lines; k++) {
      const double* line = layout->line + 6 * k;  // start, end, normal
      const double ax = line[2] - line[0], ay = line[3] - line[1], px = p[0] - line[0], py = p[1] - line[1];
      const double where = (px * ax + py * ay) / (ax * ax + ay * ay);
      const double depth = layout->stop[i] - (px * line[4] + py * line[5]);
      if (where < 0 || where > 1 || depth <= GAP) continue;
      p[0] += depth * line[4];
      p[1] += depth * line[5];
      moved = 1;
    }
    double deepest = GAP, ux = 0, uy = 0;
    for (int k = 0; k < layout->segments; k++) {
      const double *s = layout->segment + 4 * k, reach = layout->reach[k * n + i];
      const double ax = s[2] - s[0], ay = s[3] - s[1], px = p[0] - s[0], py = p[1] - s[1];
      const double along = fmin(fmax((px * ax + py * ay) / (ax * ax + ay * ay), 0), 1);
      const double x = px - along * ax, y = py - along * ay, distance = hypot(x, y);
      if (reach - distance <= deepest || distance <= 1e-12) continue;
      deepest = reach - distance;
      ux = x / distance;
      uy = y / distance;
    }
    if (deepest > GAP) {
      p[0] += ux * (deepest + .1 * GAP);
      p[1] += uy * (deepest + .1 * GAP);
      moved = 1;
    }
  }
  return moved;
}

// Changes (balls, 2) positions [m]; returns whether it did.
int cue_separate(const cue_layout* layout, double* position, const int32_t* in_play) {
  int moved = 0;
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    const int parted = part(layout, position, in_play), left = leave_cushions(layout, position, in_play);
    if (!parted && !left) break;
    moved = 1;
  }
  return moved;
}
