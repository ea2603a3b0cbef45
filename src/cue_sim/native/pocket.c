// Pockets: which balls a drop takes, and when.
//
// The planar balls cannot fall, so the fall is kept as a time. Once a ball's centre is past the drop's edge it falls
// g t^2 / 2; nothing but a jaw can turn it round. To get out again it must climb back over the edge, against which it
// leans by beta: cos(beta) = 1 - depth / R. Of its speed v towards the edge the blow on it leaves v cos(beta) -
// g t sin(beta), upwards by beta; it needs sqrt(2 g depth) = g t, and what rises faster than that hops. A ball that is
// over the drop for longer than it may be at its speed is gone: a slow one at the edge, a fast one at the latest when it
// has met the liner, that is when all of it is over the hole or its centre is past the middle.
#include <math.h>

#include "cue_kernel.h"

// Time until a point at (x, y) relative to a disc's centre, moving with (vx, vy), enters the disc; INFINITY = never.
static double disc_entry(double x, double y, double vx, double vy, double radius) {
  const double b = x * vx + y * vy;  // negative = approaching
  if (b >= 0) return INFINITY;
  const double c = x * x + y * y - radius * radius;
  if (c <= 2 * radius * CUE_TOUCHING) return 0;
  const double disc = b * b - (vx * vx + vy * vy) * c;
  if (disc < 0) return INFINITY;
  return c / (-b + sqrt(disc));
}

// How long [s] a ball may be over a drop and still get out, at this speed.
static double longest_visit(double radius, double gravity, double speed) {
  const double fast = speed / sqrt(2 * gravity * radius);  // times in units of a fall by one radius from here on
  double low = 0, high = 1;
  for (int k = 0; k < 40; k++) {
    const double t = .5 * (low + high);
    if (fast * (1 - t * t) >= t * (1 + t * sqrt(2 - t * t))) {
      low = t;
    } else {
      high = t;
    }
  }
  return low * sqrt(2 * radius / gravity);
}

// Lets a ball that comes at an edge with `speed`, `time` over the drop, climb out: its speed afterwards, negative = it
// falls back; `hop`: how high above the cloth it then rises [m].
static double climb_out(double radius, double gravity, double speed, double time, double* hop) {
  const double depth = .5 * gravity * time * time, c = 1 - depth / radius, s = sqrt(fmax(0, 1 - c * c));
  const double left = speed * c - gravity * time * s;  // along the ball's side of the edge
  *hop = 0;
  if (c <= 0 || left < gravity * time) return -1;
  *hop = fmax(0, left * s * left * s / (2 * gravity) - depth);
  return sqrt(fmax(0, left * left - 2 * gravity * (depth + *hop)));
}

static double wholly_over(const double* hole, double radius) { return fmax(hole[2] - radius, .3 * hole[2]); }

int cue_pocket_of(const cue_layout* layout, double gravity, int i, cue_ball* ball, double h, double* over,
                  double* hop) {
  const double R = layout->radius[i];
  const double out_x = fabs(ball->x) - layout->half_length, out_y = fabs(ball->y) - layout->half_width;
  int mouth = 0;
  *hop = -1;
  if (*over > 0) *over += h;
  for (int k = 0; k < layout->pockets; k++) {
    const double* hole = layout->pocket + 4 * k;
    const double x = ball->x - hole[0], y = ball->y - hole[1], near = fmax(hole[2], hole[3]);
    if (fabs(x) > near || fabs(y) > near) continue;
    const double distance = hypot(x, y);
    if (distance <= hole[3]) mouth = 1;
    if (distance > hole[3] && distance > hole[2]) continue;
    const double inwards = -(x * ball->vx + y * ball->vy);
    if (*over == 0 && inwards > 0 && distance <= hole[2] + CUE_TOUCHING) *over = 1e-12;
    if (*over > 0 && inwards <= 0 && distance > hole[2]) {
      const double before = -inwards / distance, after = climb_out(R, gravity, before, *over, hop);
      if (after < 0) return k;
      ball->vx += (after - before) * x / distance;
      ball->vy += (after - before) * y / distance;
      *over = 0;
    }
    if (distance <= wholly_over(hole, R) + CUE_TOUCHING) return k;
    const double beyond = (hole[0] > 0 ? x : hole[0] < 0 ? -x : 0) + (hole[1] > 0 ? y : -y);  // side or corner
    if (distance <= hole[2] && beyond > 0) return k;
    if (*over > longest_visit(R, gravity, hypot(ball->vx, ball->vy))) return k;
  }
  return (out_x > 0 || out_y > 0) && !mouth ? -2 : -1;
}

double cue_pocket_meeting(const cue_layout* layout, double gravity, int i, const cue_ball* p, double over,
                          double horizon) {
  const double speed = hypot(p->vx, p->vy), R = layout->radius[i];
  double best = INFINITY;
  for (int k = 0; k < layout->pockets; k++) {
    const double* hole = layout->pocket + 4 * k;
    const double x = p->x - hole[0], y = p->y - hole[1];
    const double near = hole[2] + speed * horizon;
    if (fabs(x) > near || fabs(y) > near) continue;
    if (over == 0) {
      best = fmin(best, disc_entry(x, y, p->vx, p->vy, hole[2]));
      continue;
    }
    // never zero, which would mean an impact: the ball gets on with its way
    const double b = x * p->vx + y * p->vy, c = x * x + y * y - hole[2] * hole[2];
    const double out = (-b + sqrt(fmax(0, b * b - speed * speed * c))) / (speed * speed);
    if (speed > 0) best = fmin(best, fmax(1e-8, out));
    best = fmin(best, fmax(1e-8, disc_entry(x, y, p->vx, p->vy, wholly_over(hole, R))));
    best = fmin(best, fmax(1e-8, longest_visit(R, gravity, speed) - over));
  }
  return best;
}
