package scorer

// Norm says against what a number is measured.
type Norm uint8

const (
	// Absolute is a fixed curve, half/(half+x): it falls from 1 at 0 to 0.5 at
	// half, and equal numbers score equally whatever the other candidates have.
	Absolute Norm = iota

	// Relative is (max-x)/(max-min) over the candidates, or 1 for all if max is
	// min. It cannot tell 0 against 1 from 0 against 100. Maximum and minimum are of
	// eligible candidates whose number is known and, for signals, not stale.
	Relative
)
