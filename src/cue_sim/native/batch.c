// Many shots in one call, without the interpreter. Each thread calls cue_work with a model and a state of its own and
// takes the next job until none is left. A job's result depends on nothing but the job.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"

// Beyond these nothing is a shot, and MuJoCo would warn [m/s, rad/s].
#define FASTEST 100.
#define FASTEST_SPIN 1e4
// A ball farther behind the nose lines than this lies on no bed and in no pocket; a nearer one is set on the bed [radii].
#define FARTHEST 4.

static int finite_all(const double* values, int count) {
  for (int k = 0; k < count; k++) {
    if (!isfinite(values[k])) return 0;
  }
  return 1;
}

static int start_fault(const cue_layout* layout, const double* x, const double* v, const double* w,
                       const int32_t* in_play) {
  int status = CUE_REACHED;
  for (int i = 0; i < layout->balls; i++) {
    if (!in_play[i]) continue;
    if (!finite_all(x + 2 * i, 2) || !finite_all(v + 2 * i, 2) || !finite_all(w + 3 * i, 3)) return CUE_NOT_FINITE;
    const double beyond = fmax(fabs(x[2 * i]) - layout->half_length, fabs(x[2 * i + 1]) - layout->half_width);
    if (beyond > FARTHEST * layout->radius[i] || hypot(v[2 * i], v[2 * i + 1]) > FASTEST ||
        mju_norm3(w + 3 * i) > FASTEST_SPIN) {
      status = CUE_BAD_START;
    }
  }
  return status;
}

static void play(const cue_layout* made, mjModel* m, mjData* d, cue_batch* batch, int job) {
  const int n = made->balls;
  const double* row = batch->laws + (size_t)batch->law_size * job;
  cue_laws laws;
  cue_room room;
  cue_correction correction;
  if (batch->learned) cue_begin_correction(batch->learned, row + cue_laws_size(), &correction);
  cue_ready_laws(made, (const cue_laws*)row, batch->learned ? &correction : NULL, &laws);
  const cue_layout* layout = batch->refused[job] ? made : cue_fitted_layout(made, &laws, &room);
  cue_fit_model(made, layout, m);
  double *x = batch->position + 2 * (size_t)n * job, *rest = batch->rest + 2 * (size_t)n * job;
  const double *v = batch->velocity + 2 * (size_t)n * job, *w = batch->spin + 3 * (size_t)n * job;
  int32_t* in_play = batch->in_play + (size_t)n * job;
  const int64_t first = batch->first_time[job], count = batch->first_time[job + 1] - first;
  cue_record record = {.count = (int32_t)count,
                       .time = batch->time + first,
                       .position = batch->sample + 2 * n * first,
                       .pocketed = batch->pocketed + n * first,
                       .event_capacity = batch->event_capacity,
                       .event = batch->event + 4 * (size_t)batch->event_capacity * job,
                       .home = rest};
  cue_outcome* out = batch->outcome + job;
  memset(out, 0, sizeof *out);
  out->status = batch->refused[job] ? batch->refused[job] : start_fault(layout, x, v, w, in_play);
  if (out->status == CUE_REACHED) {
    out->moved = cue_separate(layout, x, in_play);
    memcpy(rest, x, 2 * n * sizeof *rest);
    cue_options options = batch->options;
    options.contact_limit = batch->contact_limit[job];
    cue_start(layout, m, d, x, v, w, in_play);
    out->status = cue_simulate(layout, m, d, &laws, in_play, &options, &record);
    if (out->status >= 0 && record.events == record.event_capacity) out->status = CUE_TOO_MANY_CONTACTS;
    out->time = d->time;
    for (int i = 0; i < n; i++) {
      if (in_play[i]) memcpy(rest + 2 * i, d->qpos + layout->qpos[i], 2 * sizeof *rest);
    }
  } else {
    for (int k = 0; k < 2 * n; k++) rest[k] = NAN;
  }
  out->events = record.events;
  out->steps = record.steps;
  out->energy_gain = record.energy_gain;
  out->seconds = record.seconds;
  // what comes after rest is rest; what comes after a fault or a stop is not known
  for (int t = record.next; t < count; t++) {
    for (int i = 0; i < n; i++) {
      const int known = out->status == CUE_REST || (out->status > CUE_BAD_START && !in_play[i]);
      record.position[2 * (n * t + i)] = known ? rest[2 * i] : NAN;
      record.position[2 * (n * t + i) + 1] = known ? rest[2 * i + 1] : NAN;
      record.pocketed[n * t + i] = known && !in_play[i];
    }
  }
}

// Returns how many jobs this call did.
int cue_work(const cue_layout* layout, mjModel* m, mjData* d, cue_batch* batch) {
  int done = 0;
  while (!batch->cancel) {
    const int job = __atomic_fetch_add(&batch->next, 1, __ATOMIC_RELAXED);
    if (job >= batch->jobs) break;
    play(layout, m, d, batch, job);
    if (batch->outcome[job].status == CUE_CANCELLED) break;
    __atomic_fetch_add(&batch->done, 1, __ATOMIC_RELAXED);
    done++;
  }
  return done;
}
