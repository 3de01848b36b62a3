/* ledger.pml - pending facts -> journal -> projector -> events, three events of one run.
 * The lease holder records a fact again (journal or barrier) until `events` has it; only then is the fact deleted.
 * Faults: the broker loses what it acknowledged, delivers twice; holder and projector die anywhere.
 * Safety: never two rows for one event. Progress: in every quiescent state every event has its row.
 * TRUSTACK deletes the fact on the journal's ack; ACKFIRST is a projector that acks before its commit; NODEDUP has
 * no UNIQUE key; SYNCALWAYS is a broker that fsyncs before it acks. */
#define N 3
#define ALL (rows[0] && rows[1] && rows[2])
bit  fact[N]; bit sent[N]; byte strm[N]; byte todo[N]; byte rows[N];
byte losses = 0, redel = 0, kill = 0, made = 0;

active proctype Worker() { do :: made < N -> atomic { fact[made] = 1; made++ } :: else -> break od }

#ifdef TRUSTACK
#define NEED(i) (fact[i] && !sent[i])                 /* record once, believe the journal  */
#else
#define NEED(i) (fact[i] && rows[i] == 0)             /* record until `events` has it       */
#endif
#ifdef BROKERDEDUP
#define PUT(i) if :: strm[i] == 0 -> strm[i]++; todo[i]++ :: else fi
#else
#define PUT(i) strm[i]++; todo[i]++
#endif
#define PUB(i) atomic { NEED(i) && (todo[i] == 0 || !sent[i]) && strm[i] < 4 -> PUT(i); if :: kill < 2 -> kill++ :: sent[i] = 1 fi }
active proctype Holder() {
end: do :: PUB(0) :: PUB(1) :: PUB(2) od }

active proctype Broker() {
#ifdef SYNCALWAYS
  skip
#else
end: do :: atomic { losses < 2 && strm[0]+strm[1]+strm[2] > 0 -> losses++;
       if :: strm[0] = 0; todo[0] = 0 :: strm[1] = 0; todo[1] = 0 :: strm[2] = 0; todo[2] = 0
          :: strm[0] = 0; strm[1] = 0; strm[2] = 0; todo[0] = 0; todo[1] = 0; todo[2] = 0 fi } od
#endif
}

#ifdef NODEDUP
#define APPLY(i) if :: rows[i] < 2 -> rows[i]++ :: else fi
#else
#define APPLY(i) if :: rows[i] == 0 -> rows[i]++ :: else fi
#endif
#ifdef ACKFIRST
#define EAT(i) todo[i] > 0 -> todo[i]--; if :: atomic { redel < 2 -> redel++ } :: atomic { APPLY(i) } fi
#else
#define EAT(i) atomic { todo[i] > 0 -> APPLY(i); if :: redel < 2 -> redel++ :: todo[i]-- fi }
#endif
active proctype Projector() {
end: do :: EAT(0) :: EAT(1) :: EAT(2) od }

#ifndef NOQ
active proctype Quiescent() { timeout -> assert(ALL) }
#endif
ltl once { [] (rows[0] <= 1 && rows[1] <= 1 && rows[2] <= 1) }
