package picker

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// plainRecord is a Record without its methods.
type plainRecord Record

// recordJSON writes Err as text.
type recordJSON struct {
	plainRecord

	Err string `json:",omitempty"`
}

// MarshalJSON writes the record so that it can be read and replayed elsewhere. Fields have
// their Go names, durations are nanoseconds, and what is unknown is null. Seed, Home, Labels
// and endpoints use all of 64 bits, which readers that take numbers for floating point round.
//
// O(candidates * scorers); it allocates.
func (r Record) MarshalJSON() ([]byte, error) {
	out := recordJSON{plainRecord: plainRecord(r)}
	if r.Err != nil {
		out.Err = r.Err.Error()
	}
	// Ages were taken on the monotonic clock, which is not written: the times must tell
	// the same ages even if the wall clock was set in between.
	out.Candidates = slices.Clone(r.Candidates)
	for i := range out.Candidates {
		if s := &out.Candidates[i].Resolved.Signals; !s.At.IsZero() {
			s.At = r.At.Add(-r.At.Sub(s.At))
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote, in place of all that was in r. The error is
// ErrReplay; whether what was read can be replayed, Replay says.
//
// O(candidates * scorers); it allocates.
func (r *Record) UnmarshalJSON(text []byte) error {
	var from recordJSON
	if err := json.Unmarshal(text, &from); err != nil {
		return fmt.Errorf("%w: %w", ErrReplay, err)
	}
	*r = Record(from.plainRecord)
	switch from.Err {
	case "":
	case ErrNoCandidates.Error():
		r.Err = ErrNoCandidates
	case ErrOverloaded.Error():
		r.Err = ErrOverloaded
	default:
		return fmt.Errorf("%w: its Err is %q, and must be that of a pick", ErrReplay, from.Err)
	}
	return nil
}

// scoreJSON is a ScoreRecord whose numbers may be missing or infinite.
type scoreJSON struct {
	Raw    jsonFloat `json:"Raw"`
	Used   jsonFloat `json:"Used"`
	Millis jsonFloat `json:"Millis"`
}

// MarshalJSON writes NaN as null and infinities as strings. O(1).
func (s ScoreRecord) MarshalJSON() ([]byte, error) {
	return json.Marshal(scoreJSON{jsonFloat(s.Raw), jsonFloat(s.Used), jsonFloat(s.Millis)})
}

// UnmarshalJSON reads what MarshalJSON wrote. O(1).
func (s *ScoreRecord) UnmarshalJSON(text []byte) error {
	nan := jsonFloat(math.NaN())
	from := scoreJSON{nan, nan, nan}
	err := json.Unmarshal(text, &from)
	*s = ScoreRecord{float64(from.Raw), float64(from.Used), float64(from.Millis)}
	return err
}

type jsonFloat float64

func (f jsonFloat) MarshalJSON() ([]byte, error) {
	switch x := float64(f); {
	case math.IsNaN(x):
		return []byte("null"), nil
	case math.IsInf(x, 0):
		return strconv.AppendQuote(nil, strconv.FormatFloat(x, 'g', -1, 64)), nil
	default:
		return json.Marshal(x)
	}
}

func (f *jsonFloat) UnmarshalJSON(text []byte) error {
	x := math.NaN()
	switch string(text) {
	case "null":
	case `"+Inf"`:
		x = math.Inf(1)
	case `"-Inf"`:
		x = math.Inf(-1)
	default:
		if err := json.Unmarshal(text, &x); err != nil {
			return err
		}
	}
	*f = jsonFloat(x)
	return nil
}
