package main

import (
	mathrand "math/rand/v2"
	"strings"

	"github.com/daybookhq/daybook/examples/refunds/payments"
)

// demoKey is what a shop's API key looks like.
func demoKey(seed uint64) string {
	r := mathrand.New(mathrand.NewPCG(seed, 7))
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789"
	b := make([]byte, 32)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return strings.Join([]string{"sk", "live", string(b)}, "_")
}

// killPlan chooses, by seed, at which refund requests a worker is killed, and
// whether before or after the money moves. Both happen.
func killPlan(seed uint64, kills int) map[int]payments.Moment {
	r := mathrand.New(mathrand.NewPCG(seed, 1))
	plan := map[int]payments.Moment{}
	moments := []payments.Moment{payments.BeforeLog, payments.AfterLog}
	r.Shuffle(2, func(i, j int) { moments[i], moments[j] = moments[j], moments[i] })
	for i, n := range r.Perm(12)[:kills] {
		m := moments[i%2]
		if i >= 2 {
			m = moments[r.IntN(2)]
		}
		plan[n+1] = m
	}
	return plan
}
