package redact

// automaton is an Aho-Corasick machine over folded bytes, compiled to a dense
// table: one load per byte whatever the number of patterns. Folding makes
// upper and lower case one class, and the two base64 alphabets one; white
// space and NUL leave the state alone, so a pattern matches through line
// breaks and UTF-16. A hit is therefore only a candidate, to be verified by
// the caller. It is immutable after build.
type automaton struct {
	class [256]uint8
	shift uint
	next  []uint32 // (state<<shift | class) → state<<shift, hitFlag set if that state reports
	depth []uint16 // state → bytes of pattern read so far
	out   [][]int32
	link  []uint32 // state → nearest suffix state with an out list; 0 is none
	open  []uint32 // state → nearest suffix state, or itself, on the way to a marked pattern
}

const hitFlag = 1 << 31

// isSkipped reports whether matching reads over b: white space and NUL.
func isSkipped(b byte) bool { return b <= ' ' && (b == ' ' || b == 0 || (b >= '\t' && b <= '\r')) }

// fold maps bytes that the automaton does not tell apart to one of them.
func fold(b byte) byte {
	switch {
	case 'A' <= b && b <= 'Z':
		return b + 'a' - 'A'
	case b == '-':
		return '+'
	case b == '_':
		return '/'
	}
	return b
}

// newAutomaton compiles patterns. Skipped bytes in a pattern are ignored, and
// a pattern with no other bytes never matches. Pattern ids are indexes; the
// first marked patterns are those that partial speaks of.
func newAutomaton(patterns []string, marked int) *automaton {
	a := &automaton{}
	classes := a.number(patterns)
	for 1<<a.shift < classes {
		a.shift++
	}
	a.addState(0)
	for id, p := range patterns {
		a.add(p, int32(id), id < marked)
	}
	a.connect()
	return a
}

// number gives each folded byte that occurs in a pattern a class of its own.
// Class 0 is every other byte, class 1 the skipped ones.
func (a *automaton) number(patterns []string) int {
	var used [256]bool
	for _, p := range patterns {
		for i := range len(p) {
			used[fold(p[i])] = true
		}
	}
	n := uint8(2)
	var of [256]uint8
	for b := range 256 {
		if c := fold(byte(b)); byte(b) == c && used[b] && !isSkipped(c) {
			of[c] = n
			n++
		}
	}
	for b := range 256 {
		a.class[b] = of[fold(byte(b))]
		if isSkipped(byte(b)) {
			a.class[b] = 1
		}
	}
	return int(n)
}

func (a *automaton) addState(depth uint16) uint32 {
	s := uint32(len(a.depth))
	a.next = append(a.next, make([]uint32, 1<<a.shift)...)
	a.depth = append(a.depth, depth)
	a.out = append(a.out, nil)
	a.open = append(a.open, 0)
	return s
}

func (a *automaton) add(p string, id int32, marked bool) {
	s := uint32(0)
	for i := range len(p) {
		if isSkipped(p[i]) {
			continue
		}
		at := s<<a.shift | uint32(a.class[p[i]])
		t := a.next[at]
		if t == 0 {
			t = a.addState(a.depth[s] + 1)
			a.next[at] = t
		}
		s = t
		if marked {
			a.open[s] = s
		}
	}
	if s != 0 {
		a.out[s] = append(a.out[s], id)
	}
}

// connect turns the trie into the full table, breadth first.
func (a *automaton) connect() {
	states, width := len(a.depth), uint32(1)<<a.shift
	fail := make([]uint32, states)
	a.link = make([]uint32, states)
	order := make([]uint32, 1, states)
	for k := 0; k < len(order); k++ {
		s := order[k]
		row := a.next[s<<a.shift : (s+1)<<a.shift]
		for c := uint32(0); c < width; c++ {
			t := row[c]
			back := uint32(0)
			if s != 0 {
				back = a.next[fail[s]<<a.shift|c]
			}
			if t == 0 || c == 1 {
				row[c] = back
				continue
			}
			order = append(order, t)
			fail[t] = back
			a.link[t] = back
			if len(a.out[back]) == 0 {
				a.link[t] = a.link[back]
			}
			if a.open[t] == 0 {
				a.open[t] = a.open[back]
			}
		}
		row[1] = s
	}
	for i, t := range a.next {
		v := t << a.shift
		if (len(a.out[t]) > 0 || a.link[t] != 0) && uint32(i)&(width-1) != 1 {
			v |= hitFlag
		}
		a.next[i] = v
	}
}

// step reads text from i in state s and stops after the first byte that
// completes a pattern. It returns the index after that byte and the state,
// or len(text) and a state without hitFlag.
func (a *automaton) step(text string, i int, s uint32) (int, uint32) {
	next, class := a.next, &a.class
	s &^= hitFlag
	for ; i < len(text); i++ {
		s = next[s|uint32(class[text[i]])]
		if s&hitFlag != 0 {
			return i + 1, s
		}
	}
	return i, s
}

// matches calls f for each pattern that ends in state s.
func (a *automaton) matches(s uint32, f func(id int32)) {
	for t := s &^ hitFlag >> a.shift; t != 0; t = a.link[t] {
		for _, id := range a.out[t] {
			f(id)
		}
	}
}

// partial returns how many unskipped bytes at the end of what was read may be
// the beginning of a marked pattern.
func (a *automaton) partial(s uint32) int { return int(a.depth[a.open[s&^hitFlag>>a.shift]]) }
