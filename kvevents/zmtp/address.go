package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ErrAddress means that an address cannot be used. The error names it and what is wrong.
var ErrAddress = errors.New("zmtp: bad address")

const maxPort = 65535

// endpoint is a parsed address.
type endpoint struct {
	network string // tcp or unix
	host    string // of tcp; "" is every interface
	port    int    // of tcp
	path    string // of unix; a leading @ is the abstract namespace
}

// parseAddress parses tcp://host:port and ipc://path. A host of * or "" is every
// interface, for those who bind.
func parseAddress(address string) (endpoint, error) {
	bad := func(format string, args ...any) (endpoint, error) {
		return endpoint{}, fmt.Errorf("%w %q: %s", ErrAddress, address, fmt.Sprintf(format, args...))
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return bad("want tcp://host:port or ipc://path")
	}
	switch scheme {
	case "tcp":
		host, portText, err := net.SplitHostPort(rest)
		if err != nil {
			return bad("want tcp://host:port, IPv6 in brackets")
		}
		port, err := strconv.Atoi(portText)
		if err != nil || port < 0 || port > maxPort {
			return bad("port is %q, want 0 to %d", portText, maxPort)
		}
		if host == "*" {
			host = ""
		}
		if strings.ContainsAny(host, "/* \t\r\n") {
			return bad("host is %q", host)
		}
		return endpoint{network: "tcp", host: host, port: port}, nil
	case "ipc":
		if rest == "" || rest == "*" {
			return bad("path is %q, want one", rest)
		}
		return endpoint{network: "unix", path: rest}, nil
	default:
		return bad("scheme is %q, want tcp or ipc", scheme)
	}
}

// String is the address in the form that libzmq and the engines use.
func (e endpoint) String() string {
	if e.network == "unix" {
		return "ipc://" + e.path
	}
	host := e.host
	if host == "" {
		host = "*"
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(e.port))
}

// wildcard tells whether the address is one to bind and not one to dial.
func (e endpoint) wildcard() bool {
	return e.network == "tcp" && (e.host == "" || e.host == "0.0.0.0" || e.host == "::")
}

// checkDial checks the address of a peer.
func (e endpoint) checkDial() error {
	switch {
	case e.wildcard():
		return fmt.Errorf("%w %q: every interface can be bound, but not dialled", ErrAddress, e)
	case e.network == "tcp" && e.port == 0:
		return fmt.Errorf("%w %q: port is 0, want 1 to %d", ErrAddress, e, maxPort)
	}
	return nil
}

func (e endpoint) target() string {
	if e.network == "unix" {
		return e.path
	}
	return net.JoinHostPort(e.host, strconv.Itoa(e.port))
}

func (e endpoint) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive()}
	return d.DialContext(ctx, e.network, e.target())
}

func (e endpoint) listen(ctx context.Context) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	return lc.Listen(ctx, e.network, e.target())
}

// bound is the address that ln has, with the port that the system chose.
func (e endpoint) bound(ln net.Listener) endpoint {
	if addr, ok := ln.Addr().(*net.TCPAddr); ok {
		e.port = addr.Port
	}
	return e
}

// RankAddress returns the address of a data-parallel rank, given that of rank 0: the
// port is rank higher. Port 0, which every rank binds as it is, names no one, and
// addresses without a port have no ranks: both are errors, as is a port that would go
// past 65535.
//
// O(len(address)). Safe for concurrent use.
func RankAddress(address string, rank int) (string, error) {
	e, err := parseAddress(address)
	switch {
	case err != nil:
		return "", err
	case rank < 0:
		return "", fmt.Errorf("%w %q: rank is %d, want 0 or more", ErrAddress, address, rank)
	case rank == 0 && e.network != "tcp":
		return address, nil
	case e.network != "tcp":
		return "", fmt.Errorf("%w %q: rank is %d, and only tcp addresses have ranks", ErrAddress, address, rank)
	case e.port == 0:
		return "", fmt.Errorf("%w %q: port is 0, want 1 to %d", ErrAddress, address, maxPort)
	case rank > maxPort-e.port:
		return "", fmt.Errorf("%w %q: port %d of rank 0 plus rank %d is past %d",
			ErrAddress, address, e.port, rank, maxPort)
	}
	e.port += rank
	return e.String(), nil
}
