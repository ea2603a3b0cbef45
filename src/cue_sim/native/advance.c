// The event-aligned loop around MuJoCo's step.
#include <math.h>
#include <string.h>
#include <time.h>

#include "cue_kernel.h"

// Impact steps in a row at one place before a cluster is resolved without rebound, and the step from then on [s].
#define PATIENCE 60
#define IMPATIENT_STEP 1e-4
// Share of the energy that one step may seem to add: what the solver leaves in a cluster of contacts.
#define ENERGY_TOLERANCE 1e-6
// Longest step [s] while balls press or graze: their contact is then resolved to the first order only ...
#define LEANING_STEP 1e-2
// ... and while a ball is over a drop, where its way is looked at on straight paths ...
#define OVER_DROP_STEP 2e-2
// ... of which a step takes this share while the edge is farther than so long [s], and then all of it.
#define EDGE_SHARE .8
#define EDGE_NEAR 1e-3
#define SHORTEST_STEP 1e-8
// Speed [m/s] by which MuJoCo's result may differ from the closed form's where nothing but the cloth acted.
#define SOLVER_ERROR 1e-9
#define REACHED_UNTIL 1e-10
// What a step returns while there is more to do; no status.
#define GOES_ON 100

int cue_abi(void) { return CUE_ABI; }
int cue_mujoco_version_built(void) { return mjVERSION_HEADER; }
int cue_mujoco_version_loaded(void) { return mj_version(); }

// One call of cue_advance.
typedef struct {
  const cue_layout* layout;
  mjModel* model;
  mjData* data;
  const cue_laws* laws;
  int32_t* in_play;
  const cue_options* options;
  cue_record* record;

  int balls, tilted;
  int steep;                 // somewhere a ball that rests would roll off by itself
  int first_step;            // the record's count of steps as the call began
  double mass, stake;        // of all balls [kg]; the energy of the motion, and what the slope may add to it [J]
  double had, lowest;        // the energy before the step, and the least so far [J]
  int warned[mjNWARNING], patience;
  cue_contacts known;
  double* over;              // (balls) how long each has been over a drop [s]; kept with MuJoCo's state ...
  double forgotten[CUE_MAX_BALLS];  // ... for the next call, or here, where that has no room
  double spared[CUE_MAX_BALLS];     // how long each has been spared the cloth, in impacts [s]
  uint8_t leans[CUE_MAX_BALLS];     // on something, against the slope
  cue_laws felt[CUE_MAX_BALLS];     // the laws of those that lean

  // the step: its length [s], what it is, and the balls before and after it; end: by the cloth alone
  double h;
  int meets_now, instant;
  cue_ball before[CUE_MAX_BALLS], after[CUE_MAX_BALLS], end[CUE_MAX_BALLS];
  cue_path paths[CUE_MAX_BALLS];
  uint8_t moves[CUE_MAX_BALLS], is_free[CUE_MAX_BALLS];  // free: nothing but the cloth acts on it
  int count, all;  // touches in MuJoCo's constraint, and with those that only a blow brings about
  cue_touch touches[CUE_MAX_TOUCHES];
  uint8_t active[CUE_MAX_TOUCHES];
  double impulses[3 * CUE_MAX_TOUCHES];
} simulation;

static int new_warning(simulation* s) {
  int changed = -1;
  for (int w = 0; w < mjNWARNING; w++) {
    const int number = s->data->warning[w].number;
    if (number != s->warned[w] && changed < 0) changed = w;
    s->warned[w] = number;
  }
  return changed;
}

static double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void clocked(simulation* s, void (*half_step)(const mjModel*, mjData*)) {
  const double began = s->options->clock ? clock_now() : 0;
  half_step(s->model, s->data);
  if (s->options->clock) s->record->seconds += clock_now() - began;
}

