// Package netguard is the only door through which tools reach the network with
// addresses that a model has chosen.
//
// A [Client] made by [New] speaks https to hosts on its allow list, and to
// public addresses alone: the address is judged where it is dialled, after the
// name was resolved, on every redirect again. It takes no proxy from the
// environment, sends credentials only to the hosts they were given for, and
// bounds size, ratio and time of an answer. What it refuses it refuses before
// any connection is attempted.
//
// A client made by [Pinned] speaks to one origin that the operator wrote down,
// a self-hosted search engine for instance, and to nothing else. No part of the
// origin may come from a model.
//
// Nothing in here admits a private address: tests put a network of their own
// below the guard ([Net], and the package netguardtest), not a hole into it.
package netguard
