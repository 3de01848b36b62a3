/* effect.pml - Begin, execute, End of ONE destructive call, over two workers, three epochs and two crashes.
 *
 * No flags = the protocol of ledger/sqlstore (begin.go, end.go, claim.go, resolve.go). Each flag switches on one
 * wrong design; check.sh says which must be VIOLATED. A transaction is an atomic{} block: durable and linearizable.
 * PROVIDER is a keyed or fenced tool, else it is opaque; RESOLVER is a truthful probe or person.                     */
#define W 2
#define MAXEPOCH 3
#define MAXCRASH 2
mtype = { NONE, STARTED, APPLIED, NOTAPPLIED, INDOUBT }; /* effects.state        */
mtype = { EXEC, REPLAY, PARK, TOLDFAIL };              /* verdict of Begin       */
mtype = { OK, DEFINITE, AMBIGUOUS };                   /* what the worker saw    */

byte  epoch = 0;  bool lease = false;                  /* runs.epoch, the lease  */
mtype row = NONE; byte rowepoch = 0; byte token = 9;   /* effects, effect_attempts: the latest attempt */
bool  prior = false;                                   /* an earlier attempt may have reached it */
byte  effects = 0;                                     /* truth in the world     */
bool  keyseen = false;                                 /* provider's key memory  */
bool  flying[W]; byte net = 0;                         /* worker may still send; request still on the wire */
byte  crashes = 0, expiries = 0, done_told = 0, fail_told = 0, parked = 0;

inline hit_provider(saw) {
  if
#ifdef PROVIDER
  :: keyseen -> saw = OK                               /* provider replays       */
#endif
  :: !keyseen -> keyseen = true; effects++; saw = OK
  :: !keyseen -> keyseen = true; effects++; saw = AMBIGUOUS   /* reply lost      */
#ifndef PROVIDER
  :: keyseen -> effects++; saw = OK                    /* opaque: acts again     */
#endif
  :: saw = DEFINITE                                    /* refused, nothing done  */
  :: saw = AMBIGUOUS                                   /* request lost           */
  fi
}

