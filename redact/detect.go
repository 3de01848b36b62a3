package redact

import (
	"iter"
	"regexp"
	"slices"
	"strings"
)

// detector recognises one kind of credential by its looks.
type detector struct {
	name string
	// One of keywords is in every text that find is given. Case counts in a
	// keyword with capitals. White space in the text is read over.
	keywords []string
	find     func(text string) [][2]int
}

const cardName = "card_number"

// minFound is the least length of what a detector may redact after it was cut
// at a marker.
const minFound = 4

// detect replaces what the detectors of the keywords in s find.
func (m *matcher) detect(s string, hint keyHint) string {
	if t := m.detectByHint(s, hint); t != s {
		return t
	}
	for range maxPasses {
		f := m.scan(s)
		if f.detectors == 0 {
			return s
		}
		var spans []span
		keep := islands(s)
		for i := range m.detectors {
			if f.detectors&(1<<i) == 0 {
				continue
			}
			d := &m.detectors[i]
			for _, at := range d.find(s) {
				if sp, ok := clear(span{start: at[0], end: at[1], name: d.name}, keep); ok {
					spans = append(spans, sp)
				}
			}
		}
		if len(spans) == 0 {
			return s
		}
		s = m.replace(s, spans)
	}
	return s
}

// clear cuts s before the first marker or handle in it.
func clear(s span, keep []span) (span, bool) {
	if k, ok := overlapping(keep, s); ok {
		if s.start >= k.start {
			return s, false
		}
		s.end = k.start
	}
	return s, s.end-s.start >= minFound
}

// detectByHint judges a whole value by its key.
func (m *matcher) detectByHint(s string, hint keyHint) string {
	switch {
	case hint == cardHint && isCard(s):
		return m.marker(cardName, "", s)
	case hint == secretHint && len(s) < 512 && isRandom(s):
		return m.marker("entropy", "", s)
	}
	return s
}

// pattern1 returns a find function for group 1 of expr, or all of it if it has
// no group, where ok (if not nil) accepts it. Placeholders are never found.
func pattern1(expr string, ok func(string) bool) func(string) [][2]int {
	re := regexp.MustCompile(expr)
	group := min(1, re.NumSubexp())
	return func(text string) (found [][2]int) {
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			start, end := at[2*group], at[2*group+1]
			if start < 0 {
				continue
			}
			if v := text[start:end]; !isPlaceholder(v) && (ok == nil || ok(v)) {
				found = append(found, [2]int{start, end})
			}
		}
		return found
	}
}

// detectors returns the table. At most 64: a finding has a bit for each.
func detectors() []detector {
	return slices.Concat(tokenDetectors(), contextDetectors())
}

