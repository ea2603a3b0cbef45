// Impacts: what the constraint rows of a contact must reach so that MuJoCo's solver delivers a given impulse.
//
// The impulse comes from the billiards laws: restitution along the contact normal and Coulomb friction across it
// (ball-ball: Alciatore TP A.5, A.14; cushion nose: Mathavan, Jackson and Parkin 2010, without their vertical motion,
// since the slate carries it). A contact has three rows (normal, two tangents). Row targets are
// aref = (A + R) P / h, with A = J M^-1 J^T of this contact, R its regularisation, P the impulse in row coordinates:
// the solver's answer is then exactly P / h, whatever h, because P lies inside the (wide) friction cone of the model.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"

// Collects the contacts between balls, and between balls and noses, that are in the constraint.
int cue_find_touches(const cue_layout* layout, const mjData* d, const int32_t* in_play, cue_touch* out, int capacity) {
  const int n = layout->balls;
  int count = 0;
  for (int c = 0; c < d->ncon && count < capacity; c++) {
    const mjContact* con = d->contact + c;
    if (con->efc_address < 0 || con->dim != 3 || con->geom[0] < 0 || con->geom[1] < 0) continue;
    int a = layout->role[con->geom[0]], b = layout->role[con->geom[1]];
    if (a < 0 || b < 0 || (a >= n && b >= n)) continue;
    if (a >= n) {
      const int swap = a;
      a = b;
      b = swap;
    }
    if (!in_play[a] || (b < n && !in_play[b])) {
      out[count++] = (cue_touch){c, a, b < n ? b : -1 - (b - n), -1};
      continue;
    }
    out[count++] = (cue_touch){c, a, b < n ? b : -1 - (b - n), -d->efc_vel[con->efc_address]};
  }
  return count;
}

static int shares_ball(const cue_touch* p, const cue_touch* q) {
  return p->a == q->a || p->a == q->b || (p->b >= 0 && (p->b == q->a || p->b == q->b));
}

// Chooses which approaching contacts act now. Contacts that share a ball act one after the other, fastest first, so
// that each is a clean two-body impact; exact ties (a symmetric break) act together, so that symmetry survives.
// With `all`, every approaching contact acts: the way out of an endless exchange.
void cue_choose_touches(const cue_touch* touch, int count, int all, uint8_t* active) {
  for (int i = 0; i < count; i++) {
    active[i] = touch[i].approach > 1e-9;  // less is rounding
    if (all || !active[i]) continue;
    for (int j = 0; j < count; j++) {
      if (j != i && touch[j].approach > touch[i].approach * (1 + 1e-6) && shares_ball(touch + i, touch + j)) {
        active[i] = 0;
        break;
      }
    }
  }
}

// No force from this contact in the coming step.
void cue_silence_touch(mjData* d, const cue_touch* touch) {
  mjtNum* target = d->efc_aref + d->contact[touch->contact].efc_address;
  target[0] = -1e12;
  target[1] = target[2] = 0;
}

static double dot(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void cross(double* out, const double* a, const double* b) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

// Adds one ball's part to A = J M^-1 J^T: planar translation, free rotation.
static void add_mobility(const cue_layout* layout, const mjData* d, const mjContact* con, int ball, double A[9]) {
  const double m = layout->mass[ball], R = layout->radius[ball], inertia = .4 * m * R * R;
  const mjtNum* centre = d->xpos + 3 * layout->body[ball];
  const double arm[3] = {con->pos[0] - centre[0], con->pos[1] - centre[1], con->pos[2] - centre[2]};
  double turn[9];
  for (int r = 0; r < 3; r++) cross(turn + 3 * r, arm, con->frame + 3 * r);
  for (int r = 0; r < 3; r++) {
    for (int s = 0; s < 3; s++) {
      const mjtNum *p = con->frame + 3 * r, *q = con->frame + 3 * s;
      A[3 * r + s] += (p[0] * q[0] + p[1] * q[1]) / m + dot(turn + 3 * r, turn + 3 * s) / inertia;
    }
  }
}

// Writes the row targets of one approaching contact. Not elastic: no rebound (slow contacts, jammed clusters).
void cue_apply_touch(const cue_layout* layout, const cue_laws* laws, mjData* d, const cue_touch* touch, int elastic,
                     double h) {
  const mjContact* con = d->contact + touch->contact;
  const int row = con->efc_address;
  const mjtNum *n = con->frame, *t1 = con->frame + 3, *t2 = con->frame + 6, *v = d->efc_vel + row;
  const double vn = touch->approach;

  double A[9] = {0};
  add_mobility(layout, d, con, touch->a, A);
  double inverse_mass = 1 / layout->mass[touch->a];
  if (touch->b >= 0) {
    add_mobility(layout, d, con, touch->b, A);
    inverse_mass += 1 / layout->mass[touch->b];
  }

  // slip of body 2 over body 1 and a basis of the tangent plane: q level, b upright
  double slip[3], q[3], b[3];
  for (int k = 0; k < 3; k++) slip[k] = v[1] * t1[k] + v[2] * t2[k];
  const double level = hypot(n[0], n[1]);
  q[0] = -n[1] / level;
  q[1] = n[0] / level;
  q[2] = 0;
  cross(b, n, q);
  const double sq = dot(slip, q), sb = dot(slip, b), speed = hypot(sq, sb);

  double e, mu, push_q, push_b, push_n;
  if (touch->b >= 0) {
    e = laws->ball_restitution;
    mu = laws->ball_friction;
    if (laws->ball_friction_decay > 0) {
      mu = laws->ball_friction_floor + (mu - laws->ball_friction_floor) * exp(-laws->ball_friction_decay * speed);
    }
    push_n = (1 + (elastic ? e : 0)) * vn / inverse_mass;
    push_q = sq / (3.5 * inverse_mass);
    push_b = sb / (2.5 * inverse_mass);  // upright friction only turns the balls: the cloth holds their height
  } else {
    const int cushion = layout->cushion[-1 - touch->b];
    e = laws->cushion_restitution + laws->cushion_offset[cushion] +
        laws->cushion_restitution_slope * (vn / level - 1);  // speed in plan view
    e = e > .05 ? e : .05;
    mu = laws->cushion_friction;
    push_n = (1 + (elastic ? e : 0)) * vn / inverse_mass;
    push_q = sq / (3.5 * inverse_mass);
    push_b = sb / (3.5 * inverse_mass);
  }
  const double push = hypot(push_q, push_b);
  if (push > mu * push_n) {
    push_q = speed > 0 ? mu * push_n * sq / speed : 0;
    push_b = speed > 0 ? mu * push_n * sb / speed : 0;
  }

  double friction[3], P[3];
  for (int k = 0; k < 3; k++) friction[k] = -(push_q * q[k] + push_b * b[k]);
  P[0] = push_n;
  P[1] = dot(friction, t1);
  P[2] = dot(friction, t2);
  for (int r = 0; r < 3; r++) {
    double target = d->efc_R[row + r] * P[r];
    for (int s = 0; s < 3; s++) target += A[3 * r + s] * P[s];
    d->efc_aref[row + r] = target / h;
  }
}
