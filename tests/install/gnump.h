/* SPDX-License-Identifier: MIT */
/*
 * The public names of GNU MP that begin with gmp_ or GMP_, and its include guard: a program may use
 * both libraries, in one file too.
 */
#define __GMP_H__
#define GMP_LIMB_BITS 64
#define GMP_NAIL_BITS 0
#define GMP_NUMB_BITS 64
#define GMP_NUMB_MASK (~0ul)
#define GMP_NUMB_MAX (~0ul)
#define GMP_NAIL_MASK 0
enum {
	GMP_ERROR_NONE,
	GMP_ERROR_UNSUPPORTED_ARGUMENT,
	GMP_ERROR_DIVISION_BY_ZERO,
	GMP_ERROR_SQRT_OF_NEGATIVE,
	GMP_ERROR_INVALID_ARGUMENT
};
typedef enum { GMP_RAND_ALG_DEFAULT = 0, GMP_RAND_ALG_LC = 0 } gmp_randalg_t;
typedef struct {
	int state;
} gmp_randstate_t[1];
typedef const void *gmp_randstate_ptr, *gmp_randstate_srcptr;
extern const char *const gmp_version;
extern int gmp_errno, gmp_bits_per_limb;
void gmp_randinit(gmp_randstate_t, gmp_randalg_t, ...);
void gmp_randinit_default(gmp_randstate_t);
void gmp_randinit_lc_2exp(void);
void gmp_randinit_lc_2exp_size(void);
void gmp_randinit_mt(gmp_randstate_t);
void gmp_randinit_set(void);
void gmp_randseed(void);
void gmp_randseed_ui(void);
void gmp_randclear(gmp_randstate_t);
void gmp_urandomb_ui(void);
void gmp_urandomm_ui(void);
int gmp_asprintf(char **, const char *, ...);
int gmp_fprintf(void *, const char *, ...);
int gmp_printf(const char *, ...);
int gmp_snprintf(char *, unsigned long, const char *, ...);
int gmp_sprintf(char *, const char *, ...);
int gmp_obstack_printf(void);
int gmp_obstack_vprintf(void);
int gmp_fscanf(void *, const char *, ...);
int gmp_scanf(const char *, ...);
int gmp_sscanf(const char *, const char *, ...);
int gmp_vasprintf(void);
int gmp_vfprintf(void);
int gmp_vprintf(void);
int gmp_vsnprintf(void);
int gmp_vsprintf(void);
int gmp_vfscanf(void);
int gmp_vscanf(void);
int gmp_vsscanf(void);