// Reads the balls and weighs their energy.
static int begin(simulation* s) {
  const cue_layout* layout = s->layout;
  const cue_laws* laws = s->laws;
  const int n = s->balls = layout->balls;
  s->first_step = s->record->steps;
  s->patience = 0;
  memset(s->forgotten, 0, sizeof s->forgotten);
  memset(s->spared, 0, sizeof s->spared);
  memset(s->leans, 0, sizeof s->leans);
  memset(s->is_free, 1, sizeof s->is_free);
  s->over = s->model->nuserdata >= n ? s->data->userdata : s->forgotten;
  new_warning(s);
  memset(s->before, 0, sizeof s->before);
  for (int i = 0; i < n; i++) cue_read_ball(layout, s->data, i, s->before + i);
  s->tilted = laws->tilt_x != 0 || laws->tilt_y != 0;
  s->steep = 0;
  s->lowest = s->had = cue_energy(layout, laws, s->before, s->in_play);
  if (!isfinite(s->had)) return CUE_NOT_FINITE;
  s->mass = 0;
  for (int i = 0; i < n; i++) s->mass += layout->mass[i];
  cue_laws level = *laws;
  level.tilt_x = level.tilt_y = 0;
  const double drop = fabs(laws->tilt_x) * layout->half_length + fabs(laws->tilt_y) * layout->half_width;
  s->stake = cue_energy(layout, &level, s->before, s->in_play) + s->mass * laws->gravity * drop;
  cue_forget_contacts(&s->known, layout);
  for (int i = 0; i < n; i++) {
    cue_path_begin(s->paths + i, s->before + i, layout->radius[i], laws, s->options->largest_step);
  }
  const double now = s->data->time;
  cue_sample(layout, s->paths, s->before, s->is_free, s->in_play, now, now, s->record);
  return GOES_ON;
}

// Lays out the paths that the balls would take by themselves; returns whether all are at rest for good.
static int look_ahead(simulation* s) {
  int still = 1;
  s->steep = 0;
  for (int i = 0; i < s->balls; i++) {
    // on a bed too steep for its cloth a ball rests only where it leans on something
    const int resting = cue_at_rest(s->before + i);
    const int steep = s->tilted && cue_is_steep(s->laws, s->before[i].x, s->before[i].y);
    s->steep |= steep && s->in_play[i];
    still &= !s->in_play[i] || (resting && (!steep || !s->is_free[i] || s->leans[i]));
    s->moves[i] = s->in_play[i] && (!resting || steep);
    cue_ball from = s->before[i];
    if (s->spared[i] > 0 && !resting) {
      cue_cloth(&from, s->layout->radius[i], s->laws, s->spared[i]);
      from.x = s->before[i].x;
      from.y = s->before[i].y;
    }
    cue_path_begin(s->paths + i, &from, s->layout->radius[i], s->laws, s->options->largest_step);
  }
  return still;
}

// The step ends exactly where the next impact begins, or where the last ball stops.
static void choose_step(simulation* s, double left) {
  double h = fmin(s->options->largest_step, left);
  for (int i = 0; i < s->balls; i++) {
    if (!s->moves[i] || s->over[i] == 0) continue;
    h = fmin(h, OVER_DROP_STEP);
    const double edge = cue_pocket_meeting(s->layout, s->laws->gravity, i, s->before + i, s->over[i], h);
    h = fmin(h, edge < EDGE_NEAR ? edge : EDGE_SHARE * edge);
  }
  const cue_meeting meeting = cue_next_meeting(s->layout, s->paths, s->moves, s->in_play, s->over, h);
  h = meeting.time;
  s->meets_now = meeting.met && meeting.time <= 0;
  if (s->meets_now) {
    h = s->patience < PATIENCE ? s->options->impact_step : IMPATIENT_STEP;
  } else if (meeting.leaning) {
    h = fmin(h, LEANING_STEP);
  } else if (!meeting.met && s->options->stop_at_rest && !s->steep) {
    h = fmin(h, cue_all_rest(s->paths, s->moves, s->balls, h));
  }
  s->model->opt.timestep = s->h = fmin(fmax(h, SHORTEST_STEP), left);
}

// Lets MuJoCo find the contacts, and shortens the step to what they allow.
static int find_contacts(simulation* s, double left) {
  clocked(s, mj_step1);
  mjData* d = s->data;
  s->count = d->ncon > 0 ? cue_find_touches(s->layout, d, s->in_play, s->touches, CUE_MAX_TOUCHES) : 0;
  if (s->count == CUE_MAX_TOUCHES) return CUE_TOO_MANY_CONTACTS;
  int impacts = 0, leaning = 0;
  cue_choose_touches(s->touches, s->count, s->active);
  for (int c = 0; c < s->count; c++) {
    const cue_touch* touch = s->touches + c;
    // what touches as the call begins may be in the middle of a series
    if (s->record->steps == s->first_step) *cue_last_contact(&s->known, touch) = d->time;
    impacts |= s->active[c] && cue_is_impact(&s->known, touch, d->time);
    const int moving = s->moves[touch->a] || (touch->b >= 0 && s->moves[touch->b]);
    leaning |= moving && touch->approach > -CUE_SLOW_APPROACH;
  }
  if (impacts) {
    s->model->opt.timestep = s->h = fmin(s->options->impact_step, left);
  } else if (leaning && s->h > LEANING_STEP) {
    s->model->opt.timestep = s->h = LEANING_STEP;
  }
  s->patience = impacts || s->meets_now ? s->patience + 1 : 0;
  s->instant = impacts && s->patience <= PATIENCE;
  return GOES_ON;
}