// tokenDetectors find credentials that show what they are.
func tokenDetectors() []detector {
	return []detector{
		{"api_key", []string{"sk-", "sk_", "rk-", "rk_"}, pattern1(`\b(?:sk|rk)[-_](?:(?:live|test|prod|proj|ant|or|admin|svcacct)[-_][A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]{20,})`, hasDigit)},
		{"daybook_token", []string{"dbk_"}, pattern1(`\bdbk_[a-fA-F0-9]{16,}`, nil)}, // of the page; cut ones too
		{"stripe_webhook", []string{"whsec_"}, pattern1(`\bwhsec_[A-Za-z0-9+/=]{24,}`, hasDigit)},
		{"github_token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, pattern1(`\bgh[pousr]_[A-Za-z0-9]{36}\b`, isGitHubToken)},
		{"github_pat", []string{"github_pat_"}, pattern1(`\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b`, nil)},
		{"gitlab_token", []string{"glpat-", "gldt-", "glrt-"}, pattern1(`\bgl(?:pat|dt|rt)-[A-Za-z0-9_.-]{20,}`, hasDigit)},
		{"aws_key_id", []string{"AKIA", "ASIA", "ABIA", "ACCA"}, pattern1(`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`, nil)},
		{"slack_token", []string{"xox", "xapp-"}, pattern1(`\b(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}`, hasDigit)},
		{"slack_webhook", []string{"hooks.slack.com"}, pattern1(`hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,})`, nil)},
		{"discord_webhook", []string{"api/webhooks/"}, pattern1(`discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{50,})`, nil)},
		{"jwt", []string{"eyJ"}, pattern1(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`, isJWT)},
		{"private_key", []string{"privatekey", "PuTTY-User-Key"}, findPrivateKeys()},
		{"age_key", []string{"AGE-SECRET-KEY-1"}, pattern1(`\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`, nil)},
		{"google_api_key", []string{"AIza"}, pattern1(`\bAIza[A-Za-z0-9_-]{35}`, nil)},
		{"google_oauth", []string{"GOCSPX-", "ya29."}, pattern1(`\b(?:GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{20,})`, nil)},
		{"npm_token", []string{"npm_"}, pattern1(`\bnpm_[A-Za-z0-9]{36}\b`, hasDigit)},
		{"pypi_token", []string{"pypi-AgEIcHlw"}, pattern1(`\bpypi-AgEIcHlw[A-Za-z0-9_-]{40,}`, nil)},
		{"sendgrid_key", []string{"SG."}, pattern1(`\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`, nil)},
		{"huggingface_token", []string{"hf_"}, pattern1(`\bhf_[A-Za-z0-9]{34,}\b`, nil)},
		{"digitalocean_token", []string{"dop_v1_", "doo_v1_", "dor_v1_"}, pattern1(`\bdo[opr]_v1_[a-f0-9]{64}\b`, nil)},
		{"shopify_token", []string{"shpat_", "shpca_", "shppa_", "shpss_"}, pattern1(`\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b`, nil)},
		{"telegram_token", []string{":AA"}, pattern1(`\b\d{8,10}:AA[A-Za-z0-9_-]{33}`, nil)},
		{"vault_token", []string{"hvs.", "hvb."}, pattern1(`\bhv[sb]\.[A-Za-z0-9_-]{24,}`, nil)},
		{"nkey_seed", []string{"SUA", "SAA", "SOA", "SNA", "SCA", "SXA"}, pattern1(`\bS[ACNOUX]A[A-Z2-7]{55}\b`, isNkeySeed)},
		{"azure_key", []string{"accountkey=", "sharedaccesskey="}, pattern1(`(?i)(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})`, nil)},
	}
}

// contextDetectors find credentials by what stands before them.
func contextDetectors() []detector {
	return []detector{
		{"url_password", []string{"://"}, findUserinfo()},
		{"url_parameter", []string{"key=", "token=", "secret=", "password=", "sig=", "signature=", "credential=", "code="}, findParameters()},
		{"authorization", []string{"authorization", "bearer", "basic"}, findAuthorization()},
		{"cookie", []string{"cookie:"}, pattern1(`(?i)\bcookie:[ \t]*([^\r\n]{4,})`, hasEqual)},
		{"assignment", []string{"passw", "pwd", "passphrase", "secret", "apikey", "api_key", "access_key", "accesskey", "token", "private_key", "privatekey"}, findAssignments()},
		{cardName, []string{"card", "visa", "amex", "pan:", "pannumber"}, findCards()},
		{"entropy", []string{"apikey", "api_key", "token", "secret", "credential", "passw", "keyis", "key:", "key="}, findRandom()},
	}
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

func hasEqual(s string) bool { return strings.Contains(s, "=") }

// findPrivateKeys finds PEM and PuTTY private keys up to their end, or the end
// of the text if they are cut short. Line breaks may be escaped or missing.
func findPrivateKeys() func(string) [][2]int {
	begin := regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d`)
	end := regexp.MustCompile(`-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|Private-MAC: *[0-9a-f]+`)
	return func(text string) (found [][2]int) {
		for from := 0; ; {
			b := begin.FindStringIndex(text[from:])
			if b == nil {
				return found
			}
			start, stop := from+b[0], len(text)
			if e := end.FindStringIndex(text[from+b[1]:]); e != nil {
				stop = from + b[1] + e[1]
			}
			// Documentation names the header line; a key goes on after it.
			if body := squeeze(text[from+b[1] : stop]); len(body) >= 16 && !strings.HasPrefix(body, markerOpen) {
				found = append(found, [2]int{start, stop})
			}
			from = stop
		}
	}
}

// findUserinfo finds the password of a URL, or a user name that is a token.
func findUserinfo() func(string) [][2]int {
	re := regexp.MustCompile(`\b[a-zA-Z][a-zA-Z0-9+.-]*://(?:([^\s/:@?#"'<>]{16,})@|[^\s/:@?"'<>]*:([^\s"'<>]*?)@[A-Za-z0-9_.\[-])`)
	return func(text string) (found [][2]int) {
		for start, word := range wordsWith(text, "://") {
			if strings.IndexByte(word, '@') < 0 { // most URLs, and the expression is slow
				continue
			}
			for _, at := range re.FindAllStringSubmatchIndex(word, -1) {
				switch {
				case at[2] >= 0 && hasDigit(word[at[2]:at[3]]) && !isPlaceholder(word[at[2]:at[3]]):
					found = append(found, [2]int{start + at[2], start + at[3]})
				case at[4] >= 0 && at[5]-at[4] >= 3 && !isPlaceholder(word[at[4]:at[5]]) && isPassword(word[at[4]:at[5]]):
					found = append(found, [2]int{start + at[4], start + at[5]})
				}
			}
		}
		return found
	}
}

// wordsWith ranges over the words of text that hold sep, by where they start.
// Space, quotes and angle brackets end a word.
func wordsWith(text, sep string) iter.Seq2[int, string] {
	const ends = " \t\n\f\r\"'<>"
	return func(yield func(int, string) bool) {
		for from := 0; ; {
			at := strings.Index(text[from:], sep)
			if at < 0 {
				return
			}
			at += from
			start := from + strings.LastIndexAny(text[from:at], ends) + 1
			end := len(text)
			if n := strings.IndexAny(text[at:], ends); n >= 0 {
				end = at + n
			}
			if !yield(start, text[start:end]) {
				return
			}
			from = end
		}
	}
}

// isPassword tells the password in user:password@host from the port and path
// in host:80/a@b.
func isPassword(s string) bool {
	port, _, path := strings.Cut(s, "/")
	return !path || strings.Trim(port, "0123456789") != "" || port == ""
}

// findParameters finds the values of secret query parameters.
func findParameters() func(string) [][2]int {
	re := regexp.MustCompile(`(?i)[?&;]((?:[a-z0-9-]*[_.-])?(?:api_?key|key|token|secret|password|sig|signature|credential|code))=([^&\s#"'<>\[\]]{6,})`)
	return func(text string) (found [][2]int) {
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			name, v := strings.ToLower(text[at[2]:at[3]]), text[at[4]:at[5]]
			common := name == "key" || name == "token" || name == "code" ||
				strings.HasSuffix(name, "_key") && !strings.HasSuffix(name, "api_key") && !strings.HasSuffix(name, "access_key")
			if isPlaceholder(v) || isULID(v) || common && (isIdentifier(v) || !hasDigit(v)) {
				continue
			}
			found = append(found, [2]int{at[4], at[5]})
		}
		return found
	}
}

// findAuthorization finds the credentials of an Authorization header, with or
// without its name.
func findAuthorization() func(string) [][2]int {
	re := regexp.MustCompile(`(?i)(?:\bauthorization\\*["']?\s*[:=]\s*\\*["']?(?:(?:bearer|basic|token|apikey|digest|aws4-hmac-sha256)\s+)?([^\s"'\\,\[\]]{6,})|\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{12,}))`)
	return func(text string) (found [][2]int) {
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			start, end := at[2], at[3]
			if start < 0 {
				start, end = at[4], at[5]
				if v := text[start:end]; !hasDigit(v) && !(strings.ToLower(v) != v && strings.HasSuffix(v, "=")) {
					continue
				}
			}
			switch v := text[start:end]; strings.ToLower(v) {
			case "bearer", "basic", "digest", "required", "missing", "denied", "failed":
			default:
				if !isPlaceholder(v) {
					found = append(found, [2]int{start, end})
				}
			}
		}
		return found
	}
}
