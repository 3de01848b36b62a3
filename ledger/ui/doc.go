// Package ui is the ledger as a page: runs and what they are doing, one run as a
// waterfall, what waits for a person, what it cost, whether the record holds. It is
// an [http.Handler] to embed, rendered on the server, with all it needs inside: it
// loads nothing from elsewhere, runs no inline script, and works without any script.
//
// It reads the ledger's own contracts and keeps nothing. What a run says (a tool's
// arguments, a model's answer, an agent's name) is text to it and never markup;
// characters that hide or turn what follows are shown as what they are. It changes
// something only for whoever has the scope for it, through the ledger's own methods,
// so that every act is an event or a fact with its actor.
package ui