static void bind_touched(simulation* s) {
  for (int c = 0; c < s->all; c++) {
    if (!s->active[c]) continue;
    s->is_free[s->touches[c].a] = 0;
    if (s->touches[c].b >= 0) s->is_free[s->touches[c].b] = 0;
  }
}

// Finds the impulses of the contacts, and what the cloth does meanwhile. An impact is over before the cloth acts, which
// makes up for it later; elsewhere, and in slow contact, it acts.
static void decide(simulation* s) {
  const cue_layout* layout = s->layout;
  const int n = s->balls;
  mjData* d = s->data;
  memset(s->is_free, 1, sizeof s->is_free);
  s->all = s->count;
  memcpy(s->end, s->before, n * sizeof *s->end);
  for (int i = 0; i < n && s->tilted; i++) {
    s->leans[i] = !s->instant && s->moves[i] &&
                  cue_lean(layout, d, i, s->before, s->touches, s->count, s->laws, s->felt + i);
    if (!s->leans[i]) continue;
    cue_path_begin(s->paths + i, s->before + i, layout->radius[i], s->felt + i, s->options->largest_step);
  }
  if (s->instant) {
    s->all = cue_exchange(layout, s->laws, d, s->in_play, s->before, s->touches, s->count, s->active, &s->known,
                          s->impulses, s->end);
    bind_touched(s);
  }
  for (int i = 0; i < n; i++) s->spared[i] = s->is_free[i] ? 0 : s->spared[i] + s->h;
  for (int c = 0; c < s->all; c++) {
    if (s->touches[c].approach > -CUE_SLOW_APPROACH) *cue_last_contact(&s->known, s->touches + c) = d->time;
  }
  for (int i = 0; i < n; i++) {
    if (s->in_play[i] && s->is_free[i] && (s->moves[i] || s->before[i].wz != 0)) {
      cue_path_at(s->paths + i, s->h, s->end + i);
    }
  }
  if (!s->instant && s->count > 0) {
    cue_press_impulse(layout, d, s->end, s->touches, s->count, s->impulses);
    for (int c = 0; c < s->count; c++) s->active[c] = mju_norm3(s->impulses + 3 * c) > 0;
    bind_touched(s);
  }
}

// Names the blows, and the balls that they would lift off the cloth.
static void name_events(simulation* s) {
  const double now = s->data->time;
  for (int c = 0; c < s->all; c++) {
    // a contact through which a blow runs counts, whether or not it approached beforehand
    const cue_touch* touch = s->touches + c;
    const double blow = CUE_SLOW_APPROACH * .5 * s->layout->mass[touch->a];
    if (!s->active[c] || mju_norm3(s->impulses + 3 * c) < blow) continue;
    const int ball_ball = touch->b >= 0;
    cue_add_event(s->record, now, ball_ball ? CUE_BALL_BALL : CUE_CUSHION, touch->a,
                  ball_ball ? touch->b : s->layout->cushion[-1 - touch->b]);
  }
  for (int i = 0; i < s->balls; i++) {
    if (s->is_free[i]) continue;
    const double hop = cue_hop(s->layout, s->laws, s->touches, s->active, s->impulses, s->all, i);
    if (hop > s->laws->hop_height) cue_add_event(s->record, now, CUE_AIRBORNE, i, 0);
  }
}

// Has MuJoCo make the step, and reads the balls.
static void act(simulation* s) {
  const cue_layout* layout = s->layout;
  mjData* d = s->data;
  if (s->count > 0) {
    cue_write_targets(layout, d, s->before, s->end, s->touches, s->active, s->impulses, s->count, s->h);
  }
  for (int i = 0; i < s->balls; i++) cue_push_ball(layout, d, i, s->before + i, s->end + i, s->h);
  if (s->instant) name_events(s);
  const double start = d->time;
  clocked(s, mj_step2);
  s->record->steps++;
  for (int i = 0; i < s->balls; i++) {
    const mjtNum* v = d->qvel + layout->dof[i];
    // where nothing but the cloth acted, its closed form is the answer; MuJoCo's differs by its step's error, or by
    // the push of something else (a cue), which then counts
    s->is_free[i] &= fabs(v[0] - s->end[i].vx) + fabs(v[1] - s->end[i].vy) < SOLVER_ERROR;
    if (s->in_play[i] && s->is_free[i]) {
      cue_write_ball(layout, d, i, s->end + i);
      s->after[i] = s->end[i];
    } else {
      if (s->in_play[i]) cue_settle(layout, d, i);
      cue_read_ball(layout, d, i, s->after + i);
    }
  }
  cue_sample(layout, s->paths, s->after, s->is_free, s->in_play, start, d->time, s->record);
}

