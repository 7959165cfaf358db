// Package docker runs a private Docker daemon for comparisons with Berth.
//
// [Start] runs Debian's dockerd in new mount and network namespaces. Images and containers are in a directory of the
// caller. Sockets and state are in a /run that only the daemon sees. The machine's network, mounts and services do not
// change, and [Daemon.Close] leaves nothing behind. The embedded [Client] calls the Engine API over the daemon's socket.
// [Image] packs programs of this machine with their libraries, so that Berth and Docker run the same programs.
package docker
