// Impacts: what the constraint rows of a contact must reach so that MuJoCo's solver delivers a given impulse.
//
// The impulse comes from the law chosen for the slot (laws/), which sees the impact in local axes (laws/law.h). A law
// may also return the slate's friction; it acts as the cloth does, as a generalised force. A contact has three rows
// (normal, two tangents). Row targets are
// aref = (J M^-1 J^T + R) P / h over all contacts that act, R the regularisation, P the impulses in row coordinates:
// the solver's answer is then exactly P / h, whatever h, because P lies inside the (wide) friction cone of the model.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"
#include "motion.h"

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
    out[count++] = (cue_touch){c, a, b < n ? b : -1 - (b - n), a_first, approach, con->dist};
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
      // of two noses at a jaw's tip the nearer one is met
      const int noses = touch[i].b < 0 && touch[j].b < 0 && touch[j].approach > 1e-9;
      if (noses && fabs(touch[i].gap - touch[j].gap) > 1e-9) {
        active[i] = touch[i].gap < touch[j].gap;
        continue;
      }
      active[i] = touch[j].approach < touch[i].approach || (touch[j].approach == touch[i].approach && j > i);
    }
  }
}

// Velocity and spin of a ball in the local axes x, y (level unit vectors) and z.
static void localise(const cue_ball* ball, const double* x, const double* y, double velocity[2], double spin[3]) {
  velocity[0] = ball->vx * x[0] + ball->vy * x[1];
  velocity[1] = ball->vx * y[0] + ball->vy * y[1];
  spin[0] = ball->wx * x[0] + ball->wy * x[1];
  spin[1] = ball->wx * y[0] + ball->wy * y[1];
  spin[2] = ball->wz;
}

// The slate's friction, an impulse along x, y, at a ball's lowest point.
static void rub(const double* push, const double* x, const double* y, double mass, double radius, cue_ball* ball) {
  if (push[0] == 0 && push[1] == 0) return;
  const double px = push[0] * x[0] + push[1] * y[0], py = push[0] * x[1] + push[1] * y[1];
  ball->vx += px / mass;
  ball->vy += py / mass;
  ball->wx += py / (.4 * mass * radius);
  ball->wy -= px / (.4 * mass * radius);
}

// The impulse [N s] on the second body of an approaching contact, by the law. Not elastic: no rebound. What the slate
// does meanwhile is added to the balls in `end`.
void cue_single_impulse(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_ball* balls,
                        const cue_touch* touch, int elastic, double impulse[3], cue_ball* end) {
  const mjContact* con = d->contact + touch->contact;
  const mjtNum *n = con->frame, *t1 = con->frame + 3, *t2 = con->frame + 6, *v = d->efc_vel + con->efc_address;
  const int a = touch->a, b = touch->b;

  // slip of body 2 over body 1 and a basis of the tangent plane: q level, u upright
  double slip[3], q[3], u[3];
  for (int k = 0; k < 3; k++) slip[k] = v[1] * t1[k] + v[2] * t2[k];
  const double level = hypot(n[0], n[1]);
  q[0] = -n[1] / level;
  q[1] = n[0] / level;
  q[2] = 0;
  cross(u, n, q);
  const double sq = dot(slip, q), su = dot(slip, u);

  double push_n, push_q, push_u;  // on body 2 along n, against q and u
  if (b >= 0) {
    // local axes: N = n from body 1 to body 2, x = -q
    const int first = touch->a_first ? a : b, second = touch->a_first ? b : a;
    const double x[2] = {-q[0], -q[1]}, y[2] = {n[0] / level, n[1] / level};
    cue_ball_impact in = {.mass = {layout->mass[first], layout->mass[second]},
                          .radius = {layout->radius[first], layout->radius[second]},
                          .level = level,
                          .rise = n[2],
                          .inverse_mass = 1 / layout->mass[a] + 1 / layout->mass[b],
                          .approach = touch->approach,
                          .slip = {-sq, su},
                          .restitution = elastic ? laws->ball_restitution : 0};
    localise(balls + first, x, y, in.velocity[0], in.spin[0]);
    localise(balls + second, x, y, in.velocity[1], in.spin[1]);
    cue_ball_impulse out = {0};
    cue_chosen_law(laws, CUE_SLOT_BALL)->ball(laws, laws->own[CUE_SLOT_BALL], &in, &out);
    if (laws->correction && elastic) laws->correction->ball(laws->correction, &in, &out);
    push_n = out.contact[0];
    push_q = out.contact[1];
    push_u = -out.contact[2];
    rub(out.slate[0], x, y, layout->mass[first], layout->radius[first], end + first);
    rub(out.slate[1], x, y, layout->mass[second], layout->radius[second], end + second);
  } else {
    // local axes: N points from the ball into the nose; x = q where the ball is body 2
    const double sign = touch->a_first ? 1 : -1;
    const double x[2] = {-sign * q[0], -sign * q[1]}, y[2] = {sign * n[0] / level, sign * n[1] / level};
    const double incidence = touch->approach / level;
    const double e = cue_cushion_restitution(laws, layout->cushion[-1 - b], incidence);
    cue_cushion_impact in = {.mass = layout->mass[a],
                             .radius = layout->radius[a],
                             .level = level,
                             .rise = sign * n[2],
                             .approach = touch->approach,
                             .slip = {sq, -sign * su},
                             .incidence = incidence,
                             .restitution = elastic ? e : 0,
                             .friction = laws->cushion_friction};
    localise(balls + a, x, y, in.velocity, in.spin);
    cue_cushion_impulse out = {{0}, {0}};
    cue_chosen_law(laws, CUE_SLOT_CUSHION)->cushion(laws, laws->own[CUE_SLOT_CUSHION], &in, &out);
    if (laws->correction && elastic) laws->correction->cushion(laws->correction, &in, &out);
    push_n = -out.nose[0];
    push_q = -out.nose[1];
    push_u = sign * out.nose[2];
    rub(out.slate, x, y, layout->mass[a], layout->radius[a], end + a);
  }

  for (int k = 0; k < 3; k++) impulse[k] = push_n * n[k] - push_q * q[k] - push_u * u[k];
}

// How high [m] the impulses of the active contacts would throw a ball that the model keeps on the cloth: an upward
// impulse lifts it, a downward one as far as the slate gives it back.
double cue_hop(const cue_layout* layout, const cue_laws* laws, const cue_touch* touch, const uint8_t* active,
               const double* impulse, int count, int ball) {
  double up = 0, back = 0;
  for (int c = 0; c < count; c++) {
    if (!active[c] || (touch[c].a != ball && touch[c].b != ball)) continue;
    const double lift = (touch[c].a == ball) == touch[c].a_first ? -impulse[3 * c + 2] : impulse[3 * c + 2];
    up += lift;
    back -= lift * (touch[c].b < 0 ? laws->nose_slate_restitution : laws->slate_restitution);
  }
  const double speed = (up > 0 ? up : back) / layout->mass[ball];
  return speed * speed / (2 * laws->gravity);
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
