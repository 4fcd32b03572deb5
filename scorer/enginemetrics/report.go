package enginemetrics

import (
	"github.com/warmroute/warmroute/scorer"
)

// Report is what one page said.
type Report struct {
	Engine  Engine         // whose names the page used
	Signals scorer.Signals // summed over the page's ranks; a Scanner leaves At to its caller

	BlockTokens int // tokens in a block of the KV cache; 0: not said
	Blocks      int // blocks of the KV cache, all ranks together; 0: not said

	Adapters Adapters

	Ranks  int // ranks that the page speaks of
	Asleep int // those of them that are asleep

	Started float64 // Unix time in seconds at which the process began; 0: not said
	Oldest  int64   // the oldest timestamp of a sample that was used, in Unix milliseconds; 0: none had one

	Missing    int // of waiting, running and cache use
	BadLines   int // of wanted families, malformed
	NotNumbers int // samples that were NaN or infinite
	Clipped    int // samples of ranks beyond the 256th
}

// Adapters are the LoRA adapters that requests use on an engine. vLLM says nothing of
// them until one was used.
type Adapters struct {
	Known   bool
	Slots   int      // adapters that can run at once; 0: not said
	Running []string // that requests run with; shared, not to be changed
	Waiting []string // that requests wait for; shared, not to be changed
}

// signals returns a in the form that scorers read.
func (a *Adapters) signals() scorer.Adapters {
	if !a.Known {
		return scorer.Adapters{}
	}
	out := scorer.NewAdapters(a.Slots)
	for _, name := range a.Running {
		out.AddRunning(name)
	}
	for _, name := range a.Waiting {
		out.AddWaiting(name)
	}
	return out
}
