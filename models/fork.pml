/* fork.pml - two loops on one run: its history must be that of ONE loop at a time.
 * A barrier checks the epoch (NOFENCE: it does not) and UNIQUE(run_id, seq) (NOSEQ: there is none); either suffices. */
#define MAXL 4
byte epoch = 0, top = 0, elog[MAXL]; bool lease = false; byte lapses = 0;
proctype Loop() { byte my, n;
again:
  if :: atomic { !lease && epoch < 3 -> epoch++; my = epoch; lease = true; n = top }   /* load history  */
     :: atomic { epoch >= 3 || top >= MAXL -> goto out } fi;
  do
  :: n >= MAXL -> goto out
  :: n < MAXL -> atomic {                                                                 /* append (1 tx) */
#ifndef NOFENCE
       if :: my != epoch -> goto again :: else fi;
#endif
#ifndef NOSEQ
       if :: top != n -> goto again :: else fi;                                        /* UNIQUE(run,seq) / expected-last-seq */
#else
       if :: top >= MAXL -> goto out :: else fi;
#endif
       elog[top] = my; top++; n++ }
  od;
out: skip }
active proctype Clock() { do :: atomic { lease && lapses < 3 -> lease = false; lapses++ } :: lapses >= 3 -> break od }
init { atomic { run Loop(); run Loop() } }
#define MONO (!(top>1 && elog[0]>elog[1]) && !(top>2 && elog[1]>elog[2]) && !(top>3 && elog[2]>elog[3]))
ltl inv { [] MONO }
