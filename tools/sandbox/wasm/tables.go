package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxTable bounds the entries of a table; each takes eight bytes before a
// module's first instruction.
const maxTable = 1 << 20

var errModule = errors.New("this is no WebAssembly module")

// checkTables refuses a module with tables that are larger than any program
// needs. Everything else about it is for the compiler to say.
func checkTables(module []byte) error {
	if len(module) < 8 || string(module[:4]) != "\x00asm" {
		return errModule
	}
	const tableSection = 4
	for b := module[8:]; len(b) > 0; {
		id := b[0]
		size, n := binary.Uvarint(b[1:])
		if n <= 0 || size > uint64(len(b)-1-n) {
			return errModule
		}
		body := b[1+n : 1+n+int(size)]
		b = b[1+n+int(size):]
		if id != tableSection {
			continue
		}
		if err := tables(body); err != nil {
			return err
		}
	}
	return nil
}

// tables reads a section: how many, and of each its type, whether it has a
// maximum, its minimum and its maximum.
func tables(b []byte) error {
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	count, ok := next()
	if !ok || count > 1 {
		return fmt.Errorf("%d tables: want at most one", count)
	}
	for range count {
		_, ok1 := next() // a type is one byte below 0x80
		bounded, ok2 := next()
		least, ok3 := next()
		if !ok1 || !ok2 || !ok3 {
			return errModule
		}
		if least > maxTable {
			return fmt.Errorf("a table of %d entries: at most %d are allowed", least, maxTable)
		}
		if bounded&1 != 0 {
			if _, ok := next(); !ok {
				return errModule
			}
		}
	}
	return nil
}
