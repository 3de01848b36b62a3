/* approval.pml - a person approves ONE call; a run with two holders, crashes and a model that re-plans asks for it.
 *
 * op 0 is the call as it was approved, op 1 the same call with other arguments (a model that changed its mind after
 * the person said yes). An approval is consumed in the transaction of Begin that inserts the attempt: single use,
 * unexpired, bound to the digest of the arguments. No flags = that. Wrong designs:
 * CONSUMEAFTER  consumed by End;  CONSUMEBEFORE  consumed in a transaction of its own before Begin;
 * NODIGEST      bound to the call alone;  STALECHECK  read before Begin, not checked again in it;
 * REUSE         an approval that was used counts again after not_applied.                                          */
#define W 2
#define MAXEPOCH 3
#define MAXCRASH 2
mtype = { PENDING, APPROVED, CONSUMED, EXPIRED, DENIED };
mtype = { NONE, STARTED, APPLIED, NOTAPPLIED, INDOUBT };

mtype approval = PENDING;
mtype row[2] = NONE; byte rowepoch[2];
byte epoch = 0; bool lease = false; byte crashes = 0, lapses = 0;
byte uses = 0;                  /* attempts that were begun under the approval */
bool wrong = false;             /* begun without a valid approval of just these arguments */
byte orphans = 0;               /* consumed, and no attempt was begun with it */

inline consume() { approval = CONSUMED }

proctype Holder(byte id) {
  byte my, op; bool ok, mine;
start:
  my = 0; ok = false; mine = false; op = 0;
  if
  :: atomic { !lease && epoch < MAXEPOCH -> epoch++; my = epoch; lease = true;      /* Claim: what was started is in doubt */
       if :: row[0] == STARTED -> row[0] = INDOUBT :: else fi;
       if :: row[1] == STARTED -> row[1] = INDOUBT :: else fi }
  :: atomic { epoch >= MAXEPOCH -> goto out }
  fi;
again:
  if :: op = 0 :: op = 1 fi;                                                        /* what the model asks for now */
#ifdef STALECHECK
  ok = (approval == APPROVED && op == 0);
#endif
#ifdef CONSUMEBEFORE
  atomic { if :: my == epoch && approval == APPROVED && op == 0 -> consume(); orphans++; mine = true :: else fi };
  if :: atomic { crashes < MAXCRASH -> crashes++; lease = false; goto start } :: true fi;
#endif
  atomic {                                                                          /* Begin (one transaction) */
    if :: my != epoch -> goto start :: else fi;
#ifdef CONSUMEBEFORE
    ok = mine;
#elif defined(STALECHECK)
    skip;
#elif defined(NODIGEST)
    ok = (approval == APPROVED);
#elif defined(REUSE)
    ok = ((approval == APPROVED || (approval == CONSUMED && row[op] == NOTAPPLIED)) && op == 0);
#else
    ok = (approval == APPROVED && op == 0);
#endif
    if
    :: ok && (row[op] == NONE || row[op] == NOTAPPLIED) ->
         wrong = wrong || op != 0 || (approval != APPROVED && approval != CONSUMED);
         row[op] = STARTED; rowepoch[op] = my; uses++;
#ifdef CONSUMEBEFORE
         orphans--; mine = false
#elif defined(CONSUMEAFTER)
         skip
#else
         consume()
#endif
    :: else -> goto done                                                            /* waits for a person, or replays */
    fi
  }
  if :: atomic { crashes < MAXCRASH -> crashes++; lease = false; goto start } :: true fi;
  atomic {                                                                          /* End (one transaction) */
    if
    :: row[op] == STARTED && rowepoch[op] == my ->
       if :: row[op] = APPLIED :: row[op] = NOTAPPLIED :: row[op] = INDOUBT fi;
#ifdef CONSUMEAFTER
       if :: row[op] != INDOUBT -> consume() :: else fi
#endif
    :: else -> skip
    fi
  }
done:
  if :: goto again :: atomic { lease = false; goto start } :: goto out fi;
out: skip
}

active proctype Person() {
  if :: atomic { approval == PENDING -> approval = APPROVED }
     :: atomic { approval == PENDING -> approval = DENIED } fi
}

active proctype Clock() {
  do
  :: atomic { approval == APPROVED -> approval = EXPIRED; break }
  :: atomic { lease && lapses < 2 -> lease = false; lapses++ }
  :: break
  od
}

active proctype Resolver() { byte n = 0;                                            /* a truthful "it did not happen" */
  do :: n < 2 -> atomic { row[0] == INDOUBT -> n++; row[0] = NOTAPPLIED } :: break od }

init { atomic { run Holder(0); run Holder(1) } }

/* One attempt per approval, none without; an approval is not used up for nothing while nobody has the run. */
ltl inv { [] (uses <= 1 && !wrong && (lease || orphans == 0)) }
