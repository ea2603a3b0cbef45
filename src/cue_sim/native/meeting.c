// When do two bodies meet next? Straight-line motion; the caller refines by stepping most of the way and asking again.
#include <math.h>

#include "cue_kernel.h"

// Time until a point at (x, y) relative to a disc's centre, moving with (vx, vy), enters the disc; INFINITY = never.
// Zero = touching and approaching faster than `slow`.
double cue_disc_entry(double x, double y, double vx, double vy, double radius, double slow) {
  const double b = x * vx + y * vy;  // negative = approaching
  if (b >= -slow * radius) return INFINITY;
  const double c = x * x + y * y - radius * radius;
  if (c <= 2 * radius * CUE_TOUCHING) return 0;
  const double a = vx * vx + vy * vy, disc = b * b - a * c;
  if (disc < 0) return INFINITY;
  return c / (-b + sqrt(disc));
}

// The same for a stadium: all points within `radius` of the segment p-q.
static double stadium_entry(double x, double y, double vx, double vy, const double* s, double radius) {
  const double dx = s[2] - s[0], dy = s[3] - s[1], length = hypot(dx, dy);
  const double tx = dx / length, ty = dy / length;
  const double px = x - s[0], py = y - s[1];
  const double along = px * tx + py * ty, speed_along = vx * tx + vy * ty;
  double off = -px * ty + py * tx, speed_off = -vx * ty + vy * tx;
  if (off < 0) {
    off = -off;
    speed_off = -speed_off;
  }
  double best = INFINITY;
  if (speed_off < -CUE_SLOW_APPROACH) {
    const double gap = off - radius;
    const double t = gap > CUE_TOUCHING ? gap / -speed_off : 0;
    const double where = along + speed_along * t;
    // centre inside the band on the way in (gap far below zero) is left to the ends
    if (gap > -radius && where >= 0 && where <= length) best = t;
  }
  const double first = cue_disc_entry(px, py, vx, vy, radius, CUE_SLOW_APPROACH);
  if (first < best && along + speed_along * first <= 0) best = first;
  const double second = cue_disc_entry(x - s[2], y - s[3], vx, vy, radius, CUE_SLOW_APPROACH);
  if (second < best && along + speed_along * second >= length) best = second;
  return best;
}

// Returns the time until the next impact, drop's edge or pocketing within `horizon`, else INFINITY.
double cue_next_meeting(const cue_layout* layout, const cue_ball* balls, const int32_t* in_play, const double* over,
                        double horizon) {
  const int n = layout->balls;
  double best = INFINITY;
  for (int i = 0; i < n; i++) {
    const cue_ball* p = balls + i;
    if (!in_play[i] || (p->vx == 0 && p->vy == 0)) continue;
    const double travel = hypot(p->vx, p->vy) * horizon;
    for (int s = 0; s < layout->segments; s++) {
      const double* seg = layout->segment + 4 * s;
      const double near = layout->reach[s * n + i] + travel;
      if (p->x < fmin(seg[0], seg[2]) - near || p->x > fmax(seg[0], seg[2]) + near ||
          p->y < fmin(seg[1], seg[3]) - near || p->y > fmax(seg[1], seg[3]) + near) {
        continue;
      }
      best = fmin(best, stadium_entry(p->x, p->y, p->vx, p->vy, seg, layout->reach[s * n + i]));
    }
    best = fmin(best, cue_pocket_meeting(layout, i, p, over[i], horizon));
    for (int j = 0; j < n; j++) {
      const cue_ball* q = balls + j;
      if (j == i || !in_play[j]) continue;
      if (j < i && (q->vx != 0 || q->vy != 0)) continue;  // this pair was done from the other side
      best = fmin(best, cue_disc_entry(p->x - q->x, p->y - q->y, p->vx - q->vx, p->vy - q->vy,
                                   layout->radius[i] + layout->radius[j], CUE_SLOW_APPROACH));
    }
  }
  return best;
}
