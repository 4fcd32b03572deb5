package httptransport

// Stats counts what a transport did. How requests ended is in picker.LedgerStats.
type Stats struct {
	Requests uint64 // round trips begun

	Unread      uint64 // requests whose body broke off
	TooLarge    uint64 // requests answered with 413
	Unparsed    uint64 // inference requests whose body is not JSON, or has a wrong field
	Untokenized uint64 // inference requests picked by load, as the prompt's tokens were not known
	Unrecorded  uint64 // prompts that the index refused to insert or expect

	Retries  uint64 // attempts after the first
	Undialed uint64 // attempts at backends that could not be dialed
	Upgrades uint64 // replies with 101
	Opaque   uint64 // replies to inference requests whose usage was not looked for, as they are compressed
}

// Stats returns counts since New. O(1).
func (t *Transport) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

func (t *Transport) count(n *uint64) {
	t.mu.Lock()
	*n++
	t.mu.Unlock()
}
