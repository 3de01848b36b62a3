/* journal.pml - takeover (steps a to d of DESIGN.md section 4): workers append events of one run to a journal without any check by the broker (one subject per worker,
 * envelopes, at least once); the database alone decides what is valid. The broker may lose messages, deliver late, twice
 * and out of order. A holder's barrier writes its own events straight into the database.
 * ld[i] = epoch of the event stored at sequence i (0 = none). conflict = two different events at one sequence.
 * own[e].has[i] = holder e wrote an event at i; told[e] = it believes to be the holder.
 * Recommended = no flags. NOBASE: no epoch base; STALECHECK: validity checked at reading, not at inserting.
 * Three epochs, two sequences: 10 M states, 30 s, 900 MB. */
#define MAXL 2
#define E 4
byte epoch = 0; bool lease = false; byte lapses = 0, losses = 0;
byte base[E] = MAXL; bool hasbase[E];
byte ld[MAXL];
typedef Row { bool has[MAXL] }; Row st[E];
bool buf = false; byte be = 0, bi = 0; bool bok = false;
bool conflict = false;
#ifdef NOBASE
#define V(e,i) true
#else
#define V(e,i) (!(e < 2 && hasbase[2] && i >= base[2]) && !(e < 3 && hasbase[3] && i >= base[3]))
#endif
#define TOP (ld[0] == 0 -> 0 : (ld[1] == 0 -> 1 : 2))
inline put(e, i) { if :: ld[i] == 0 -> ld[i] = e :: ld[i] == e -> skip :: else -> conflict = true fi }
proctype W() { byte my = 0, n = 0, k = 0;
again:
  if :: atomic { !lease && epoch < E-1 -> epoch++; my = epoch; lease = true }
     :: atomic { epoch >= E-1 -> goto out } fi;
  /* (c) base = contiguous top; rows beyond are set aside */
  if :: atomic {
        my == epoch -> n = TOP; base[my] = n; hasbase[my] = true;
        if :: n < 1 -> ld[0] = 0; ld[1] = 0 :: n == 1 -> ld[1] = 0 :: n >= 2 -> skip fi }
     :: atomic { my != epoch -> goto again }
  fi;
  do :: n >= MAXL -> goto out
     :: n < MAXL -> atomic { st[my].has[n] = true; n++ }            /* append: nobody checks      */
     :: atomic { my == epoch && lease -> k = base[my];              /* barrier: prefix            */
          do :: k < n -> put(my, k); k++ :: else -> break od; k = 0 }
     :: atomic { if :: my == epoch -> lease = false :: else fi; goto again }   /* dies or gives up */
  od;
out: skip }
active proctype Clock() { do :: atomic { lease && lapses < 2 -> lease = false; lapses++ } :: lapses >= 2 -> break od }
active proctype Broker() { byte e, i;
end: do :: atomic { losses < 2 -> losses++; if :: e = 1 :: e = 2 :: e = 3 fi; if :: i = 0 :: i = 1 fi; st[e].has[i] = false; e = 0; i = 0 } od }
active proctype Projector() {
end: do
  :: atomic { !buf -> buf = true; if :: be = 1 :: be = 2 :: be = 3 fi; if :: bi = 0 :: bi = 1 fi; bok = st[be].has[bi];
#ifdef STALECHECK
       bok = bok && V(be, bi)
#endif
     }
  :: atomic { buf -> buf = false;
#ifdef STALECHECK
       if :: bok -> put(be, bi) :: else fi; be = 0; bi = 0; bok = false
#else
       if :: bok && V(be, bi) -> put(be, bi) :: else fi; be = 0; bi = 0; bok = false
#endif
     } od }
init { atomic { run W(); run W() } }
ltl inv { [] (!conflict) }
