// The registry of laws, and what several of them share.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cue_kernel.h"

#define CAPACITY 64
static const cue_law* registry[CUE_SLOTS][CAPACITY];
static int counts[CUE_SLOTS];

// Keeps each slot in the order of names, so that the order of linking changes nothing.
void cue_enter_law(const cue_law* law) {
  const cue_law** row = registry[law->slot];
  int place = counts[law->slot];
  if (place == CAPACITY) return;
  while (place > 0 && strcmp(row[place - 1]->name, law->name) > 0) {
    row[place] = row[place - 1];
    place--;
  }
  row[place] = law;
  counts[law->slot]++;
}

const cue_law* cue_chosen_law(const cue_laws* laws, int slot) {
  const double index = laws->law[slot];
  return registry[slot][index >= 0 && index < counts[slot] ? (int)index : 0];
}

const cue_law* cue_law_at(int slot, int index) {
  return slot >= 0 && slot < CUE_SLOTS && index >= 0 && index < counts[slot] ? registry[slot][index] : NULL;
}

// Count of doubles that the Python side must hand over.
int cue_laws_size(void) { return offsetof(cue_laws, uneven) / sizeof(double); }

// Coulomb friction between balls, optionally falling with slip (Alciatore TP A.14).
double cue_ball_friction(const cue_laws* laws, double slip) {
  if (laws->ball_friction_decay <= 0) return laws->ball_friction;
  return laws->ball_friction_floor +
         (laws->ball_friction - laws->ball_friction_floor) * exp(-laws->ball_friction_decay * slip);
}

// Restitution of a cushion at a level speed into it. A falling e(v) must not exceed 1 towards rest; an impossible
// nominal value shall show as an energy gain.
double cue_cushion_restitution(const cue_laws* laws, int cushion, double incidence) {
  const double e = laws->cushion_restitution + laws->cushion_offset[cushion] +
                   laws->cushion_restitution_slope * (incidence - 1);
  return fmin(fmax(e, .05), fmax(1, laws->cushion_restitution));
}

int cue_cloth_exact(const cue_laws* laws) {
  const cue_law* law = cue_chosen_law(laws, CUE_SLOT_CLOTH);
  return law->exact && law->exact(laws, laws->own[CUE_SLOT_CLOTH]);
}

double cue_cloth_bound(const cue_ball* ball, double radius, const cue_laws* laws) {
  const cue_law* law = cue_chosen_law(laws, CUE_SLOT_CLOTH);
  if (law->bound) return law->bound(laws, laws->own[CUE_SLOT_CLOTH], radius, ball);
  return laws->gravity * (fmax(1, laws->sliding_friction) + fabs(laws->tilt_x) + fabs(laws->tilt_y));
}

void cue_cloth(cue_ball* ball, double radius, const cue_laws* laws, double h) {
  cue_chosen_law(laws, CUE_SLOT_CLOTH)->cloth(laws, laws->own[CUE_SLOT_CLOTH], radius, h, ball);
}
