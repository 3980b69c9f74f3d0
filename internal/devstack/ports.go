package devstack

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
)

const loopback = "127.0.0.1"

// The ports of a first start. All lie below the range from which Linux (32768) and macOS (49152) take the local ports
// of outgoing connections, so that a port stays free while its service is being restarted.
const (
	postgresPort   = 15432 // not 5432, where a Postgres of the machine's own would be
	temporalPort   = 7233  // Temporal's own default, and its UI's
	temporalUIPort = 8233
)

// portsTried is how many ports above a taken one are looked at before the kernel picks one.
const portsTried = 100

func loopbackAddress(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// freePort returns the wanted port if it is free, else a free one near it.
func freePort(wanted int) (int, error) {
	for port := wanted; port < wanted+portsTried && port <= 65535; port++ {
		if isFree(port) {
			return port, nil
		}
	}
	l, err := net.Listen("tcp", loopbackAddress(0))
	if err != nil {
		return 0, fmt.Errorf("no free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", loopbackAddress(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// choosePort takes the remembered port, or the default at a first start, and says when it was taken by another.
func choosePort(o Options, remembered, standard int, what string) (int, error) {
	wanted := remembered
	if wanted == 0 {
		wanted = standard
	}
	port, err := freePort(wanted)
	if err != nil {
		return 0, err
	}
	if port != wanted {
		_, _ = fmt.Fprintf(o.Progress, "port %d is taken; %s listens on %d\n", wanted, what, port)
	}
	return port, nil
}

// startsTried is how often a start is tried when its ports are taken between the look and the use.
const startsTried = 3

// errPortTaken says that a service found one of its ports taken. Temporal has more than those that are chosen for it.
var errPortTaken = errors.New("a port was taken")

// onFreePorts repeats a start that chose ports and failed while another program had got hold of one.
func onFreePorts(start func() ([]int, error)) error {
	for try := 1; ; try++ {
		ports, err := start()
		taken := errors.Is(err, errPortTaken) || slices.ContainsFunc(ports, func(port int) bool { return !isFree(port) })
		if err == nil || try == startsTried || !taken {
			return err
		}
	}
}
