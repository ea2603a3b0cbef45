// What a law is. One law is one file in this folder: dropped in and built, it is in the registry under its name.
//
// Nothing here knows MuJoCo: an impact reaches its law in local axes, and the law answers with impulses.
//   N  contact normal, from the ball into the nose (or from the first ball to the second)
//   x  level, along the nose: to the right for a ball that faces it
//   y  level, into the nose: N = level y + rise z
//   z  up
//   u  = x cross N, the other tangent at the contact: it points up where N is level
#ifndef CUE_LAW_H_
#define CUE_LAW_H_

#include <stddef.h>
#include <stdint.h>

// The slots that a law may fill, and how many parameters of its own it may have.
enum { CUE_SLOT_CLOTH = 0, CUE_SLOT_BALL = 1, CUE_SLOT_CUSHION = 2, CUE_SLOTS = 3 };
#define CUE_OWN 8

#define CUE_BALL_IDS 16
// Nodes of the cloth field along x and y.
#define CUE_FIELD_X 5
#define CUE_FIELD_Y 3

// The laws' coefficients, all SI. The first eleven are cue_core.parameters.PARAMETERS in order.
typedef struct {
  double sliding_friction, rolling_friction, spinning_deceleration;
  double ball_restitution, ball_friction;
  double cushion_restitution, cushion_restitution_slope, cushion_friction;
  double tip_restitution;  // used by the strike only
  double tilt_x, tilt_y;
  double gravity;
  double ball_friction_floor;   // friction between balls at high slip ...
  double ball_friction_decay;   // [s/m] ... reached as exp(-decay slip); 0 = constant friction
  double rolling_slope;         // [s/m] relative growth of rolling friction with speed
  double nap_x2;                // relative growth of rolling friction along x, the same decrease along y
  double cushion_offset[6];     // added to the restitution of each cushion
  // which law fills each slot (its place in the registry), and the law's own parameters
  double law[CUE_SLOTS];
  double own[CUE_SLOTS][CUE_OWN];
  double slate_restitution;     // share of a downward blow that the slate gives back
  double nose_slate_restitution;  // the same of what a nose presses down, slowly
  double hop_height;            // [m] a ball that would rise higher is named as airborne
  double nap_y2;                // relative growth of rolling friction along x = y, the same decrease along x = -y
  double nose_offset[6];        // [m] by which each cushion's nose and jaws stand further into the table
  double mass_ratio[CUE_BALL_IDS], diameter_ratio[CUE_BALL_IDS];  // of each ball by id, to what the layout has
  double cloth_field[CUE_FIELD_X * CUE_FIELD_Y];  // ln of a factor on rolling friction at the nodes, x slowest
  // Rows end here. The rest is worked out from them (cue_ready_laws).
  double uneven;                      // 0: the cloth is alike everywhere
  double roughest;                    // the factor on rolling friction is nowhere greater
  double nodes_per_x, nodes_per_y;    // [1/m]
  const struct cue_correction* correction;  // of what the laws say; NULL = none
} cue_laws;

// State of one ball in the table frame.
typedef struct {
  double x, y, vx, vy, wx, wy, wz;
} cue_ball;

// A ball meets a nose.
typedef struct {
  double mass, radius;      // [kg] [m]
  double level, rise;       // cosine and sine of the normal's angle above the horizontal
  double velocity[2];       // [m/s] of the centre along x, y
  double spin[3];           // [rad/s] about x, y, z
  double approach;          // [m/s] of the ball's surface along N, positive
  double slip[2];           // [m/s] of the ball's surface over the nose along x, u
  double incidence;         // [m/s] level speed into the nose
  double restitution;       // at this speed, of this cushion; 0 = without rebound
  double friction;          // between ball and nose
} cue_cushion_impact;

// Impulses on the ball [N s].
typedef struct {
  double nose[3];   // along N, x, u
  double slate[2];  // friction of the slate along x, y; its upright push is what holds the ball's height
} cue_cushion_impulse;

