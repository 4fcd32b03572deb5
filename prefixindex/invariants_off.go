//go:build !invariants

package prefixindex

// checkInvariants does nothing; built with the tag invariants, it checks the whole
// structure of an owner after each write.
func (w *Writer) checkInvariants() {}

// checkInvariants does nothing; with the tag, it checks a roster before it is published.
func (d *draft) checkInvariants() {}

// yield does nothing; built with the tag invariants, it is where goroutines are made to
// meet at the worst moment.
func yield(string) {}
