// Impacts: what the constraint rows of a contact must reach so that MuJoCo's solver delivers a given impulse.
//
// The impulse comes from the billiards laws: restitution along the contact normal and Coulomb friction across it
// (ball-ball: Alciatore TP A.5, A.14; cushion nose: Mathavan, Jackson and Parkin 2010, without their vertical motion,
// since the slate carries it). A contact has three rows (normal, two tangents). Row targets are
// aref = (J M^-1 J^T + R) P / h over all contacts that act, R the regularisation, P the impulses in row coordinates:
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
    const int first = layout->role[con->geom[0]], second = layout->role[con->geom[1]];
    if (first < 0 || second < 0 || (first >= n && second >= n)) continue;
    const int a_first = first < n;
    const int a = a_first ? first : second, b = a_first ? second : first;
    const int playing = in_play[a] && (b >= n || in_play[b]);
    const double approach = playing ? -d->efc_vel[con->efc_address] : -1;
    out[count++] = (cue_touch){c, a, b < n ? b : -1 - (b - n), a_first, approach};
  }
  return count;
}

static int shares_ball(const cue_touch* p, const cue_touch* q) {
  return p->a == q->a || p->a == q->b || (p->b >= 0 && (p->b == q->a || p->b == q->b));
}

// Chooses which approaching contacts act now. Contacts that share a ball act one after the other, fastest first, so
// that each is a clean two-body impact. (At a jaw's tip nose and facing report the same contact: one of them acts.)
void cue_choose_touches(const cue_touch* touch, int count, uint8_t* active) {
  for (int i = 0; i < count; i++) {
    active[i] = touch[i].approach > 1e-9;  // less is rounding
    for (int j = 0; j < count && active[i]; j++) {
      if (j == i || !shares_ball(touch + i, touch + j)) continue;
      active[i] = touch[j].approach < touch[i].approach || (touch[j].approach == touch[i].approach && j > i);
    }
  }
}

static double dot(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void cross(double* out, const double* a, const double* b) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

// The impulse [N s] on the second body of an approaching contact, by the two-body law. Not elastic: no rebound.
void cue_single_impulse(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_touch* touch,
                        int elastic, double impulse[3]) {
  const mjContact* con = d->contact + touch->contact;
  const mjtNum *n = con->frame, *t1 = con->frame + 3, *t2 = con->frame + 6, *v = d->efc_vel + con->efc_address;
  const double vn = touch->approach;
  double inverse_mass = 1 / layout->mass[touch->a];
  if (touch->b >= 0) inverse_mass += 1 / layout->mass[touch->b];

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
    // a falling e(v) must not exceed 1 towards rest; an impossible nominal value shall show as an energy gain
    e = fmin(fmax(e, .05), fmax(1, laws->cushion_restitution));
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

  for (int k = 0; k < 3; k++) impulse[k] = push_n * n[k] - push_q * q[k] - push_b * b[k];
}

// Writes the row targets under which the solver delivers the impulses ((count, 3), on the second body) of the active
// contacts in a step of h, and no force at the others. The cloth takes each ball from `before` to `after` meanwhile.
void cue_write_targets(const cue_layout* layout, mjData* d, const cue_ball* before, const cue_ball* after,
                       const cue_touch* touch, const uint8_t* active, const double* impulse, int count, double h) {
  double gain[5 * CUE_MAX_BALLS];  // per ball: change of vx, vy, wx, wy, wz
  for (int i = 0; i < layout->balls; i++) {
    gain[5 * i] = after[i].vx - before[i].vx;
    gain[5 * i + 1] = after[i].vy - before[i].vy;
    gain[5 * i + 2] = after[i].wx - before[i].wx;
    gain[5 * i + 3] = after[i].wy - before[i].wy;
    gain[5 * i + 4] = after[i].wz - before[i].wz;
  }
  for (int c = 0; c < count; c++) {
    if (!active[c]) continue;
    const mjContact* con = d->contact + touch[c].contact;
    for (int side = 0; side < 2; side++) {
      const int ball = side ? touch[c].b : touch[c].a;
      if (ball < 0) continue;
      const double sign = (side == touch[c].a_first) ? 1 : -1, m = layout->mass[ball], R = layout->radius[ball];
      const mjtNum* centre = d->xpos + 3 * layout->body[ball];
      const double arm[3] = {con->pos[0] - centre[0], con->pos[1] - centre[1], con->pos[2] - centre[2]};
      double turn[3];
      cross(turn, arm, impulse + 3 * c);
      double* g = gain + 5 * ball;
      g[0] += sign * impulse[3 * c] / m;
      g[1] += sign * impulse[3 * c + 1] / m;
      for (int k = 0; k < 3; k++) g[2 + k] += sign * turn[k] / (.4 * m * R * R);
    }
  }
  // the answer is known: the solver starts from it
  for (int i = 0; i < layout->balls; i++) {
    mjtNum* start = d->qacc_warmstart + layout->dof[i];
    const double* g = gain + 5 * i;
    start[0] = g[0] / h;
    start[1] = g[1] / h;
    mju_mulMatTVec3(start + 2, d->xmat + 9 * layout->body[i], g + 2);
    for (int k = 2; k < 5; k++) start[k] /= h;
  }
  for (int c = 0; c < count; c++) {
    const mjContact* con = d->contact + touch[c].contact;
    mjtNum* target = d->efc_aref + con->efc_address;
    if (!active[c]) {
      target[0] = -1e12;  // so far below what the balls do that the contact stays open
      target[1] = target[2] = 0;
      continue;
    }
    double change[3] = {0};  // of the second body's velocity over the first's at the contact
    for (int side = 0; side < 2; side++) {
      const int ball = side ? touch[c].b : touch[c].a;
      if (ball < 0) continue;
      const double sign = (side == touch[c].a_first) ? 1 : -1;
      const mjtNum* centre = d->xpos + 3 * layout->body[ball];
      const double arm[3] = {con->pos[0] - centre[0], con->pos[1] - centre[1], con->pos[2] - centre[2]};
      const double* g = gain + 5 * ball;
      double turn[3];
      cross(turn, g + 2, arm);
      change[0] += sign * (g[0] + turn[0]);
      change[1] += sign * (g[1] + turn[1]);
      change[2] += sign * turn[2];
    }
    for (int r = 0; r < 3; r++) {
      const mjtNum* axis = con->frame + 3 * r;
      target[r] = (dot(axis, change) + d->efc_R[con->efc_address + r] * dot(axis, impulse + 3 * c)) / h;
    }
  }
}