// Two balls meet; N points from ball 0 to ball 1.
typedef struct {
  double mass[2], radius[2];
  double level, rise;
  double velocity[2][2];
  double spin[2][3];
  double inverse_mass;      // 1/m0 + 1/m1
  double approach;          // [m/s] positive
  double slip[2];           // [m/s] of ball 1's surface over ball 0's along x, u
  double restitution;       // 0 = without rebound
} cue_ball_impact;

// Impulses [N s].
typedef struct {
  double contact[3];   // on ball 1 along N, x, u; ball 0 gets the opposite
  double slate[2][2];  // friction of the slate on each ball along x, y
} cue_ball_impulse;

// What was learned of a table beyond its laws (correction.c). It is asked where a ball rolls, and after the laws of
// impacts; blows that run through several balls keep to their law.
typedef struct cue_correction {
  double (*rolling)(const struct cue_correction*, const cue_ball*);  // factor on the coefficient of rolling friction
  double rolling_most;    // ... which is never more than this
  void (*cushion)(const struct cue_correction*, const cue_cushion_impact*, cue_cushion_impulse*);
  void (*ball)(const struct cue_correction*, const cue_ball_impact*, cue_ball_impulse*);
  const double* weights;  // of this job: what follows the laws in its row
  const void* features;   // shared by all jobs
} cue_correction;

typedef struct {
  const char *name, *unit;
  double nominal, minimum, maximum;
  const char* description;
} cue_law_parameter;

typedef struct {
  int32_t slot;
  int32_t dissipative;                  // 1 = the law has no meaning for a restitution beyond 1
  const char *name, *source, *description;
  const cue_law_parameter* parameters;  // up to CUE_OWN, ended by one without name; NULL = none
  void (*cloth)(const cue_laws*, const double* own, double radius, double h, cue_ball*);
  void (*ball)(const cue_laws*, const double* own, const cue_ball_impact*, cue_ball_impulse*);
  void (*cushion)(const cue_laws*, const double* own, const cue_cushion_impact*, cue_cushion_impulse*);
  // What a cloth law may say of its paths, so that events are found in fewer steps: an upper bound of the ball's
  // acceleration from now on [m/s^2], and whether one call is exact however long it reaches. NULL = careful guesses.
  double (*bound)(const cue_laws*, const double* own, double radius, const cue_ball*);
  int (*exact)(const cue_laws*, const double* own);
} cue_law;

// Enters a law into the registry when the kernel is loaded. ID is its name; the rest sets fields of cue_law:
//   CUE_CUSHION_LAW(coulomb, impact, .source = "...", .description = "...")
#define CUE_LAW_(ID, ...)                                        \
  static const cue_law cue_law_##ID = {.name = #ID, __VA_ARGS__}; \
  __attribute__((constructor)) static void cue_enter_##ID(void) { cue_enter_law(&cue_law_##ID); }
#define CUE_CLOTH_LAW(ID, FUNCTION, ...) CUE_LAW_(ID, .slot = CUE_SLOT_CLOTH, .cloth = FUNCTION, __VA_ARGS__)
#define CUE_BALL_LAW(ID, FUNCTION, ...) CUE_LAW_(ID, .slot = CUE_SLOT_BALL, .ball = FUNCTION, __VA_ARGS__)
#define CUE_CUSHION_LAW(ID, FUNCTION, ...) CUE_LAW_(ID, .slot = CUE_SLOT_CUSHION, .cushion = FUNCTION, __VA_ARGS__)

// registry.c
void cue_enter_law(const cue_law* law);
const cue_law* cue_chosen_law(const cue_laws* laws, int slot);
double cue_ball_friction(const cue_laws* laws, double slip);
double cue_cushion_restitution(const cue_laws* laws, int cushion, double incidence);

// field.c: the factor on rolling friction at a place, and whether a bed is steeper there than a ball at rest is held.
double cue_cloth_factor(const cue_laws* laws, double x, double y);
int cue_is_steep(const cue_laws* laws, double x, double y);

#endif  // CUE_LAW_H_
