package wasm

import (
	"errors"
	"fmt"
)

// Bounds of a module that a model wrote: what is above them would end in a child
// that is killed, which says less.
const (
	maxModule  = 1 << 20
	maxEntries = 100_000 // of any vector
	maxTable   = 1 << 20 // entries of a table, of eight bytes
	maxTypes   = 1000    // parameters, or results, of one type
	maxLocals  = 50_000  // of all functions
	// maxBody bounds a function: its compiling takes time by the square of how deep
	// its blocks are nested, here about 3 seconds.
	maxBody = 32 << 10
	// maxWork bounds what the compiler keeps of one function: at each
	// instruction, about as much as there are locals, or values of a type.
	maxWork = 4 << 20
)

var errModule = errors.New("this is no WebAssembly module, or one with more than version 2 without reference types knows")

// check refuses a module that declares more than it holds, or more than any
// program needs, and returns it without its custom sections. What is allowed
// holds no vector that is larger than the bytes that describe it. Whether it is
// valid is for the compiler to say.
func check(module []byte) ([]byte, error) {
	if len(module) > maxModule {
		return nil, fmt.Errorf("a module of %d bytes: at most %d are allowed", len(module), maxModule)
	}
	if len(module) < 8 || string(module[:8]) != "\x00asm\x01\x00\x00\x00" {
		return nil, errModule
	}
	c := checker{}
	kept := module[:8:8]
	for rest := (&reader{b: module[8:]}); len(rest.b) > 0; {
		before := rest.b
		id := rest.byte()
		body := &reader{b: rest.bytes(rest.u32())}
		if rest.err != nil {
			return nil, rest.err
		}
		if id == 0 {
			continue
		}
		c.section(id, body)
		if body.err == nil && len(body.b) > 0 {
			body.err = errModule
		}
		if body.err != nil {
			return nil, body.err
		}
		kept = append(kept, before[:len(before)-len(rest.b)]...)
	}
	return kept, nil
}

type checker struct {
	widest int // values of the largest type
	locals int // of all functions so far
}

func (c *checker) section(id byte, r *reader) {
	each := func(one func()) {
		for n := r.count(); n > 0 && r.err == nil; n-- {
			one()
		}
	}
	switch id {
	case 1:
		each(func() { c.functionType(r) })
	case 2:
		each(func() {
			r.name()
			r.name()
			if r.byte() != 0 {
				r.fail(errors.New("only functions can be imported"))
			}
			r.u32()
		})
	case 3:
		each(func() { r.u32() })
	case 4:
		tables := 0
		each(func() {
			r.valueType()
			if least := r.limits(); least > maxTable {
				r.fail(fmt.Errorf("a table of %d entries: at most %d are allowed", least, maxTable))
			}
			if tables++; tables > 1 {
				r.fail(errors.New("2 tables: want at most one"))
			}
		})
	case 5:
		each(func() { r.limits() })
	case 6:
		each(func() {
			r.valueType()
			r.byte()
			r.constant()
		})
	case 7:
		each(func() {
			r.name()
			r.byte()
			r.u32()
		})
	case 8, 12: // the function to start with, the count of data
		r.u32()
	case 9:
		each(r.elements)
	case 10:
		each(func() { c.function(r) })
	case 11:
		each(r.data)
	default:
		r.fail(errModule)
	}
}

func (c *checker) functionType(r *reader) {
	if r.byte() != 0x60 {
		r.fail(errModule)
	}
	width := 0
	for range 2 {
		n := r.count()
		if n > maxTypes {
			r.fail(fmt.Errorf("a type of %d parameters or results: at most %d are allowed", n, maxTypes))
			return
		}
		for range n {
			r.valueType()
		}
		width += n
	}
	c.widest = max(c.widest, width)
}

func (c *checker) function(r *reader) {
	size := r.u32()
	if size > maxBody {
		r.fail(fmt.Errorf("a function of %d bytes: at most %d are allowed", size, maxBody))
		return
	}
	b := &reader{b: r.bytes(size), err: r.err}
	own := 0
	for n := b.count(); n > 0 && b.err == nil; n-- {
		more := b.u32()
		b.valueType()
		if more > maxLocals || c.locals+int(more) > maxLocals {
			b.fail(fmt.Errorf("more than %d locals", maxLocals))
			break
		}
		own += int(more)
		c.locals += int(more)
	}
	if work := int(size) * (own + c.widest); b.err == nil && work > maxWork {
		b.fail(fmt.Errorf("a function of %d bytes with %d locals, beside a type of %d values, is too much: take smaller functions", size, own, c.widest))
	}
	r.fail(b.err)
}

// reader reads the binary format. After an error it reads zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.b, r.err = nil, err
	}
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)) {
		r.fail(errModule)
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// u32 is a number in one to five bytes.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail(errModule)
	return 0
}

// signed skips a number of up to ten bytes.
func (r *reader) signed() {
	for range 10 {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail(errModule)
}

// count is the length of a vector. Each entry takes a byte, or more.
func (r *reader) count() int {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)) {
		r.fail(fmt.Errorf("a vector of %d entries in %d bytes", n, len(r.b)))
		return 0
	}
	if n > maxEntries {
		r.fail(fmt.Errorf("a vector of %d entries: at most %d are allowed", n, maxEntries))
		return 0
	}
	return int(n)
}

func (r *reader) name() { r.bytes(r.u32()) }

// valueType is one byte: a number, a vector, or a plain reference.
func (r *reader) valueType() {
	switch r.byte() {
	case 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f:
	default:
		r.fail(errModule)
	}
}

func (r *reader) limits() (least uint32) {
	flag := r.byte()
	if flag > 1 {
		r.fail(errModule)
	}
	least = r.u32()
	if flag == 1 {
		r.u32()
	}
	return least
}

// constant skips a constant expression.
func (r *reader) constant() {
	for r.err == nil {
		switch r.byte() {
		case 0x0b: // end
			return
		case 0x41, 0x42: // i32.const, i64.const
			r.signed()
		case 0x43: // f32.const
			r.bytes(4)
		case 0x44: // f64.const
			r.bytes(8)
		case 0x23, 0xd2: // global.get, ref.func
			r.u32()
		case 0xd0: // ref.null
			r.valueType()
		case 0xfd: // v128.const
			if r.byte() != 0x0c {
				r.fail(errModule)
			}
			r.bytes(16)
		default:
			r.fail(errModule)
		}
	}
}

// elements reads a segment of a table: its kind says what of it is there.
func (r *reader) elements() {
	kind := r.u32()
	if kind > 7 {
		r.fail(errModule)
	}
	if kind&1 == 0 { // active: where to
		if kind&2 != 0 {
			r.u32()
		}
		r.constant()
	}
	switch { // what they are
	case kind&3 == 0:
	case kind&4 != 0:
		r.valueType()
	case r.byte() != 0:
		r.fail(errModule)
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		if kind&4 != 0 {
			r.constant()
		} else {
			r.u32()
		}
	}
}

// data reads a segment of the memory.
func (r *reader) data() {
	kind := r.u32()
	if kind > 2 {
		r.fail(errModule)
	}
	if kind == 2 {
		r.u32()
	}
	if kind != 1 {
		r.constant()
	}
	r.bytes(r.u32())
}
