package openaireq

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/warmroute/warmroute/prefixindex"
)

// parseAnswer reads what /tokenize or a render endpoint answers; array says that it is a
// list of one. It keeps nothing of data.
func parseAnswer(data []byte, array bool) (Tokens, error) {
	s := scanner{data: data}
	var tokens Tokens
	var err error
	if array {
		if s.peek() != '[' {
			return Tokens{}, fmt.Errorf("%w: %w", ErrAnswer, s.fail("a list"))
		}
		n := 0
		err = s.array(func() error {
			if n++; n > 1 {
				return fmt.Errorf("%w: several prompts for one", ErrAnswer)
			}
			return tokens.read(&s)
		})
	} else {
		err = tokens.read(&s)
	}
	switch {
	case err != nil:
		return Tokens{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	case len(tokens.IDs) == 0:
		return Tokens{}, fmt.Errorf("%w: tokens is absent or empty", ErrAnswer)
	}
	return tokens, nil
}

// read reads one answer's object.
func (t *Tokens) read(s *scanner) error {
	var count, features []byte
	err := s.object(func(key text) error {
		key = key.plain()
		s.peek()
		from := s.pos
		switch {
		case key.is("tokens") || key.is("token_ids"):
			if t.IDs = nil; s.peek() == '[' {
				return t.readIDs(s)
			}
		case key.is("count"):
			err := s.skip(1)
			count = s.data[from:s.pos]
			return err
		case key.is("features"):
			err := s.skip(1)
			features = s.data[from:s.pos]
			return err
		}
		return s.skip(1)
	})
	if err != nil {
		return err
	}
	var want int
	if count != nil && (json.Unmarshal(count, &want) != nil || want != len(t.IDs)) {
		return fmt.Errorf("%w: count is %.20s, of %d tokens", ErrAnswer, count, len(t.IDs))
	}
	if features == nil {
		return nil
	}
	return t.readFeatures(features) // of null: none
}

// readIDs reads the list of tokens.
func (t *Tokens) readIDs(s *scanner) error {
	// A comma fewer than there are ids, if nothing but this list has commas; it mostly
	// is the bulk of the answer.
	end := bytes.IndexByte(s.data[s.pos:], ']')
	n := bytes.Count(s.data[s.pos:s.pos+max(end, 0)], []byte{','}) + 1
	ids, all := s.ids(make([]uint32, 0, n))
	if !all {
		return s.fail("a token id, 0 to 4294967295")
	}
	t.IDs = ids
	return nil
}

// readFeatures takes the images and the like. An answer that is not clear about one is
// refused as a whole: without it the prompt would be another.
func (t *Tokens) readFeatures(data []byte) error {
	var features struct {
		Hashes       map[string][]string `json:"mm_hashes"`
		Placeholders map[string][]struct {
			Offset int `json:"offset"`
			Length int `json:"length"`
		} `json:"mm_placeholders"`
	}
	if err := json.Unmarshal(data, &features); err != nil {
		return fmt.Errorf("%w: features: %w", ErrAnswer, err)
	}
	for kind := range features.Placeholders {
		if _, both := features.Hashes[kind]; !both {
			return fmt.Errorf("%w: places of %s without hashes", ErrAnswer, kind)
		}
	}
	for kind, hashes := range features.Hashes {
		places := features.Placeholders[kind]
		if len(places) != len(hashes) {
			return fmt.Errorf("%w: %d hashes for %d places of %s", ErrAnswer, len(hashes), len(places), kind)
		}
		for i, hash := range hashes {
			at, length := places[i].Offset, places[i].Length
			if hash == "" || at < 0 || length < 1 || at > len(t.IDs)-length {
				return fmt.Errorf("%w: %s %d with hash %q is at %d, %d tokens long, of %d",
					ErrAnswer, kind, i, hash, at, length, len(t.IDs))
			}
			t.Extras = append(t.Extras, prefixindex.Extra{At: at, Kind: prefixindex.ExtraMedia, ID: hash})
		}
	}
	return nil
}
