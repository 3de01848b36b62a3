package ledgertest

var verifyTests = []conformance{}