// Looks for what cannot be: values that are not finite, energy from nowhere, a warning of MuJoCo's.
static int account(simulation* s) {
  const cue_laws* laws = s->laws;
  const double has = cue_energy(s->layout, laws, s->after, s->in_play);
  if (!isfinite(has)) return CUE_NOT_FINITE;
  if (s->stake > 0) s->record->energy_gain = fmax(s->record->energy_gain, (has - s->lowest) / s->stake);
  s->lowest = fmin(s->lowest, has);
  // the work of a ball that leans on something against the slope is exact only to the second order in its steps
  const double fall = laws->gravity * hypot(laws->tilt_x, laws->tilt_y);
  const double slack = s->mass * fall * fall * s->h * fmin(s->h, LEANING_STEP);
  const double most = s->had + ENERGY_TOLERANCE * (fabs(s->had) + s->stake) + slack;
  if (s->options->check_energy && has > most) return CUE_ENERGY_GAIN;
  s->had = has;
  const int warning = new_warning(s);
  return warning >= 0 ? CUE_WARNING - warning : GOES_ON;
}

// Takes out the balls that have fallen into a pocket, and makes what is after the step that which is before the next.
static int pockets(simulation* s) {
  int escaped = 0;
  for (int i = 0; i < s->balls; i++) {
    cue_ball* ball = s->after + i;
    if (s->in_play[i] && (!cue_at_rest(ball) || s->over[i] > 0)) {
      double hop;
      const int hole = cue_pocket_of(s->layout, s->laws->gravity, i, ball, s->h, s->over + i, &hop);
      if (hole >= 0) {
        cue_add_event(s->record, s->data->time, CUE_POCKET, i, hole);
        s->in_play[i] = 0;
        s->over[i] = 0;
        if (s->record->home) memcpy(s->record->home + 2 * i, s->layout->pocket + 4 * hole, 2 * sizeof(double));
        cue_park(s->layout, s->data, i);
        cue_read_ball(s->layout, s->data, i, ball);
        s->had = s->lowest = cue_energy(s->layout, s->laws, s->after, s->in_play);
      } else if (hole == -2) {
        escaped = 1;
      } else if (hop >= 0) {
        cue_write_ball(s->layout, s->data, i, ball);
        if (hop > s->laws->hop_height) cue_add_event(s->record, s->data->time, CUE_AIRBORNE, i, 0);
      }
    }
    s->before[i] = *ball;
  }
  return escaped ? CUE_ESCAPE : GOES_ON;
}

static int step(simulation* s) {
  const cue_options* options = s->options;
  const double left = options->until - s->data->time;
  if (left <= REACHED_UNTIL) return CUE_REACHED;
  if (options->cancel && *options->cancel) return CUE_CANCELLED;
  if (options->step_limit > 0 && s->record->steps - s->first_step >= options->step_limit) return CUE_TOO_MANY_STEPS;
  const int still = look_ahead(s);
  if (still && options->stop_at_rest) return CUE_REST;
  choose_step(s, left);
  int status = find_contacts(s, left);
  if (status != GOES_ON) return status;
  decide(s);
  act(s);
  status = account(s);
  if (status == GOES_ON) status = pockets(s);
  if (status != GOES_ON) return status;
  return options->contact_limit > 0 && s->record->contacts >= options->contact_limit ? CUE_CONTACTS : GOES_ON;
}

int cue_simulate(const cue_layout* layout, mjModel* m, mjData* d, const cue_laws* laws, int32_t* in_play,
                 const cue_options* options, cue_record* record) {
  simulation s;
  s.layout = layout;
  s.model = m;
  s.data = d;
  s.laws = laws;
  s.in_play = in_play;
  s.options = options;
  s.record = record;
  const mjtNum usual_step = m->opt.timestep;
  int status = begin(&s);
  while (status == GOES_ON) status = step(&s);
  m->opt.timestep = usual_step;
  return status;
}

int cue_advance(const cue_layout* layout, mjModel* m, mjData* d, const cue_laws* laws, int32_t* in_play,
                const cue_options* options, cue_record* record) {
  cue_laws ready;
  cue_room room;
  cue_ready_laws(layout, laws, NULL, &ready);
  const cue_layout* fitted = cue_fitted_layout(layout, &ready, &room);
  cue_fit_model(layout, fitted, m);
  return cue_simulate(fitted, m, d, &ready, in_play, options, record);
}
