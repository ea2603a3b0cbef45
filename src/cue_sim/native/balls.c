// Balls in MuJoCo's state: two slides and a ball joint, whose angular velocity MuJoCo keeps in the ball's own frame.
#include <math.h>

#include "cue_kernel.h"

void cue_read_ball(const cue_layout* layout, const mjData* d, int i, cue_ball* ball) {
  const mjtNum *q = d->qpos + layout->qpos[i], *v = d->qvel + layout->dof[i];
  ball->x = q[0];
  ball->y = q[1];
  ball->vx = v[0];
  ball->vy = v[1];
  if (v[2] == 0 && v[3] == 0 && v[4] == 0) {
    ball->wx = ball->wy = ball->wz = 0;
    return;
  }
  mjtNum w[3];
  mju_rotVecQuat(w, v + 2, q + 2);
  ball->wx = w[0];
  ball->wy = w[1];
  ball->wz = w[2];
}

static void write_spin(const cue_layout* layout, mjData* d, int i, const double* spin) {
  mjtNum inverse[4];
  mju_negQuat(inverse, d->qpos + layout->qpos[i] + 2);
  mju_rotVecQuat(d->qvel + layout->dof[i] + 2, spin, inverse);
}

int cue_at_rest(const cue_ball* ball) {
  return ball->vx == 0 && ball->vy == 0 && ball->wx == 0 && ball->wy == 0;
}

// Stops a touched ball that has stopped travelling: the rest of its roll, which the cloth would undo within a fraction
// of a millimetre, and the rounding that a solver leaves. The cloth law itself reaches zero exactly.
void cue_settle(const cue_layout* layout, mjData* d, int i) {
  mjtNum* v = d->qvel + layout->dof[i];
  cue_ball ball;
  cue_read_ball(layout, d, i, &ball);
  if (hypot(ball.vx, ball.vy) > 1e-7 || layout->radius[i] * hypot(ball.wx, ball.wy) > CUE_SLOW_APPROACH) return;
  const double upright[3] = {0, 0, ball.wz};
  v[0] = v[1] = 0;
  if (ball.wz == 0) {
    v[2] = v[3] = v[4] = 0;
  } else {
    write_spin(layout, d, i, upright);
  }
}

// Takes a ball out of play: parked beside the table, still.
void cue_park(const cue_layout* layout, mjData* d, int i) {
  mjtNum* q = d->qpos + layout->qpos[i];
  q[0] = 4 * layout->half_length + 6 * layout->radius[i] * i;
  q[1] = -4 * layout->half_length;
  mju_zero(d->qvel + layout->dof[i], 5);
  mju_zero(d->qfrc_applied + layout->dof[i], 5);
  mju_zero(d->qacc_warmstart + layout->dof[i], 5);
}

void cue_start(const cue_layout* layout, const mjModel* m, mjData* d, const double* position, const double* velocity,
               const double* spin, const int32_t* in_play) {
  mj_resetData(m, d);
  for (int i = 0; i < layout->balls; i++) {
    if (!in_play[i]) {
      cue_park(layout, d, i);
      continue;
    }
    mjtNum *q = d->qpos + layout->qpos[i], *v = d->qvel + layout->dof[i];
    q[0] = position[2 * i];
    q[1] = position[2 * i + 1];
    v[0] = velocity[2 * i];
    v[1] = velocity[2 * i + 1];
    write_spin(layout, d, i, spin + 3 * i);
  }
}

double cue_energy(const cue_layout* layout, const cue_laws* laws, const cue_ball* balls, const int32_t* in_play) {
  double sum = 0;
  for (int i = 0; i < layout->balls; i++) {
    if (!in_play[i]) continue;
    const cue_ball* b = balls + i;
    const double R = layout->radius[i];
    sum += layout->mass[i] * (.5 * (b->vx * b->vx + b->vy * b->vy) +
                              .2 * R * R * (b->wx * b->wx + b->wy * b->wy + b->wz * b->wz) -
                              laws->gravity * (laws->tilt_x * b->x + laws->tilt_y * b->y));
  }
  return sum;
}

// Writes the generalised force that takes a ball's velocity from `before` to `after` in a step of h.
void cue_push_ball(const cue_layout* layout, mjData* d, int i, const cue_ball* before, const cue_ball* after,
                        double h) {
  mjtNum* force = d->qfrc_applied + layout->dof[i];
  const double dvx = after->vx - before->vx, dvy = after->vy - before->vy;
  const double dwx = after->wx - before->wx, dwy = after->wy - before->wy, dwz = after->wz - before->wz;
  if (dvx == 0 && dvy == 0 && dwx == 0 && dwy == 0 && dwz == 0) {
    mju_zero(force, 5);
    return;
  }
  const double mass = layout->mass[i], R = layout->radius[i], inertia = .4 * mass * R * R;
  const mjtNum torque[3] = {inertia * dwx / h, inertia * dwy / h, inertia * dwz / h};
  force[0] = mass * dvx / h;
  force[1] = mass * dvy / h;
  mju_mulMatTVec3(force + 2, d->xmat + 9 * layout->body[i], torque);
}

// Gives a free ball the state that the closed form reached.
void cue_write_ball(const cue_layout* layout, mjData* d, int i, const cue_ball* ball) {
  mjtNum *q = d->qpos + layout->qpos[i], *v = d->qvel + layout->dof[i];
  q[0] = ball->x;
  q[1] = ball->y;
  v[0] = ball->vx;
  v[1] = ball->vy;
  const double spin[3] = {ball->wx, ball->wy, ball->wz};
  if (spin[0] == 0 && spin[1] == 0 && spin[2] == 0) {
    mju_zero3(v + 2);
  } else {
    write_spin(layout, d, i, spin);
  }
}
