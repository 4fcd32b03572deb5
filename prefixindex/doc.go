// Package prefixindex knows which KV cache holds how much of a prompt.
//
// # Model
//
// An [Endpoint] is an inference server that requests can be sent to; the host
// names it and lets it join and leave. An owner is one KV cache of an endpoint:
// one data-parallel rank. A prompt is cut into blocks of Options.BlockTokens
// tokens; the [BlockHash] of a block covers the block and everything before it
// in its [Scope] (model, LoRA adapter, cache salt, and extras such as image
// hashes), so that equal hashes mean equal prefixes. A trailing part of a block
// has no hash and never matches.
//
// An owner's contents live in an epoch, the time from one empty start of the
// cache to the next. [Index.Writer] begins a new one; whatever the old one held
// is gone from every lookup when Writer returns, and calls on the older Writer
// return [ErrFenced].
//
// Engines name blocks by hashes of their own, which differ from process to
// process. An [EngineHash] is an opaque handle here: it serves to find the
// parent of a stored block and to remove it, never to match prompts.
//
// # Use
//
//	ix, err := prefixindex.New(prefixindex.Options{})
//	ep, err := ix.Join("10.0.0.7:8000")
//	w, err := ix.Writer(ep, 0)
//	err = w.Store(&prefixindex.Span{...})           // as the engine's events say
//
//	var p prefixindex.Prompt                        // per goroutine, reused
//	var m prefixindex.Match
//	p.Reset(prefixindex.Scope{Model: "m"}, tokens)
//	ix.Match(&p, &m)
//	warm := m.Of(ep)                                // leading tokens by tier
//
// # What a match means
//
// A match is the longest run of blocks, from the prompt's first, that the owner
// holds. A block in the middle proves nothing: a stored block whose parent is
// not known is parked, counted, and credited only once the parent appears. Runs
// are given for three nested levels: on GPU; on GPU or CPU; on any tier.
//
// While nothing is being written, a match is exact for every owner. While
// writes run, each answer d had block d-1 held at some instant of the call, and
// nothing of an epoch that had ended before the call is ever reported. Owners are
// looked at one by one: the answers need not be of the same instant.
//
// # Trust
//
// How far an owner's contents can be believed is its [View]. The index stores
// it for whoever feeds the owner and hands it out with each match: an owner
// that was never heard of is not the same as one that holds nothing.
//
// # Costs and bounds
//
// A lookup waits for no lock and allocates nothing, except that the first after something
// has expired sweeps some of it, where locks are free. It is one hash and one probe where
// nobody has the first block, two probes where everybody has the whole prompt, and
// else about log(blocks) probes for each different length of run, whatever the number
// of owners. Tokens are hashed as the search needs them. Writes take the lock of
// their owner; those of different owners run in parallel.
//
// A block takes about 26 bytes and each of its holders about 37 more ([Estimate]),
// without a pointer for the garbage collector to follow. [Options].OwnerBlocks and
// MaxBytes bound it: leaves go first, heads survive, and so does what lookups go on
// finding. There is no Touch, recency is Match's own: each eighth lookup of a Match marks
// where it ended, and a mark outlives the eviction of half of what all owners hold. [Stats]
// tells the bytes and what was evicted, forgotten, parked, dropped or refused.
//
// # Storage
//
//	            hash of a block
//	                  | its upper bits                    slots, 64 to a word
//	                  v                                  +--------------------+
//	256 shards   [ table ][ table ] ...                  | page: live bits,   |
//	                  |                                  | holes, last hole   |
//	                  v                                  +--------------------+
//	records      | hash | set |  probed linearly              ^        |
//	                       |                                  |        v
//	                       +-- up to 3 slots in the word      |   contents of one
//	spill words  ....[ list | bitmap ]....  more members -----+   owner's epoch
//
//	contents, under the owner's lock:
//
//	engine hash -> names \                                    +- parent
//	                      > entry: hash, parent, depth, copies, flags, counts
//	block hash  -> tips  /    slab of 28 bytes each; tips, and far, parts, until
//	                          and twins beside it, only for owners that need them
//
// The records say, for each block, which slots hold it. A slot is one level (on GPU;
// on GPU or CPU; on any tier) of one epoch of one owner; an owner that uses one tier
// has one slot for all three. To end an epoch is to clear one live bit, and its slot is
// free for another one when its bits have been swept out of the records, in steps, by
// whatever writes come next.
//
// What an owner has announced is a tree of entries, each the tokens between two borders
// of our blocks or of the engine's, so that engine blocks may be larger, smaller, or of
// mixed sizes. It knows for each entry the copies by tier, and how many children are
// held: enough to tell, as a block comes or goes, whether a hole opens or closes.
//
// # Holes
//
// Where an owner holds every block's parent too, what it holds of any prompt is a
// prefix, and a binary search over positions is exact. A hole is a missing block with
// held children. Owners with holes list them; a lookup searches all owners as if there
// were none, and then shortens a run to the first listed hole on the prompt's chain,
// below which the chain is a prefix again. With more than 64 holes, an owner's chain is
// walked.
//
// # Why a reader is safe beside a writer
//
// Lookups take no lock. What makes them right is the order in which writers publish and
// lookups read: whoever comes between two steps finds the state before a change or the
// one after, or learns that it must look again.
//
// Runs. Probes of one search see different instants. While an owner has no holes, blocks
// come and go at the ends of chains only, and a search sees some run that the owner had.
// Of holes it must learn in time:
//
//	write, under its owner's lock          lookup
//	-----------------------------          ------
//	                                       a  take the roster
//	1  list the hole about to open         b  note holesMade, and when something is due
//	2  count it: holesMade, and the        c  probe the first block
//	   slot's last                         d  read who walks, who has holes, their lists
//	3  under the shard's lock, set or      e  probe as the search needs
//	   clear the slot's bit                f  shorten runs to the first hole listed
//	4  where a hole opened by clearing:    g  if holesMade has moved, search again for
//	   count it again                         slots whose last is later than noted
//	5  take a hole that closed off         h  if the roster has moved, drop slots that
//	   the list                               have been given to others
//
//	lookup          write                  what is seen
//	------          -----                  ------------
//	d before 1      3 before e ends        a run beyond the hole, but 2 came after b: again
//	d after 1       3 after f              the run that the write is about to leave
//	e before 3      4, then a store that   a walk may pass where the block was and go on to
//	                lengthens the chain    what is new, but 4 came after b: again
//	d before 5      3 before e             the run that the write has just made longer
//
// So an answer is a run that the slot had at some instant of the writes that overlap the
// lookup. Where holes are made on and on, g gives up after three times with the least of
// the results, each of which ended at a block that was held. With too many holes to list,
// the writer first says that the slot is to be walked; later it completes and announces
// the list before it calls that off. A lookup reads in the opposite order.
//
// Memory. Only the holder of a shard's lock writes its table, and whoever reads may be
// behind by any time:
//
//	write                                  what is seen
//	-----                                  ------------
//	record: the set, then the key          the block with its set, or no block
//	member: one word; nobody moves from    everybody who stays
//	one word of a set to another
//	larger set: its words, then the word   the old words, as they were when they were left:
//	that leads to it                       none is given out twice
//	last member gone: records behind       what is read stands if the count has not moved
//	move up, each in both places until     meanwhile; after 16 tries a block counts as
//	the move is counted                    not held
//	table full: a copy, published whole    the old table, as of an instant of the lookup;
//	                                       the collector frees it after the last reader
//
// Epochs. Who is a member and what each slot stands for is an immutable roster, changed
// by publishing another. An epoch ends in the order: its Writer is told, under the lock
// that each of its writes takes; a roster without its slots is published, and Leave or
// Writer returns; its bits are swept out of the records, its hole lists emptied; the slots
// are free. A lookup that began before may see some of the bits, or those of the slot's
// next owner, which h drops. A Match keeps its roster, so that it can be read at leisure.
//
// What expires. A writer makes the time at which something is due earlier before it
// stores what will expire. A lookup notes that time before it looks: another that sweeps
// in between makes it later.
//
// # Files
//
// hasher, prompt: hashes. index, members, roster: who is there. shard, ownerset: records.
// search, match, holes, recency: lookups. writer, span, orphans, sweep: writes.
// contents, entry, aliases, parts, lookup, slab: one owner's tables. ghosts, evict, budget,
// compact: bounds. assumed, expect, due: what expires. snapshot, codec: files.
//
// # Limits
//
// Hashes are 64 bits wide and keyed by a random seed unless told otherwise.
// They are no defence against a tenant who searches for collisions; the worst
// outcome is a poor route, since engines check what they reuse.
package prefixindex
