package zmtp

import (
	"fmt"
	"log/slog"
	"time"
)

// SourceOptions say where the events of one engine rank come from. Address is the only
// one that must be set; durations and bounds that are 0 have the stated defaults.
type SourceOptions struct {
	// Address is the PUB socket of the rank, tcp://host:port or ipc://path; see Ranks. An
	// engine told to publish to an address without * connects to it instead of binding
	// it: then set Listen, and Address to what is to be bound, where host may be *.
	Address string
	Listen  bool

	// ReplayAddress is the ROUTER socket of the same rank; "": Replay is refused. With
	// Listen it takes a Topic that only that rank has.
	ReplayAddress string

	// Topic is a prefix that topics must have; "": all, which is right for one engine at
	// one address. Note that kv@pod-1 is a prefix of kv@pod-10 too.
	Topic string

	Transport Transport // nil: Native{}

	// Replays is shared by the Sources of a process, so that a start with many engines
	// does not replay all of them at once; nil: no limit.
	Replays *Limiter

	HandshakeTimeout time.Duration // from dialling to the end of the handshake; 0: 5 s; 10 ms to 5 min
	ReplayTimeout    time.Duration // of silence before a replay, a fifth for each frame of it; 0: 5 s; 10 ms to 5 min

	// A peer is asked for a sign of life every Heartbeat (0: 10 s, negative: never; else 10
	// ms to 10 min) and given up when nothing at all has come from it for IdleTimeout (0:
	// 60 s, negative: never; else 10 ms to 1 h, and more than Heartbeat). A libzmq that
	// greets with ZMTP 3.1 answers, however idle the engine; 4.3.4 and 4.3.5 do. Native does
	// not ask peers of ZMTP 3.0, of which an idle one looks like a silent one: there IdleTimeout
	// is how long an engine may have nothing to say.
	Heartbeat   time.Duration
	IdleTimeout time.Duration

	// After a connection failed for the n-th time in a row the next follows within
	// BackoffMin*2^n, at most BackoffMax, at a random moment of it. One that lasted for
	// Healthy starts the row anew.
	BackoffMin time.Duration // 0: 100 ms; 1 ms to BackoffMax
	BackoffMax time.Duration // 0: 5 s; to 1 h
	Healthy    time.Duration // 0: 10 s; up to 1 h
	Seed       uint64        // of those moments; 0: random

	// MaxMessageBytes is the longest message that is read; a peer with a longer one is
	// cut off. 0: 64 MiB; 1 KiB to 1 GiB.
	MaxMessageBytes int

	// Frames wait for Receive up to these bounds. Further ones are dropped and counted;
	// the consumer sees a gap in the numbers.
	QueueFrames int // 0: 100,000; 1 to 10,000,000
	QueueBytes  int // of payloads; 0: 256 MiB; 1 KiB or more, and a single frame always fits

	Logger *slog.Logger // connections made and lost; nil: nothing is logged
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (o *SourceOptions) setDefaults() {
	if o.Transport == nil {
		o.Transport = Native{}
	}
	setDefault(&o.HandshakeTimeout, 5*time.Second)
	setDefault(&o.ReplayTimeout, 5*time.Second)
	setDefault(&o.Heartbeat, 10*time.Second)
	setDefault(&o.IdleTimeout, time.Minute)
	setDefault(&o.BackoffMin, 100*time.Millisecond)
	setDefault(&o.BackoffMax, 5*time.Second)
	setDefault(&o.Healthy, 10*time.Second)
	setDefault(&o.MaxMessageBytes, 64<<20)
	setDefault(&o.QueueFrames, 100_000)
	setDefault(&o.QueueBytes, 256<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// validate checks what setDefaults has completed.
func (o *SourceOptions) validate() error {
	if err := o.validateAddresses(); err != nil {
		return err
	}
	for _, d := range []struct {
		field            string
		value, low, high time.Duration
	}{
		{"HandshakeTimeout", o.HandshakeTimeout, 10 * time.Millisecond, 5 * time.Minute},
		{"ReplayTimeout", o.ReplayTimeout, 10 * time.Millisecond, 5 * time.Minute},
		{"Heartbeat", o.Heartbeat, 10 * time.Millisecond, 10 * time.Minute},
		{"IdleTimeout", o.IdleTimeout, 10 * time.Millisecond, time.Hour},
		{"BackoffMax", o.BackoffMax, time.Millisecond, time.Hour},
		{"BackoffMin", o.BackoffMin, time.Millisecond, o.BackoffMax},
		{"Healthy", o.Healthy, 0, time.Hour},
	} {
		never := d.value < 0 && (d.field == "Heartbeat" || d.field == "IdleTimeout")
		if (d.value < d.low || d.value > d.high) && !never {
			return fmt.Errorf("%w: %s is %v, want %v to %v", ErrOptions, d.field, d.value, d.low, d.high)
		}
	}
	const maxInt = int(^uint(0) >> 1)
	for _, n := range []struct {
		field            string
		value, low, high int
	}{
		{"MaxMessageBytes", o.MaxMessageBytes, 1 << 10, 1 << 30},
		{"QueueFrames", o.QueueFrames, 1, 10_000_000},
		{"QueueBytes", o.QueueBytes, 1 << 10, maxInt},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrOptions, n.field, n.value, n.low, n.high)
		}
	}
	if o.Heartbeat > 0 && o.IdleTimeout > 0 && o.IdleTimeout <= o.Heartbeat {
		return fmt.Errorf("%w: IdleTimeout is %v, want more than Heartbeat, %v",
			ErrOptions, o.IdleTimeout, o.Heartbeat)
	}
	return nil
}

func (o *SourceOptions) validateAddresses() error {
	at, err := parseAddress(o.Address)
	switch {
	case err != nil:
	case o.Listen && at.network == "tcp" && at.port == 0:
		err = fmt.Errorf("%w %q: port is 0, where no engine would find us; want 1 to %d",
			ErrAddress, o.Address, maxPort)
	case !o.Listen:
		err = at.checkDial()
	}
	if err != nil {
		return fmt.Errorf("%w: Address: %w", ErrOptions, err)
	}
	if o.ReplayAddress != "" {
		replay, err := parseAddress(o.ReplayAddress)
		if err == nil {
			err = replay.checkDial()
		}
		switch {
		case err != nil:
			return fmt.Errorf("%w: ReplayAddress: %w", ErrOptions, err)
		case replay == at:
			return fmt.Errorf("%w: ReplayAddress is %q, want another than Address", ErrOptions, o.ReplayAddress)
		case o.Listen && o.Topic == "":
			return fmt.Errorf("%w: ReplayAddress is %q with Listen and no Topic, which could replay one engine into "+
				"the stream of another; want the engine's own Topic", ErrOptions, o.ReplayAddress)
		}
	}
	if len(o.Topic) > maxTopic {
		return fmt.Errorf("%w: Topic has %d bytes, want at most %d", ErrOptions, len(o.Topic), maxTopic)
	}
	return nil
}

const maxTopic = 4096

// limits of the subscription, and those of a replay.
func (o *SourceOptions) limits() Limits {
	return Limits{
		HandshakeTimeout: o.HandshakeTimeout,
		Heartbeat:        o.Heartbeat,
		IdleTimeout:      o.IdleTimeout,
		MaxMessageBytes:  o.MaxMessageBytes,
		QueueFrames:      o.QueueFrames,
	}
}
