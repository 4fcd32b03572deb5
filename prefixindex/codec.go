package prefixindex

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math"
)

// encoder collects what is written, so that an owner's lock is not held while out is
// slow.
type encoder struct {
	buf []byte
	sum hash.Hash64
	out io.Writer
	err error
}

func (e *encoder) number(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }
func (e *encoder) hash(h uint64)   { e.buf = binary.LittleEndian.AppendUint64(e.buf, h) }
func (e *encoder) raw(b []byte)    { e.buf = append(e.buf, b...) }
func (e *encoder) string(s string) { e.number(uint64(len(s))); e.buf = append(e.buf, s...) }
func (e *encoder) flush() {
	if e.err == nil {
		e.sum.Write(e.buf)
		_, e.err = e.out.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *encoder) tokens(t []uint32) {
	e.number(uint64(len(t)))
	for _, x := range t {
		e.buf = binary.LittleEndian.AppendUint32(e.buf, x)
	}
}

func (e *encoder) extras(x []Extra) {
	e.number(uint64(len(x)))
	for i := range x {
		e.number(uint64(x[i].At))
		e.number(uint64(x[i].Kind))
		e.string(x[i].ID)
	}
}

// decoder reads it back. After the first error everything reads as zero. What is long is
// read, and allocated, in pieces, so that no length need be believed.
type decoder struct {
	in  *bufio.Reader
	sum hash.Hash64
	one [8]byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		why := fmt.Errorf(format, args...) //nolint:err113 // the sentinel is ErrSnapshot
		d.err = fmt.Errorf("%w: %w", ErrSnapshot, why)
	}
}

func (d *decoder) raw(b []byte) {
	if d.err == nil {
		if _, err := io.ReadFull(d.in, b); err != nil {
			d.fail("%w", err)
		}
	}
	if d.err != nil {
		clear(b)
		return
	}
	d.sum.Write(b)
}

func (d *decoder) hash() uint64 {
	d.raw(d.one[:])
	return binary.LittleEndian.Uint64(d.one[:])
}

// number reads one of 0 to most.
func (d *decoder) number(most int) int { return int(d.number64(uint64(most))) }

func (d *decoder) number64(most uint64) uint64 {
	var n uint64
	for shift := 0; ; shift += 7 {
		d.raw(d.one[:1])
		b := d.one[0]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift == 63 {
			d.fail("a number is too long")
			return 0
		}
	}
	if n > most {
		d.fail("a number is %d, want 0 to %d", n, most)
		return 0
	}
	return n
}

func (d *decoder) string() string {
	n := d.number(math.MaxInt32)
	var s []byte
	for len(s) < n && d.err == nil {
		chunk := make([]byte, min(n-len(s), 1<<12))
		d.raw(chunk)
		s = append(s, chunk...)
	}
	return string(s)
}

func (d *decoder) tokens(most int) []uint32 {
	n := d.number(most)
	var t []uint32
	for len(t) < n && d.err == nil {
		d.raw(d.one[:4])
		t = append(t, binary.LittleEndian.Uint32(d.one[:4]))
	}
	return t
}

func (d *decoder) extras(tokens int) []Extra {
	n := d.number(math.MaxInt32)
	var x []Extra
	for len(x) < n && d.err == nil {
		x = append(x, Extra{
			At: d.number(max(tokens-1, 0)), Kind: ExtraKind(d.number(255)), ID: d.string(),
		})
	}
	return x
}
