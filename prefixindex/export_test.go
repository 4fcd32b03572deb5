package prefixindex

// Shed is what Options.MaxBytes has an owner do.
func (w *Writer) Shed() bool { return w.shed() }
