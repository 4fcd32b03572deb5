package kvevents

import (
	"bytes"

	"github.com/warmroute/warmroute/prefixindex"
)

// place is what a medium, as engines name them, means for the index.
type place struct {
	tier prefixindex.Tier

	// whole: a run of blocks that is announced together is given back together or not
	// at all, as vLLM's chunked offload does.
	whole bool

	// apart: the copies belong to no endpoint.
	apart bool
}

// media are the names in use. They differ between engines and versions; letter case
// differs too. Other names are not guessed at.
//
//nolint:gochecknoglobals // a table, never written
var media = []struct {
	name  string
	place place
}{
	{"GPU", place{tier: prefixindex.TierGPU}},
	{"CPU", place{tier: prefixindex.TierCPU, whole: true}},
	{"CPU_PINNED", place{tier: prefixindex.TierCPU}}, // SGLang gives host pages back one by one
	{"CPU_TIER1", place{tier: prefixindex.TierCPU}},
	{"CPU_TIER2", place{tier: prefixindex.TierDisk}},
	{"DISK", place{tier: prefixindex.TierDisk}},
	{"FS", place{tier: prefixindex.TierDisk, whole: true}},
	{"OBJ", place{tier: prefixindex.TierDisk, whole: true}},
	{"STORAGE", place{tier: prefixindex.TierDisk, whole: true}},
	{"EXTERNAL", place{tier: prefixindex.TierShared, apart: true}},
	{"SHARED_STORAGE", place{tier: prefixindex.TierShared, apart: true}},
	{"OBJECT_STORE", place{tier: prefixindex.TierShared, apart: true}},
}

// placeOf returns what a medium means, and false for one that is not known. An event
// that names none speaks of the GPU.
func placeOf(medium []byte) (place, bool) {
	if medium == nil {
		return media[0].place, true
	}
	for i := range media {
		m := &media[i]
		if len(m.name) == len(medium) && (string(medium) == m.name || equalFold(medium, m.name)) {
			return m.place, true
		}
	}
	return place{}, false
}

// equalFold compares with a short name in upper case, without allocating.
func equalFold(b []byte, upper string) bool {
	var name [16]byte
	return bytes.EqualFold(b, name[:copy(name[:], upper)])
}

// isLocal reports whether copies of that locality are at the endpoint that announces
// them. What is not known is not.
func isLocal(locality []byte) bool {
	return locality == nil || equalFold(locality, "LOCAL")
}