proctype Worker(byte id) {
  byte my; mtype verdict; mtype saw; bool asked;
start:
  my = 0; verdict = 0; saw = 0; asked = false;
  if                                                    /* Claim                  */
  :: atomic { !lease && epoch < MAXEPOCH -> epoch++; my = epoch; lease = true }
  :: atomic { !lease && epoch >= MAXEPOCH -> goto out }
  :: atomic { done_told + fail_told + parked > 0 -> goto out }
  fi;
  atomic {                                              /* Begin (one tx)         */
#ifndef NOFENCE
    if :: my != epoch -> goto start :: else fi;
#endif
    if
    :: row == NONE    -> row = STARTED; rowepoch = my; token = id; verdict = EXEC
    :: row == APPLIED    -> verdict = REPLAY
    :: row == NOTAPPLIED  -> verdict = TOLDFAIL
    :: row == INDOUBT -> verdict = PARK
    :: row == STARTED ->                                /* older attempt, no end  */
#if defined(REEXEC) || defined(PROVIDER)
         rowepoch = my; token = id; verdict = EXEC; prior = true
#else
         row = INDOUBT; verdict = PARK
#endif
    fi;
#ifdef NOBEGIN
    if :: verdict == EXEC -> row = NONE :: else fi;     /* only the outcome is written */
#endif
    if :: verdict == EXEC -> flying[id] = true :: else fi
  }
  if                                                    /* Begin's answer is lost: the same token is asked again */
  :: atomic { verdict == EXEC -> flying[id] = false; asked = true }
  :: true
  fi;
  if
  :: atomic { asked ->
       asked = false;
#ifdef TOKENBLIND
       flying[id] = true
#else
       if
       :: my == epoch && row == STARTED && token == id && rowepoch == my -> flying[id] = true
       :: my == epoch && row == APPLIED -> verdict = REPLAY
       :: my == epoch && row == INDOUBT -> verdict = PARK
       :: else -> verdict = 0; goto out                 /* fenced, or ended without effect */
       fi
#endif
     }
  :: !asked
  fi;
  if
  :: verdict == REPLAY   -> atomic { done_told++; goto out }
  :: verdict == TOLDFAIL -> atomic { fail_told++; goto out }
  :: verdict == PARK     ->
#ifdef REREAD
     if :: row == INDOUBT -> atomic { parked++; goto out } :: else -> flying[id] = true fi
#else
     atomic { parked++; goto out }
#endif
  :: else
  fi;
  if :: atomic { crashes < MAXCRASH -> crashes++; flying[id] = false; goto die }
     :: atomic { crashes < MAXCRASH -> crashes++; flying[id] = false; net++; goto die } /* killed after send */
     :: true fi;
#ifdef RECFIRST
  atomic { row = APPLIED }
  if :: atomic { crashes < MAXCRASH -> crashes++; flying[id] = false; goto die } :: true fi;
#endif
  atomic {                                              /* the tool runs          */
    if :: !flying[id] -> goto out                       /* fenced off (killed)    */
       :: else -> hit_provider(saw); flying[id] = false fi
  }
  if :: atomic { crashes < MAXCRASH -> crashes++; goto die } :: true fi;
  atomic {                                              /* End (one tx)           */
    if
#ifdef NOFENCE
    :: saw == OK -> row = APPLIED; done_told++
    :: saw == DEFINITE -> row = NOTAPPLIED; fail_told++
#else
    :: saw == OK && row == STARTED && rowepoch == my -> row = APPLIED; done_told++
    :: saw == OK && row == INDOUBT -> row = APPLIED        /* late evidence only     */
    :: saw == DEFINITE && row == STARTED && rowepoch == my ->
#ifndef ERRISFAIL
       if :: prior -> row = INDOUBT; parked++           /* 404/409 on a retry proves nothing */
          :: else  -> row = NOTAPPLIED; fail_told++ fi
#else
       row = NOTAPPLIED; fail_told++
#endif
#endif
    :: saw == AMBIGUOUS && row == STARTED && rowepoch == my ->
#ifdef TIMEOUTISFAIL
         row = NOTAPPLIED; fail_told++
#elif defined(PROVIDER)
         goto again                                     /* same key: retry now    */
#else
         row = INDOUBT; parked++
#endif
    :: else -> skip                                     /* fenced: told nothing   */
    fi;
    goto out
  }
again: skip;
  atomic { if :: epoch == my -> flying[id] = true; hit_provider(saw); flying[id] = false
              :: else -> goto out fi };
  if :: saw == OK -> atomic { if :: row == STARTED && rowepoch == my -> row = APPLIED; done_told++ :: else fi }
     :: else -> atomic { if :: row == STARTED && rowepoch == my -> row = INDOUBT; parked++ :: else fi }
  fi;
  goto out;
die:
#ifdef LOSSYBEGIN
  atomic { if :: row == STARTED -> row = NONE :: true fi };   /* a Begin without fsync */
#endif
  goto start;
out: skip
}

proctype Net() { mtype x;                               /* a dead worker's request arrives late, or never */
  do :: atomic { net > 0 -> net--; hit_provider(x) } :: atomic { net > 0 -> net-- } od }

proctype Clock() {                                      /* leases may lapse under a live worker */
  do
  :: atomic { lease -> lease = false; expiries++;
       if :: expiries > 6 -> break :: else fi }
#ifdef EXPIRE
  :: atomic { row == STARTED && !lease -> row = NONE }  /* TTL on in-progress keys */
#endif
#ifdef KEYTTL
  :: atomic { keyseen -> keyseen = false }              /* provider forgets the key */
#endif
  od
}

#ifdef RESOLVER
#ifdef EARLYPROBE
#define QUIET true
#else
#define QUIET (!flying[0] && !flying[1] && net == 0)    /* attempt deadline passed + kill confirmed + wire drained */
#endif
proctype Resolver() {                                   /* probe: tools that can be asked "did K happen?" */
  byte n = 0;
  do
  :: n < 2 ->
     atomic { row == INDOUBT && QUIET -> n++; parked = 0;
       if :: effects > 0 -> row = APPLIED :: else -> row = NONE; prior = false fi }
  :: n >= 2 -> break
  od
}
#endif

init { atomic { run Worker(0); run Worker(1); run Clock(); run Net();
#ifdef RESOLVER
  run Resolver();
#endif
} }

/* I1 at most one effect; I2 told done => happened; I3 told failed => did not happen */
ltl inv { [] (effects <= 1 && !(done_told > 0 && effects == 0) && !(fail_told > 0 && effects > 0)) }
