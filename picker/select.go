package picker

// Select says how a winner is chosen once each eligible candidate has its sum. The
// zero Select takes the best, or one that is as good within the default band.
type Select struct {
	// Band is how far below the best sum, as a share of the sum of all weights, a
	// candidate still counts as equal to it. Among equals one is drawn. 0 to 1; zero
	// is the default of 0.01; a negative band is none, and only equal sums tie.
	Band float64
}
